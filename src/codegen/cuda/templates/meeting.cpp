#include "codegen/cuda/templates/meeting.h"

#include <algorithm>

#include "base/hash.h"
#include "codegen/cuda/templates/meeting.cu.h"
#include "codegen/cuda/templates/parts.h"
#include "program/points.h"

namespace toroid::codegen {
namespace {

using distributed::Kind;
using distributed::ReduceOp;
using distributed::p2p::Layout;
using program::Meeting;

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

std::optional<int64_t> known_part_bytes(const Meeting& m) {
  const auto n = program::part(m).maybe_constant();
  return n ? std::optional(*n * bytes_of(m.input.dtype)) : std::nullopt;
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

// The sum x of so many ranks as their mean. By a power of two a factor gives the same bits, of which the compiler makes no use.
std::string mean_of(int64_t ranks) {
  const bool is_power = (ranks & (ranks - 1)) == 0;
  return is_power ? fmt::format("__fmul_rn(x, 1.0f / {}.0f)", ranks) : fmt::format("__fdiv_rn(x, {}.0f)", ranks);
}

// Whether what a rank brings differs from one rank to the other, and whether the result has a part of each.
bool brings_parts(const Meeting& m) { return m.kind == Kind::ReduceScatter; }
bool has_parts(const Meeting& m) { return m.kind == Kind::AllGather; }

// What is done with a piece of the result.
struct Finish {
  std::string statements;
  std::string held = {}, loads = {};  // what can be read before the piece is there, in members of a struct
};

const char* to_of(const Meeting& m) { return has_parts(m) ? "r * part" : "0"; }

// By whole pieces where a row has no part of one.
Finish finish_of(CudaArguments& arguments, const program::Node& node, const Meeting& m, int width) {
  const bool even = !has_parts(m) || sym::known_multiple(program::part(m), width);
  const int out = program::plain_result(node);
  if (out >= 0 && node.body.steps.back().dtype == m.input.dtype) {
    const std::string type(name_of(m.input.dtype));
    arguments.mark_written(out);
    return {expand(meeting_cu::kFinishWhole, {{"OUT", fmt::format("{}* const out = {};", type, arguments.pointer(out, m.input.dtype))},
                                              {"ALIGNED_OUT", even ? "true" : "false"}})};
  }
  const auto last = m.sizes.back().maybe_constant();
  const bool whole = even && (m.sizes.size() == 1 || (last && *last % width == 0));
  const auto at = cuda_unflatten(arguments, "flat", m.sizes);
  if (!whole) {
    const CudaPoints points = cuda_epilogue(arguments, {node.domain, node.body}, at, "one", 1);
    return {expand(meeting_cu::kFinishElements, {{"EPILOGUE", points.statements}})};
  }
  const CudaPoints points = cuda_epilogue(arguments, {node.domain, node.body}, at, "acc", width, true);
  return {expand(meeting_cu::kFinishPiece, {{"EPILOGUE", points.statements}}),
          fmt::format("struct {{ {} }} near; struct {{ {} }} far;", points.near.members, points.far.members),
          expand(meeting_cu::kHoldPiece, {{"TO", to_of(m)}, {"LOADS", points.near.loads + points.far.loads}})};
}

std::string number(int64_t n) { return std::to_string(n); }

std::string begin_of(CudaArguments& arguments, const CudaSite& site, const Meeting& m) {
  const DType t = m.input.dtype;
  const int width = static_cast<int>(16 / bytes_of(t));
  const auto offset = m.input.offset.maybe_constant();
  const bool aligned = offset && *offset % width == 0 && (!brings_parts(m) || sym::known_multiple(program::part(m), width));
  const std::string input = arguments.pointer(m.input.buffer, t);
  const Finish finish = finish_of(arguments, site.node, m, width);
  return expand(meeting_cu::kBegin,
                {{"PEERS", arguments.pointer(m.peers.buffer, DType::I64)},
                 {"FAULTS", arguments.pointer(m.faults.buffer, DType::I64)},
                 {"INPUT", m.input.offset == Expr(0) ? input : fmt::format("{} + {}", input, cuda_size(arguments, m.input.offset))},
                 {"PART", cuda_size(arguments, program::part(m))},
                 {"FROM", brings_parts(m) ? "r * part" : "0"},
                 {"TO", to_of(m)},
                 {"ALIGNED", aligned ? "true" : "false"},
                 {"TYPE", std::string(name_of(t))},
                 {"WAIT", site.gpu.is_hopper() ? "wait_for_predecessor();\nasm volatile(\"griddepcontrol.launch_dependents;\");" : ""},
                 {"HELD", finish.held},
                 {"HOLD", finish.loads},
                 {"FINISH", finish.statements}});
}

KernelText generate(const CudaSite& site, const MeetingForm& how, const MeetingTile& tile) {
  const auto& m = site.problem<Meeting>();
  CudaArguments arguments;
  arguments.mark_written(m.peers.buffer);
  arguments.mark_written(m.faults.buffer);
  arguments.define(meeting_definitions(arguments, m));
  const std::string unroll = m.ranks <= 2 ? "2" : "1";
  Substitutions holes = {
      {"UNROLL", unroll},
      {"CALL", meeting_call(m, how.name, tile.blocks, tile.slots)},
      {"RINGS", !how.rings
                    ? ""
                    : expand(meeting_cu::kRings, {{"UNROLL", unroll},
                                                  {"THREADS", number(how.threads)},
                                                  {"SLOTS", number(tile.slots)},
                                                  {"RING_UNITS", number(Layout::kRingUnits)},
                                                  {"OF_RANK", fmt::format("(pieces + {}) / {}", how.ring_pieces - 1, how.ring_pieces)}})}};
  holes.insert(holes.end(), how.holes.begin(), how.holes.end());
  const std::string body = begin_of(arguments, site, m) + expand(how.text, holes);
  KernelText k =
      arguments.kernel(cuda_template_name(how.name, site.node.body), body, how.threads, true, how.per_processor, site.gpu.is_hopper());
  k.tasks = tile.blocks;
  k.plan = fmt::format("{}: {} blocks of each of {} ranks\n", how.name, tile.blocks, m.ranks) +
           loop::to_string(site.node.domain, site.node.body);
  return k;
}

MeetingTile rule_of(const Meeting& m, const MeetingForm& how, int64_t most, int64_t multiprocessors) {
  const int64_t bytes = typical_part_bytes(m);
  int64_t top = std::min(most, how.rule_most);
  // Between more than two GPUs rings that hold a block's whole share go faster with one block of a multiprocessor.
  if (how.rings && m.ranks > 2 && bytes / how.ring_pieces / multiprocessors <= Layout(m.ranks).ring_bytes)
    top = std::min(top, multiprocessors);
  const int64_t wanted = (bytes / 16 + how.pieces - 1) / how.pieces;
  MeetingTile out{.blocks = static_cast<int>(known_part_bytes(m) ? std::clamp<int64_t>(wanted, 1, top) : top)};
  if (how.rings) out.slots = 2;
  return out;
}

}  // namespace

std::string meeting_definitions(CudaArguments& arguments, const Meeting& m) {
  const Layout layout(m.ranks);
  const DType t = m.input.dtype;
  const std::string type(name_of(t)), widen = fmt::format("s_cvt_{}_f32", type), narrow = fmt::format("s_cvt_f32_{}", type);
  if (t != DType::F32) arguments.need(widen), arguments.need(narrow);
  if (m.op == ReduceOp::Min) arguments.need("s_min_f32");
  if (m.op == ReduceOp::Max) arguments.need("s_max_f32");
  arguments.need("report_index");
  return expand(meeting_cu::kDefinitions, {{"RANKS", number(m.ranks)},
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
                                           {"SITE", number(m.site)},
                                           {"WIDEN", t == DType::F32 ? "x" : widen + "(x)"},
                                           {"NARROW", t == DType::F32 ? "x" : narrow + "(x)"},
                                           {"AVERAGE", m.op == ReduceOp::Avg ? mean_of(m.ranks) : "x"},
                                           {"STEP", step_of(m.op)}});
}

std::string meeting_call(const Meeting& m, const char* form, int64_t blocks, int64_t slots) {
  const Hash128 h = Hasher().add(m.kind).add(m.op).add(m.input.dtype).add(form).add(blocks).add(slots).finish();
  return expand(meeting_cu::kCall, {{"CALL", fmt::format("0x{:08x}", static_cast<uint32_t>(h.lo))}});
}

std::string meeting_refusal(const Meeting& m) {
  if (m.input.dtype != DType::F32 && !is_half(m.input.dtype)) return "the templates take f32, f16 and bf16";
  if (m.ranks < 2 || m.ranks > distributed::p2p::kMostRanks)
    return fmt::format("{} ranks, of which 2 to {} share memory", m.ranks, distributed::p2p::kMostRanks);
  return "";
}

// Limits: measured on two and four H200s that NVLink joins.
int64_t meeting_inline_bytes(const Meeting& m) { return (int64_t{1} << 20) / (m.ranks * m.ranks); }

int64_t typical_part_bytes(const Meeting& m) { return typical_size(program::part(m)) * bytes_of(m.input.dtype); }

Form meeting_form(const CudaSite& site, const MeetingForm& form) {
  const auto& m = site.problem<Meeting>();
  Tiling<MeetingTile> how;
  const int64_t most = std::min<int64_t>(distributed::p2p::kMostBlocks, int64_t{form.per_processor} * site.gpu.multiprocessors);
  how.rule = [=, &m, &site] { return rule_of(m, form, most, site.gpu.multiprocessors); };
  how.others = [rule = how.rule] {
    const auto [blocks, slots] = rule();
    std::vector<MeetingTile> out = {{2 * blocks, slots}, {std::max(blocks / 2, 1), slots}};
    for (const int other : {2, 4, 8})
      if (slots && other != slots) out.push_back({blocks, other}), out.push_back({std::max(blocks / 2, 1), other});
    return out;
  };
  how.refusal = [most](const MeetingTile& t) {
    if (t.slots == 1) return std::string("a chunk is sent before the one before has come back: two slots at least");
    if (t.slots && Layout::kRingUnits % t.slots != 0) return fmt::format("slots are no part of {}", Layout::kRingUnits);
    return t.blocks > most ? fmt::format("blocks that wait for others must run at once: {} do", most) : "";
  };
  how.generate = [=](const MeetingTile& t) { return generate(site, form, t); };
  std::string refusal = meeting_refusal(m);
  if (refusal.empty() && form.room) {
    const auto bytes = known_part_bytes(m);
    if (!bytes)
      refusal = "the run tells the size, which may be more than it has room for";
    else if (*bytes > form.room)
      refusal = fmt::format("{} bytes, it has room for {}", *bytes, form.room);
  }
  return make_form(form.name, std::move(refusal), how);
}

Form inline_meeting_form(const CudaSite& site, const char* name, std::string_view text, const Substitutions& holes) {
  const auto& m = site.problem<Meeting>();
  // Small blocks on many multiprocessors: each waits for itself, and what follows is computed by more of them.
  const int threads = m.ranks <= 2 ? 128 : 256;
  Form form = meeting_form(site, {.name = name,
                                  .text = text,
                                  .pieces = threads,
                                  .threads = threads,
                                  .per_processor = 4,
                                  .rule_most = m.ranks <= 2 ? 256 : 64,
                                  .room = Layout(m.ranks).inline_bytes,
                                  .holes = holes});
  if (typical_part_bytes(m) > meeting_inline_bytes(m)) form.reluctance = "it sends each byte twice";
  return form;
}

}  // namespace toroid::codegen
