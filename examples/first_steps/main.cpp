// The first steps: compile a C++ function and call it.
#include <cstdio>

#include "toroid/compile.h"

int main() {
  using namespace toroid;
  Tensor b = Tensor::of({1, -2, 3}, {3});
  auto f = compile([&](const Tensor& x) { return relu(x + b) * 2; });  // traced and compiled at the first call
  for (int batch : {1, 2, 3, 4}) {
    Tensor y = f(ones({batch, 3}));
    std::printf("%s\n", to_string(y).c_str());
  }
  std::printf("%s", to_string(f.report()).c_str());  // how often it was compiled, and why
}
