#include "tensor/watch.h"

#include <algorithm>
#include <mutex>

namespace toroid {
namespace detail {

// Shared by a variable and the traces that have read it since its latest assignment.
struct WatchState {
  std::atomic<int> owners{1};
  std::atomic<bool> changed{false}, destroyed{false};
  std::atomic<WatchState*> next{nullptr};  // the variable's state since it was read after an assignment; owned
  uint64_t noted_by = 0;                   // the number of the latest reads that own it
};

std::atomic<int> Watch::traces{0};

namespace {

thread_local WatchedReads* noting = nullptr;
std::atomic<uint64_t> change_count{0};

void release(WatchState* s) {
  while (s && s->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    WatchState* next = s->next.load(std::memory_order_acquire);
    delete s;
    s = next;
  }
}

// Whether the variable is no more.
bool has_ended(const WatchState* s) {
  while (s && !s->destroyed.load(std::memory_order_acquire)) s = s->next.load(std::memory_order_acquire);
  return s != nullptr;
}

void tell(WatchState& s) {
  if (!s.changed.exchange(true, std::memory_order_acq_rel)) change_count.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace

void Watch::note() const {
  if (noting) noting->add(*this);
}

// The state stays with the variable until the next read, so that its end is known as well.
void Watch::changed() noexcept { tell(*state_); }

void Watch::destroyed() noexcept {
  state_->destroyed.store(true, std::memory_order_release);
  tell(*state_);
  release(state_);
}

}  // namespace detail

WatchedReads::~WatchedReads() {
  for (auto* s : states_) detail::release(s);
}

WatchedReads::Scope::Scope(WatchedReads* reads) : before_(detail::noting), own_(reads) {
  detail::noting = reads;
  if (own_) detail::Watch::traces.fetch_add(1, std::memory_order_relaxed);
}

WatchedReads::Scope::~Scope() {
  detail::noting = before_;
  if (own_) detail::Watch::traces.fetch_sub(1, std::memory_order_relaxed);
}

bool WatchedReads::are_noted() { return detail::noting != nullptr; }

void WatchedReads::add(const detail::Watch& w) {
  static std::mutex& mutex = *new std::mutex;  // several threads may read one variable, and find that its state is an old one
  static uint64_t numbers = 0;
  {
    std::lock_guard lock(mutex);
    if (number_ == 0) number_ = ++numbers;
    detail::WatchState* s = w.state_;
    if (!s || s->changed.load(std::memory_order_acquire)) {
      auto* fresh = new detail::WatchState;
      w.state_ = fresh;
      if (s) {
        fresh->owners.fetch_add(1, std::memory_order_relaxed);
        s->next.store(fresh, std::memory_order_release);
        detail::release(s);
      }
      s = fresh;
    }
    if (std::exchange(s->noted_by, number_) == number_) return;
    s->owners.fetch_add(1, std::memory_order_relaxed);
    states_.push_back(s);
  }
  if (states_.size() < settle_at_) return;
  drop_ended();
  settle_at_ = std::max(settle_at_, 2 * states_.size());
}

void WatchedReads::drop_ended() {
  size_t kept = 0;
  for (auto* s : states_) {
    if (detail::has_ended(s))
      detail::release(s);
    else
      states_[kept++] = s;
  }
  states_.resize(kept);
}

void WatchedReads::settle() {
  drop_ended();
  std::sort(states_.begin(), states_.end());
  size_t kept = 0;
  for (auto* s : states_) {
    if (kept > 0 && states_[kept - 1] == s)
      detail::release(s);
    else
      states_[kept++] = s;
  }
  states_.resize(kept);
}

bool WatchedReads::stand() const {
  for (auto* s : states_)
    if (s->changed.load(std::memory_order_acquire)) return false;
  return true;
}

uint64_t WatchedReads::changes() { return detail::change_count.load(std::memory_order_acquire); }

}  // namespace toroid
