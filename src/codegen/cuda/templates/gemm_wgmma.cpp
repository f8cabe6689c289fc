#include "codegen/cuda/templates/gemm_wgmma.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

constexpr int kColumns = 8;  // that a thread stores at once
// Products of more rows begin when a meeting before them has ended: beside it they and the meeting take up to 6 % longer (two H200s, 128 to
// 1024 rows); those of up to 64 rows gain.
constexpr int64_t kRowsBesideMeeting = 64;

// A matrix of a Gemm: `outer` is m or n.
struct Matrix {
  const program::Operand& operand;
  const Expr &outer, &k, &outer_stride, &k_stride;
  bool k_contiguous() const { return k_stride == Expr(1) || k == Expr(1); }
  const Expr& inner_size() const { return k_contiguous() ? k : outer; }
  int aligned() const { return static_cast<int>(16 / size_of(operand.dtype)); }  // elements of 16 bytes
  const Expr& row_size() const { return k_contiguous() ? outer : k; }
  // One row has no stride, but a tensor map wants one.
  Expr row_stride() const {
    return row_size() == Expr(1) ? sym::ceil_div(inner_size(), aligned()) * Expr(aligned()) : k_contiguous() ? outer_stride : k_stride;
  }
};

Matrix matrix_a(const program::Gemm& g) {
  const size_t nb = g.batch.size();
  return {g.a, g.m, g.k, g.a.strides[nb], g.a.strides[nb + 1]};
}
Matrix matrix_b(const program::Gemm& g, const program::Operand& b) {
  const size_t nb = g.batch.size();
  return {b, g.n, g.k, b.strides[nb + 1], b.strides[nb]};
}
Matrix matrix_b(const program::Gemm& g) { return matrix_b(g, g.b); }

// Batch dimensions along which a matrix differs.
std::vector<size_t> moving_dims(const program::Gemm& g, const program::Operand& o) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < g.batch.size(); ++d)
    if (!(o.strides[d] == Expr(0)) && !(g.batch[d] == Expr(1))) dims.push_back(d);
  return dims;
}

std::string matrix_refusal(const program::Gemm& g, const Matrix& x) {
  if (!x.k_contiguous() && !(x.outer_stride == Expr(1)) && !(x.outer == Expr(1))) return "no dimension is contiguous";
  auto aligned = [&](const Expr& e) { return sym::known_multiple(e, x.aligned()); };
  if (!aligned(x.operand.offset) || !aligned(x.row_stride())) return "rows are not aligned to 16 bytes";
  if (!sym::known_ge(x.row_stride(), 1)) return "rows overlap";
  const std::vector<size_t> dims = moving_dims(g, x.operand);
  constexpr size_t kMostDims = 3;  // of the 5 of a tensor map
  if (dims.size() > kMostDims) return "too many batch dimensions";
  for (size_t d : dims)
    if (!aligned(x.operand.strides[d]) || !sym::known_ge(x.operand.strides[d], 1)) return "batches are not aligned to 16 bytes";
  return "";
}

// Clusters that run at a time: the groups of processors (GPCs) that a cluster stays in are not all of one size.
int64_t clusters_at_a_time(int cluster, int processors) {
  constexpr double kShare = 0.91;
  return cluster <= 2 ? processors / cluster : std::max<int64_t>(1, static_cast<int64_t>(processors * kShare / cluster));
}

// Of a tile of the result.
int columns_of(const program::Gemm& g, const WgmmaTile& tile) { return g.b2 ? tile.block_n / 2 : tile.block_n; }

// Whether points that are computed twice come out the same.
bool may_run_twice(const loop::Body& body) {
  const std::vector<int> reads = loop::buffers_read(body), writes = loop::buffers_written(body);
  return std::none_of(writes.begin(), writes.end(), [&](int b) { return std::find(reads.begin(), reads.end(), b) != reads.end(); }) &&
         std::none_of(body.steps.begin(), body.steps.end(),
                      [](auto& s) { return s.step == loop::Step::Store && s.mode != loop::StoreMode::Set; });
}

