#include "graph/region_call.h"

#include "base/check.h"

namespace toroid::graph {
namespace {

struct RegionCall {
  const ops::Op& op;
  const Regions regions;
};
thread_local const RegionCall* innermost = nullptr;

}  // namespace

std::vector<Tensor> call_regions(const ops::Op& op, CallArgs args, Regions regions, const std::source_location& where) {
  const RegionCall call{op, std::move(regions)};
  struct Scope {
    explicit Scope(const RegionCall& c) { innermost = &c; }
    ~Scope() { innermost = before; }
    const RegionCall* const before = innermost;
  } const scope(call);
  return ops::call(op, std::move(args), where);
}

const Regions& regions_of_call(const ops::Op& op) {
  TOROID_CHECK(innermost && &innermost->op == &op, "a call of {} without regions", op.name);
  return innermost->regions;
}

std::vector<Tensor> call_again(const Node& n, CallArgs args) {
  return n.regions.empty() ? ops::call(*n.op, std::move(args)) : call_regions(*n.op, std::move(args), n.regions);
}

}  // namespace toroid::graph
