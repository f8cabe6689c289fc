#include "codegen/cuda/templates/gemv.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "codegen/cuda/templates/gemv.cu.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

using loop::Step;
using program::Gemm;

constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr int kMaxRows = 16;          // of one tensor core instruction
constexpr int kMaxProducedRows = 2;   // every block computes them, one after another: more take longer than a kernel of their own
constexpr int kMaxRowsOfColumns = 4;  // sums that a thread can hold
// Two blocks of up to this many bytes fit a multiprocessor: the next kernel's blocks fill their rings while this one's end. Three would
// not spread evenly: some multiprocessors would get two of the next kernel's blocks, others none. Two of one kernel must not fit where
// multiprocessors are empty but for those that ranks meet on, of which each takes a block less.
constexpr int64_t kSharedOfTwo = 113 * 1024, kSharedOfThree = 76 * 1024, kSharedOfOne = 114 * 1024;
constexpr int64_t kStaticShared = 1024;  // what reductions of the producer take besides
constexpr int64_t kSumsBytes = 16 * 1024;
constexpr int64_t kEarlyBytes = 64 * 1024;  // of the constant vectors that a kernel begins with

// How the work is divided.
struct Shape {
  bool columns = false;  // B is [k, n], contiguous along n
  bool tensor_cores = false;
  bool produced = false;  // rows of A
  int rows = 1;
  int64_t k = 0;
  int piece = 8;    // elements of B in 16 bytes
  int tile = 8;     // columns of C that a warp computes at once
  int lane_k = 32;  // of B's rows or columns, what one piece of each lane covers together
  CudaGemvTile how;
  int64_t slice = 0, steps = 0;  // k of each of the slices, and its steps

  int warps_n() const { return kWarps / how.warps_k; }
  int64_t step_k() const { return int64_t{lane_k} * how.warps_k; }
  int64_t x_length() const { return steps * step_k(); }
  // Rows that are computed are whole at first; what is used later is the block's slice. Half rows are padded: neighbours begin in
  // different banks.
  int64_t row_length() const { return (how.slices - 1) * slice + x_length(); }
  bool keeps_whole_rows() const { return produced && !tensor_cores; }
  int64_t x_stride() const { return tensor_cores ? x_length() + 32 : keeps_whole_rows() ? row_length() : x_length(); }
  int64_t sums_bytes() const { return 4 * how.kept * kWarps * rows * tile; }
  int64_t shared_bytes() const {
    return int64_t{how.depth} * 16 * kThreads + sums_bytes() + x_stride() * rows * (tensor_cores ? 2 : 4) +
           (produced && tensor_cores ? 4 * row_length() : 0);
  }
  void cut(int64_t count) {
    how.slices = count;
    slice = count == 1 ? k : ceil_div(k, count * 64) * 64;
    steps = ceil_div(slice, step_k());
  }
};

// What every element of A is exactly a value of: its storage, or what its producer rounds to before it stores.
DType precision_of_a(const program::Node& node, const Gemm& g) {
  if (!node.producer) return g.a.dtype;
  const auto& steps = node.producer->body.steps;
  for (auto& s : steps) {
    if (s.step != Step::Store || s.buffer != g.a.buffer) continue;
    const auto& value = steps[static_cast<size_t>(s.args[0])];
    if (value.step == Step::Scalar && value.op == ScalarOp::Cast) return steps[static_cast<size_t>(value.args[0])].dtype;
  }
  return DType::F32;
}

// The fewest slices that fit (adding them up takes longer than what room for the next kernel's blocks gains); more when there are too
// few tiles for all multiprocessors.
void choose_slices(Shape& s, const Expr& n, const CudaGemvTarget& target) {
  constexpr std::array<int64_t, 6> kCounts = {1, 2, 3, 4, 6, 8};
  const bool fits = std::any_of(kCounts.begin(), kCounts.end(), [&](int64_t count) {
    s.cut(count);
    return s.shared_bytes() + kStaticShared <= target.shared_bytes;
  });
  if (!fits) return;
  const auto columns = n.maybe_constant();
  if (!columns) return;
  const int64_t bundles = ceil_div(*columns, s.tile * s.warps_n());
  // The longest group's time; a whole tile's is 1.
  auto time = [&](int64_t count) {
    return static_cast<double>(ceil_div(bundles, std::max<int64_t>(1, target.multiprocessors / count))) / static_cast<double>(count);
  };
  // A multiprocessor without a block would take two of the next kernel's.
  auto idle = [&](int64_t count) { return std::min(bundles, target.multiprocessors / count) * count < target.multiprocessors; };
  int64_t best = s.how.slices;
  for (int64_t count : kCounts) {
    if (count <= s.how.slices || count > target.multiprocessors || s.k < count * s.step_k()) continue;
    if (time(count) < 0.9 * time(best) || (s.columns && idle(best) && !idle(count) && time(count) <= time(best))) best = count;
  }
  s.cut(best);
}