WgmmaOperand operand_of(CudaArguments& arguments, const program::Gemm& g, const Matrix& x, int box_rows, const std::vector<std::string>& at,
                        int neighbours = 0) {
  device::cuda::TensorMap map;
  map.buffer = x.operand.buffer;
  map.dtype = x.operand.dtype;
  map.tf32 = g.tf32;
  map.offset = x.operand.offset;
  map.sizes = {x.inner_size(), x.row_size()};
  map.strides = {x.row_stride()};
  map.box = {x.k_contiguous() ? wgmma_block_k(map.dtype) : 64, box_rows};
  map.swizzle = 128;
  WgmmaOperand o;
  o.k_contiguous = x.k_contiguous();
  for (size_t d : moving_dims(g, x.operand)) {
    map.sizes.push_back(g.batch[d]);
    map.strides.push_back(x.operand.strides[d]);
    map.box.push_back(1);
    o.batch += ", " + at[d];
  }
  if (neighbours) map = in_order_of_lanes(std::move(map), neighbours);
  o.rank = static_cast<int>(map.sizes.size());
  o.map = arguments.tensor_map(std::move(map));
  return o;
}

}  // namespace

device::cuda::TensorMap in_order_of_lanes(device::cuda::TensorMap map, int begin) {
  const Expr row = map.strides[0], n = map.sizes[1];
  const int count = map.box[1] / kQuadColumns;
  if (begin == 1)
    map.sizes = {map.sizes[0], n, 4, 4, count};
  else if (begin == kQuadColumns)
    map.sizes = {map.sizes[0], 2, 4, 4, sym::floor_div(n, kQuadColumns)};
  else
    map.sizes = {map.sizes[0], 2, sym::floor_div(n, 8), 4, count};
  map.strides = {row, row * Expr(8), row * Expr(2), row * Expr(kQuadColumns)};
  map.box = {map.box[0], 2, 4, 4, count};
  return map;
}

std::string gemm_wgmma_refusal(const program::Node& node, const program::Gemm& g) {
  if (node.producer) return "rows of A are computed";
  if (std::string why = tensor_core_refusal(g.a.dtype, g.b.dtype, g.tf32); !why.empty()) return why;
  if (g.accumulate != DType::F32) return "sums are not f32";
  if (!sym::known_ge(g.k, 1)) return "k may be 0";
  const std::string a = matrix_refusal(g, matrix_a(g)), b = matrix_refusal(g, matrix_b(g));
  if (g.tf32 && !(matrix_a(g).k_contiguous() && matrix_b(g).k_contiguous())) return "tf32 that is not contiguous along k";
  const std::string b2 = g.b2 ? matrix_refusal(g, matrix_b(g, *g.b2)) : "";
  return !a.empty() ? "A: " + a : !b.empty() ? "B: " + b : !b2.empty() ? "the second B: " + b2 : "";
}

