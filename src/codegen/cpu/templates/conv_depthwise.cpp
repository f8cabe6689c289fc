// Depthwise convolution: a vector of channels a lane group, a tile of output pixels of a row in registers. Whole numbers of 8 bits are
// widened as they are loaded, and multiplied as numbers of 16 bits in lanes of 32.
#include <fmt/core.h>

#include "codegen/cpu/templates/conv_depthwise.c.h"
#include "codegen/cpu/templates/conv_plan.h"

namespace toroid::codegen {
namespace {

// Names of types and functions in the text.
struct Kind {
  const char *element, *number, *vector, *load_x, *load, *store, *mac;
};

Kind kind_of(const ConvConfig& c) {
  if (c.input_type == DType::F32) return {"float", "float", "vf32", "t_load", "t_load", "t_store(tile + {}, s{});\n", "s{0} += v * w{1};"};
  const char* element = c.input_type == DType::U8 ? "unsigned char" : "signed char";
  return {element, "int", "t_vi32", "t_load_x", "t_load_i32", "*(t_vi32_unaligned*)(tile + {}) = s{};\n", "s{0} = t_mac(s{0}, v, w{1});"};
}

std::string whole_text(const ConvConfig& c) {
  if (c.input_type == DType::F32) return "";
  return expand(conv_depthwise_c::kWhole,
                {{"ELEMENT", kind_of(c).element}, {"LANES", std::to_string(c.tile.lanes)}, {"ZERO", std::to_string(c.zero)}});
}

// One tap row of a tile: every input pixel is loaded once and feeds all taps that it lies under.
std::string tap_row_text(const ConvPlan& p, const TileKind& kind) {
  const ConvShape& s = p.c.shape;
  const Kind k = kind_of(p.c);
  std::string text;
  for (int64_t kw = 0; kw < s.kernel_w; ++kw)
    text += fmt::format("const {} w{} = {}(taps + {});\n", k.vector, kw, k.load, kw * p.c.tile.lanes);
  const int64_t last = (kind.pixels - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w;
  for (int64_t column = 0; column <= last; ++column) {
    std::string uses;
    for (int64_t kw = 0; kw < s.kernel_w; ++kw) {
      const int64_t shift = column - kw * s.dilation_w, pixel = shift / s.stride_w;
      if (shift < 0 || shift % s.stride_w || pixel < kind.taps[kw].first || pixel >= kind.taps[kw].last) continue;
      uses += " " + fmt::format(fmt::runtime(k.mac), pixel, kw);
    }
    if (!uses.empty()) text += fmt::format("{{ const {} v = {}(row + {});{} }}\n", k.vector, k.load_x, column * p.pixel_stride, uses);
  }
  text.pop_back();
  return text;
}

std::string tile_text(const ConvPlan& p, int index) {
  const TileKind& kind = p.kinds[index];
  const ConvShape& s = p.c.shape;
  const Kind k = kind_of(p.c);
  std::string accs, store;
  for (int64_t i = 0; i < kind.pixels; ++i) {
    accs += fmt::format("{}s{} = {{0}}", i ? ", " : std::string(k.vector) + " ", i);
    store += fmt::format(fmt::runtime(k.store), i * p.c.tile.lanes, i);
  }
  store.pop_back();
  return expand(R"(
// @PIXELS@ output pixels of one vector of channels; `x` is the input under tap (0, 0) of the first pixel.
T_KERNEL void @NAME@_tile_@KIND@(const @ELEMENT@* restrict x, const @NUMBER@* restrict w, int64_t kh0, int64_t kh1, @NUMBER@* restrict tile) {
  @ACCS@;
  for (int64_t kh = kh0; kh < kh1; ++kh) {
    const @ELEMENT@* const row = x + kh * @TAP_ROW@;
    const @NUMBER@* const taps = w + kh * @TAPS@;
    @ROW@
  }
  @STORE@
}
)",
                {{"PIXELS", std::to_string(kind.pixels)},
                 {"NAME", p.c.name},
                 {"KIND", std::to_string(index)},
                 {"ELEMENT", k.element},
                 {"NUMBER", k.number},
                 {"ACCS", accs},
                 {"TAP_ROW", std::to_string(s.dilation_h * p.row_stride)},
                 {"TAPS", std::to_string(s.kernel_w * p.c.tile.lanes)},
                 {"ROW", tap_row_text(p, kind)},
                 {"STORE", store}});
}

}  // namespace

namespace {

// Statements that set `w` to the packed weights of a block of channels.
std::string weights_text(const ConvPlan& p) {
  const ConvConfig& c = p.c;
  const int64_t taps = c.shape.kernel_h * c.shape.kernel_w;
  if (c.weights == ConvWeights::Packed)
    return fmt::format("const {0}* const w = (const {0}*)bufs[{1}] + block * {2};", kind_of(c).number, c.weight_buffer,
                       taps * c.tile.lanes);
  return expand(R"(float w[@TAPS@ * T_LANES] __attribute__((aligned(64)));
@NAME@_turn((const float*)bufs[@WEIGHT@] + @OFFSET@ + start * @STRIDE@, @STRIDE@, left < T_LANES ? left : T_LANES, @TAPS@, w);)",
                {{"NAME", c.name},
                 {"WEIGHT", std::to_string(c.weight_buffer)},
                 {"OFFSET", std::to_string(c.weight_offset)},
                 {"STRIDE", std::to_string(c.weight_stride)},
                 {"TAPS", std::to_string(taps)}});
}

}  // namespace

