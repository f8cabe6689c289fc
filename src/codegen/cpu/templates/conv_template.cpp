#include "codegen/cpu/templates/conv_template.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cpu/templates/conv.c.h"
#include "codegen/cpu/templates/conv_plan.h"

namespace toroid::codegen {
namespace {

bool one_tap(const ConvPlan& p) {
  const ConvShape& s = p.c.shape;
  return s.kernel_h == 1 && s.kernel_w == 1 && s.pad_top == 0 && s.pad_left == 0 && s.pad_bottom == 0 && s.pad_right == 0 &&
         (p.blocks == 1 || p.block_stride == p.block_channels * p.channel_stride);
}

// Sums over `channels` (C text) channels at `in` and `taps`, for the pixels that have data there.
std::string channel_loop_text(const ConvPlan& p, const std::string& channels, TapRange pixels) {
  const int vecs = p.c.tile.vecs, lanes = p.c.tile.lanes;
  std::string loads, fma;
  for (int v = 0; v < vecs; ++v) loads += fmt::format("const vf32 w{0} = t_load(taps + k * {1} + {2});\n", v, p.oc_tile, v * lanes);
  for (int64_t i = pixels.first; i < pixels.last; ++i) {
    fma += fmt::format("{{ const vf32 v = (vf32)(in[{} + k * {}]);", i * p.c.shape.stride_w * p.pixel_stride, p.channel_stride);
    for (int v = 0; v < vecs; ++v) fma += fmt::format(" s{}_{} += v * w{};", i, v, v);
    fma += " }\n";
  }
  loads.pop_back();
  fma.pop_back();
  return expand(R"(#pragma clang loop unroll(disable)
for (int64_t k = 0; k < @CHANNELS@; ++k, ahead += 64) {
  __builtin_prefetch(ahead, 0, 2);
  @LOADS@
  @FMA@
})",
                {{"CHANNELS", channels}, {"LOADS", loads}, {"FMA", fma}});
}

// Sums over the channels of a block for tap columns [kw0, kw1), which all have data for the same pixels.
std::string tap_run_text(const ConvPlan& p, int64_t kw0, int64_t kw1, TapRange pixels) {
  const std::string step = std::to_string(p.block_channels * p.oc_tile);
  const std::string head = kw1 - kw0 == 1
                               ? fmt::format("{{\n  const int64_t kw = {};", kw0)
                               : fmt::format("#pragma clang loop unroll(disable)\nfor (int64_t kw = {}; kw < {}; ++kw) {{", kw0, kw1);
  return expand(R"(@HEAD@
  const float* const in = row + kw * @TAP@;
  @CHANNEL_LOOP@
  taps += @STEP@;
})",
                {{"HEAD", head},
                 {"STEP", step},
                 {"TAP", std::to_string(p.c.shape.dilation_w * p.pixel_stride)},
                 {"CHANNEL_LOOP", channel_loop_text(p, std::to_string(p.block_channels), pixels)}});
}

