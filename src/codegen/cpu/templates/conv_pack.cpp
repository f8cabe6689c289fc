// The weights of convolutions as the templates read them.
#include <algorithm>
#include <array>

#include "codegen/cpu/templates/conv_int8.h"
#include "codegen/cpu/templates/conv_plan.h"
#include "codegen/cpu/templates/conv_winograd.h"
#include "codegen/cpu/templates/gemm_int8.h"

namespace toroid::codegen {

int64_t conv_packed_elements(const ConvConfig& config) {
  const ConvPlan p(config);
  const ConvShape& s = config.shape;
  const int64_t taps = s.kernel_h * s.kernel_w;
  return s.depthwise() ? p.blocks * taps * config.tile.lanes : s.groups * p.oc_tiles * p.blocks * taps * p.block_channels * p.oc_tile;
}

namespace {

// One vector of depthwise channels after the other.
template <class From, class To>
void pack_depthwise(const ConvPlan& p, const From* oihw, To* packed) {
  const int64_t taps = p.c.shape.kernel_h * p.c.shape.kernel_w, lanes = p.c.tile.lanes;
  for (int64_t block = 0; block < p.blocks; ++block) {
    const int64_t start = p.depthwise_start(block), count = std::min(lanes, p.c.shape.channels - start);
    for (int64_t t = 0; t < taps; ++t, packed += lanes) {
      for (int64_t lane = 0; lane < lanes; ++lane) packed[lane] = lane < count ? static_cast<To>(oihw[(start + lane) * taps + t]) : To{};
    }
  }
}

// One panel: the weights of a tile of output channels under one block of input channels, [tap][channel][output channel].
void pack_panel(const ConvPlan& p, int64_t oc_tile, int64_t block, const float* group, float* packed) {
  const int64_t taps = p.c.shape.kernel_h * p.c.shape.kernel_w, first = oc_tile * p.oc_tile, c0 = block * p.block_channels;
  const int64_t columns = std::min(p.oc_tile, p.group_out - first), channels = std::min(p.block_channels, p.group_channels - c0);
  if (columns < p.oc_tile || channels < p.block_channels) std::fill(packed, packed + taps * p.block_channels * p.oc_tile, 0.0f);
  // A few channels of all output channels at a time: reads stay within lines, writes are runs of output channels.
  constexpr int64_t kStep = 16;
  for (int64_t i0 = 0; i0 < channels; i0 += kStep) {
    const int64_t count = std::min(kStep, channels - i0);
    for (int64_t t = 0; t < taps; ++t) {
      float* to = packed + (t * p.block_channels + i0) * p.oc_tile;
      for (int64_t o = 0; o < columns; ++o) {
        const float* from = group + ((first + o) * p.group_channels + c0 + i0) * taps + t;
        for (int64_t i = 0; i < count; ++i) to[i * p.oc_tile + o] = from[i * taps];
      }
    }
  }
}

}  // namespace

int64_t conv_pack_jobs(const ConvConfig& config) {
  const ConvPlan p(config);
  return config.shape.depthwise() ? 1 : config.shape.groups * p.oc_tiles;
}

void pack_conv_weights(const ConvConfig& config, const float* oihw, float* packed, int64_t first_job, int64_t last_job) {
  const ConvPlan p(config);
  if (config.shape.depthwise()) {
    if (first_job < last_job) pack_depthwise(p, oihw, packed);
    return;
  }
  const int64_t taps = config.shape.kernel_h * config.shape.kernel_w, panel = taps * p.block_channels * p.oc_tile;
  for (int64_t job = first_job; job < last_job; ++job) {
    const float* group = oihw + job / p.oc_tiles * p.group_out * p.group_channels * taps;
    for (int64_t block = 0; block < p.blocks; ++block)
      pack_panel(p, job % p.oc_tiles, block, group, packed + (job * p.blocks + block) * panel);
  }
}

void pack_depthwise_weights(const ConvConfig& config, const int8_t* oihw, int32_t* packed) {
  pack_depthwise(ConvPlan(config), oihw, packed);
  const int64_t count = conv_packed_elements(config);
  std::transform(packed, packed + count, packed, [](int32_t w) { return w & 0xffff; });  // as kernels multiply them
}

void pack_conv_weights(const ConvConfig& config, const float* oihw, float* packed) {
  pack_conv_weights(config, oihw, packed, 0, conv_pack_jobs(config));
}

namespace {

constexpr int kMatrices = 16;  // of Winograd's transform

// One kernel of 3 x 3 weights to 4 x 4.
std::array<float, kMatrices> transformed(const float* g) {
  const auto line = [](double a, double b, double c) { return std::array<double, 4>{a, (a + b + c) / 2, (a - b + c) / 2, c}; };
  std::array<std::array<double, 4>, 3> columns;
  for (size_t w = 0; w < 3; ++w) columns[w] = line(g[w], g[3 + w], g[6 + w]);
  std::array<float, kMatrices> out;
  for (size_t h = 0; h < 4; ++h) {
    const auto row = line(columns[0][h], columns[1][h], columns[2][h]);
    for (size_t w = 0; w < 4; ++w) out[h * 4 + w] = static_cast<float>(row[w]);
  }
  return out;
}

// Output channels that are computed together, and how many such tiles there are.
struct WinogradTiles {
  WinogradTiles(const ConvShape& s, const WinogradTile& t)
      : width(static_cast<int64_t>(t.vecs) * t.lanes), count(ceil_div(s.out_channels, width)) {}
  int64_t width, count;
};

// The product that a group of a convolution of whole numbers is.
struct GroupProduct {
  GroupProduct(const ConvShape& s, const ConvInt8Tile& t)
      : k(s.kernel_h * s.kernel_w * (s.channels / s.groups)), out(s.out_channels / s.groups), panel(t.lanes * t.vecs) {}
  int64_t k, out;
  int panel;
  int64_t packed_bytes() const { return packed_int8_bytes(k, out, panel); }
};

}  // namespace

int64_t winograd_packed_elements(const ConvShape& shape, const WinogradTile& tile) {
  const WinogradTiles tiles(shape, tile);
  return tiles.count * kMatrices * shape.channels * tiles.width;
}

int64_t winograd_pack_jobs(const ConvShape& shape, const WinogradTile& tile) { return WinogradTiles(shape, tile).count; }

void pack_winograd_weights(const ConvShape& shape, const WinogradTile& tile, const float* oihw, float* packed, int64_t first_job,
                           int64_t last_job) {
  const int64_t width = WinogradTiles(shape, tile).width, panel = shape.channels * width;
  for (int64_t job = first_job; job < last_job; ++job)
    for (int64_t c = 0; c < shape.channels; ++c)
      for (int64_t o = 0; o < width; ++o) {
        const int64_t channel = job * width + o;
        std::array<float, kMatrices> u = {};
        if (channel < shape.out_channels) u = transformed(oihw + (channel * shape.channels + c) * 9);
        for (int64_t i = 0; i < kMatrices; ++i) packed[(job * kMatrices + i) * panel + c * width + o] = u[static_cast<size_t>(i)];
      }
}

int64_t conv_int8_packed_bytes(const ConvShape& s, const ConvInt8Tile& t) { return s.groups * GroupProduct(s, t).packed_bytes(); }

void pack_conv_int8_weights(const ConvConfig& c, const ConvInt8Tile& t, const int8_t* ohwi, int64_t group, void* packed) {
  const GroupProduct p(c.shape, t);
  pack_int8(ohwi + group * p.out * p.k, p.k, p.out, 1, p.k, p.panel, c.zero + (c.input_type == DType::I8 ? 128 : 0),
            static_cast<char*>(packed) + group * p.packed_bytes());
}

}  // namespace toroid::codegen
