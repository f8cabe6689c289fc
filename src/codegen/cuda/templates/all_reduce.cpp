#include <algorithm>

#include "base/hash.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/all_reduce.cu.h"
#include "codegen/cuda/templates/parts.h"
#include "dist/p2p/layout.h"

namespace toroid::codegen {
namespace {

using distributed::ReduceOp;
using distributed::p2p::Layout;

struct MeetingTile {
  int blocks = 1;
  int slots = 0;  // of the rings; 0: the form has none
};
template <class Visit>
void fields(MeetingTile& t, const Visit& visit) {
  visit("blocks", t.blocks, kDoubles);
  if (t.slots) visit("slots", t.slots, kDoubles);
}

int64_t bytes_of(DType t) { return static_cast<int64_t>(size_of(t)); }

// Bytes of the input; typical ones where the run tells them.
int64_t typical_bytes(const program::AllReduce& a) { return typical_size(program::product(a.sizes)) * bytes_of(a.input.dtype); }
std::optional<int64_t> known_bytes(const program::AllReduce& a) {
  const auto n = program::product(a.sizes).maybe_constant();
  return n ? std::optional(*n * bytes_of(a.input.dtype)) : std::nullopt;
}

std::string refusal_of(const program::AllReduce& a) {
  if (a.input.dtype != DType::F32 && !is_half(a.input.dtype)) return "the templates reduce f32, f16 and bf16";
  if (a.ranks < 2 || a.ranks > distributed::p2p::kMostRanks)
    return fmt::format("{} ranks, of which 2 to {} share memory", a.ranks, distributed::p2p::kMostRanks);
  return "";
}

const char* step_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return "__fadd_rn(a, b)";
    case ReduceOp::Product:
      return "__fmul_rn(a, b)";
    case ReduceOp::Min:
      return "s_min_f32(a, b)";
    case ReduceOp::Max:
      return "s_max_f32(a, b)";
  }
  return "";
}

// The epilogue of a piece, by whole pieces where a row has no part of one.
std::string finish_of(CudaArguments& arguments, const program::Node& node, const program::AllReduce& a, int width) {
  const auto last = a.sizes.back().maybe_constant();
  const bool whole = a.sizes.size() == 1 || (last && *last % width == 0);
  const auto at = cuda_unflatten(arguments, "flat", a.sizes);
  const CudaPoints points = whole ? cuda_epilogue(arguments, {node.domain, node.body}, at, "acc", width)
                                  : cuda_epilogue(arguments, {node.domain, node.body}, at, "one", 1);
  return expand(whole ? all_reduce_cu::kFinishPiece : all_reduce_cu::kFinishElements, {{"EPILOGUE", points.statements}});
}

// What all ranks must run at once, but for the number of elements: 32 bits of a hash.
std::string call_of(const program::AllReduce& a, const char* form, const MeetingTile& tile) {
  const Hash128 h = Hasher().add("all_reduce").add(a.op).add(a.input.dtype).add(form).add(tile.blocks).add(tile.slots).finish();
  return fmt::format("0x{:08x}", static_cast<uint32_t>(h.lo));
}

// A form: its text, and how its blocks divide the work.
struct Meeting {
  const char* name;
  std::string_view text;
  int64_t pieces;                              // of 16 bytes, that a block has at least by the rule
  int threads = 512;                           // of a block
  int per_processor = 1;                       // blocks that a multiprocessor runs at once
  int slots = 0;                               // of its rings, by the rule
  int64_t rule_most = 264;                     // blocks of the rule
  std::optional<int64_t> room = std::nullopt;  // bytes that an input may have; none: any
};

KernelText generate(const CudaSite& site, const Meeting& how, const MeetingTile& tile) {
  const program::Node& node = site.node;
  const auto& a = site.problem<program::AllReduce>();
  const DType t = a.input.dtype;
  const std::string type(name_of(t));
  const int width = static_cast<int>(16 / bytes_of(t));
  const Layout layout(a.ranks);
  CudaArguments arguments;
  const std::string widen = fmt::format("s_cvt_{}_f32", type), narrow = fmt::format("s_cvt_f32_{}", type);
  if (t != DType::F32) arguments.need(widen), arguments.need(narrow);
  if (a.op == ReduceOp::Min) arguments.need("s_min_f32");
  if (a.op == ReduceOp::Max) arguments.need("s_max_f32");
  arguments.need("report_index");
  arguments.mark_written(a.peers.buffer);
  arguments.mark_written(a.faults.buffer);
  auto number = [](auto n) { return std::to_string(n); };
  arguments.define(
      expand(all_reduce_cu::kDefinitions, {{"RANKS", number(a.ranks)},
                                           {"TYPE", type},
                                           {"FLAG", number(Layout::kFlagWords)},
                                           {"INLINE", number(layout.inline_bytes)},
                                           {"WHOLE", number(layout.whole_bytes)},
                                           {"RING", number(layout.ring_bytes)},
                                           {"WHOLE_AT", number(layout.whole)},
                                           {"RINGS_AT", number(layout.rings)},
                                           {"ARRIVED_AT", number(layout.arrived)},
                                           {"MOVED_AT", number(layout.moved)},
                                           {"CALLS_AT", number(layout.calls)},
                                           {"MOST_RANKS", number(distributed::p2p::kMostRanks)},
                                           {"MOST_BLOCKS", number(distributed::p2p::kMostBlocks)},
                                           {"SITE", number(a.site)},
                                           {"WIDEN", t == DType::F32 ? "p.x[l]" : widen + "(p.x[l])"},
                                           {"NARROW", t == DType::F32 ? "x" : narrow + "(x)"},
                                           {"AVERAGE", a.op == ReduceOp::Avg ? fmt::format("__fdiv_rn(x, {}.0f)", a.ranks) : "x"},
                                           {"STEP", step_of(a.op)}}));
  const auto offset = a.input.offset.maybe_constant();
  const std::string input = arguments.pointer(a.input.buffer, t);
  const std::string body =
      expand(all_reduce_cu::kBegin,
             {{"PEERS", arguments.pointer(a.peers.buffer, DType::I64)},
              {"FAULTS", arguments.pointer(a.faults.buffer, DType::I64)},
              {"INPUT", a.input.offset == Expr(0) ? input : fmt::format("{} + {}", input, cuda_size(arguments, a.input.offset))},
              {"NUMEL", cuda_size(arguments, program::product(a.sizes))},
              {"ALIGNED", offset && *offset % width == 0 ? "true" : "false"},
              {"TYPE", type},
              {"WAIT", site.gpu.is_hopper() ? getenv("TOROID_X_DEP")
                                                  ? "asm volatile(\"griddepcontrol.launch_dependents;\");\nwait_for_predecessor();"
                                                  : "wait_for_predecessor();\nasm volatile(\"griddepcontrol.launch_dependents;\");"
                                            : ""},
              {"FINISH", finish_of(arguments, node, a, width)}}) +
      expand(how.text, {{"UNROLL", a.ranks <= 2 ? "2" : "1"},
                        {"SLOTS", number(tile.slots)},
                        {"RING_UNITS", number(Layout::kRingUnits)},
                        {"CALL", expand(all_reduce_cu::kCall, {{"CALL", call_of(a, how.name, tile)}})}});
  KernelText k =
      arguments.kernel(cuda_template_name(how.name, node.body), body, how.threads, true, how.per_processor, site.gpu.is_hopper());
  k.tasks = tile.blocks;
  k.plan = fmt::format("{}: {} blocks of each of {} ranks\n", how.name, tile.blocks, a.ranks) + loop::to_string(node.domain, node.body);
  return k;
}