std::string tile_text(const ConvPlan& p, int kind_index) {
  const TileKind& kind = p.kinds[kind_index];
  const ConvShape& s = p.c.shape;
  const int vecs = p.c.tile.vecs, lanes = p.c.tile.lanes;
  std::string accs, add, store, runs;
  for (int64_t i = 0; i < kind.pixels; ++i) {
    accs += "vf32";
    for (int v = 0; v < vecs; ++v) {
      const int64_t at = i * p.oc_tile + v * lanes;
      const char* end = v + 1 < vecs ? " " : "\n";
      accs += fmt::format("{} s{}_{} = {{0}}", v ? "," : "", i, v);
      add += fmt::format("s{}_{} += t_load(tile + {});{}", i, v, at, end);
      store += fmt::format("t_store(tile + {}, s{}_{});{}", at, i, v, end);
    }
    accs += ";\n";
  }
  const int64_t step = p.block_channels * p.oc_tile;
  for (int64_t kw = 0; kw < s.kernel_w;) {
    int64_t end = kw + 1;
    while (end < s.kernel_w && kind.taps[end] == kind.taps[kw]) ++end;
    if (kind.taps[kw].first < kind.taps[kw].last) {
      runs += tap_run_text(p, kw, end, kind.taps[kw]) + "\n";
    } else {
      runs += fmt::format("taps += {};\n", (end - kw) * step);
    }
    kw = end;
  }
  for (std::string* text : {&accs, &add, &store, &runs}) text->pop_back();
  const std::string taps = std::to_string(s.kernel_w * step), block_stride = std::to_string(p.block_stride);
  const std::string sum = one_tap(p) ? expand(conv_c::kSumOneTap, {{"BLOCK_STRIDE", block_stride},
                                                                   {"TAPS", taps},
                                                                   {"CHANNELS", std::to_string(p.block_channels)},
                                                                   {"CHANNEL_LOOP", channel_loop_text(p, "depth", {0, kind.pixels})}})
                                     : expand(conv_c::kSum, {{"BLOCK_STRIDE", block_stride},
                                                             {"TAP_ROW", std::to_string(s.dilation_h * p.row_stride)},
                                                             {"KH", std::to_string(s.kernel_h)},
                                                             {"TAPS", taps},
                                                             {"RUNS", runs}});
  return expand(conv_c::kTile, {{"NAME", p.c.name},
                                {"KIND", std::to_string(kind_index)},
                                {"PIXELS", std::to_string(kind.pixels)},
                                {"VECS", std::to_string(vecs)},
                                {"ACCS", accs},
                                {"SUM", sum},
                                {"ADD", add},
                                {"STORE", store}});
}

constexpr int64_t kStateFloats = 16;  // floats before what a thread keeps: the mark of a launch, and which tile it has packed

bool keeps_weights(const ConvConfig& c) { return c.weights != ConvWeights::Packed && !c.shape.depthwise(); }
int64_t kept_floats(const ConvPlan& p) { return keeps_weights(p.c) ? kStateFloats + p.tile_weights() : 0; }
int64_t partial_floats(const ConvPlan& p) { return p.c_chunks > 1 ? p.c.tile.block_rows * p.width * p.oc_tile : 0; }

// Where a weight of an output channel lies in the packed ones of its tile: `i` is its number in memory.
std::string packed_row(const ConvPlan& p) {
  const int64_t taps = p.c.shape.kernel_h * p.c.shape.kernel_w;
  const bool channels_first = p.c.weights == ConvWeights::Oihw;
  return expand(
      channels_first ? "(i / @TAPS@ / @BLOCK@ * @TAPS@ + i % @TAPS@) * @BLOCK@ + i / @TAPS@ % @BLOCK@"
                     : "(i % @CHANNELS@ / @BLOCK@ * @TAPS@ + i / @CHANNELS@) * @BLOCK@ + i % @CHANNELS@ % @BLOCK@",
      {{"TAPS", std::to_string(taps)}, {"BLOCK", std::to_string(p.block_channels)}, {"CHANNELS", std::to_string(p.group_channels)}});
}

// Statements that set `w` to the packed weights of the tile of output channels.
std::string weights_text(const ConvPlan& p) {
  const ConvConfig& c = p.c;
  if (!keeps_weights(c))
    return fmt::format("const float* const w = (const float*)bufs[{}] + (group * OC_TILES + oc_tile) * BLOCKS * block_weights;",
                       c.weight_buffer);
  return expand(R"(if (*held_tile != group * OC_TILES + oc_tile) {
  *held_tile = group * OC_TILES + oc_tile;
  @NAME@_turn((const float*)bufs[@WEIGHT@] + @OFFSET@ + oc0 * @STRIDE@, @STRIDE@, columns, @LENGTH@, packed);
}
const float* const w = packed;)",
                {{"NAME", c.name},
                 {"WEIGHT", std::to_string(c.weight_buffer)},
                 {"OFFSET", std::to_string(c.weight_offset)},
                 {"STRIDE", std::to_string(c.weight_stride)},
                 {"LENGTH", std::to_string(c.shape.kernel_h * c.shape.kernel_w * p.group_channels)}});
}

