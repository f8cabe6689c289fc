// What the templates of a CPU pack constants by.
#pragma once

#include <array>

#include "codegen/cpu/templates/conv_int8.h"
#include "codegen/cpu/templates/conv_winograd.h"
#include "codegen/packing.h"

namespace toroid::codegen {

// Of pack_b: element (k, n) of the right operand lies at offset + k * row + n * column of the tensor, or of all of them one below the
// other.
struct GemmPacking {
  int64_t k = 0, n = 0, row = 0, column = 0, offset = 0;
  int panel = 0;
  DType type = DType::F32, packed_type = DType::F32;
};
// Of pack_int8.
struct Int8Packing {
  int64_t k = 0, n = 0, row = 0, column = 0, offset = 0;
  int panel = 0;
  int64_t more = 0;
};
// Of weights [out, in of a group, height, width] with these strides.
struct ConvPacking {
  enum Kind { Direct, DepthwiseInt8, Int8, Winograd } kind = Direct;
  ConvShape shape = {};
  ConvInput input = ConvInput::Nhwc;
  DType input_type = DType::F32;
  int64_t zero = 0, offset = 0;
  std::array<int64_t, 4> strides = {};
  ConvTile tile = {};          // of Direct and DepthwiseInt8
  ConvInt8Tile int8 = {};      // of Int8
  WinogradTile winograd = {};  // of Winograd
};

Packing packing_of(const GemmPacking& how);
Packing packing_of(const Int8Packing& how);
Packing packing_of(const ConvPacking& how);

bool is_conv_packing(const Packing& how);
// See pack().
Packed pack_gemm(const Packing& how, const std::vector<Tensor>& from);
Packed pack_gemm_int8(const Packing& how, const std::vector<Tensor>& from);
Packed pack_conv(const Packing& how, const std::vector<Tensor>& from);

}  // namespace toroid::codegen