KernelText generate_gemm_wgmma(const program::Node& node, const program::Gemm& g, const WgmmaTile& tile, int processors, bool overlaps) {
  CudaArguments arguments;
  std::vector<std::string> at = cuda_unflatten(arguments, "batch", g.batch);
  GemmWgmma w;
  w.type = g.a.dtype;
  w.sums = sums_of_columns(arguments, node.body);
  w.tile = with_room_for_sums(tile, w.sums.size());
  const int columns = columns_of(g, tile);
  const bool whole_rows = sym::known_multiple(g.m, tile.block_m * tile.share),
             whole_columns = sym::known_multiple(g.n, columns * tile.beside);
  const bool twice = may_run_twice(node.body);
  const Matrix a = matrix_a(g), b = matrix_b(g);
  w.a.k_contiguous = a.k_contiguous();
  w.b.k_contiguous = b.k_contiguous();
  // Copies begin at multiples of 16 bytes of what is contiguous; others are illegal instructions.
  const bool rows_anywhere = w.a.k_contiguous || sym::known_multiple(g.m, kColumns);
  w.last_row_early = !whole_rows && twice && rows_anywhere && sym::known_ge(g.m, tile.block_m);
  const loop::Nest points{node.domain, node.body};
  w.around = begins_anywhere(points, kColumns);
  const bool eights = sym::known_multiple(g.n, kColumns);
  w.last_column_early = !whole_columns && twice && sym::known_ge(g.n, columns) && (eights || (w.around && w.b.k_contiguous));
  w.whole_tiles = (w.last_row_early || whole_rows) && (w.last_column_early || whole_columns);
  w.overlaps = overlaps && !(node.after_meeting && typical_size(g.m) > kRowsBesideMeeting);
  w.a = operand_of(arguments, g, a, wgmma_box_rows_a(w), at);
  if (g.b2) w.b2.emplace();
  auto fits = [&](const program::Operand& o) { return matrix_b(g, o).k_contiguous() && moving_dims(g, o).empty(); };
  const bool never_crosses = whole_columns || w.last_column_early;
  if (fits(g.b) && (!g.b2 || fits(*g.b2)) && takes_neighbours(tile, g.b2.has_value()))
    w.neighbours = sym::known_multiple(g.n, kQuadColumns) ? kQuadColumns : never_crosses ? (eights ? kColumns : 1) : 0;
  w.b = operand_of(arguments, g, b, wgmma_box_rows_b(w), at, w.neighbours);
  if (g.b2) w.b2 = operand_of(arguments, g, matrix_b(g, *g.b2), wgmma_box_rows_b(w), at, w.neighbours);
  Expr batch = 1;
  for (auto& e : g.batch) batch = batch * e;
  w.m = cuda_size(arguments, g.m);
  w.n = cuda_size(arguments, g.n);
  w.k = cuda_size(arguments, g.k);
  w.batches = cuda_size(arguments, batch);
  at.insert(at.end(), {"m", "n"});
  if (w.around && !w.whole_tiles) at[at.size() - 2] = "(m < M ? m : M - 1)";
  const CudaPoints epilogue =
      w.around ? cuda_epilogue_around(arguments, points, at, "acc", kColumns, {.aligned = eights, .whole = w.whole_tiles}, true)
               : cuda_epilogue(arguments, points, at, "acc", kColumns, true);
  w.epilogue = epilogue.statements, w.near = epilogue.near, w.far = epilogue.far, w.carried = epilogue.carried;
  return wgmma_kernel(arguments, w, "gemm_wgmma", node, epilogue, g, processors);
}

KernelText wgmma_kernel(CudaArguments& arguments, const GemmWgmma& w, const std::string& name, const program::Node& node,
                        const CudaPoints& epilogue, const program::Gemm& g, int processors) {
  const WgmmaTile& tile = w.tile;
  const int columns = columns_of(g, tile);
  Expr batch = 1;
  for (auto& e : g.batch) batch = batch * e;
  const Expr clusters = sym::ceil_div(g.m, tile.block_m * tile.share) * sym::ceil_div(g.n, columns * tile.beside) * batch;
  if (tile.slices > 1) {
    arguments.use_scratch(clusters * Expr(wgmma_scratch_bytes(tile)));
    arguments.use_counters(clusters * Expr(tile.cluster() * kWgmmaCounters));
  }
  const GemmWgmmaText text = gemm_wgmma_text(w);
  arguments.define(text.definitions);
  KernelText k = arguments.kernel(cuda_template_name(name, node.body), text.body, wgmma_threads(tile), epilogue.wide, 1, w.overlaps);
  if (tile.cluster() > 1) run_in_clusters(k, tile.cluster());
  k.shared_bytes = wgmma_shared_bytes(tile) + wgmma_sums_bytes(tile, w.sums.size());
  k.tasks = tile.split * tile.slices > 1 ? clusters * Expr(tile.cluster() * tile.slices)
                                         : sym::min(clusters, clusters_at_a_time(tile.cluster(), processors)) * Expr(tile.cluster());
  k.plan = fmt::format("{}: tiles of {} x {}{} x {}, {} stages, split {} x {}, share {} x {}{}\n", name, tile.block_m, g.b2 ? "2 * " : "",
                       columns, wgmma_block_k(g.a.dtype), tile.stages, tile.split, tile.slices, tile.share, tile.beside,
                       tile.alternate ? ", in turn" : "") +
           loop::to_string(node.domain, node.body);
  return k;
}