std::string entry_text(const ConvPlan& p) {
  const ConvConfig& c = p.c;
  const ConvShape& s = c.shape;
  const auto n = [](int64_t x) { return std::to_string(x); };
  const bool partial = p.c_chunks > 1;
  const int64_t max_pixels = std::max_element(p.kinds.begin(), p.kinds.end(), [](auto& a, auto& b) { return a.pixels < b.pixels; })->pixels;
  std::string scratch;
  if (conv_scratch_bytes(c) > 0)
    scratch = fmt::format("float* const scratch = (float*)bufs[{}] + (int64_t)thread * {};\n", c.scratch_buffer, conv_scratch_bytes(c) / 4);
  if (keeps_weights(c))
    scratch += fmt::format(
        "int64_t* const held_tile = (int64_t*)scratch + 1;\nfloat* const packed = scratch + {};\n"
        "if (*(int64_t*)scratch) *(int64_t*)scratch = 0, *held_tile = -1;\n",
        kStateFloats);
  scratch += partial ? fmt::format("float* const partial = scratch + {};", kept_floats(p))
                     : fmt::format("float small_tile[{} * OC_TILE] __attribute__((aligned(64)));", max_pixels);
  const std::string call = expand(
      R"(float* tile = @TILE@;
@NAME@_tile_@KIND@(x + ow * @STEP_W@, w, c0, c1, kh0, kh1, tile, c0 > 0, ahead);
ahead = ahead + (c1 - c0) * @LINES@ < ahead_end ? ahead + (c1 - c0) * @LINES@ : (const char*)(w + c0 * block_weights);
if (c1 == BLOCKS) @NAME@_epilogue(tile, row * @WIDTH@ + ow, @PIXELS@, oc0, columns, image, bufs, params);)",
      {{"TILE", partial ? fmt::format("partial + ((row - row0) * {} + ow) * OC_TILE", p.width) : "small_tile"},
       {"NAME", c.name},
       {"KIND", "@KIND@"},
       {"PIXELS", "@PIXELS@"},
       {"STEP_W", n(s.stride_w * p.pixel_stride)},
       {"LINES", n(64 * s.kernel_h * s.kernel_w * p.block_channels)},
       {"WIDTH", n(p.width)}});
  std::string decode = c.tile.channels_inner ? "const int64_t oc_tile = task % OC_TILES, row_block = task / OC_TILES % ROW_BLOCKS;\n"
                                             : "const int64_t row_block = task % ROW_BLOCKS, oc_tile = task / ROW_BLOCKS % OC_TILES;\n";
  decode += "const int64_t group = task / (OC_TILES * ROW_BLOCKS) % GROUPS, image = task / (OC_TILES * ROW_BLOCKS) / GROUPS;";
  if (keeps_weights(c))  // all rows of all images by what a thread has packed
    decode =
        fmt::format("const int64_t images = {}, row_block = task % ROW_BLOCKS, image = task / ROW_BLOCKS % images;\n", c.batch.text()) +
        "const int64_t oc_tile = task / ROW_BLOCKS / images % OC_TILES, group = task / ROW_BLOCKS / images / OC_TILES;";
  const std::string kh0 = s.pad_top == 0 ? "0" : fmt::format("top < 0 ? (-top + {0} - 1) / {0} : 0", s.dilation_h);
  const std::string kh1 = fmt::format("top + {0} * {1} < {2} ? {1} : ({2} - top + {0} - 1) / {0}", s.dilation_h, s.kernel_h, s.height);
  const bool below = (s.out_h() - 1) * s.stride_h - s.pad_top + s.dilation_h * (s.kernel_h - 1) >= s.height;
  const std::string rows = p.stretch > 0
                               ? fmt::format("const int64_t row0 = 0, row1 = 1, tile0 = row_block * {0}, tile1 = tile0 + {0};", p.stretch)
                               : "const int64_t row0 = row_block * BLOCK_ROWS, row1 = row0 + BLOCK_ROWS < ROWS ? row0 + BLOCK_ROWS : ROWS;";
  return expand(conv_c::kEntry, {{"NAME", c.name},
                                 {"ROWS_OF_TASK", rows},
                                 {"CHANNELS", n(s.channels)},
                                 {"OUT", n(s.out_channels)},
                                 {"KH", n(s.kernel_h)},
                                 {"KW", n(s.kernel_w)},
                                 {"OH", n(s.out_h())},
                                 {"OW", n(s.out_w())},
                                 {"ROWS", n(p.rows)},
                                 {"BLOCK_ROWS", n(c.tile.block_rows)},
                                 {"ROW_BLOCKS", n(p.row_blocks)},
                                 {"OC_TILE", n(p.oc_tile)},
                                 {"OC_TILES", n(p.oc_tiles)},
                                 {"GROUPS", n(s.groups)},
                                 {"BLOCKS", n(p.blocks)},
                                 {"BLOCK_C", n(c.tile.block_c)},
                                 {"BLOCK_WEIGHTS", n(s.kernel_h * s.kernel_w * p.block_channels * p.oc_tile)},
                                 {"SCRATCH", scratch},
                                 {"DECODE", decode},
                                 {"INPUT", n(c.input_buffer)},
                                 {"WEIGHTS", weights_text(p)},
                                 {"IMAGE_STRIDE", n(p.image_stride)},
                                 {"GROUP_STRIDE", n(c.input == ConvInput::Nhwc ? p.group_channels : p.blocks * p.block_stride)},
                                 {"GROUP_OUT", n(p.group_out)},
                                 {"STEP_H", n(s.stride_h * c.tile.join_rows)},
                                 {"PAD_TOP", n(s.pad_top)},
                                 {"PAD_LEFT", n(s.pad_left)},
                                 {"KH0", kh0},
                                 {"KH1", below ? kh1 : n(s.kernel_h)},
                                 {"ROW_STRIDE", n(p.row_stride)},
                                 {"PIXEL_STRIDE", n(p.pixel_stride)},
                                 {"WALK", walk_row_text(p, call)}});
}

