#include "codegen/cuda/kernel.h"

#include "codegen/cuda/writer.h"

namespace toroid::codegen {
namespace {

KernelText text_of(const CudaPlan& plan) {
  CudaArguments arguments;
  const std::string body = CudaWriter(plan, arguments).kernel_body();
  KernelText k = arguments.kernel(name_kernel(plan.body), body, plan.block, plan.wide, plan.blocks, plan.overlaps);
  k.tasks = plan.grid;
  k.shared_bytes = static_cast<int>(plan.kept_bytes + plan.shared_bytes);
  k.plan = to_string(plan);
  return k;
}

constexpr int kMostThreads = 1024;

// A tiling whose tiles are those that the plan comes out with when it is asked for them. made: a plan's tile.
template <class Tile>
Tiling<Tile> tiling_of(std::function<CudaPlan(const Tile*)> plan, std::function<Tile(const CudaPlan&)> made, std::vector<Tile> others) {
  Tiling<Tile> how;
  how.rule = [=] { return made(plan(nullptr)); };
  how.others = [=] { return others; };
  // The rule's own, if asked for, might be planned otherwise.
  auto wanted = [=](const Tile& t) { return t == made(plan(nullptr)) ? plan(nullptr) : plan(&t); };
  how.refusal = [=](const Tile& t) -> std::string {
    if (t.threads > kMostThreads || (t.threads & (t.threads - 1)) != 0) return "threads is no power of two up to 1024";
    return made(wanted(t)) == t ? "" : "the loop cannot be divided so";
  };
  how.generate = [=](const Tile& t) { return text_of(wanted(t)); };
  return how;
}

}  // namespace

KernelText generate_cuda_loop(const loop::Domain& d, const loop::Body& b, const device::cuda::GpuInfo& gpu, const std::set<int>& constants,
                              int faults) {
  return text_of(make_cuda_plan(d, b, {.overlaps = gpu.is_hopper(), .constants = constants, .faults = faults}));
}

std::vector<Form> cuda_loop_forms(const loop::Domain& d, const loop::Body& b, const device::cuda::GpuInfo& gpu,
                                  const std::set<int>& constants, int faults) {
  const CudaLoopTarget target{.overlaps = gpu.is_hopper(), .constants = constants, .faults = faults};
  const CudaPlan rule = make_cuda_plan(d, b, target);
  if (rule.shape == CudaPlan::Shape::Flat && rule.tiled.empty()) {
    std::function<CudaPlan(const CudaFlatTile*)> plan = [=, &d, &b](const CudaFlatTile* t) {
      CudaLoopTarget own = target;
      if (t) own.flat = *t;
      return make_cuda_plan(d, b, own);
    };
    std::function<CudaFlatTile(const CudaPlan&)> made = [](const CudaPlan& p) { return CudaFlatTile{p.block, p.unroll}; };
    std::vector<CudaFlatTile> others;
    for (int vectors : {1, 2, 4})
      for (int threads : {128, 256, 512}) others.push_back({threads, vectors});
    auto how = tiling_of(plan, made, others);
    how.refusal = [why = how.refusal](const CudaFlatTile& t) { return t.threads < 32 ? "threads is less than 32" : why(t); };
    return {make_form("loop_flat", "", how)};
  }
  if (rule.shape == CudaPlan::Shape::Rows && rule.row_blocks == 0) {
    std::function<CudaPlan(const CudaRowsTile*)> plan = [=, &d, &b](const CudaRowsTile* t) {
      CudaLoopTarget own = target;
      if (t) own.rows = *t;
      return make_cuda_plan(d, b, own);
    };
    std::function<CudaRowsTile(const CudaPlan&)> made = [](const CudaPlan& p) { return CudaRowsTile{p.row_threads, p.splits}; };
    const CudaRowsTile own = made(rule);
    std::vector<CudaRowsTile> others;
    for (int threads : {own.threads * 2, own.threads / 2, own.threads * 4, own.threads / 4})
      if (threads > 0) others.push_back({threads, own.splits});
    for (int64_t splits : {own.splits * 2, own.splits / 2, int64_t{1}})
      if (splits > 0) others.push_back({own.threads, splits});
    return {make_form("loop_rows", "", tiling_of(plan, made, others))};
  }
  return {};
}

}  // namespace toroid::codegen
