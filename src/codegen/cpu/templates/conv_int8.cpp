#include "codegen/cpu/templates/conv_int8.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "codegen/cpu/templates/conv_int8.c.h"
#include "codegen/cpu/templates/conv_plan.h"
#include "codegen/cpu/templates/gemm_int8.h"
#include "codegen/cpu/templates/gemm_template.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kHead = 64;  // bytes of a thread's scratch in front of what it keeps

// What a shape and a tile make. Where the channels of a group are whole fours, sums read the input where it lies, through the addresses of
// what each pixel's taps see; else the windows of a block's pixels are copied, and each is one run of numbers.
struct Plan {
  Plan(const ConvShape& shape, const ConvInt8Tile& tile)
      : s(shape),
        t(tile),
        channels(s.channels / s.groups),
        out(s.out_channels / s.groups),
        taps(s.kernel_h * s.kernel_w),
        k(taps * channels),
        points(s.out_h() * s.out_w()),
        panel(int64_t{t.lanes} * t.vecs),
        copies(channels % 4 != 0),
        runs(copies ? 1 : taps),
        run(copies ? ceil_div(k, 4) * 4 : channels) {}

  int64_t blocks() const { return ceil_div(points, t.block); }
  int64_t panels() const { return ceil_div(out, panel); }
  int64_t nothing_bytes() const { return ceil_div(s.channels, 64) * 64; }
  int64_t address_bytes() const { return ceil_div(runs * t.block * 8, 64) * 64; }
  int64_t row_bytes() const { return ceil_div(run, 64) * 64 + 64; }

  const ConvShape& s;
  const ConvInt8Tile& t;
  int64_t channels, out, taps, k, points, panel;  // channels, out: of a group
  bool copies;
  int64_t runs, run;  // runs of so many numbers that a pixel's sums go over
};

std::string n(int64_t x) { return std::to_string(x); }

// The kernel of one register tile. Numbers with sign are read as 128 more.
std::string micro_text(const ConvConfig& c, const Plan& p, int pixels, int vecs) {
  const int lanes = p.t.lanes;
  std::string accs, addresses, loads, dots, stores;
  for (int v = 0; v < vecs; ++v) loads += fmt::format("const t_quads w{} = t_quads_of_b(*(const t_vi32*)(w + {}));\n", v, v * lanes);
  for (int i = 0; i < pixels; ++i) {
    addresses += fmt::format("const unsigned char* const a{0} = at[{0}] + skip;\n", i);
    dots += fmt::format("{{ const t_quads x = t_quads_of_a(((t_vi32){{0}} + *(const int*)(a{} + k)){});", i,
                        c.input_type == DType::I8 ? " ^ (int)0x80808080" : "");
    for (int v = 0; v < vecs; ++v) {
      accs += fmt::format("t_vi32 s{}_{} = *(const t_vi32*)(w + {});\n", i, v, v * lanes);
      dots += fmt::format(" s{0}_{1} = t_dot4(s{0}_{1}, x, w{1});", i, v);
      stores += fmt::format("*(t_vi32*)(tile + {}) = s{}_{};\n", i * p.panel + v * lanes, i, v);
    }
    dots += " }\n";
  }
  for (std::string* s : {&accs, &addresses, &loads, &dots, &stores}) s->pop_back();
  return expand(conv_int8_c::kMicro, {{"NAME", c.name},
                                      {"PIXELS", n(pixels)},
                                      {"VECS", n(vecs)},
                                      {"PANEL", n(p.panel)},
                                      {"RUNS", n(p.runs)},
                                      {"RUN", n(p.run)},
                                      {"BLOCK", n(p.t.block)},
                                      {"ACCS", accs},
                                      {"ADDRESSES", addresses},
                                      {"LOADS", loads},
                                      {"DOTS", dots},
                                      {"STORES", stores}});
}

