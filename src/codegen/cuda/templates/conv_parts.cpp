#include "codegen/cuda/templates/conv_parts.h"

#include <algorithm>

#include "base/check.h"
#include "loop/var_map.h"

namespace toroid::codegen {
namespace {

struct Packing {
  int64_t out, in, taps_h, taps_w;
  std::vector<int64_t> from;  // strides of the source: [out][in][tap row][tap column]
  int64_t to_out, to_k;       // strides of the result; what k leaves free up to to_out is zero
};

template <class T>
void pack(const Packing& p, const T* from, T* to, int64_t first, int64_t last) {
  for (int64_t o = first; o < last; ++o) {
    T* const row = to + o * p.to_out;
    int64_t k = 0;
    for (int64_t h = 0; h < p.taps_h; ++h)
      for (int64_t w = 0; w < p.taps_w; ++w)
        for (int64_t i = 0; i < p.in; ++i, k += p.to_k) row[k] = from[o * p.from[0] + i * p.from[1] + h * p.from[2] + w * p.from[3]];
    if (k < p.to_out) std::fill(row + k, row + p.to_out, T(0));
  }
}

int pack_weight(const program::Convolution& c, program::Program& program, ConstantMemory& constants, int64_t to_out, int64_t to_k) {
  const Tensor weight = constants.tensors.at(c.weight.buffer);
  Packing p{c.out_channels, conv_group_in(c), c.kernel_h, c.kernel_w, {}, to_out, to_k};
  for (auto& s : c.weight.strides) p.from.push_back(s.constant());
  const int64_t numel = std::max(p.out * to_out, conv_k(c) * to_k), offset = c.weight.offset.constant();
  const Tensor packed = Tensor::empty(std::vector<int64_t>{numel}, c.weight.dtype);
  constexpr int64_t kWeightsPerJob = 1 << 18;
  const int64_t rows = std::max<int64_t>(1, kWeightsPerJob / std::max<int64_t>(conv_k(c), 1));
  for (int64_t first = 0; first < p.out; first += rows)
    constants.jobs.push_back([=, last = std::min(first + rows, p.out)] {
      if (size_of(weight.dtype()) == 2)
        pack(p, weight.data<uint16_t>() + offset, packed.data<uint16_t>(), first, last);
      else
        pack(p, reinterpret_cast<const uint32_t*>(weight.raw_data()) + offset, reinterpret_cast<uint32_t*>(packed.raw_data()), first, last);
    });
  const int id = program.new_buffer("packed_" + program.buffers[static_cast<size_t>(c.weight.buffer)].name, c.weight.dtype, numel,
                                    loop::BufferKind::Constant);
  constants.packed[id] = packed;
  return id;
}

}  // namespace

loop::Nest conv_points(const program::Node& node, const program::Convolution& c, bool by_group) {
  const auto& vars = node.domain.vars;
  const Expr pixel = sym::loop_symbol("pixel", conv_pixels(c));
  Expr channel = sym::loop_symbol("channel", by_group ? conv_group_out(c) : c.out_channels), group = 0;
  loop::Nest nest;
  nest.domain.vars = {{pixel, false}};
  if (by_group) {
    group = sym::loop_symbol("group", c.groups);
    nest.domain.vars.push_back({group, false});
  }
  nest.domain.vars.push_back({channel, false});
  loop::VarMap<Expr> map;
  map[vars[0].symbol] = sym::floor_div(pixel, c.out_h * c.out_w);
  map[vars[1].symbol] = group * Expr(conv_group_out(c)) + channel;
  map[vars[2].symbol] = sym::mod(sym::floor_div(pixel, c.out_w), c.out_h);
  map[vars[3].symbol] = sym::mod(pixel, c.out_w);
  nest.body = loop::substitute(node.body, loop::replacing(map));
  return nest;
}

bool conv_weight_is_packed(const program::Convolution& c) {
  const int64_t want[] = {conv_k(c), 1, c.kernel_w * conv_group_in(c), conv_group_in(c)};
  const int64_t sizes[] = {c.out_channels, conv_group_in(c), c.kernel_h, c.kernel_w};
  bool packed = conv_k(c) == conv_weight_pitch(c) && c.weight.offset == Expr(0);
  for (size_t d = 0; d < 4; ++d) packed = packed && (sizes[d] == 1 || c.weight.strides[d] == Expr(want[d]));
  return packed;
}

int conv_packed_weight(const program::Convolution& c, program::Program& program, ConstantMemory& constants) {
  return conv_weight_is_packed(c) ? c.weight.buffer : pack_weight(c, program, constants, conv_weight_pitch(c), 1);
}

int conv_weight_by_taps(const program::Convolution& c, program::Program& program, ConstantMemory& constants) {
  return pack_weight(c, program, constants, 1, c.out_channels);
}

int conv_input_width(const program::Convolution& c) {
  if (!(c.input.strides[1] == Expr(1))) return 1;
  for (int width = static_cast<int>(16 / size_of(c.input.dtype)); width > 1; width /= 2) {
    bool fits = conv_group_in(c) % width == 0 && sym::known_multiple(c.input.offset, width);
    for (size_t d : {0, 2, 3}) fits = fits && sym::known_multiple(c.input.strides[d], width);
    if (fits) return width;
  }
  return 1;
}

std::string conv_product_refusal(const program::Node& node, const program::Convolution& c) {
  if (c.kernel_h != 1 || c.kernel_w != 1) return "several taps";
  if (c.groups != 1) return "groups";
  if (c.stride_h != 1 || c.stride_w != 1 || c.pad_h != 0 || c.pad_w != 0) return "a stride or padding";
  const Expr row = c.in_w * c.input.strides[3], image = c.in_h * row;
  if (!(c.in_h == Expr(1)) && !(c.input.strides[2] == row)) return "rows of the input do not follow each other";
  if (!(c.n == Expr(1)) && !(c.input.strides[0] == image)) return "images do not follow each other";
  return node.producer ? "its rows are computed" : "";
}

program::Node conv_as_product(const program::Node& node, const program::Convolution& c) {
  program::Gemm g;
  g.m = conv_pixels(c);
  g.n = c.out_channels;
  g.k = c.in_channels;
  g.tf32 = c.tf32;
  g.a = {c.input.buffer, c.input.dtype, c.input.offset, {c.input.strides[3], c.input.strides[1]}};
  g.b = {c.weight.buffer, c.weight.dtype, c.weight.offset, {c.weight.strides[1], c.weight.strides[0]}};
  loop::Nest points = conv_points(node, c, false);
  program::Node out;
  out.problem = std::move(g);
  out.domain = std::move(points.domain);
  out.body = std::move(points.body);
  program::take_over(out, node);
  return out;
}

}  // namespace toroid::codegen