// Rows can be joined where every output pixel reads one input pixel and both walk memory without gaps.
bool rows_join(const ConvShape& s) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.out_h() == s.height && s.out_w() == s.width;
}

}  // namespace

namespace {

int registers_of(int lanes) { return lanes >= 16 ? 32 : 16; }

int64_t out_vecs_of(const ConvShape& s, int lanes) { return s.depthwise() ? 1 : ceil_div(s.out_channels / s.groups, lanes); }

// Blocks of channels that a sum runs over.
int64_t channel_blocks(const ConvShape& s, ConvInput input, int lanes) {
  const bool whole = input == ConvInput::Nchw || (input == ConvInput::Nhwc && (s.channels / s.groups) % lanes);
  return whole || s.depthwise() ? 1 : ceil_div(s.channels / s.groups, lanes);
}

// The widest tile of `vecs` vectors in registers, of rows joined by `join`.
ConvTile register_tile(const ConvShape& s, int lanes, int vecs, int64_t join) {
  ConvTile t;
  t.lanes = lanes, t.vecs = vecs, t.join_rows = join;
  t.pixels = static_cast<int>(std::min<int64_t>((registers_of(lanes) - vecs - 1) / vecs, s.out_w() * join));
  return t;
}

// Cycles of one step for all pixels of a row, and what reading the input takes besides: FMAs and loads on two ports, latency 4.
double step_cycles(const ConvShape& s, const ConvTile& t) {
  constexpr double kPassCost = 0.04;      // of reading the input once more, for another tile of output channels
  constexpr double kTwoKindsCost = 1.02;  // tiles of two widths: twice the code to compile
  const int64_t out_vecs = out_vecs_of(s, t.lanes), width = s.out_w() * t.join_rows, tiles = ceil_div(width, t.pixels),
                rest = width % tiles;
  const auto cost_of = [&](int64_t r) { return std::max({r * t.vecs / 2.0, (r + t.vecs) / 2.0, 4.0}) + 0.25; };
  return (rest * cost_of(width / tiles + 1) + (tiles - rest) * cost_of(width / tiles)) * ceil_div(out_vecs, t.vecs) / t.join_rows *
         (1 + kPassCost * ceil_div(out_vecs, t.vecs) / (s.kernel_h * s.kernel_w)) * (rest ? kTwoKindsCost : 1);
}

// Of a convolution that is not depthwise: all that the registers take.
std::vector<ConvTile> register_tiles(const ConvShape& s, int lanes) {
  std::vector<ConvTile> out;
  for (int64_t join = 1; join <= (rows_join(s) ? s.out_h() : 1); ++join) {
    if (s.out_h() % join || (join > 1 && s.out_w() * join > 256)) continue;
    for (int vecs = 1; vecs <= (registers_of(lanes) == 32 ? 6 : 4); ++vecs) out.push_back(register_tile(s, lanes, vecs, join));
  }
  return out;
}

// Fills what the register tile leaves open.
ConvTile with_blocks(ConvTile t, const ConvShape& s, ConvInput input) {
  // The weights of a chunk of channels stay in the first-level cache while all rows of the task pass; partial sums are cheap.
  const int64_t rows = s.out_h() / t.join_rows, lanes = t.lanes, out_vecs = out_vecs_of(s, t.lanes);
  const int64_t blocks = channel_blocks(s, input, t.lanes);
  constexpr int64_t kChunkBytes = 24 * 1024, kCachedWeights = 640 * 1024, kInputBytes = 256 * 1024;
  const int64_t block_bytes = s.kernel_h * s.kernel_w * lanes * t.vecs * lanes * 4;
  const int64_t chunks = s.depthwise() ? 1 : ceil_div(blocks, std::max<int64_t>(1, kChunkBytes / block_bytes));
  t.block_c = s.depthwise() ? 1 : ceil_div(blocks, chunks);
  // All weights stay in the second-level cache with the input rows of a task, which each tile of output channels reads again. Larger
  // weights pass by; then tasks have more rows, among which a chunk of weights is shared.
  t.channels_inner = blocks * out_vecs / t.vecs * block_bytes <= kCachedWeights;
  const int64_t row_bytes = std::max<int64_t>(s.width * s.channels / s.groups * 4, 1), step = t.join_rows * s.stride_h;
  const int64_t halo = chunks > 1 && t.channels_inner ? s.kernel_h - s.stride_h : 0;
  const int64_t cache_rows = std::clamp<int64_t>((kInputBytes / row_bytes - halo) / step, 1, rows);
  t.block_rows = chunks > 1 && !t.channels_inner ? std::max<int64_t>(cache_rows, 8) : cache_rows;
  constexpr int64_t kMinTasks = 8;  // of one image, so that a few threads have even shares
  const int64_t columns = s.depthwise() ? std::max<int64_t>(s.channels / lanes, 1) : s.groups * ceil_div(out_vecs, t.vecs);
  const int64_t row_blocks = std::min(rows, std::max(ceil_div(rows, t.block_rows), ceil_div(kMinTasks, columns)));
  t.block_rows = ceil_div(rows, row_blocks);
  return t;
}

ConvTile depthwise_tile(const ConvShape& s, int lanes, int pixels) {
  ConvTile t;
  t.lanes = lanes, t.vecs = 1;
  t.pixels = static_cast<int>(std::min<int64_t>(s.out_w(), pixels));
  return t;
}

}  // namespace