// The kernels that this problem can reach, and what chooses among them.
std::string micros_text(const ConvConfig& c, const Plan& p) {
  std::set<int> pixels, vecs;
  collect_row_counts(std::min(p.t.block, p.points), p.t.pixels, pixels);
  collect_row_counts(p.points % p.t.block, p.t.pixels, pixels);
  if (p.out >= p.panel) vecs.insert(p.t.vecs);
  if (const int64_t rest = p.out % p.panel) vecs.insert(static_cast<int>(ceil_div(rest, int64_t{p.t.lanes})));
  std::string cases, text;
  for (int i : pixels) {
    for (int v : vecs) {
      text += micro_text(c, p, i, v);
      cases += fmt::format("case {}: {}_micro_{}x{}(at, skip, w, tile); break;\n", i * 16 + v, c.name, i, v);
    }
  }
  cases.pop_back();
  return text + expand(R"(
static void @NAME@_micro(int64_t pixels, int64_t vecs, const unsigned char* const* at, int64_t skip, const int* w, int* tile) {
  switch (pixels * 16 + vecs) {
    @CASES@
  }
}
)",
                       {{"NAME", c.name}, {"CASES", cases}});
}

std::string find_text(const ConvConfig& c, const Plan& p) {
  const ConvShape& s = p.s;
  return expand(p.copies ? conv_int8_c::kCopy : conv_int8_c::kFind, {{"NAME", c.name},
                                                                     {"OW", n(s.out_w())},
                                                                     {"STRIDE_H", n(s.stride_h)},
                                                                     {"STRIDE_W", n(s.stride_w)},
                                                                     {"PAD_TOP", n(s.pad_top)},
                                                                     {"PAD_LEFT", n(s.pad_left)},
                                                                     {"DILATION_H", n(s.dilation_h)},
                                                                     {"DILATION_W", n(s.dilation_w)},
                                                                     {"KH", n(s.kernel_h)},
                                                                     {"KW", n(s.kernel_w)},
                                                                     {"H", n(s.height)},
                                                                     {"W", n(s.width)},
                                                                     {"C", n(s.channels)},
                                                                     {"BLOCK", n(p.t.block)},
                                                                     {"ROW", n(p.row_bytes())},
                                                                     {"CHANNELS", n(p.channels)},
                                                                     {"WHOLE", s.dilation_w == 1 && s.groups == 1 ? "1" : "0"}});
}

std::string entry_text(const ConvConfig& c, const Plan& p) {
  const ConvShape& s = p.s;
  return expand(conv_int8_c::kEntry, {{"NAME", c.name},
                                      {"C", n(s.channels)},
                                      {"OUT", n(s.out_channels)},
                                      {"GROUPS", n(s.groups)},
                                      {"GROUP_OUT", n(p.out)},
                                      {"KH", n(s.kernel_h)},
                                      {"KW", n(s.kernel_w)},
                                      {"OW", n(s.out_w())},
                                      {"POINTS", n(p.points)},
                                      {"PANEL", n(p.panel)},
                                      {"PANELS", n(p.panels())},
                                      {"BLOCK", n(p.t.block)},
                                      {"BLOCKS", n(p.blocks())},
                                      {"PIXELS", n(p.t.pixels)},
                                      {"SCRATCH", n(c.scratch_buffer)},
                                      {"SCRATCH_BYTES", n(conv_int8_scratch_bytes(s, p.t))},
                                      {"HEAD", n(kHead)},
                                      {"NOTHING", n(p.nothing_bytes())},
                                      {"ADDRESSES", n(p.address_bytes())},
                                      {"ZERO", n(c.zero)},
                                      {"HOLDS", p.copies ? "place * GROUPS + group" : "place"},
                                      {"INPUT", n(c.input_buffer)},
                                      {"WEIGHT", n(c.weight_buffer)},
                                      {"IMAGE", n(s.height * s.width * s.channels)},
                                      {"FIRST", p.copies ? fmt::format("group * {}", p.channels) : "0"},
                                      {"SKIP", p.copies ? "0" : fmt::format("group * {}", p.channels)},
                                      {"PANEL_BYTES", n(packed_int8_bytes(p.k, p.panel, static_cast<int>(p.panel)))}});
}

// Register tiles, by the vectors of channels that they have: sums fill the registers beside those vectors and one of the input.
ConvInt8Tile with_block(const ConvShape& s, int lanes, int vecs) {
  ConvInt8Tile t;
  t.lanes = lanes, t.vecs = vecs;
  const int registers = lanes >= 16 ? 32 : 16, most = lanes >= 16 ? 14 : 4;
  const int64_t points = s.out_h() * s.out_w();
  t.pixels = static_cast<int>(std::min<int64_t>({(registers - vecs - 1) / vecs, most, points}));
  // The input under a task stays in the second-level cache beside a panel of weights, while panels pass; a few threads have even shares.
  constexpr int64_t kInputBytes = 192 * 1024, kMost = 1 << 10, kMinTasks = 8;
  const Plan p(s, t);
  const int64_t bytes = p.copies ? p.row_bytes() : s.channels * std::min(s.stride_h, s.kernel_h) * std::min(s.stride_w, s.kernel_w);
  const int64_t fit = std::clamp<int64_t>(kInputBytes / std::max<int64_t>(bytes, 1), 4 * t.pixels, kMost);
  const int64_t blocks = std::max(ceil_div(points, fit), ceil_div(kMinTasks, p.panels() * s.groups));
  t.block = std::min(points, ceil_div(ceil_div(points, blocks), int64_t{t.pixels}) * t.pixels);
  return t;
}