// Adding up stops a block's loads for a moment: the fewer times, the better, as long as no slice more and no block less fits for it.
void choose_kept(Shape& s, const Expr& n, const CudaGemvTarget& target) {
  s.how.kept = 1;
  const int64_t one = s.sums_bytes(), used = s.shared_bytes();
  const int64_t limit = used <= kSharedOfTwo ? kSharedOfTwo : target.shared_bytes - kStaticShared;
  s.how.kept = std::max<int64_t>(1, std::min(kSumsBytes / one, 1 + (limit - used) / one));
  if (const auto columns = n.maybe_constant()) {
    const int64_t groups = std::max<int64_t>(1, target.multiprocessors / s.how.slices);
    s.how.kept = std::min(s.how.kept, ceil_div(ceil_div(*columns, s.tile * s.warps_n()), groups));
  }
}

// Of the problem; how the work is divided is left open.
Shape problem_of(const program::Node& node) {
  const auto& g = std::get<Gemm>(node.problem);
  Shape s;
  s.produced = node.producer.has_value();
  s.columns = !(g.b.strides[g.batch.size()] == Expr(1));
  s.rows = static_cast<int>(g.m.constant());
  s.k = g.k.constant();
  s.piece = static_cast<int>(16 / size_of(g.b.dtype));
  s.tensor_cores = !s.columns && s.rows > 1 && is_half(g.b.dtype) && precision_of_a(node, g) == g.b.dtype;
  s.tile = s.columns ? 8 * s.piece : 8;
  s.lane_k = s.columns ? 4 : 4 * s.piece;
  return s;
}

Shape shape_of(const program::Node& node, const CudaGemvTile& tile) {
  Shape s = problem_of(node);
  s.how = tile;
  s.cut(tile.slices);
  return s;
}

std::string operand_refusal(const program::Node& node, const Gemm& g) {
  const size_t nb = g.batch.size();
  for (auto& e : g.batch)
    if (!(e == Expr(1))) return "a batch";
  if (!g.m.is_const() || g.m.constant() < 1 || g.m.constant() > kMaxRows) return fmt::format("not 1 to {} rows", kMaxRows);
  if (!g.k.is_const() || g.k.constant() < 1) return "k is not a constant";
  if (g.accumulate != DType::F32) return "sums are not f32";
  if (g.b.dtype != DType::F32 && !is_half(g.b.dtype)) return "weights are not f32, bf16 or f16";
  if (!node.producer && g.a.dtype != DType::F32 && !is_half(g.a.dtype)) return "rows are not f32, bf16 or f16";
  const auto piece = static_cast<int64_t>(16 / size_of(g.b.dtype));
  const bool rows = g.b.strides[nb] == Expr(1), columns = g.b.strides[nb + 1] == Expr(1);
  if (!rows && !columns) return "weights are not contiguous along k or n";
  if (columns && !rows && g.m.constant() > kMaxRowsOfColumns)
    return fmt::format("more than {} rows, and weights that are contiguous along n", kMaxRowsOfColumns);
  if (!sym::known_multiple(g.b.offset, piece) || !sym::known_multiple(g.b.strides[rows ? nb + 1 : nb], piece))
    return "rows of the weights are not aligned to 16 bytes";
  return "";
}

std::string number(int64_t x) { return std::to_string(x); }
std::string storage_name(DType t) { return t == DType::F32 ? "f32" : "u16"; }

// --- text -----------------------------------------------------------------------------------------------------------------------------

