// What a tensor knows of its gradient: where it goes, what was added up of it, and which tensors share the memory.
//
// A node of the tape (autograd/tape/node.h) is held by what follows from it: tensors and later nodes. It holds no tensor that has a state,
// so that no circle can arise.
#pragma once

#include <functional>
#include <mutex>

#include "tensor/dispatch.h"

namespace toroid {

namespace autograd {
class Node;
}

// Where a gradient goes: to a result of a node, or into the state of a leaf; nowhere.
struct GradEdge {
  std::shared_ptr<autograd::Node> node;
  size_t result = 0;
  std::shared_ptr<GradState> leaf;
  explicit operator bool() const { return node || leaf; }
};

struct GradHook {
  std::function<Tensor(const Tensor&)> call;  // empty: it was removed
};
using GradHooks = std::vector<std::shared_ptr<GradHook>>;

// Of a tensor. It is changed by calls that change the tensor alone, but for the sum of a leaf.
//
// Tensors that share memory: the views of a tensor have its state as their base. A write to one of them gives the base another edge and
// counts its generation on; those whose edges are of a former generation are views of what the base is now.
struct GradState {
  bool asks = false;  // a leaf that requires gradients
  GradEdge edge;      // of what is no leaf
  std::shared_ptr<GradState> base;
  uint64_t generation = 0;  // a base: how often its memory was written; a view: the base's when `edge` was set
  // A base: how its elements lie in the storage.
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;

  std::mutex mutex;  // of what follows: threads may walk back to one leaf
  Tensor sum;
  GradHooks hooks;  // of a leaf
};

// Whether this thread remembers operations on tensors that require gradients.
inline thread_local bool grad_mode = true;
// Within a NoGrad, what could have a gradient has none.
inline bool loses_history(const Tensor& t) { return !grad_mode && (is_float(t.dtype()) || is_complex(t.dtype())); }
class GradModeScope {
 public:
  explicit GradModeScope(bool on) : before_(grad_mode) { grad_mode = on; }
  ~GradModeScope() { grad_mode = before_; }
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool before_;
};

// Whether the tape has something to do with a tensor: it may require gradients, or be a view of what does.
inline bool is_taped(const TensorImpl& t) { return t.grad || (t.storage && t.storage->history); }
// And operations on it go to the tape now: nothing is traced.
inline bool is_taped_now(const TensorImpl& t) {
  if (!is_taped(t) || !grad_mode) return false;
  const Dispatcher* d = innermost_dispatcher();
  return !d || d == eager_dispatcher();
}
bool requires_grad(const TensorImpl& t);
// Whether some tensor of the process has asked for gradients.
bool gradients_are_in_use();

// Members of Tensor that are operations on what the tape has something to do with.
class TapedMembers {
 public:
  virtual ~TapedMembers() = default;
  virtual Tensor as_strided(const Tensor& t, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
                            const std::source_location& where) = 0;
  virtual Tensor contiguous(const Tensor& t, const std::source_location& where) = 0;
  virtual Tensor to(const Tensor& t, const Device& device, const std::source_location& where) = 0;
};
// InternalError when none was installed; who makes the first state installs it.
TapedMembers& taped_members();
void install_taped_members(TapedMembers* members);

}  // namespace toroid
