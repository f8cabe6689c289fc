#include "codegen/cpu/templates/conv_winograd.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "codegen/cpu/templates/conv_plan.h"
#include "codegen/cpu/templates/conv_winograd.c.h"

namespace toroid::codegen {
namespace {

constexpr int kMatrices = 16;

struct WinogradPlan {
  WinogradPlan(const ConvShape& shape, const WinogradTile& tile) : s(shape), t(tile) {
    square_rows = ceil_div(s.out_h(), 2), square_columns = ceil_div(s.out_w(), 2);
    oc_tile = static_cast<int64_t>(t.vecs) * t.lanes;
    oc_tiles = ceil_div(s.out_channels, oc_tile);
    most = t.rows * square_columns;
    // Rows and matrices begin in different sets of the first-level cache.
    square_pitch = s.channels + 16;
    input_matrix = most * square_pitch + 16, result_matrix = most * oc_tile + 16;
    results = 4 * square_columns * oc_tile;
    blocks = ceil_div(square_rows, t.rows), groups = ceil_div(oc_tiles, t.channels);
  }
  // Squares that a call of the product takes: those of the tile, and what is left of a task's and of the last task's.
  std::set<int64_t> widths() const {
    std::set<int64_t> out;
    for (int64_t rows : {t.rows, square_rows - (blocks - 1) * t.rows}) {
      const int64_t squares = rows * square_columns;
      if (squares >= t.squares) out.insert(t.squares);
      if (squares % t.squares) out.insert(squares % t.squares);
    }
    return out;
  }

