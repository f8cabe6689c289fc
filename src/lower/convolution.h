// What the ways to lower convolutions of images have in common.
#pragma once

#include "lower/template_node.h"

namespace toroid::lower {

// Strides of [n, channels, height, width] whose memory is [n][row][column][channel], or [channel][row][column][n].
std::vector<Expr> channels_last(const std::vector<Expr>& sizes);
std::vector<Expr> images_last(const std::vector<Expr>& sizes);
// The value, of four dimensions, in memory with these strides.
Place realize_as(Lowering& l, const graph::Value* v, const std::vector<Expr>& want);
// The value in channels-last memory, as an operand whose images are channels, and channels images.
program::Operand images_as_channels(Lowering& l, const graph::Value* v);
// The element at an index, 0 unless each of `ranges`, an expression and what it is to be below, is in range.
S read_inside(loop::BodyBuilder& b, const Lazy& from, const Index& index, const std::vector<std::pair<Expr, Expr>>& ranges);
// Appends the convolution, whose result is channels last; gives its place. bias: of the results, may be null. Adds it by the channel.
Place append_convolution(Lowering& l, const graph::Node& n, const program::Convolution& c, const graph::Value* bias, DType dtype);

// The convolution whose result is the gradient of the weights of `f`: images are the channels of f's images, and channels its images.
// Nothing where f's number of images is not known. Its operands' memory is channels last, whose strides it has.
std::optional<program::Convolution> gradient_of_weights(const program::Convolution& f, DType dtype);

// A convolution of few channels, and the gradient of its weights, from images whose pixels are packed (packed_pixels.cpp). False, and
// nothing done, where no template takes that, or it is no gain.
bool lower_packed_pixels(Lowering& l, const graph::Node& n, const program::Convolution& f, bool constant_weight);
bool lower_packed_pixels_gradient(Lowering& l, const graph::Node& n, const program::Convolution& f);

}  // namespace toroid::lower