// Statements that fill x.
std::string rows_text(CudaArguments& arguments, const program::Node& node, const Shape& s, bool& wide) {
  const auto& g = std::get<Gemm>(node.problem);
  const size_t nb = g.batch.size();
  std::vector<std::string> at(nb, "0");
  at.push_back("m");
  if (s.produced) {
    const CudaPoints row = cuda_row(arguments, *node.producer, at, g.a.buffer, "row", kThreads);
    wide = wide || row.wide;
    return expand(s.tensor_cores ? gemv_cu::kGemvProduceHalves : gemv_cu::kGemvProduce,
                  {{"ROW", row.statements}, {"BNAME", std::string(name_of(g.b.dtype))}});
  }
  at.push_back("c");
  const auto piece = static_cast<int64_t>(16 / size_of(g.a.dtype));
  const bool pieces = g.a.strides[nb + 1] == Expr(1) && sym::known_multiple(g.a.offset, piece) && s.k % piece == 0 &&
                      (s.rows == 1 || sym::known_multiple(g.a.strides[nb], piece));
  const std::string name(name_of(g.a.dtype));
  const std::string_view text = !pieces ? gemv_cu::kGemvReadElements : s.tensor_cores ? gemv_cu::kGemvCopyPieces : gemv_cu::kGemvReadPieces;
  return expand(text, {{"ATYPE", storage_name(g.a.dtype)},
                       {"ANAME", name},
                       {"A", arguments.pointer(g.a.buffer, g.a.dtype)},
                       {"AAT", cuda_address(arguments, g.a.offset, g.a.strides, at)},
                       {"PUT", s.tensor_cores ? "q[u]" : fmt::format("gemv_value_{}(q[u])", name)}});
}

// Brings constants that the producer and the epilogue read to L2 before the kernel waits for its predecessor.
std::string early_text(CudaArguments& arguments, const program::Node& node, const std::vector<loop::Buffer>& buffers) {
  std::map<int, DType> found;
  for (const loop::Body* body : {node.producer ? &node.producer->body : nullptr, &node.body}) {
    if (!body) continue;
    for (auto& step : body->steps)
      if (step.step == Step::Load) found.emplace(step.buffer, step.dtype);
  }
  std::string out;
  for (auto [id, dtype] : found) {
    const loop::Buffer& buffer = buffers[static_cast<size_t>(id)];
    const auto count = buffer.numel.maybe_constant();
    if (buffer.kind != loop::BufferKind::Constant || !count) continue;
    const int64_t bytes = *count * static_cast<int64_t>(size_of(dtype));
    if (bytes > kEarlyBytes) continue;
    out += fmt::format("for (int i = threadIdx.x * 128; i < {}; i += THREADS * 128)\n", bytes);
    out += fmt::format("  asm volatile(\"prefetch.global.L2 [%0];\" ::\"l\"((const u8*){} + i));\n", arguments.pointer(id, dtype));
  }
  return out;
}

// Sums go through the node's body to memory.
CudaGemvEnd stored(CudaArguments& arguments, const program::Node& node) {
  std::vector<std::string> at(std::get<Gemm>(node.problem).batch.size(), "0");
  at.insert(at.end(), {"m", "n"});
  const CudaPoints epilogue = cuda_epilogue(arguments, {node.domain, node.body}, at, "sum", 1);
  return {.name = "gemv", .finish = expand(gemv_cu::kGemvStore, {{"EPILOGUE", epilogue.statements}}), .wide = epilogue.wide};
}

// What differs between the ways to walk B and to multiply.
Substitutions walk_text(const Shape& s, DType weights) {
  const Substitutions type = {{"BNAME", std::string(name_of(weights))}};
  return {{"MYK", s.columns ? "lane / 8" : "lane % 4 * E"},
          {"MYN", s.columns ? "lane % 8 * E" : "lane / 4"},
          {"LIVE", s.columns ? "k < k1 ? (int)max(0ll, min((i64)E, N - n)) : 0" : "n < N ? max(0, min(E, k1 - k)) : 0"},
          {"AT", s.columns ? "k * ldb + n" : "n * ldb + k"},
          {"ACCS", s.tensor_cores ? "4"
                   : s.columns    ? "M * E"
                                  : "M"},
          {"DOT",
           s.tensor_cores ? std::string(gemv_cu::kGemvDotMma) : expand(s.columns ? gemv_cu::kGemvDotColumns : gemv_cu::kGemvDotRows, type)},
          {"KEEP", std::string(s.tensor_cores ? gemv_cu::kGemvKeepMma
                               : s.columns    ? gemv_cu::kGemvKeepColumns
                                              : gemv_cu::kGemvKeepRows)}};
}

Substitutions sizes_text(const Shape& s) {
  return {{"M", number(s.rows)},
          {"S", number(s.how.slices)},
          {"WK", number(s.how.warps_k)},
          {"WN", number(s.warps_n())},
          {"D", number(s.how.depth)},
          {"E", number(s.piece)},
          {"T", number(s.tile)},
          {"K", number(s.k)},
          {"SLICE", number(s.slice)},
          {"STEPS", number(s.steps)},
          {"LANEK", number(s.lane_k)},
          {"KEPT", number(s.how.kept)},
          {"XSTRIDE", number(s.x_stride())},
          {"ROWLENGTH", number(s.row_length())},
          {"XTYPE", s.tensor_cores ? "u16" : "f32"},
          {"XBASE", s.keeps_whole_rows() ? "k0" : "0"}};
}

}  // namespace

