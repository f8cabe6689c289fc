#include "tensor/element_reads.h"

#include <algorithm>
#include <cstring>

namespace toroid {
namespace {

constexpr int64_t kComparedBytes = 256;

thread_local ElementReader* reader = nullptr;

bool is_compared(const Tensor& t) {
  return !t.device().is_cuda() && t.is_contiguous() && t.numel() * static_cast<int64_t>(size_of(t.dtype())) <= kComparedBytes;
}

// The elements as they lie now, whoever has used the memory again.
std::span<const std::byte> memory_of(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  const size_t size = size_of(impl.dtype);
  return {impl.storage->data + static_cast<size_t>(impl.offset) * size, static_cast<size_t>(product(impl.sizes)) * size};
}

}  // namespace

ElementReader* ElementReader::current() { return reader; }
ElementReader::Scope::Scope(ElementReader* r) : before_(std::exchange(reader, r)) {}
ElementReader::Scope::~Scope() { reader = before_; }

// A view of its own, so that others see who else holds the tensor.
void ElementReads::add(const Tensor& t) {
  const auto same = [&](const Read& r) {
    const TensorImpl &a = *r.tensor.impl(), &b = *t.impl();
    return a.storage == b.storage && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype;
  };
  if (std::any_of(reads_.begin(), reads_.end(), same)) return;
  auto view = std::make_shared<TensorImpl>(*t.impl());
  view->grad = nullptr;
  reads_.push_back({Tensor(std::move(view)), {}, {}, 0});
}

void ElementReads::settle() {
  std::erase_if(reads_, [](const Read& r) { return r.tensor.impl()->storage.use_count() == 1; });
  for (Read& r : reads_) {
    if (is_compared(r.tensor)) {
      const auto now = memory_of(r.tensor);
      r.bytes.assign(now.begin(), now.end());
    } else {
      r.writes = r.tensor.impl()->storage->writes.watch();
      r.count = r.writes->load(std::memory_order_relaxed);
    }
  }
}

bool ElementReads::stand() const {
  return std::all_of(reads_.begin(), reads_.end(), [](const Read& r) {
    if (r.writes) return r.writes->load(std::memory_order_relaxed) == r.count;
    return r.bytes.empty() || std::memcmp(memory_of(r.tensor).data(), r.bytes.data(), r.bytes.size()) == 0;
  });
}

}  // namespace toroid