ConvTile choose_conv_tile(const ConvShape& s, ConvInput input, int lanes) {
  if (s.depthwise()) return with_blocks(depthwise_tile(s, lanes, registers_of(lanes) == 32 ? 14 : 6), s, input);
  ConvTile best;
  double best_cost = 0;
  for (const ConvTile& t : register_tiles(s, lanes)) {
    const double cost = step_cycles(s, t);
    if (best_cost != 0 && cost > best_cost * 0.99) continue;
    best_cost = cost;
    best = t;
  }
  return with_blocks(best, s, input);
}

std::vector<ConvTile> other_conv_tiles(const ConvShape& s, ConvInput input, int lanes) {
  std::vector<ConvTile> out;
  if (s.depthwise()) {
    for (int pixels : {4, 7, 10, 12, 20, 28}) out.push_back(with_blocks(depthwise_tile(s, lanes, pixels), s, input));
  } else {
    out = register_tiles(s, lanes);
    std::stable_sort(out.begin(), out.end(), [&](auto& x, auto& y) { return step_cycles(s, x) < step_cycles(s, y); });
    constexpr size_t kMostTiles = 8;
    out.resize(std::min(out.size(), kMostTiles));
    for (ConvTile& t : out) t = with_blocks(t, s, input);
  }
  const ConvTile rule = choose_conv_tile(s, input, lanes);
  const int64_t rows = s.out_h() / rule.join_rows, blocks = channel_blocks(s, input, lanes);
  const auto add = [&](auto&& change) {
    ConvTile t = rule;
    change(t);
    out.push_back(t);
  };
  for (int64_t block : {rule.block_c * 2, rule.block_c / 2, blocks})
    if (block > 0) add([&](ConvTile& t) { t.block_c = std::min(block, blocks); });
  for (int64_t block : {rule.block_rows * 2, rule.block_rows / 2, rows})
    if (block > 0) add([&](ConvTile& t) { t.block_rows = std::min(block, rows); });
  if (!s.depthwise()) add([](ConvTile& t) { t.channels_inner = !t.channels_inner; });
  return out;
}

