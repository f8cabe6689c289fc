#include "loop/moments.h"

#include <algorithm>

namespace toroid::loop {
namespace {

bool is_scalar(const Statement& s, ScalarOp op) { return s.step == Step::Scalar && s.op == op && s.dtype == DType::F32; }
bool is_sum(const Statement& s) { return s.step == Step::Reduce && s.reduction == Reduction::Sum && s.dtype == DType::F32; }

}  // namespace

std::vector<Moments> find_moments(const Domain& d, const Body& b) {
  std::vector<Moments> out;
  const auto points = reduction_size(d).maybe_constant();
  if (!points || *points <= 0) return out;
  auto step = [&](int k) -> const Statement& { return b.steps[static_cast<size_t>(k)]; };
  for (size_t k = 0; k < b.steps.size(); ++k) {
    if (!is_sum(b.steps[k])) continue;
    const Statement& square = step(b.steps[k].args[0]);
    if (!is_scalar(square, ScalarOp::Mul) || square.args[0] != square.args[1]) continue;
    const Statement& distance = step(square.args[0]);
    if (!is_scalar(distance, ScalarOp::Sub)) continue;
    const int x = distance.args[0];
    const Statement& mean = step(distance.args[1]);
    if (!is_scalar(mean, ScalarOp::Div) || !is_sum(step(mean.args[0])) || step(mean.args[0]).args[0] != x) continue;
    const Statement& count = step(mean.args[1]);
    if (!is_scalar(count, ScalarOp::Const) || static_cast<float>(count.value.as_double()) != static_cast<float>(*points)) continue;
    const bool taken = std::any_of(out.begin(), out.end(), [&](auto& m) { return m.sum == mean.args[0]; });
    if (!taken) out.push_back({mean.args[0], static_cast<int>(k), x});
  }
  return out;
}

std::vector<int> pass_of(const Body& b, const std::map<int, int>& with) {
  std::vector<int> pass(b.steps.size(), 1);
  for (size_t k = 0; k < b.steps.size(); ++k) {
    for_each_use(b.steps[k], [&](size_t u) { pass[k] = std::max(pass[k], pass[u] + (b.steps[u].step == Step::Reduce)); });
    if (auto at = with.find(static_cast<int>(k)); at != with.end()) pass[k] = pass[static_cast<size_t>(at->second)];
  }
  return pass;
}

}  // namespace toroid::loop