std::string cuda_gemv_refusal(const program::Node& node, const CudaGemvTarget& target) {
  const auto& g = std::get<Gemm>(node.problem);
  if (g.b2) return "it has two right operands";
  if (std::string why = operand_refusal(node, g); !why.empty()) return why;
  if (node.producer) {
    if (g.m.constant() > kMaxProducedRows) return fmt::format("computes more than {} rows", kMaxProducedRows);
    if (std::string why = cuda_row_refusal(*node.producer, g.batch.size() + 1); !why.empty()) return why;
  }
  const Shape s = shape_of(node, choose_cuda_gemv_tile(node, target));
  return s.shared_bytes() + kStaticShared > target.shared_bytes ? "rows do not fit shared memory" : "";
}

CudaGemvTile choose_cuda_gemv_tile(const program::Node& node, const CudaGemvTarget& target) {
  const auto& g = std::get<Gemm>(node.problem);
  Shape s = problem_of(node);
  while (s.how.warps_k > 1 && s.step_k() / 2 >= s.k) s.how.warps_k /= 2;
  choose_slices(s, g.n, target);
  choose_kept(s, g.n, target);
  return s.how;
}

void settle_cuda_gemv_tile(const program::Node& node, const CudaGemvTarget& target, CudaGemvTile& t) {
  if (t.warps_k > kWarps || t.slices > target.multiprocessors) return;  // no tile
  Shape s = shape_of(node, t);
  choose_kept(s, std::get<Gemm>(node.problem).n, target);
  t.kept = s.how.kept;
}

std::vector<CudaGemvTile> other_cuda_gemv_tiles(const program::Node& node, const CudaGemvTarget& target) {
  const CudaGemvTile rule = choose_cuda_gemv_tile(node, target);
  std::vector<CudaGemvTile> tiles;
  auto add = [&](int warps_k, int64_t slices, int depth) {
    CudaGemvTile t = rule;
    t.warps_k = warps_k, t.slices = slices, t.depth = depth;
    settle_cuda_gemv_tile(node, target, t);
    tiles.push_back(t);
  };
  for (int depth : {6, 10, 12, 4, 16}) add(rule.warps_k, rule.slices, depth);
  for (int64_t slices : {1, 2, 3, 4, 6, 8}) add(rule.warps_k, slices, rule.depth);
  for (int warps_k : {8, 4, 2, 16}) add(warps_k, rule.slices, rule.depth);
  for (int64_t kept : {rule.kept / 2, int64_t{1}}) {
    tiles.push_back(rule);
    tiles.back().kept = std::max<int64_t>(kept, 1);
  }
  for (int warps_k : {8, 4}) add(warps_k, rule.slices, 12);
  return tiles;
}

std::string cuda_gemv_tile_refusal(const program::Node& node, const CudaGemvTarget& target, const CudaGemvTile& t) {
  constexpr int kMostDepth = 24, kMostSlices = 16, kMostKept = 4096;
  if (t.warps_k > kWarps || kWarps % t.warps_k != 0) return fmt::format("warps_k is no part of {}", kWarps);
  if (t.depth > kMostDepth || t.kept > kMostKept || t.slices > kMostSlices || t.slices > target.multiprocessors)
    return "depth, kept or slices is too large";
  const Shape s = shape_of(node, t);
  if (t.slices > 1 && (t.slices - 1) * s.slice >= s.k) return "k is too short for so many slices";
  return s.shared_bytes() + kStaticShared > target.shared_bytes ? "its ring, rows and sums do not fit shared memory" : "";
}

