#include "dist/local/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/options.h"

namespace toroid::distributed::local {
namespace {

constexpr size_t kHistory = 64;  // lines

// Looks at a count for a while, without the lock, before its thread sleeps: waking takes tens of microseconds, and most ranks come sooner.
void await_change(const std::atomic<uint64_t>& count, uint64_t before, std::unique_lock<std::mutex>& lock) {
  constexpr auto kPatience = std::chrono::microseconds(50);
  lock.unlock();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (count.load(std::memory_order_acquire) == before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  lock.lock();
}

std::string said(const Collective& c) { return to_string(c) + (c.where.empty() ? "" : " at " + c.where); }

}  // namespace

// The memory of a call is read by all ranks until each has computed its part: nobody leaves before.
void Meeting::run(int rank, const Collective& c) {
  std::unique_lock lock(mutex_);
  arrive(rank, c, lock);
  const std::string refused = mismatch_;
  lock.unlock();
  if (refused.empty()) compute(rank);
  lock.lock();
  depart(lock);
  if (!refused.empty()) fail<UserError>("group \"{}\": the ranks' collectives do not fit together: {}", name_, refused);
}

void Meeting::arrive(int rank, const Collective& c, std::unique_lock<std::mutex>& lock) {
  note(rank, c);
  if (!failure_.empty()) fail_group(c, failure_);
  calls_[static_cast<size_t>(rank)] = &c;
  if (++arrived_ == calls_.size()) {
    mismatch_ = mismatch(calls_);
    ++begun_;
    changed_.notify_all();
    return;
  }
  const uint64_t number = begun_;
  await_change(begun_, number, lock);
  if (begun_ != number) return;
  auto gone = [&] {
    for (size_t r = 0; r < left_.size(); ++r)
      if (!calls_[r] && !left_[r].empty()) return fmt::format("rank {} {}", r, left_[r]);
    return std::string();
  };
  const auto limit = std::chrono::milliseconds(get_option(options::kDistTimeoutMs));
  const auto begun_or_over = [&] { return begun_ != number || !failure_.empty() || !gone().empty(); };
  if (limit.count() == 0)
    changed_.wait(lock, begun_or_over);
  else
    changed_.wait_for(lock, limit, begun_or_over);
  if (begun_ != number) return;
  if (failure_.empty()) {
    const std::string why = gone();
    failure_ = !why.empty() ? why : fmt::format("{} within {} ms (option dist_timeout_ms)", absent(), limit.count());
  }
  fail_group(c, failure_);
}

void Meeting::depart(std::unique_lock<std::mutex>& lock) {
  const uint64_t number = ended_;
  if (++departed_ == calls_.size()) {
    std::fill(calls_.begin(), calls_.end(), nullptr);
    arrived_ = departed_ = 0;
    ++ended_;
    changed_.notify_all();
    return;
  }
  await_change(ended_, number, lock);
  changed_.wait(lock, [&] { return ended_ != number; });
}

void Meeting::fail_group(const Collective& c, const std::string& reason) {
  changed_.notify_all();
  fail<EnvironmentError>("group \"{}\": {} cannot be done: {}", name_, said(c), reason);
}

std::string Meeting::absent() const {
  std::string out;
  for (size_t r = 0; r < calls_.size(); ++r)
    if (!calls_[r]) {
      const std::string before = last_[r].empty() ? "which called none before" : "which was last at " + last_[r];
      out += fmt::format("{}rank {} did not come, {},", out.empty() ? "" : " ", r, before);
    }
  out.pop_back();
  return out;
}

void Meeting::leave(int rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  left_[static_cast<size_t>(rank)] = reason;
  changed_.notify_all();
}

void Meeting::note(int rank, const Collective& c) {
  last_[static_cast<size_t>(rank)] = said(c);
  history_.push_back(fmt::format("{}: rank {} came to {}", begun_.load(), rank, said(c)));
  if (history_.size() > kHistory) history_.pop_front();
}

std::string Meeting::history() const {
  std::lock_guard lock(mutex_);
  return fmt::format("{}", fmt::join(history_, "\n"));
}

// What rank `rank` writes: its own `out` alone.
void Meeting::compute(int rank) const {
  const Collective& own = *calls_[static_cast<size_t>(rank)];
  const auto bytes = static_cast<int64_t>(size_of(own.dtype));
  std::byte* at = own.out;
  auto take = [&](const Collective& from, int64_t first, int64_t count) {
    if (count > 0) std::memcpy(at, from.in + first * bytes, static_cast<size_t>(count * bytes));
    at += count * bytes;
  };
  switch (own.kind) {
    case Kind::Barrier:
      return;
    case Kind::Broadcast:
      return take(*calls_[static_cast<size_t>(own.root)], 0, own.count);
    case Kind::AllGather:
      for (auto* c : calls_) take(*c, 0, own.count);
      return;
    case Kind::AllToAll:
      for (auto* c : calls_) {
        const auto* splits = c->in_splits.data();
        take(*c, std::accumulate(splits, splits + rank, int64_t{0}), splits[rank]);
      }
      return;
    case Kind::AllReduce:
    case Kind::ReduceScatter: {
      std::vector<const std::byte*> inputs;
      const int64_t first = own.kind == Kind::ReduceScatter ? rank * own.count : 0;
      for (auto* c : calls_) inputs.push_back(c->in + first * bytes);
      return reduce(own.dtype, own.op, inputs, own.out, own.count);
    }
  }
}

}  // namespace toroid::distributed::local