  const ConvShape& s;
  const WinogradTile& t;
  int64_t square_rows, square_columns, oc_tile, oc_tiles;
  int64_t most;                                                // squares of a task
  int64_t square_pitch, input_matrix, result_matrix, results;  // floats of scratch memory
  int64_t blocks, groups;                                      // of rows and of tiles of output channels: tasks
};

std::string product_text(const std::string& name, const WinogradPlan& p, int64_t squares) {
  const int vecs = p.t.vecs, lanes = p.t.lanes;
  std::string accs, loads, fma, store;
  for (int v = 0; v < vecs; ++v) loads += fmt::format("const vf32 w{0} = t_load(u + k * {1} + {2});\n", v, p.oc_tile, v * lanes);
  for (int64_t i = 0; i < squares; ++i) {
    fma += fmt::format("{{ const vf32 x = (vf32)(in[{} + k]);", i * p.square_pitch);
    for (int v = 0; v < vecs; ++v) {
      accs += fmt::format("{}s{}_{} = {{0}}", accs.empty() ? "vf32 " : ", ", i, v);
      fma += fmt::format(" s{}_{} += x * w{};", i, v, v);
      store += fmt::format("t_store(out + {}, s{}_{});\n", i * p.oc_tile + v * lanes, i, v);
    }
    fma += " }\n";
  }
  for (std::string* text : {&loads, &fma, &store}) text->pop_back();
  return expand(R"(
// out[square][*] = sum over channels of in[square][channel] * u[channel][*], for @SQUARES@ squares.
T_KERNEL void @NAME@_product_@SQUARES@(const float* restrict in, const float* restrict u, float* restrict out, const char* ahead) {
  @ACCS@;
#pragma clang loop unroll(disable)
  for (int64_t k = 0; k < @CHANNELS@; ++k, ahead += 64) {
    __builtin_prefetch(ahead, 0, 2);
    @LOADS@
    @FMA@
  }
  @STORE@
}
)",
                {{"NAME", name},
                 {"SQUARES", std::to_string(squares)},
                 {"CHANNELS", std::to_string(p.s.channels)},
                 {"ACCS", accs},
                 {"LOADS", loads},
                 {"FMA", fma},
                 {"STORE", store}});
}

// Four values to four, by rows and then by columns of a square named `from`: what both transformations are made of. `rules`: a result's
// terms, as signs and positions.
using Rule = std::vector<std::pair<char, int>>;
std::string transform_text(const std::string& from, const std::string& between, const std::string& to, const std::vector<Rule>& rules) {
  std::string text;
  const auto apply = [&](const std::string& source, const std::string& target, const auto& read, const auto& write, int count) {
    for (int line = 0; line < count; ++line)
      for (size_t r = 0; r < rules.size(); ++r) {
        text += fmt::format("const vf32 {}{} =", target, write(line, static_cast<int>(r)));
        for (size_t i = 0; i < rules[r].size(); ++i) {
          const auto [sign, at] = rules[r][i];
          text += i == 0 && sign == '+' ? " " : fmt::format(" {} ", sign);
          text += source + read(line, at);
        }
        text += ";\n";
      }
  };
  const auto by_row = [](int line, int at) { return fmt::format("{}{}", at, line); };
  const auto by_column = [](int line, int at) { return fmt::format("{}{}", line, at); };
  apply(from, between, by_row, by_row, 4);
  apply(between, to, by_column, by_column, static_cast<int>(rules.size()));
  return text;
}

std::string input_text(const std::string& name, const ConvShape& s, const WinogradPlan& p) {
  std::string loads, stores;
  for (int i = 0; i < kMatrices; ++i) {
    loads += fmt::format("const vf32 d{}{} = t_load(from[{}] + c);\n", i / 4, i % 4, i);
    stores += fmt::format("t_store(to + {} + c, f{}{});\n", i * p.input_matrix, i / 4, i % 4);
  }
  const std::vector<Rule> rules = {{{'+', 0}, {'-', 2}}, {{'+', 1}, {'+', 2}}, {{'+', 2}, {'-', 1}}, {{'+', 1}, {'-', 3}}};
  std::string body = loads + transform_text("d", "e", "f", rules) + stores;
  body.pop_back();
  return expand(R"(
// The 16 matrices of rows [row0, row1) of squares. Padding is read from `zeros`.
static void @NAME@_input(const float* source, int64_t row0, int64_t row1, const float* zeros, float* restrict matrices) {
  for (int64_t row = row0; row < row1; ++row) {
    for (int64_t column = 0; column < @COLUMNS@; ++column) {
      const float* from[16];
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t h = 2 * row - @PAD_TOP@ + i / 4, w = 2 * column - @PAD_LEFT@ + i % 4;
        from[i] = h >= 0 && h < @HEIGHT@ && w >= 0 && w < @WIDTH@ ? source + h * @ROW_STRIDE@ + w * @CHANNELS@ : zeros;
      }
      float* const to = matrices + ((row - row0) * @COLUMNS@ + column) * @PITCH@;
#pragma clang loop unroll(disable)
      for (int64_t c = 0; c < @CHANNELS@; c += T_LANES) {
        @BODY@
      }
    }
  }
}
)",
                {{"NAME", name},
                 {"COLUMNS", std::to_string(p.square_columns)},
                 {"PAD_TOP", std::to_string(s.pad_top)},
                 {"PAD_LEFT", std::to_string(s.pad_left)},
                 {"HEIGHT", std::to_string(s.height)},
                 {"WIDTH", std::to_string(s.width)},
                 {"ROW_STRIDE", std::to_string(s.width * s.channels)},
                 {"CHANNELS", std::to_string(s.channels)},
                 {"PITCH", std::to_string(p.square_pitch)},
                 {"BODY", body}});
}

std::string output_text(const std::string& name, const WinogradPlan& p) {
  std::string loads, stores;
  for (int i = 0; i < kMatrices; ++i)
    loads += fmt::format("const vf32 m{}{} = t_load(from + {} + o);\n", i / 4, i % 4, i * p.result_matrix);
  for (int i = 0; i < 4; ++i)
    stores += fmt::format("t_store(to + {} + o, y{}{});\n", (i / 2 * 2 * p.square_columns + i % 2) * p.oc_tile, i / 2, i % 2);
  const std::vector<Rule> rules = {{{'+', 0}, {'+', 1}, {'+', 2}}, {{'+', 1}, {'-', 2}, {'-', 3}}};
  std::string body = loads + transform_text("m", "n", "y", rules) + stores;
  body.pop_back();
  return expand(R"(
// Two rows of results of a row of squares.
static void @NAME@_output(const float* restrict matrices, float* restrict results) {
  for (int64_t column = 0; column < @COLUMNS@; ++column) {
    const float* const from = matrices + column * @OC_TILE@;
    float* const to = results + 2 * column * @OC_TILE@;
#pragma clang loop unroll(disable)
    for (int64_t o = 0; o < @OC_TILE@; o += T_LANES) {
      @BODY@
    }
  }
}
)",
                {{"NAME", name}, {"COLUMNS", std::to_string(p.square_columns)}, {"OC_TILE", std::to_string(p.oc_tile)}, {"BODY", body}});
}