// --- the choice of a tile -------------------------------------------------------------------------------------------------------------

namespace {

constexpr int kSharedLimit = 227 * 1024;

// The tile with as many stages as fit.
WgmmaTile tile_of(int block_m, int block_n, int consumers, int split, int share = 1, bool alternate = false, int beside = 1) {
  WgmmaTile t{
      .block_m = block_m, .block_n = block_n, .stages = 0, .split = split, .consumers = consumers, .share = share, .beside = beside};
  t.alternate = alternate;
  settle_wgmma_tile(t);
  return t;
}

// What the time of a tile depends on besides the sizes. size: bytes of an element, of the result, too. aligned: rows of both operands begin
// at multiples of 32 bytes, L2's sectors. streams: k is no operand's contiguous dimension. in_order: see GemmWgmma::neighbours. around:
// rows of the result begin anywhere.
struct Manner {
  int size;
  bool aligned, streams, in_order, around;
};

// Microseconds, from rates measured on an H200. n: columns of both right operands.
double expected_time(const WgmmaTile& t, const WgmmaSizes& s, int64_t n, const Manner& how) {
  const auto& [size, aligned, streams, in_order, around] = how;
  const int64_t m = s.m, k = s.k, batch = s.batch;
  const int processors = s.processors;
  // A microsecond and multiprocessor: multiply-adds, bytes to another block of a cluster, bytes from L2: fewer where parts of sums read
  // other memory than each other.
  constexpr double kProducts = 3.27e6, kExchange = 4e4, kFromL2 = 1.2e5;
  const double from_l2 = !aligned ? 4.6e4 : t.slices > 1 ? 8.5e4 : t.split > 1 ? 9.4e4 : kFromL2;
  constexpr double kMemory = 4.1e6;  // bytes a microsecond
  constexpr double kStep = 0.165;    // the least time from one stage to the next
  constexpr double kAround = 1.65;
  const double element = (in_order ? 4e-5 : 5e-5) * size * (around ? kAround : 1.0);  // to store one of a tile
  constexpr double kLaunch = 1.2, kSplit = 0.3, kMeet = 1.4, kSlice = 0.45, kGather = 5;
  constexpr double kHandOver = 0.45, kShared = 0.99, kSharedWindow = 1.08, kMeetCluster = 0.5;
  const double area = double(t.block_m) * t.block_n;
  const int64_t rows = ceil_div(m, t.block_m * t.share), clusters = rows * ceil_div(n, t.block_n * t.beside) * batch * t.slices;
  const int64_t at_a_time = clusters_at_a_time(t.cluster(), processors), waves = ceil_div(clusters, at_a_time);
  const auto steps = static_cast<double>(ceil_div(ceil_div(k * size, 128), t.split * t.slices));
  // Smaller tiles read more of shared memory for each product.
  const double smaller = t.block_m > 128                       ? (t.block_n >= 128 ? 1.05 : 1.07)
                         : area >= 128 * 256                   ? 1.0
                         : t.block_m >= 128 && t.block_n < 128 ? (t.alternate ? 1.12 : 1.18)
                         : area > 128 * 192                    ? 1.03
                         : area > 128 * 128                    ? 1.045
                                                               : 1.07;
  const double copied = double(t.block_m) / t.beside + double(t.block_n) / t.share;
  constexpr double kWindow = 5.7e4;  // bytes of a window that a multiprocessor copies in a microsecond
  const double window = s.window ? t.block_m * 128 / kWindow : 0;
  const double step = std::max({area * 64 / kProducts * smaller, copied * 128 / from_l2, window, kStep});
  // Rows (columns) of tiles beyond the first read B (A) from L2 mostly; idle multiprocessors leave memory idle too.
  constexpr double kAgain = 1.3;
  double again_a = n > t.block_n * t.beside ? kAgain : 1.0, again_b = rows > 1 ? kAgain : 1.0;
  // Of few rows and columns and a long k both operands pass by, and each further tile of a row (column) takes a share of what the first
  // did.
  constexpr int64_t kFewElements = 1 << 17;
  constexpr double kEachAgain = 0.45;
  const bool passes = streams && !s.window && m * n <= kFewElements;
  if (passes) {
    again_a = 1 + kEachAgain * double(ceil_div(n, t.block_n * t.beside) - 1);
    again_b = 1 + kEachAgain * double(rows - 1);
  }
  const double used = double(clusters * t.cluster()) / double(waves * processors);
  const double bytes = double(size) * double(batch) * (double(m * k) * s.share_of_a * again_a + double(n * k) * again_b + double(m * n));
  const double narrow = t.block_n >= 96 || passes ? 1.0 : t.block_n == 64 ? 0.88 : 0.7;  // few rows of B are asked for at a time
  const double memory = bytes / kMemory / narrow / (0.6 + 0.4 * std::min(1.0, used));
  const double store = area * element / t.split * (t.consumers == 1 ? 1.3 : 1.0);
  // In turn: only the last tile's sums are stored while nothing multiplies; two wgmmas a step are taken over less smoothly.
  const double between = !t.alternate ? store : t.block_m > 64 ? kHandOver : kHandOver / 2;
  double time = kLaunch + store + std::max(double(waves) * (steps * step + between) - between, memory);
  if (t.share * t.beside > 1) time = time * (s.window ? kSharedWindow : kShared) + kMeetCluster;
  if (t.slices > 1)
    time += wgmma_adds_together(t) ? kGather + area / t.split * 8 / kFromL2
                                   : kMeet + kSlice * t.slices + area / t.split * 4 * t.slices / kFromL2;
  if (t.split > 1) time += kSplit * (t.split - 1) + area * 4 * (t.split - 1) / t.split / kExchange;
  return time;
}

}  // namespace

