#include "compile/partitioning.h"

#include "autograd/partition/partition.h"
#include "base/check.h"
#include "base/log.h"
#include "compile/pipeline.h"
#include "lower/lowering.h"

namespace toroid::compiler {
namespace {

// Partitions of a graph that compute more and more again, and the memory of their programs, found when it is asked for.
class Plans {
 public:
  static constexpr int kSteps = 16;  // the last computes again all that can be

  Plans(const graph::Graph& g, const Job& job) : g_(g), job_(job_of_regions(job)) {}

  autograd::Partition partition(int step) const {
    return autograd::partition(g_,
                               {.again = static_cast<double>(step) / kSteps, .arithmetic_is_dear = !job_.target->facts().device.is_cuda()});
  }
  int64_t bytes(int step) {
    auto& known = bytes_[static_cast<size_t>(step)];
    if (!known) known = bytes_of(partition(step));
    return *known;
  }
  int64_t least() {
    int64_t out = bytes(0);
    for (int step = 1; step <= kSteps; ++step) out = std::min(out, bytes(step));
    return out;
  }
  // The first one that needs no more.
  std::optional<int> first_within(int64_t most) {
    for (int step = 0; step <= kSteps; ++step)
      if (bytes(step) <= most) return step;
    return std::nullopt;
  }

 private:
  int64_t bytes_of(const autograd::Partition& made) const {
    const auto after = autograd::recompute(g_, made);
    program::Program p = lower::lower(after ? *after : g_, {.options = job_.options(), .target = job_.target.get()});
    for (const auto stage : {program::Stage::Lowered, program::Stage::Scheduled})
      p = target::run_passes(std::move(p), *job_.target, stage, job_.options());
    CompileReport report;
    advance<Kernels>(Fused{std::move(p)}, job_, report);
    return report.memory.all();
  }

  const graph::Graph& g_;
  const Job job_;
  std::array<std::optional<int64_t>, kSteps + 1> bytes_;
};

// budget: what the option says of saved values holds for the memory of a run.
autograd::Partition within(const autograd::PartitionPolicy& budget, const graph::Graph& g, const Job& job) {
  Plans plans(g, job);
  if (!budget.most_bytes && budget.saved_share >= 1) return plans.partition(0);
  int64_t most = 0;
  if (budget.most_bytes) {
    most = *budget.most_bytes;
  } else {
    const int64_t least = plans.least();
    most = least + static_cast<int64_t>(budget.saved_share * static_cast<double>(std::max<int64_t>(plans.bytes(0) - least, 0)));
  }
  const std::optional<int> step = plans.first_within(most);
  TOROID_USER_CHECK(step,
                    "activation_memory_budget: a run of {} needs {} bytes beside its inputs, also where all that can be is computed again; "
                    "the budget is {}, {} too few",
                    g.name, plans.least(), most, plans.least() - most);
  return plans.partition(*step);
}

}  // namespace

std::unique_ptr<graph::Graph> partitioned(std::unique_ptr<graph::Graph> g, const Job& job, CompileReport& report) {
  const auto budget = autograd::policy_of(job.options().get(options::kActivationMemoryBudget), !job.target->facts().device.is_cuda());
  if (!budget.recomputes || autograd::what_follows_from_seeds(*g).empty()) return g;
  const autograd::Partition made = within(budget, *g, job);
  if (made.backward.empty()) return g;
  report.partition = autograd::to_string(made);
  log(Artifact::Choices, report.partition.substr(0, report.partition.find('\n')));
  job.debug.show(Artifact::Graph, "partition.txt", [&] { return report.partition; });
  return autograd::recompute(*g, made);
}

}  // namespace toroid::compiler