Form meeting_form(const CudaSite& site, const Meeting& meeting) {
  const auto& a = site.problem<program::AllReduce>();
  Tiling<MeetingTile> how;
  const int64_t most = std::min<int64_t>(distributed::p2p::kMostBlocks, int64_t{meeting.per_processor} * site.gpu.multiprocessors);
  how.rule = [=, &a] {
    const int64_t wanted = (typical_bytes(a) / 16 + meeting.pieces - 1) / meeting.pieces, top = std::min(most, meeting.rule_most);
    return MeetingTile{static_cast<int>(known_bytes(a) ? std::clamp<int64_t>(wanted, 1, top) : top), meeting.slots};
  };
  how.others = [rule = how.rule] {
    const auto [blocks, slots] = rule();
    std::vector<MeetingTile> out = {{2 * blocks, slots}, {std::max(blocks / 2, 1), slots}};
    for (const int other : {2, 4, 8})
      if (slots && other != slots) out.push_back({blocks, other}), out.push_back({std::max(blocks / 2, 1), other});
    return out;
  };
  how.refusal = [most](const MeetingTile& t) {
    if (t.slots && Layout::kRingUnits % t.slots != 0) return fmt::format("slots are no part of {}", Layout::kRingUnits);
    return t.blocks > most ? fmt::format("blocks that wait for others must run at once: {} do", most) : "";
  };
  how.generate = [=](const MeetingTile& t) { return generate(site, meeting, t); };
  std::string refusal = refusal_of(a);
  if (refusal.empty() && meeting.room) {
    const auto bytes = known_bytes(a);
    if (!bytes)
      refusal = "the run tells the size, which may be more than it has room for";
    else if (*bytes > *meeting.room)
      refusal = fmt::format("{} bytes, it has room for {}", *bytes, *meeting.room);
  }
  return make_form(meeting.name, std::move(refusal), how);
}

}  // namespace

// Limits of the rules: measured on two H200s that NVLink joins, and by the bytes that each form sends for more ranks.
Form cuda_all_reduce_inline_form(const CudaSite& site) {
  const auto& a = site.problem<program::AllReduce>();
  // Few registers. A product of few rows that follows begins beside it, a block a multiprocessor, and blocks go where most of their kind
  // fit: a multiprocessor that this form fills gets none, another two, and the product takes up to twice as long.
  const int threads = a.ranks <= 2 ? 512 : 256;
  Form form = meeting_form(site, {.name = "all_reduce_inline",
                                  .text = all_reduce_cu::kInline,
                                  .pieces = threads,
                                  .threads = threads,
                                  .per_processor = 4,
                                  .rule_most = 64,
                                  .room = Layout(a.ranks).inline_bytes});
  if (typical_bytes(a) > (int64_t{1} << 20) / (a.ranks * a.ranks)) form.reluctance = "it sends each byte twice";
  return form;
}

Form cuda_all_reduce_one_shot_form(const CudaSite& site) {
  const auto& a = site.problem<program::AllReduce>();
  Form form = meeting_form(site, {.name = "all_reduce_one_shot",
                                  .text = all_reduce_cu::kOneShot,
                                  .pieces = 1024,
                                  .rule_most = 128,
                                  .room = Layout(a.ranks).whole_bytes});
  if (typical_bytes(a) > (int64_t{8} << 20) / (a.ranks * (a.ranks - 1))) form.reluctance = "it sends whole inputs to all ranks";
  return form;
}

Form cuda_all_reduce_two_shot_form(const CudaSite& site) {
  return meeting_form(site,
                      {.name = "all_reduce_two_shot", .text = all_reduce_cu::kTwoShot, .pieces = 512, .per_processor = 2, .slots = 2});
}

}  // namespace toroid::codegen