void settle_wgmma_tile(WgmmaTile& t) {
  t.stages = 0;
  const int fixed = wgmma_shared_bytes(t);
  t.stages = 1;
  const int stage = std::max(wgmma_shared_bytes(t) - fixed, 1);
  constexpr int kMostStages = 12;
  t.stages = std::min(kMostStages, (kSharedLimit - fixed) / stage);
}

namespace {

// Clusters that share a tile's k: gradients of weights have few tiles and a long k, where any number fills the GPU better.
std::vector<int> slices_of(const program::Gemm& g) {
  if (matrix_a(g).k_contiguous() || matrix_b(g).k_contiguous()) return {2, 4, 8, 16};
  return {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 26, 28, 32};
}

}  // namespace

std::vector<WgmmaTile> wgmma_tiles(const program::Gemm& g, bool window) {
  std::vector<WgmmaTile> tiles;
  const bool boxes = !matrix_b(g).k_contiguous();
  auto takes = [columns = (boxes ? 64 : 16) * (g.b2 ? 2 : 1)](int block_n) { return block_n % columns == 0; };
  for (int block_n : {256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64}) {
    if (!takes(block_n)) continue;
    for (int split : {1, 2, 4})
      if (split == 1 || block_n <= 128) tiles.push_back(tile_of(128, block_n, 2, split));
    if (block_n >= 128) tiles.push_back(tile_of(128, block_n, 2, 1, 2));
    if (block_n >= 96 && block_n <= 160) {
      tiles.push_back(tile_of(256, block_n, 2, 1));
      tiles.push_back(tile_of(256, block_n, 2, 1, 2));
      tiles.push_back(tile_of(256, block_n, 2, 1, 1, false, 2));
    }
    if (block_n <= 128)
      for (int share : {1, 2}) tiles.push_back(tile_of(128, block_n, 2, 1, share, true));
  }
  // One warpgroup reads A from shared memory once; many columns keep two busy.
  for (int block_n : {256, 192, 128, 96, 64, 32})
    for (int split : {1, 2, 4})
      if (takes(block_n)) tiles.push_back(tile_of(64, block_n, block_n >= 128 ? 2 : 1, split));
  for (int block_n : {176, 160, 144, 112})
    if (takes(block_n)) tiles.push_back(tile_of(64, block_n, block_n % 32 == 0 ? 2 : 1, 1));
  if (takes(192)) tiles.push_back(tile_of(64, 192, 2, 1, 1, true));
  if (window) std::erase_if(tiles, [](auto& t) { return t.beside > 1; });
  if (boxes) std::erase_if(tiles, [](auto& t) { return !takes_boxes(t); });
  if (g.b2) {
    std::erase_if(tiles, [](auto& t) { return !takes_pair(t); });
    return tiles;
  }
  // Slices, of the tiles that read least.
  for (size_t i = 0, count = tiles.size(); i < count; ++i) {
    WgmmaTile t = tiles[i];
    if (t.cluster() > 2 * t.split || t.alternate || t.block_n % 64 != 0 || (t.block_n > 128 && t.cluster() == 1)) continue;
    for (int slices : slices_of(g)) {
      t.slices = slices;
      tiles.push_back(t);
    }
  }
  return tiles;
}

