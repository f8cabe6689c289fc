// Convolutions of images.
#pragma once

#include "program/operand.h"

namespace toroid::program {

// out[n, oc, oh, ow] of a 2-d convolution, NCHW logical order; strides of `input` are in that order too. Summed in I32: of integers
// of 8 bits, the input's less `zero`.
struct Convolution {
  static constexpr std::string_view kKeyword = "convolution";
  Expr n;
  int64_t groups = 1, in_channels = 0, out_channels = 0;
  Expr in_h, in_w, out_h, out_w;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  Operand input, weight;  // weight: [oc, ic / groups, kh, kw]
  bool tf32 = false;      // as Gemm's
  DType accumulate = DType::F32;
  int64_t zero = 0;
};

// Whether memory is that of the gradient of a convolution's weights, where both operands of it lie channels last: images are the channels
// of an image, and input channels the images.
inline bool is_weight_gradient(const Convolution& c) {
  return c.input.strides[0] == Expr(1) && c.weight.strides[0] == Expr(1) && !(c.input.strides[1] == Expr(1));
}

// Input channels that a result reads; 0 where there are no groups, which no program may have.
inline int64_t group_channels(const Convolution& c) { return c.groups > 0 ? c.in_channels / c.groups : 0; }

template <IsKind<Convolution> P, class Visitor>
void fields(P& c, Visitor& v) {
  v.sizes("", c.n, c.in_channels, c.in_h, c.in_w);
  v.word("->");
  v.sizes("", c.out_channels, c.out_h, c.out_w);
  v.pair("kernel", c.kernel_h, c.kernel_w);
  v.pair("stride", c.stride_h, c.stride_w);
  v.pair("pad", c.pad_h, c.pad_w);
  v.pair("dilation", c.dilation_h, c.dilation_w);
  v.number("groups", c.groups);
  v.operand("input", c.input, Use::Read, "the input", [&] { return std::vector<Expr>{c.n, c.in_channels, c.in_h, c.in_w}; });
  v.operand("weight", c.weight, Use::Read, "the weight", [&] {
    return std::vector<Expr>{c.out_channels, group_channels(c), c.kernel_h, c.kernel_w};
  });
  v.number("less", c.zero);
  v.dtype("in", c.accumulate);
  v.flag("tf32", c.tf32);
}

inline std::vector<Expr> points(const Convolution& c) { return {c.n, c.out_channels, c.out_h, c.out_w}; }
inline Expr flops(const Convolution& c) {
  return c.n * c.out_h * c.out_w * Expr(2 * c.out_channels * group_channels(c) * c.kernel_h * c.kernel_w);
}
// At image, output channel, row, column. Elements of the window outside of the input add nothing. The problem must outlive it.
loop::Accumulated formula(const Convolution& c, const Tensors& operands);

}  // namespace toroid::program
