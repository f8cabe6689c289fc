#include "exec/call_trace.h"

#include <algorithm>
#include <map>

namespace toroid::exec {

std::vector<int> steps_of(const Plan& plan, std::span<const device::cuda::Activity> call) {
  std::map<std::string, std::vector<int>> waiting;  // steps of a name, the next one last
  for (size_t i = plan.steps.size(); i-- > 0;)
    if (auto* l = std::get_if<Launch>(&plan.steps[i])) waiting[l->name].push_back(static_cast<int>(i));
  std::vector<int> out;
  for (auto& a : call) {
    const auto steps = a.kind == device::cuda::Activity::Kind::Kernel ? waiting.find(a.name) : waiting.end();
    out.push_back(-1);
    if (steps == waiting.end()) continue;
    if (steps->second.empty()) return {};
    out.back() = steps->second.back();
    steps->second.pop_back();
  }
  const bool all = std::all_of(waiting.begin(), waiting.end(), [](auto& w) { return w.second.empty(); });
  return all ? out : std::vector<int>{};
}

std::vector<int64_t> added_ns(std::span<const device::cuda::Activity> call) {
  std::vector<int64_t> out;
  int64_t until = 0;
  for (auto& a : call) {
    out.push_back(std::max<int64_t>(0, a.end_ns - std::max(a.start_ns, until)));
    until = std::max(until, a.end_ns);
  }
  return out;
}

}  // namespace toroid::exec
