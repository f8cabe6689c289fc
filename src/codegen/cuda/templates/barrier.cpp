// Where the ranks of a product in pieces meet before a stage.
#include "base/hash.h"
#include "codegen/cuda/templates/barrier.cu.h"
#include "codegen/cuda/templates/meeting.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

constexpr const char* kName = "barrier";

struct BarrierTile {};
template <class Visit>
void fields(BarrierTile&, const Visit&) {}

// Ranks run the same call: of the same sizes.
uint32_t call_of(const program::Meeting& m) {
  Hasher h;
  h.add(m.kind).add(m.input.dtype).add(kName).add(m.product->k.constant()).add(m.product->n.constant()).add(m.product->m.constant());
  return static_cast<uint32_t>(h.finish().lo);
}

KernelText generate(const CudaSite& site) {
  const auto& m = site.problem<program::Meeting>();
  CudaArguments arguments;
  arguments.mark_written(m.peers.buffer);
  arguments.mark_written(m.faults.buffer);
  arguments.define(meeting_definitions(arguments, m) + std::string(barrier_cu::kDefinitions));
  const std::string body = expand(barrier_cu::kBarrier, {{"PEERS", arguments.pointer(m.peers.buffer, DType::I64)},
                                                         {"FAULTS", arguments.pointer(m.faults.buffer, DType::I64)},
                                                         {"CALL", fmt::format("0x{:08x}", call_of(m))}});
  constexpr int kThreads = 32;
  KernelText k = arguments.kernel(fmt::format("{}_{}", kName, distributed::name_of(m.kind)), body, kThreads, true, 1, false);
  k.tasks = 1;
  k.plan = fmt::format("{}: of {} ranks, before a stage of a product in pieces\n", kName, m.ranks);
  return k;
}

}  // namespace

Form cuda_barrier_form(const CudaSite& site) {
  Tiling<BarrierTile> how;
  how.rule = [] { return BarrierTile{}; };
  how.others = [] { return std::vector<BarrierTile>{}; };
  how.refusal = [](const BarrierTile&) { return std::string(); };
  how.generate = [&site](const BarrierTile&) { return generate(site); };
  return make_form(kName, meeting_refusal(site.problem<program::Meeting>()), how);
}

}  // namespace toroid::codegen