std::string depthwise_text(const ConvPlan& p) {
  const ConvConfig& c = p.c;
  const ConvShape& s = c.shape;
  const auto n = [](int64_t x) { return std::to_string(x); };
  std::string out = template_head(c.tile.lanes) + whole_text(c);
  for (size_t i = 0; i < p.kinds.size(); ++i) out += tile_text(p, static_cast<int>(i));
  if (c.weights != ConvWeights::Packed) out += turn_text(c.name, DType::F32, c.tile.lanes, c.tile.lanes, "i");
  const int64_t rest = s.channels % c.tile.lanes;
  const bool overlap = c.input == ConvInput::Nhwc && rest != 0;
  out += conv_epilogue_text(p.c, c.tile.lanes, rest != 0);
  // The channels of a block, and where its sums that are still to be handed on begin in the tile.
  std::string start =
      "const int64_t start = block * T_LANES, left = CHANNELS - start, columns = left < T_LANES ? left : T_LANES, skip = 0;";
  if (overlap)
    start = expand(R"(const int64_t start = block * T_LANES < CHANNELS - T_LANES ? block * T_LANES : CHANNELS - T_LANES;
const int64_t left = CHANNELS - start, skip = @SKIP@, columns = T_LANES - skip;)",
                   {{"SKIP", c.repeatable_epilogue ? "0" : "block * T_LANES - start"}});
  const std::string call = expand(
      R"(@NAME@_tile_@KIND@(x + ow * @STEP_W@, w, kh0, kh1, tile);
@NAME@_epilogue(tile + skip, row * @WIDTH@ + ow, @PIXELS@, start + skip, columns, image, bufs, params);)",
      {{"NAME", c.name}, {"KIND", "@KIND@"}, {"PIXELS", "@PIXELS@"}, {"STEP_W", n(s.stride_w * p.pixel_stride)}, {"WIDTH", n(p.width)}});
  return out + expand(conv_depthwise_c::kEntry, {{"NAME", c.name},
                                                 {"ELEMENT", kind_of(c).element},
                                                 {"NUMBER", kind_of(c).number},
                                                 {"CHANNELS", n(s.channels)},
                                                 {"KH", n(s.kernel_h)},
                                                 {"KW", n(s.kernel_w)},
                                                 {"ROWS", n(p.rows)},
                                                 {"WIDTH", n(p.width)},
                                                 {"BLOCK_ROWS", n(c.tile.block_rows)},
                                                 {"ROW_BLOCKS", n(p.row_blocks)},
                                                 {"BLOCKS", n(p.blocks)},
                                                 {"OC_TASKS", n(p.oc_tiles)},
                                                 {"PIXELS", n(c.tile.pixels)},
                                                 {"INPUT", n(c.input_buffer)},
                                                 {"IMAGE_STRIDE", n(p.image_stride)},
                                                 {"OFFSET", c.input == ConvInput::Nhwc ? "start" : "block * " + n(p.block_stride)},
                                                 {"START", start},
                                                 {"WEIGHTS", weights_text(p)},
                                                 {"STRIDE_H", n(s.stride_h)},
                                                 {"PAD_TOP", n(s.pad_top)},
                                                 {"PAD_LEFT", n(s.pad_left)},
                                                 {"DILATION", n(s.dilation_h)},
                                                 {"HEIGHT", n(s.height)},
                                                 {"ROW_STRIDE", n(p.row_stride)},
                                                 {"PIXEL_STRIDE", n(p.pixel_stride)},
                                                 {"WALK", walk_row_text(p, call)}});
}

}  // namespace toroid::codegen
