// The first steps: compile a C++ function and call it.
#include <iostream>

#include "toroid/compile.h"

int main() {
  using namespace toroid;
  Tensor b = Tensor::of({1, -2, 3}, {3});
  auto f = compile([&](const Tensor& x) { return relu(x + b) * 2; });  // traced and compiled at the first call
  for (int batch : {1, 2, 3}) std::cout << f(ones({batch, 3})) << "\n";
  std::cout << to_string(f.report());  // how often it was compiled, and why
}
