#include "tune/check/together.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "dist/agree.h"
#include "tensor/tensor_impl.h"
#include "toroid/device_graph.h"
#include "tune/check/check.h"
#include "tune/check/inputs.h"
#include "tune/memory/memory.h"
#include "tune/region/sizes.h"

namespace toroid::tune {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return *e.what() ? e.what() : "an error without a message";
  }
  return "";
}

class TimedTogether {
 public:
  TimedTogether(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device,
                distributed::Group& group, Equivalence equivalence)
      : callers_(callers),
        region_(region),
        device_(device),
        group_(group),
        equivalence_(equivalence),
        running_(callers.size()),
        graphs_(callers.size()),
        runs_(callers.size(), 0) {
    sizes_ = {region.sizes};
    if (auto others = other_sizes(region.program, region.sizes); !others.empty()) sizes_.push_back(std::move(others));
  }

  double sample(size_t i) {
    if (!running_[0]) check(0);
    if (!running_[i]) check(i);
    if (runs_[i] == 0) {
      const double ns = time(i, 1);  // no part of what samples take: it warms up
      runs_[i] = static_cast<int>(std::clamp(std::ceil(kLeastUs * 1000 / std::max(ns, 1.0)), 1.0, kMostRuns));
      return ns;
    }
    if (device_.is_cuda() && !graphs_[i]) record(i);
    const double ns = time(i, runs_[i]);
    spent_ms_ += ns * runs_[i] * 1e-6;
    return ns;
  }
  double spent_ms() const { return spent_ms_; }

 private:
  static constexpr double kLeastUs = 50, kMostRuns = 16;

  // On all ranks, or on none.
  void require_all(const std::string& own, std::string_view prefix) const {
    const auto all = distributed::all_gather_object(group_, own, "tuning of " + region_.label);
    for (size_t r = 0; r < all.size(); ++r)
      TOROID_USER_CHECK(all[r].empty(), "{}rank {} of the group \"{}\": {}", prefix, r, group_.name(), all[r]);
  }

  void check(size_t i) {
    std::shared_ptr<exec::Executable> e;
    require_all(error_of([&] {
                  e = callers_[i]->executable();
                  while (inputs_.size() < sizes_.size()) inputs_.push_back(inputs_at(sizes_[inputs_.size()]));
                }),
                "");
    std::string why;
    const std::string failed = error_of([&] {
      for (size_t k = 0; k < sizes_.size(); ++k) {
        std::vector<Tensor> got = e->run(inputs_[k], sizes_[k]);
        for (auto& t : got) t = moved(t, Device::cpu());
        if (i == 0)
          wanted_.push_back(std::move(got));
        else if (why.empty())
          why = compare(got, wanted_[k], contracts_at(sizes_[k]), equivalence_);
      }
    });
    require_all(failed, "");
    require_all(why, fmt::format("{}: ", kNotEquivalent));
    running_[i] = std::move(e);
  }

  std::vector<Tensor> inputs_at(const exec::Symbols& sizes) const {
    const uint64_t own = 1000 * static_cast<uint64_t>(group_.rank());
    const std::vector<Integers> integers = integers_of(region_, sizes);
    std::vector<Tensor> out;
    for (auto& in : region_.program.inputs)
      if (!in.data.defined()) {
        const size_t k = out.size();
        out.push_back(moved(generate_input(in.type, own + seed_of_input(k), sizes, Device::cpu(), integers.at(k)), device_));
      }
    return out;
  }

  std::vector<Contract> contracts_at(const exec::Symbols& sizes) const {
    std::vector<Contract> out;
    for (auto& o : region_.program.outputs) out.push_back(contract_of(region_.program, o.type.dtype, sizes));
    return out;
  }

  void run(size_t i, int runs) {
    for (int k = 0; k < runs; ++k) running_[i]->run(inputs_[0], region_.sizes);
  }

  // The runs of a sample as one launch, as what the host takes to start each is no part of them. Ranks replay what they have recorded
  // alike.
  void record(size_t i) {
    auto graph = std::make_unique<CudaGraph>(device_);
    require_all(error_of([&] { graph->capture([&] { run(i, runs_[i]); }, {.error_mode = CaptureErrorMode::ThreadLocal}); }), "");
    graphs_[i] = std::move(graph);
    time(i, runs_[i]);  // the first replay brings it to the device
  }

  // Nanoseconds of a run on the slowest rank.
  double time(size_t i, int runs) {
    const double all = slowest_ns(group_, device_, region_.label, [&] {
      if (graphs_[i])
        graphs_[i]->replay();
      else
        run(i, runs);
    });
    return all / runs;
  }

  const std::vector<std::shared_ptr<ChoiceCaller>> callers_;
  const Region& region_;
  const Device device_;
  distributed::Group& group_;
  const Equivalence equivalence_;
  std::vector<exec::Symbols> sizes_;         // the first is timed
  std::vector<std::vector<Tensor>> inputs_;  // at each
  std::vector<std::vector<Tensor>> wanted_;  // what the default gives for them
  std::vector<std::shared_ptr<exec::Executable>> running_;
  std::vector<std::unique_ptr<CudaGraph>> graphs_;  // on a GPU, of a sample
  std::vector<int> runs_;                           // of a sample; 0: not known yet
  double spent_ms_ = 0;
};

}  // namespace

double slowest_ns(distributed::Group& group, const Device& device, const std::string& label, const std::function<void()>& work) {
  group.run({.kind = distributed::Kind::Barrier, .where = label});
  const auto begin = std::chrono::steady_clock::now();
  work();
  if (device.is_cuda()) synchronize(device);
  const double own = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  return distributed::greatest(group, own, label);
}

distributed::Group* meeting_group(const program::Program& p, std::string& refusal) {
  std::set<std::string> names;
  bool meets = false;
  for (auto& n : p.nodes) meets = program::meets(n, &names) || meets;
  if (!meets) return nullptr;
  if (names.size() > 1) {
    refusal = fmt::format("ranks of {} groups meet in it", names.size());
    return nullptr;
  }
  const bool writes_inputs = std::any_of(p.outputs.begin(), p.outputs.end(), [](auto& o) { return o.mutates >= 0; });
  if (writes_inputs)
    refusal = "ranks meet in it, and it writes its inputs";
  else if (!distributed::has_world())
    refusal = "ranks meet in it, and there is no process group";
  if (!refusal.empty()) return nullptr;
  try {
    return &distributed::current_world().group(*names.begin());
  } catch (const UserError& e) {
    refusal = e.what();
    return nullptr;
  }
}

Together time_together(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device,
                       distributed::Group& group, Equivalence equivalence) {
  auto timed = std::make_shared<TimedTogether>(callers, region, device, group, equivalence);
  return {[timed](size_t i) { return timed->sample(i); }, [timed] { return timed->spent_ms(); }};
}

}  // namespace toroid::tune
