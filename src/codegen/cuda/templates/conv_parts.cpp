#include "codegen/cuda/templates/conv_parts.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/rearrange.h"
#include "loop/var_map.h"

namespace toroid::codegen {
namespace {

// The weight as [out channel][tap][in channel]: rows `to_out` apart, neighbours in one `to_k`. What lies between rows is 0.
int pack_weight(const program::Convolution& c, program::Program& program, ConstantMemory& constants, int64_t to_out, int64_t to_k) {
  const int64_t in = conv_group_in(c), numel = std::max(c.out_channels * to_out, conv_k(c) * to_k);
  const auto& strides = c.weight.strides;  // [out channel][in channel][tap row][tap column]
  program::Rearranged::Part part;
  part.from = c.weight;
  part.from.strides = {strides[0], strides[2], strides[3], strides[1]};
  part.sizes = {c.out_channels, c.kernel_h, c.kernel_w, in};
  part.strides = {to_out, c.kernel_w * in * to_k, in * to_k, to_k};
  auto [how, from] = packing_of({-1, {std::move(part)}}, c.weight.dtype, numel, constants.tensors);
  return constants.add(program, c.weight.buffer, std::move(how), std::move(from));
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