std::string entry_text(const ConvConfig& c, const WinogradPlan& p) {
  const ConvShape& s = c.shape;
  const auto n = [](int64_t x) { return std::to_string(x); };
  const auto call = [&](int64_t squares) {
    return fmt::format("{}_product_{}(in + first * {}, u, out + first * OC_TILE, next + part * CHANNELS * 64);", c.name, squares,
                       p.square_pitch);
  };
  std::string full = ";", rests;
  for (int64_t w : p.widths()) {
    if (w == p.t.squares)
      full = call(w);
    else
      rests += fmt::format("case {}: {} break;\n", w, call(w));
  }
  if (!rests.empty()) rests.pop_back();
  return expand(conv_winograd_c::kEntry, {{"NAME", c.name},
                                          {"CHANNELS", n(s.channels)},
                                          {"OUT", n(s.out_channels)},
                                          {"OH", n(s.out_h())},
                                          {"OW", n(s.out_w())},
                                          {"ROWS", n(p.t.rows)},
                                          {"SQUARE_ROWS", n(p.square_rows)},
                                          {"COLUMNS", n(p.square_columns)},
                                          {"BLOCKS", n(p.blocks)},
                                          {"GROUPS", n(p.groups)},
                                          {"TASK_TILES", n(p.t.channels)},
                                          {"OC_TILES", n(p.oc_tiles)},
                                          {"OC_TILE", n(p.oc_tile)},
                                          {"SQUARES", n(p.t.squares)},
                                          {"VECS", n(p.t.vecs)},
                                          {"SCRATCH", n(c.scratch_buffer)},
                                          {"SCRATCH_FLOATS", n(winograd_scratch_bytes(s, p.t) / 4)},
                                          {"INPUT_MATRIX", n(p.input_matrix)},
                                          {"RESULT_MATRIX", n(p.result_matrix)},
                                          {"INPUT", n(c.input_buffer)},
                                          {"WEIGHT", n(c.weight_buffer)},
                                          {"IMAGE_STRIDE", n(s.height * s.width * s.channels)},
                                          {"FULL", full},
                                          {"RESTS", rests}});
}

int registers_of(int lanes) { return lanes >= 16 ? 32 : 16; }

WinogradTile with_tasks(WinogradTile t, const ConvShape& s) {
  constexpr int64_t kInputBytes = 512 * 1024, kLeastSquares = 96, kMinTasks = 8;  // of one image, so that a few threads have even shares
  const int64_t rows = ceil_div(s.out_h(), 2), columns = ceil_div(s.out_w(), 2);
  // Matrices of inputs that stay in the second-level cache, but enough of them that the weights are worth their way there.
  const int64_t squares = std::max(kLeastSquares, kInputBytes / (kMatrices * 4 * s.channels));
  const int64_t oc_tiles = ceil_div(s.out_channels, static_cast<int64_t>(t.vecs) * t.lanes);
  const int64_t least_blocks = ceil_div(rows, std::clamp<int64_t>(squares / columns, 1, rows));
  double best = 0;
  for (int64_t wanted = least_blocks; wanted <= std::min(rows, least_blocks + kMinTasks); ++wanted) {
    const int64_t each = ceil_div(rows, wanted), blocks = ceil_div(rows, each);
    const int64_t channels = ceil_div(oc_tiles, std::min(oc_tiles, ceil_div(kMinTasks, blocks)));
    const int64_t tasks = blocks * ceil_div(oc_tiles, channels);
    // What two and four threads wait for, in rows of squares times tiles of channels; fewer and larger tasks where that is nearly the same.
    const double time = static_cast<double>(each * channels * (ceil_div(tasks, 2) * 2 + ceil_div(tasks, 4) * 4));
    if (best != 0 && time > best * 0.97) continue;
    best = time, t.rows = each, t.channels = channels;
  }
  return t;
}

WinogradTile register_tile(const ConvShape& s, int lanes, int vecs) {
  WinogradTile t;
  t.lanes = lanes, t.vecs = vecs, t.squares = (registers_of(lanes) - vecs - 1) / vecs;
  return with_tasks(t, s);
}

}  // namespace

