// Parts that the attention operators of several domains share.
#pragma once

#include <optional>

#include "import/onnx/operators.h"

namespace toroid::import::onnx {

// [batch, n, heads * size] as [batch, heads, n, size]; a tensor of 4 dimensions is that already.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor join_heads(const Tensor& x);

// Which keys each query may see around its own place, which is `offset` (undefined: 0) keys further on: `left` before it and `right` after
// it, all where these are negative (not both).
Tensor visible_keys(const Tensor& offset, const Expr& queries, const Expr& keys, int64_t left = -1, int64_t right = 0);
// A mask that also hides what is not allowed.
Tensor with_mask(const Tensor& mask, const Tensor& allowed, DType dtype);

struct AttentionCall {
  Tensor query, key, value;  // [batch, heads, n, size]; key heads may serve several query heads
  Tensor mask;               // Bool: what is seen; else added to the scores
  double scale = 1, softcap = 0;
  std::optional<DType> softmax_dtype;
};

// The result [batch, heads, n, size]. `shown`, where asked for, gets the scores: as products (mode 0), capped (1), masked (2), or after the
// softmax (3). Queries that see nothing give zeros.
Tensor attend(const AttentionCall& a, int mode = 0, Tensor* shown = nullptr);

// The first `width` elements of each head turned by angles, given by their cosines and sines [..., width / 2].
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, const Expr& width, bool interleaved);

}  // namespace toroid::import::onnx
