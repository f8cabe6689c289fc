// Products of few rows whose sums are added up over the ranks of a group.
#include <memory>

#include "codegen/cuda/templates/gemv.h"
#include "codegen/cuda/templates/gemv_all_reduce.cu.h"
#include "codegen/cuda/templates/meeting.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

using distributed::p2p::Layout;
using program::Meeting;
using program::Node;

constexpr const char* kGemvAllReduce = "gemv_all_reduce";
constexpr int64_t kWordBytes = 8;

// The product by itself. Of the node's body it has what is read, not where the points are.
Node product_of_meeting(const Node& n) {
  Node out;
  out.problem = *std::get<Meeting>(n.problem).product;
  out.producer = n.producer;
  out.domain = n.domain, out.body = n.body;
  out.after_meeting = n.after_meeting;
  return out;
}

std::string refusal_of(const Meeting& m, const Node& product, const CudaGemvTarget& target) {
  if (std::string why = meeting_refusal(m); !why.empty()) return why;
  if (std::string why = cuda_gemv_refusal(product, target); !why.empty()) return why;
  if (m.product->m.constant() > kCudaGemvFewRows) return fmt::format("more than {} rows, which tiles compute faster", kCudaGemvFewRows);
  const auto sums = program::part(m).maybe_constant();
  if (!sums) return "the run tells how many sums there are";
  const int64_t most = Layout(m.ranks).inline_bytes * 2 / kWordBytes;
  if (*sums > most) return fmt::format("{} sums, there is room for {}", *sums, most);
  if (*sums * kWordBytes > meeting_inline_bytes(m) * 2) return "it sends each sum in 8 bytes to all ranks";
  return "";
}

// What the epilogue reads besides the sums, before these are there.
std::string held_text(const CudaPoints& epilogue) {
  return epilogue.far.loads.empty() ? "" : fmt::format("struct {{ {} }} far;\n{}", epilogue.far.members, epilogue.far.loads);
}

CudaGemvEnd summed_over_ranks(CudaArguments& arguments, const Node& node) {
  const auto& m = std::get<Meeting>(node.problem);
  arguments.mark_written(m.peers.buffer);
  arguments.mark_written(m.faults.buffer);
  arguments.define(meeting_definitions(arguments, m) + std::string(gemv_all_reduce_cu::kDefinitions));
  const auto at = cuda_unflatten(arguments, "flat", m.sizes);
  const CudaPoints epilogue = cuda_epilogue(arguments, {node.domain, node.body}, at, "sum", 1, true);
  return {.name = kGemvAllReduce,
          .begin = expand(gemv_all_reduce_cu::kBegin, {{"PEERS", arguments.pointer(m.peers.buffer, DType::I64)},
                                                       {"FAULTS", arguments.pointer(m.faults.buffer, DType::I64)},
                                                       {"PART", cuda_size(arguments, program::part(m))},
                                                       {"CALL", meeting_call(m, kGemvAllReduce, 1, 0)}}),
          .finish = std::string(gemv_all_reduce_cu::kSend),
          .rest = expand(gemv_all_reduce_cu::kReceive, {{"HELD", held_text(epilogue)}, {"EPILOGUE", epilogue.statements}}),
          .wide = epilogue.wide};
}

}  // namespace

Form cuda_gemv_all_reduce_form(const CudaSite& site) {
  const CudaGemvTarget target = cuda_gemv_target(site.gpu);
  const Node& node = site.node;
  const auto& buffers = site.program.buffers;
  const auto product = std::make_shared<const Node>(product_of_meeting(node));
  Tiling<CudaGemvTile> how = cuda_gemv_tiling(*product, target);
  how.generate = [=, &node, &buffers](const CudaGemvTile& t) {
    return generate_cuda_gemv(*product, buffers, target, t, [&](CudaArguments& arguments) { return summed_over_ranks(arguments, node); });
  };
  return make_form(kGemvAllReduce, refusal_of(site.problem<Meeting>(), *product, target), how);
}

}  // namespace toroid::codegen
