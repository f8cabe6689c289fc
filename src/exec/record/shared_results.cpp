#include "exec/record/shared_results.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::exec {
namespace {

// What a thread has called. Marks, once there is one, say where steps begin; until then each call is a step.
struct Steps {
  uint64_t calls = 0, marks = 0;
  int depth = 0;
};
thread_local Steps steps;

uint64_t current_step() {
  constexpr uint64_t kMarked = uint64_t{1} << 63;
  return steps.marks ? kMarked | steps.marks : steps.calls;
}

constexpr int64_t kAlign = 512;  // what a device's allocator aligns to
int64_t rounded(int64_t bytes) { return (std::max<int64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign + kAlign; }  // a spare line

Tensor bytes_at(std::byte* data, size_t bytes, const Device& device) {
  return Tensor::from_blob(data, std::vector<int64_t>{static_cast<int64_t>(bytes)}, DType::U8, {}, nullptr, device);
}

}  // namespace

CallScope::CallScope() {
  if (steps.depth++ == 0) ++steps.calls;
}
CallScope::~CallScope() { --steps.depth; }
void mark_step_begin() { ++steps.marks; }

int64_t Placement::bytes() const {
  int64_t end = 0;
  for (auto& p : places) end = std::max(end, p.offset + rounded(p.bytes));
  return end;
}

void SharedResults::forget_dead() {
  std::erase_if(results_, [](auto& r) { return r.memory.expired(); });
}

bool SharedResults::holds_results() {
  forget_dead();
  return std::any_of(results_.begin(), results_.end(), [&](auto& r) { return r.slab == slab_.get(); });
}

std::vector<SharedResults::Range> SharedResults::protected_ranges(std::span<const Tensor> inputs) {
  forget_dead();
  std::vector<Range> out;
  for (auto& r : results_)
    if (r.slab == slab_.get() && r.step == current_step()) out.push_back(r.range);
  for (auto& t : inputs) {
    if (!t.defined() || !slab_) continue;
    const Storage& s = *t.impl()->storage;
    const int64_t begin = s.data - slab_->data;
    if (begin >= 0 && begin < bytes()) out.push_back({begin, begin + rounded(static_cast<int64_t>(s.bytes))});
  }
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return out;
}

Placement SharedResults::place(std::span<const std::pair<int, int64_t>> results, std::span<const Tensor> inputs) {
  std::vector<Range> taken = protected_ranges(inputs);
  Placement out;
  for (auto& [buffer, bytes] : results) {
    const int64_t size = rounded(bytes);
    Range at{0, size};
    auto next = taken.begin();
    for (; next != taken.end() && at.end > next->begin; ++next)
      if (next->end > at.begin) at = {next->end, next->end + size};
    taken.insert(next, at);
    out.places.push_back({buffer, at.begin, bytes});
  }
  return out;
}

bool SharedResults::fits(const Placement& p, std::span<const Tensor> inputs) {
  const auto taken = protected_ranges(inputs);
  return std::none_of(p.places.begin(), p.places.end(), [&](auto& place) {
    return std::any_of(taken.begin(), taken.end(),
                       [&](auto& t) { return t.begin < place.offset + rounded(place.bytes) && place.offset < t.end; });
  });
}

void SharedResults::claim(const Placement& p, bool move, const std::string& by) {
  std::erase_if(results_, [&](Result& r) {
    const bool hit = r.slab == slab_.get() && std::any_of(p.places.begin(), p.places.end(), [&](auto& place) {
                       return r.range.begin < place.offset + rounded(place.bytes) && place.offset < r.range.end;
                     });
    const std::shared_ptr<Storage> memory = hit ? r.memory.lock() : nullptr;
    if (!memory) return hit;
    if (move) {
      auto own = allocate_storage(memory->bytes, memory->device);
      copy_elements(bytes_at(memory->data, memory->bytes, memory->device), bytes_at(own->data, memory->bytes, memory->device));
      memory->data = own->data;
      memory->owner = own->owner;
    } else {
      memory->lent->message =
          fmt::format("{} was overwritten by a later run of {}, because capture_results=pool lets results share memory", r.what, by);
      memory->lent->gone.store(true, std::memory_order_release);
    }
    return true;
  });
}

Tensor SharedResults::lend(const Placement::Place& place, std::span<const int64_t> sizes, DType dtype, const std::string& what) {
  TOROID_CHECK(place.offset + place.bytes <= bytes(), "a result lies outside of the memory for results");
  Tensor t = Tensor::from_blob(slab_->data + place.offset, sizes, dtype, {}, slab_->owner, slab_->device);
  Storage& s = *t.impl()->storage;
  s.bytes = static_cast<size_t>(place.bytes);
  s.lent = std::make_shared<Lent>();
  results_.push_back({t.impl()->storage, slab_.get(), {place.offset, place.offset + rounded(place.bytes)}, current_step(), what});
  return t;
}

void SharedResults::reserve(int64_t bytes_wanted, const std::function<std::shared_ptr<Storage>(size_t)>& allocate) {
  if (bytes_wanted <= bytes()) return;
  slab_ = nullptr;  // before the next is made: what is lent keeps its memory
  slab_ = allocate(static_cast<size_t>(bytes_wanted));
}

}  // namespace toroid::exec