std::string conv_tile_refusal(const ConvShape& s, ConvInput input, const ConvTile& t) {
  const int registers = registers_of(t.lanes);
  if (s.depthwise() ? t.vecs != 1 || t.pixels + 2 > registers : t.pixels * t.vecs + t.vecs + 1 > registers)
    return fmt::format("pixels x vecs do not fit {} registers", registers);
  if (t.join_rows > 1 && (s.depthwise() || !rows_join(s) || s.out_h() % t.join_rows != 0)) return "so many rows do not join";
  if (t.pixels > s.out_w() * t.join_rows) return "a row has fewer pixels";
  if (t.block_rows > s.out_h() / t.join_rows) return "block_rows are more than there are";
  const int64_t blocks = channel_blocks(s, input, t.lanes);
  if (t.block_c > blocks) return "block_c are more than there are";
  constexpr int64_t kMostPartial = 4 << 20;
  if (t.block_c < blocks && t.block_rows * t.join_rows * s.out_w() * t.vecs * t.lanes * 4 > kMostPartial)
    return "the sums of a task do not fit the second-level cache";
  return "";
}

std::string conv_text(const ConvConfig& config) {
  TOROID_CHECK(config.weights == ConvWeights::Packed || config.input != ConvInput::Blocked, "blocked input wants packed weights");
  const ConvPlan p(config);
  if (config.shape.depthwise()) return depthwise_text(p);
  std::string out = template_head(config.tile.lanes);
  for (size_t i = 0; i < p.kinds.size(); ++i) out += tile_text(p, static_cast<int>(i));
  if (keeps_weights(config)) out += turn_text(config.name, DType::F32, config.tile.lanes, p.oc_tile, packed_row(p));
  return out + conv_epilogue_text(config, p.oc_tile, p.group_out % config.tile.lanes != 0) + entry_text(p);
}

int64_t conv_task_count(const ConvConfig& config, const int64_t* params) {
  const ConvPlan p(config);
  return config.batch.value(params) * (config.shape.depthwise() ? 1 : config.shape.groups) * p.oc_tiles * p.row_blocks;
}

int64_t conv_scratch_bytes(const ConvConfig& config) {
  const ConvPlan p(config);
  return config.shape.depthwise() ? 0 : (kept_floats(p) + partial_floats(p)) * 4;
}

std::string conv_epilogue_text(const ConvConfig& c, int64_t pitch, bool ragged) {
  return epilogue_text({.name = c.name,
                        .row = "pixel",
                        .column = "oc",
                        .around = "image",
                        .integers = c.input_type != DType::F32,
                        .pitch = pitch,
                        .ragged = ragged,
                        .overlaps = ragged && c.repeatable_epilogue},
                       c.epilogue);
}

std::string walk_row_text(const ConvPlan& p, const std::string& call) {
  std::string out;
  int64_t first = 0;
  for (const TileRun& run : p.runs) {
    const int64_t pixels = p.kinds[run.kind].pixels;
    std::string loop = run.count == 1
                           ? fmt::format("{{\n  const int64_t ow = {};", run.start)
                           : fmt::format("for (int64_t ow = {}; ow < {}; ow += {}) {{", run.start, run.start + run.count * pixels, pixels);
    if (p.stretch > 0)
      loop = fmt::format(
          "for (int64_t t = tile0 > {0} ? tile0 : {0}, end = tile1 < {1} ? tile1 : {1}; t < end; ++t) {{\n"
          "  const int64_t ow = {2} + (t - {0}) * {3};",
          first, first + run.count, run.start, pixels);
    first += run.count;
    out += expand("@LOOP@\n  @CALL@\n}\n",
                  {{"LOOP", loop}, {"CALL", expand(call, {{"KIND", std::to_string(run.kind)}, {"PIXELS", std::to_string(pixels)}})}});
  }
  out.pop_back();
  return out;
}

}  // namespace toroid::codegen