// Cycles of a step of four channels for all of a group's output channels and one pixel: products on two ports, loads on two.
double step_cycles(const ConvShape& s, const ConvInt8Tile& t) {
  const Plan p(s, t);
  const int64_t tiles = ceil_div(p.points, int64_t{t.pixels});
  double cycles = 0;
  for (int64_t left = ceil_div(p.out, int64_t{t.lanes}); left > 0; left -= t.vecs) {
    const double vecs = static_cast<double>(std::min<int64_t>(left, t.vecs)), pixels = t.pixels;
    cycles += std::max({pixels * vecs / 2, (pixels + vecs) / 2, 4.0}) + 0.5;
  }
  return cycles * static_cast<double>(tiles) / static_cast<double>(p.points);
}

std::vector<ConvInt8Tile> tiles(const ConvShape& s, int lanes) {
  std::vector<ConvInt8Tile> out;
  for (int vecs = lanes >= 16 ? 6 : 3; vecs >= 1; --vecs) out.push_back(with_block(s, lanes, vecs));
  std::stable_sort(out.begin(), out.end(), [&](auto& x, auto& y) { return step_cycles(s, x) < step_cycles(s, y); });
  return out;
}

}  // namespace

std::string conv_int8_refusal(const ConvShape& s) {
  constexpr int64_t kLeastOut = 4;  // else vectors of channels are nearly empty
  if (s.groups > 1 && s.out_channels / s.groups < kLeastOut) return "a group has few output channels";
  return s.channels % s.groups || s.out_channels % s.groups ? "channels are no multiple of groups" : "";
}

ConvInt8Tile choose_conv_int8_tile(const ConvShape& s, int lanes) { return tiles(s, lanes).front(); }

std::vector<ConvInt8Tile> other_conv_int8_tiles(const ConvShape& s, int lanes) {
  std::vector<ConvInt8Tile> out = tiles(s, lanes);
  const ConvInt8Tile rule = out.front();
  for (int64_t block : {rule.block / 2, rule.block * 2}) {
    out.push_back(rule);
    out.back().block = block;
  }
  return out;
}

std::string conv_int8_tile_refusal(const ConvShape& s, const ConvInt8Tile& t) {
  if (t.pixels < 1 || t.vecs < 1 || t.vecs > 8) return "a tile has at least one pixel and one to eight vectors";
  if (t.pixels * t.vecs + t.vecs + 1 > (t.lanes >= 16 ? 32 : 16)) return "pixels x vecs do not fit the registers";
  constexpr int64_t kMostBlock = 1 << 12;
  return t.block < 1 || t.block > kMostBlock || t.block > s.out_h() * s.out_w() ? "block is not from 1 to the pixels that there are" : "";
}

std::string conv_int8_text(const ConvConfig& config, const ConvInt8Tile& tile) {
  TOROID_CHECK(config.input == ConvInput::Nhwc && (config.input_type == DType::I8 || config.input_type == DType::U8),
               "a convolution of whole numbers reads {} in channels-last memory", name_of(config.input_type));
  const Plan p(config.shape, tile);
  return template_head(tile.lanes) + int8_dot_text(tile.lanes) + micros_text(config, p) + find_text(config, p) +
         conv_epilogue_text(config, p.panel, p.out % tile.lanes != 0) + entry_text(config, p);
}

int64_t conv_int8_task_count(const ConvShape& s, const ConvInt8Tile& t) {
  const Plan p(s, t);
  return p.blocks() * s.groups * p.panels();
}

int64_t conv_int8_scratch_bytes(const ConvShape& s, const ConvInt8Tile& t) {
  const Plan p(s, t);
  return kHead + p.nothing_bytes() + p.address_bytes() + (p.copies ? t.block * p.row_bytes() : 0);
}

}  // namespace toroid::codegen
