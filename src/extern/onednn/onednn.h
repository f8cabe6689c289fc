// oneDNN: matrix products and 2-d convolutions of fixed sizes, with a chain of operations on each element of the result.
//
// The library (the option onednn_library) is opened at the first use; each function throws an EnvironmentError that says what to install
// where it is missing. oneDNN runs on OpenMP threads: as many as Toroid's thread pool has. What is not finite may come out otherwise than
// by the other backends: ReLU gives 0 for NaN, and infinities meet the zeros that channels are filled up with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "extern/library_call.h"
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

// "2.6.3"
std::string onednn_version();

// Why oneDNN does not take a problem: it has no implementation of it, or only its reference implementation. Empty when it does.
std::string onednn_refusal(const OneDnnProblem& problem);

// The call of a problem that is not refused. Its buffers: a, b (unless constant), out, then the operand of each Add and Mul of the chain.
// constant_b: the first element of b's buffer, which is packed here and not read later; null where b is no constant.
std::shared_ptr<const LibraryCall> prepare_onednn(const OneDnnProblem& problem, const void* constant_b);

}  // namespace toroid::external