namespace {

// Whether a tile of wgmma_tiles() makes sense.
bool suits(const program::Gemm& g, const WgmmaSizes& s, const WgmmaTile& t) {
  if (s.sums && !takes_sums(t)) return false;
  const int64_t n = g.b2 ? 2 * s.n : s.n;
  if ((t.beside > 1 && s.n <= t.block_n) || (t.block_m > 64 && s.m <= t.block_m / 2)) return false;
  if (t.share > 1 && (s.m <= t.block_m || !matrix_b(g).k_contiguous())) return false;
  // Turns are for blocks of many tiles, and not where reading B is most of the work.
  constexpr int64_t kManyRows = 1024;
  if (t.alternate && (s.m < kManyRows || ceil_div(s.m, t.block_m) * ceil_div(n, t.block_n) * s.batch <= s.processors)) return false;
  const int parts = t.split * t.slices;
  const int64_t clusters = ceil_div(s.m, t.block_m * t.share) * ceil_div(n, t.block_n * t.beside) * s.batch;
  return parts == 1 ||
         (parts <= ceil_div(s.k, wgmma_block_k(g.a.dtype)) && clusters * t.slices <= clusters_at_a_time(t.cluster(), s.processors));
}

}  // namespace

std::vector<WgmmaTile> ranked_wgmma_tiles(const program::Gemm& g, const WgmmaSizes& s) {
  auto aligned_rows = [](const Matrix& x) { return sym::known_multiple(x.row_stride(), 2 * x.aligned()); };
  const bool aligned = aligned_rows(matrix_a(g)) && aligned_rows(matrix_b(g));
  const bool columns = matrix_b(g).k_contiguous() && moving_dims(g, g.b).empty(), eights = sym::known_multiple(g.n, kColumns);
  const bool streams = !matrix_a(g).k_contiguous() && !matrix_b(g).k_contiguous();
  std::vector<std::pair<double, WgmmaTile>> timed;
  for (const WgmmaTile& t : wgmma_tiles(g, s.window))
    if (suits(g, s, t))
      timed.emplace_back(
          expected_time(t, s, g.b2 ? 2 * s.n : s.n,
                        {.size = static_cast<int>(size_of(g.a.dtype)),
                         .aligned = aligned,
                         .streams = streams,
                         .in_order = columns && (eights || (!s.window && s.n >= t.block_n)) && takes_neighbours(t, g.b2.has_value()),
                         .around = !eights}),
          t);
  std::stable_sort(timed.begin(), timed.end(), [](auto& x, auto& y) { return x.first < y.first; });
  std::vector<WgmmaTile> tiles;
  for (auto& [time, t] : timed) tiles.push_back(t);
  return tiles;
}

