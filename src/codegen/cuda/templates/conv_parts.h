// A 2-d convolution seen as a product: rows are the pixels of the result, k runs over the window's taps and, innermost, input channels.
#pragma once

#include <string>

#include "codegen/constant_memory.h"
#include "program/program.h"

namespace toroid::codegen {

// Of one group.
inline int64_t conv_group_in(const program::Convolution& c) { return c.in_channels / c.groups; }
inline int64_t conv_group_out(const program::Convolution& c) { return c.out_channels / c.groups; }
inline int64_t conv_k(const program::Convolution& c) { return conv_group_in(c) * c.kernel_h * c.kernel_w; }
// Rows of the weight begin at multiples of 16 bytes.
inline int64_t conv_weight_pitch(const program::Convolution& c) {
  const auto unit = static_cast<int64_t>(16 / size_of(c.weight.dtype));
  return (conv_k(c) + unit - 1) / unit * unit;
}
inline Expr conv_pixels(const program::Convolution& c) { return c.n * c.out_h * c.out_w; }
inline bool is_depthwise(const program::Convolution& c) { return c.groups > 1 && c.groups == c.in_channels; }

// What is fused into a convolution, over (pixel, channel), or `by_group` over (pixel, group, channel of the group).
loop::Nest conv_points(const program::Node& node, const program::Convolution& c, bool by_group);

// Whether the weight lies as [out channel][tap][in channel], rows conv_weight_pitch() apart; and a buffer with it in that order: its own
// or a new constant, rows padded with zeros, which a job of `constants` fills.
bool conv_weight_is_packed(const program::Convolution& c);
int conv_packed_weight(const program::Convolution& c, program::Program& program, ConstantMemory& constants);
// A new constant with the weight as [tap][out channel], for depthwise convolutions.
int conv_weight_by_taps(const program::Convolution& c, program::Program& program, ConstantMemory& constants);

// As many neighbouring input channels as fill 16 bytes and lie at a multiple of that for all pixels, taps and groups; else fewer: a half, a
// quarter, down to 1.
int conv_input_width(const program::Convolution& c);

// Why a convolution is no plain product of the pixels' channels and the weights; empty when it is, and then that product.
std::string conv_product_refusal(const program::Node& node, const program::Convolution& c);
program::Node conv_as_product(const program::Node& node, const program::Convolution& c);

}  // namespace toroid::codegen