KernelText generate_cuda_gemv(const program::Node& node, const std::vector<loop::Buffer>& buffers, const CudaGemvTarget& target,
                              const CudaGemvTile& tile, const MakeCudaGemvEnd& make_end) {
  const auto& g = std::get<Gemm>(node.problem);
  const size_t nb = g.batch.size();
  const Shape s = shape_of(node, tile);
  const bool constant = buffers[static_cast<size_t>(g.b.buffer)].kind == loop::BufferKind::Constant;
  CudaArguments arguments;
  const std::string weights = arguments.pointer(g.b.buffer, g.b.dtype);
  const Expr bundles = sym::ceil_div(g.n, s.tile * s.warps_n());
  const Expr groups = sym::min(bundles, Expr(std::max<int64_t>(1, target.multiprocessors / tile.slices)));
  if (tile.slices > 1) {
    arguments.use_scratch(bundles * (tile.slices * s.warps_n() * s.rows * s.tile * 4));
    arguments.use_counters(groups);
  }
  arguments.define(std::string(gemv_cu::kGemvDefinitions));
  if (s.tensor_cores) arguments.define(expand(gemv_cu::kGemvMma, {{"TYPE", std::string(name_of(g.b.dtype))}}));
  bool wide = false;
  const std::string rows = rows_text(arguments, node, s, wide);
  const CudaGemvEnd end = make_end ? make_end(arguments) : stored(arguments, node);
  wide = wide || end.wide;
  Substitutions holes = sizes_text(s);
  for (auto& hole : walk_text(s, g.b.dtype)) holes.push_back(hole);
  const Substitutions rest = {
      {"N", cuda_size(arguments, g.n)},
      {"B", weights},
      {"BTYPE", storage_name(g.b.dtype)},
      {"BOFFSET", cuda_size(arguments, g.b.offset)},
      {"LDB", cuda_size(arguments, g.b.strides[s.columns ? nb : nb + 1])},
      {"EARLY", early_text(arguments, node, buffers)},
      {"WAITFIRST", constant ? "" : "wait_previous();"},
      {"WAITTHEN", constant ? "wait_previous();" : ""},
      {"READX", rows},
      {"BEGIN", end.begin},
      {"FINISH", end.finish},
      {"DELIVER", tile.slices == 1 ? "finish(i, bundle + 1 - kept, total);"
                                   : "((f32*)scratch)[((i64)slice * bundles + bundle + 1 - kept) * (WN * M * T) + i] = total;"}};
  holes.insert(holes.end(), rest.begin(), rest.end());
  const std::string body = expand(gemv_cu::kGemvKernel, holes) + (tile.slices > 1 ? std::string(gemv_cu::kGemvAddSlices) : "") + end.rest;
  KernelText kernel =
      arguments.kernel(cuda_template_name(end.name, node.body), body, kThreads, wide, s.shared_bytes() <= kSharedOfTwo ? 2 : 1, true);
  kernel.tasks = groups * tile.slices;
  const int64_t apart = node.after_meeting ? std::min(kSharedOfOne, target.shared_bytes - kStaticShared) : kSharedOfThree;
  kernel.shared_bytes = static_cast<int>(std::max(s.shared_bytes(), apart));
  kernel.plan = fmt::format("{} {} rows, weights {} {}, {}, {} warps along k, {} slices, rings of {}, sums of {}", end.name, s.rows,
                            name_of(g.b.dtype), s.columns ? "[k, n]" : "[n, k]", s.tensor_cores ? "tensor cores" : "fma", tile.warps_k,
                            tile.slices, tile.depth, tile.kept);
  return kernel;
}

CudaGemvTarget cuda_gemv_target(const device::cuda::GpuInfo& gpu) {
  return {.multiprocessors = gpu.multiprocessors, .shared_bytes = static_cast<int64_t>(gpu.shared_bytes)};
}

Tiling<CudaGemvTile> cuda_gemv_tiling(const program::Node& product, const CudaGemvTarget& target) {
  Tiling<CudaGemvTile> how;
  how.rule = [=, &product] { return choose_cuda_gemv_tile(product, target); };
  how.others = [=, &product] { return other_cuda_gemv_tiles(product, target); };
  how.refusal = [=, &product](const CudaGemvTile& t) { return cuda_gemv_tile_refusal(product, target, t); };
  how.settle = [=, &product](CudaGemvTile& t) { settle_cuda_gemv_tile(product, target, t); };
  how.settled = "kept";
  return how;
}

Form cuda_gemv_form(const CudaSite& site) {
  const CudaGemvTarget target = cuda_gemv_target(site.gpu);
  const program::Node& node = site.node;
  const auto& buffers = site.program.buffers;
  Tiling<CudaGemvTile> how = cuda_gemv_tiling(node, target);
  how.generate = [=, &node, &buffers](const CudaGemvTile& t) { return generate_cuda_gemv(node, buffers, target, t); };
  Form form = make_form("gemv", cuda_gemv_refusal(node, target), how);
  const auto& g = site.problem<program::Gemm>();
  if (typical_size(g.m) > kCudaGemvFewRows && gemm_wgmma_refusal(node, g, site.gpu).empty())
    form.reluctance = "tiles of gemm_wgmma are faster";
  return form;
}

}  // namespace toroid::codegen
