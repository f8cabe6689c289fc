// What a Tensor handle points to, and the hook through which operations on tensors go.
#pragma once

#include <atomic>

#include "toroid/tensor.h"

namespace toroid {

struct LateStack;
struct GradState;  // tensor/grad_state.h

// Memory that is used again while somebody may still hold it.
struct Lent {
  std::atomic<bool> gone{false};  // it has been used again
  std::string message;            // then: by whom
};

// How often memory was written in place. It is counted from when somebody first wants to know.
class WriteCount {
 public:
  using Counter = std::shared_ptr<std::atomic<uint64_t>>;
  WriteCount() = default;
  ~WriteCount() { delete counter_.load(std::memory_order_relaxed); }
  WriteCount(const WriteCount&) = delete;
  WriteCount& operator=(const WriteCount&) = delete;
  void note() const {
    if (const Counter* c = counter_.load(std::memory_order_acquire)) (*c)->fetch_add(1, std::memory_order_relaxed);
  }
  // The counter, which may outlive this object.
  Counter watch() const;

 private:
  mutable std::atomic<const Counter*> counter_{nullptr};
};

// Memory that one or more tensors view.
struct Storage {
  std::byte* data = nullptr;
  size_t bytes = 0;
  Device device;
  std::shared_ptr<void> owner;      // frees the memory when the last reference goes
  std::shared_ptr<LateStack> late;  // null: the contents are there; see tensor/late_stack.h
  std::shared_ptr<Lent> lent;       // null: the memory is nobody else's
  bool static_address = false;      // see mark_static_address
  // Its only holder gives the memory up: a program that takes it as a donated input (exec/plan.h) may write over it.
  bool donated = false;
  WriteCount writes;
  // Set where a tensor that depends on others which require gradients was written into memory of which the tape knew nothing: the history
  // of all its elements. See tensor/grad_state.h.
  std::shared_ptr<GradState> history;
};

// 64-byte aligned memory, uninitialised. EnvironmentError when there is not enough, or no such device.
std::shared_ptr<Storage> allocate_storage(size_t bytes, const Device& device = Device::cpu());

struct TensorImpl {
  DType dtype = DType::F32;
  bool requires_grad = false;       // stand-ins: whether what they stand for does; else see grad
  std::shared_ptr<GradState> grad;  // null: nothing is known of gradients; a view or a copy has a state of its own
  // Concrete tensors.
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // elements
  std::shared_ptr<Storage> storage;
  // Tensors that stand for a graph value while a program is recorded: `proxy` identifies the value to the recorder.
  std::vector<Expr> sym_sizes;
  Device device;  // where the value will be
  void* proxy = nullptr;
};

bool is_proxy(const Tensor& t);
// UserError naming the place when the memory of t has been used again by others.
void check_contents(const Tensor& t, const std::source_location& where);
std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);
int64_t product(std::span<const int64_t> sizes);
// Tensor::to() at once, also while something is traced.
Tensor moved(const Tensor& t, const Device& device, const std::source_location& where = std::source_location::current());
// Copies elements between tensors of equal sizes on any devices, converting the dtype. Between devices, what is not equal and dense on
// both sides goes through the memory of the host.
void copy_elements(const Tensor& from, const Tensor& to);
// While work is captured on the device: the graph keeps the memory of t alive, unless it lies in the graph's own pool.
void keep_for_capture(const Device& device, const Tensor& t);
// The part of it for tensors of which one is on a GPU.
void copy_with_gpu(const Tensor& from, const Tensor& to);
// Calls fn(byte offset a) for each element in row-major order; strides in elements.
template <class F>
void for_each_index(std::span<const int64_t> sizes, F&& fn) {
  int64_t n = product(sizes);
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    fn(std::span<const int64_t>(index));
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace toroid
