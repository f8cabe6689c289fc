// Problems of oneDNN, as data.
#pragma once

#include <optional>
#include <vector>

#include "toroid/dtype.h"

namespace toroid::external {

// A strided view of a buffer, in elements.
struct TensorMemory {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

// What happens to each element x of the result, in the order of the chain.
enum class PostOpKind : uint8_t { Add, Mul, Relu, GeluErf, GeluTanh, Silu, Sigmoid, Tanh, HardSwish };

struct PostOp {
  PostOpKind kind = PostOpKind::Relu;
  TensorMemory operand;  // Add, Mul: of the result's rank; dimensions of size 1 are repeated
};

struct OneDnnProblem {
  // Product: a [batch..., m, k], b [batch..., k, n], out [batch..., m, n]; batch dimensions of size 1 are repeated.
  // Convolution: a [n, c, h, w], b [oc, ic, kh, kw] or [groups, oc / groups, ic / groups, kh, kw], out [n, oc, oh, ow].
  TensorMemory a, b, out;
  struct Window {
    int64_t stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};
  };
  std::optional<Window> window;  // convolutions
  std::vector<PostOp> post_ops;
  bool constant_b = false;  // known when the call is prepared
};

}  // namespace toroid::external
