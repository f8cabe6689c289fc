// An operation of one's own: one node of the graph, several ways to compute it, fused with what surrounds it.
#include <cstdio>

#include "toroid/compile.h"
#include "toroid/custom_op.h"

int main() {
  using namespace toroid;
  // RMS normalisation, and another way to write it.
  auto norm = custom_op("demo::norm(Tensor x, float eps=1e-6) -> Tensor",
                        [](const Tensor& x, double eps) { return x * rsqrt(mean(x * x, {-1}, true) + eps); });
  register_custom_op_autotuning(norm, {{.name = "divide", .decomposition = [](const Tensor& x, double eps) {
                                          return x / sqrt(sum(x * x, {-1}, true) / x.size(-1) + eps);
                                        }}});

  auto f = compile([&](const Tensor& x) { return relu(norm(x)) * 2; });
  std::printf("%s\n", to_string(f(Tensor::of({1, -2, 3, 4}, {1, 4}))).c_str());
  for (auto& g : f.report().graphs) std::printf("%s", g.c_str());
  const CustomOpCounts counts = custom_op_counts(norm);
  std::printf("%s: %zu ways in %zu graphs, %zu refused\n", norm.name().c_str(), counts.variants, counts.calls,
              counts.guard_refusals + counts.type_refusals + counts.other_refusals);
}