WgmmaTile choose_wgmma_tile(const program::Gemm& g, const WgmmaSizes& s) {
  const std::vector<WgmmaTile> tiles = ranked_wgmma_tiles(g, s);
  TOROID_CHECK(!tiles.empty(), "no tile suits a product of {} x {} x {}", s.m, s.n, s.k);
  return tiles[0];
}

std::string wgmma_tile_refusal(const program::Gemm& g, const WgmmaSizes& s, const WgmmaTile& t) {
  for (const WgmmaTile& known : wgmma_tiles(g, s.window)) {
    WgmmaTile same = known;
    same.stages = t.stages;
    if (same == t && t.stages <= known.stages) return suits(g, s, t) ? "" : "such a tile makes no sense for these sizes";
  }
  return "there is no such tile";
}

std::string gemm_wgmma_refusal(const program::Node& node, const program::Gemm& g, const device::cuda::GpuInfo& gpu) {
  return gpu.is_hopper() ? gemm_wgmma_refusal(node, g) : "the GPU has no wgmma";
}

WgmmaSizes wgmma_sizes(const program::Gemm& g, int processors) {
  WgmmaSizes s{.m = typical_size(g.m), .n = typical_size(g.n), .k = typical_size(g.k), .processors = processors};
  for (auto& e : g.batch) s.batch *= typical_size(e);
  return s;
}

std::vector<std::string> sums_of_columns(CudaArguments& arguments, const loop::Body& body) {
  std::vector<std::string> out;
  for (auto& s : body.steps)
    if (loop::stores_sum(s)) out.push_back(arguments.pointer(s.buffer, s.dtype));
  return out;
}

std::string wgmma_sums_refusal(const loop::Nest& points, const program::Gemm& g, WgmmaSizes sizes, const program::Config& config) {
  constexpr int kColumns = 8;  // that a thread stores at once
  if (begins_anywhere(points, kColumns)) return "rows of the result begin anywhere";
  const WgmmaTile rule = choose_wgmma_tile(g, sizes), tile = config.empty() ? rule : tile_of(config, rule);
  sizes.sums = true;
  // Another width costs little, but where several blocks share a tile there is little to read again.
  const bool takes = config.empty() ? tile.split * tile.slices == 1 && !ranked_wgmma_tiles(g, sizes).empty() : takes_sums(tile);
  return takes ? "" : fmt::format("tiles of {} x {} in {} parts leave none", tile.block_m, tile.block_n, tile.split * tile.slices);
}

Tiling<WgmmaTile> wgmma_tiling(const program::Gemm& g, const WgmmaSizes& sizes, std::function<KernelText(const WgmmaTile&)> generate) {
  Tiling<WgmmaTile> how;
  how.rule = [=] { return choose_wgmma_tile(g, sizes); };
  how.others = [=] { return ranked_wgmma_tiles(g, sizes); };
  how.refusal = [=](const WgmmaTile& t) { return wgmma_tile_refusal(g, sizes, t); };
  how.generate = std::move(generate);
  how.settle = settle_wgmma_tile;
  how.settled = "stages";
  return how;
}

Form cuda_gemm_wgmma_form(const CudaSite& site) {
  const program::Node& node = site.node;
  const auto& g = site.problem<program::Gemm>();
  const int processors = site.gpu.multiprocessors;
  WgmmaSizes sizes = wgmma_sizes(g, processors);
  sizes.sums = leaves_sums(node.body);
  Form form = make_form("gemm_wgmma", gemm_wgmma_refusal(node, g, site.gpu),
                        wgmma_tiling(g, sizes, [=, &node, &g](auto& t) { return generate_gemm_wgmma(node, g, t, processors, true); }));
  form.sums_refusal = [=, &node, &g](const program::Config& config) {
    return wgmma_sums_refusal({node.domain, node.body}, g, sizes, config);
  };
  return form;
}

}  // namespace toroid::codegen