std::string winograd_refusal(const ConvShape& s, ConvInput input, int lanes) {
  if (s.kernel_h != 3 || s.kernel_w != 3 || s.stride_h != 1 || s.stride_w != 1 || s.dilation_h != 1 || s.dilation_w != 1)
    return "not 3 x 3 taps of neighbours";
  if (s.groups != 1) return "groups of channels";
  constexpr int64_t kMostChannels = 8192;  // a row of zeros is on the stack
  if (input != ConvInput::Nhwc || s.channels % lanes || s.channels > kMostChannels) return "no whole vectors of channels that lie together";
  return "";
}

std::string winograd_reluctance(const ConvShape& s) {
  // Cycles for an image at two multiplications of 16 lanes each, and what transforming a channel of a square and fetching a float of the
  // weights take besides.
  constexpr double kTransform = 5, kFetch = 0.25;
  const auto in = static_cast<double>(s.channels), out = static_cast<double>(s.out_channels);
  const auto squares = static_cast<double>(ceil_div(s.out_h(), 2) * ceil_div(s.out_w(), 2));
  const double direct = static_cast<double>(s.out_h() * s.out_w()) * 9 * in * out / 32 + 9 * in * out * kFetch;
  const double here = squares * (kMatrices * in * out / 32 + kTransform * (in + out)) + kMatrices * in * out * kFetch;
  return here * 1.05 < direct ? "" : "transforming would take longer than it saves";
}

WinogradTile choose_winograd_tile(const ConvShape& s, int lanes) {
  // The fewest columns too many; of equals the most balanced tile.
  WinogradTile best;
  int64_t least = 0;
  for (int vecs : lanes >= 16 ? std::vector<int>{4, 3, 2, 5} : std::vector<int>{2, 3, 1}) {
    const WinogradTile t = register_tile(s, lanes, vecs);
    const int64_t columns = ceil_div(s.out_channels, static_cast<int64_t>(vecs) * lanes) * vecs;
    if (least != 0 && columns >= least) continue;
    least = columns, best = t;
  }
  return best;
}

std::vector<WinogradTile> other_winograd_tiles(const ConvShape& s, int lanes) {
  std::vector<WinogradTile> out;
  for (int vecs : {4, 3, 2, 5, 6, 1})
    if (registers_of(lanes) - vecs - 1 >= vecs) out.push_back(register_tile(s, lanes, vecs));
  const WinogradTile rule = choose_winograd_tile(s, lanes);
  for (int64_t rows : {rule.rows * 2, rule.rows / 2}) {
    WinogradTile t = rule;
    t.rows = rows;
    if (rows > 0) out.push_back(t);
  }
  return out;
}

std::string winograd_tile_refusal(const ConvShape& s, const WinogradTile& t) {
  const int registers = registers_of(t.lanes);
  if (t.squares * t.vecs + t.vecs + 1 > registers) return fmt::format("squares x vecs do not fit {} registers", registers);
  if (t.rows > ceil_div(s.out_h(), 2)) return "rows are more than there are";
  if (t.channels > ceil_div(s.out_channels, static_cast<int64_t>(t.vecs) * t.lanes)) return "channels are more than there are";
  constexpr int64_t kMostScratch = 64 << 20;
  return winograd_scratch_bytes(s, t) > kMostScratch ? "a task takes more than 64 MB of memory" : "";
}

std::string winograd_text(const ConvConfig& config, const WinogradTile& tile) {
  const WinogradPlan p(config.shape, tile);
  std::string out = template_head(tile.lanes);
  for (int64_t squares : p.widths()) out += product_text(config.name, p, squares);
  out += input_text(config.name, config.shape, p) + output_text(config.name, p);
  return out + conv_epilogue_text(config, p.oc_tile, config.shape.out_channels % tile.lanes != 0) + entry_text(config, p);
}

int64_t winograd_task_count(const ConvShape& shape, const WinogradTile& tile) {
  const WinogradPlan p(shape, tile);
  return p.blocks * p.groups;
}

int64_t winograd_scratch_bytes(const ConvShape& shape, const WinogradTile& tile) {
  const WinogradPlan p(shape, tile);
  return ceil_div(kMatrices * (p.input_matrix + p.result_matrix) + p.results, 16) * 16 * 4;
}

}  // namespace toroid::codegen
