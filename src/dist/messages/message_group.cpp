// How the ranks of a group meet, and how they wait.
#include "dist/messages/message_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <thread>

#include "base/check.h"
#include "base/options.h"
#include "dist/messages/call.h"
#include "dist/messages/fault.h"

namespace toroid::distributed::messages {
namespace {

using namespace std::chrono_literals;

constexpr size_t kHistoryLines = 64;
// Of a notice; short messages travel at once, also where nobody takes them yet.
constexpr size_t kMostNotice = 1024;
constexpr char kGivesUp = 'F', kLeaves = 'L';
// What a rank sent before it left may still be on its way when the notice is read.
constexpr auto kGrace = 200ms;

std::string said(const Collective& c) { return to_string(c) + (c.where.empty() ? "" : " at " + c.where); }

}  // namespace

int64_t MessageGroup::most_groups(int most_tag) { return most_tag / kTags; }

MessageGroup::MessageGroup(Transport& transport, const std::string& name, int64_t number, int rank, std::vector<int> members)
    : Group(name, rank, std::move(members)),
      transport_(transport),
      first_tag_(static_cast<int>(number * kTags)),
      mail_(std::make_shared<MessageMail>(transport, first_tag_ + kMail, this->members())),
      left_(size()),
      last_(size()) {}

void MessageGroup::run(const Collective& c) {
  Collective told = c;
  told.in = told.out = nullptr;
  static std::atomic<int64_t> number{0};  // of this process's collectives
  const int64_t own = number++;
  apply_fault(members()[static_cast<size_t>(rank())], own, false, told);
  note(rank(), c);
  if (!failure_.empty()) fail_group(c, failure_, false);
  try {
    const Carried carried = meet(told, c);
    apply_fault(members()[static_cast<size_t>(rank())], own, true, told);
    if (carried.empty())
      move(c);
    else
      take(c, carried);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& e) {
    if (failure_.empty()) fail_group(c, fmt::format("rank {} failed: {}", rank(), e.what()), true);
    throw;
  }
}

MessageGroup::Carried MessageGroup::meet(const Collective& told, const Collective& c) {
  Batch batch(transport_, first_tag_ + kCall);
  const std::span given(c.in, static_cast<size_t>(carried_bytes(c, rank())));
  const std::string own = call_bytes(told, given);
  std::vector<size_t> places(static_cast<size_t>(size()));
  for (int r = 0; r < size(); ++r)
    if (r != rank()) places[static_cast<size_t>(r)] = batch.receive(members()[static_cast<size_t>(r)], most_call_bytes(size()));
  for (int r = 0; r < size(); ++r)
    if (r != rank()) batch.send(members()[static_cast<size_t>(r)], own.data(), static_cast<int64_t>(own.size()));
  wait(batch, c, Stage::Coming);
  std::vector<Collective> calls;
  Carried carried;
  for (int r = 0; r < size(); ++r) {
    Call call = r == rank() ? Call{told, {given.begin(), given.end()}} : call_from(batch.received(places[static_cast<size_t>(r)]));
    if (r != rank()) note(r, call.what);
    calls.push_back(std::move(call.what));
    carried.push_back(std::move(call.carried));
  }
  ++begun_;
  std::vector<const Collective*> all;
  for (auto& call : calls) all.push_back(&call);
  if (const std::string why = mismatch(all); !why.empty())
    fail<UserError>("group \"{}\": the ranks' collectives do not fit together: {}", name(), why);
  for (int r = 0; r < size(); ++r) {
    const auto bytes = static_cast<int64_t>(carried[static_cast<size_t>(r)].size());
    if (const int64_t right = carried_bytes(c, r); bytes != right)
      fail_group(c, fmt::format("rank {} sent {} bytes with its call in place of {}; {}", r, bytes, right, kSameVersion), true);
  }
  const int giver = c.kind == Kind::Broadcast ? c.root : rank();
  return carried_bytes(c, giver) > 0 ? carried : Carried();
}

void MessageGroup::take(const Collective& c, const Carried& carried) const {
  if (c.kind == Kind::AllReduce) {
    std::vector<const std::byte*> inputs;
    for (auto& in : carried) inputs.push_back(in.data());
    return reduce(c.dtype, c.op, inputs, c.out, c.count);
  }
  std::byte* at = c.out;
  for (size_t r = 0; r < carried.size(); ++r) {
    if (c.kind == Kind::Broadcast && static_cast<int>(r) != c.root) continue;
    std::memcpy(at, carried[r].data(), carried[r].size());
    at += carried[r].size();
  }
}

void MessageGroup::wait(Batch& batch, const Collective& c, Stage stage) {
  const std::chrono::milliseconds limit(get_option(options::kDistTimeoutMs));
  const auto begin = Clock::now();
  for (int64_t looks = 0; !batch.poll(); ++looks) {
    constexpr int64_t kSoon = 64, kRarely = 16;
    const auto waited = Clock::now() - begin;
    const bool has_lost = !lost(batch, stage).empty();
    if (looks >= kSoon || looks % kRarely == 0 || has_lost) hear();  // what a rank said before it went is there by then
    if (!failure_.empty()) fail_group(c, failure_, false);
    if (const std::string why = gone(batch); !why.empty()) fail_group(c, why, true);
    if (has_lost) fail_group(c, lost(batch, stage), true);
    if (limit.count() != 0 && waited >= limit)
      fail_group(c, fmt::format("{} within {} ms (option dist_timeout_ms)", absent(batch, stage, false), limit.count()), true);
    transport_.pause(waited);
  }
}

void MessageGroup::hear() {
  while (const auto waiting = transport_.find(first_tag_ + kNotice)) {
    const int from = waiting->from;
    Batch notice(transport_, first_tag_ + kNotice);
    const size_t place = notice.receive(from, waiting->bytes);
    for (const auto begin = Clock::now(); !notice.poll() && Clock::now() - begin < kGrace;) std::this_thread::yield();
    if (!notice.poll()) continue;
    const auto content = notice.received(place);
    const std::string text(reinterpret_cast<const char*>(content.data()), content.size());
    const int r = peer_of(from);
    if (text.empty() || r == size()) continue;
    if (text[0] == kGivesUp && failure_.empty()) failure_ = text.substr(1);
    Left& left = left_[static_cast<size_t>(r)];
    if (text[0] == kLeaves && left.reason.empty()) left = {text.substr(1), Clock::now()};
  }
}

void MessageGroup::tell_all(char kind, const std::string& text) {
  const std::string message = (kind + text).substr(0, kMostNotice);
  Batch batch(transport_, first_tag_ + kNotice);
  for (int r = 0; r < size(); ++r)
    if (r != rank()) batch.send(members()[static_cast<size_t>(r)], message.data(), static_cast<int64_t>(message.size()));
  batch.poll();  // they travel by themselves
}

void MessageGroup::leave(const std::string& reason) { tell_all(kLeaves, reason); }

void MessageGroup::fail_group(const Collective& c, const std::string& reason, bool is_news) {
  failure_ = reason;
  if (is_news) try {
      tell_all(kGivesUp, reason);
    } catch (const EnvironmentError&) {
      // Ranks that cannot be told find out by themselves.
    }
  fail<EnvironmentError>("group \"{}\": {} cannot be done: {}", name(), said(c), reason);
}

std::string MessageGroup::gone(const Batch& batch) const {
  for (bool receives : {true, false})
    for (int world_rank : batch.awaited(receives)) {
      const int r = peer_of(world_rank);
      const Left& left = left_[static_cast<size_t>(r)];
      const bool is_over = Clock::now() - left.when >= kGrace || !transport_.lost(world_rank).empty();
      if (!left.reason.empty() && is_over) return fmt::format("rank {} {}", r, left.reason);
    }
  return "";
}

// Who said why it leaves is told apart above. What others say of a rank comes before what is seen of its connection.
std::string MessageGroup::lost(const Batch& batch, Stage stage) const {
  for (bool receives : {true, false})
    for (int world_rank : batch.awaited(receives))
      if (!transport_.lost(world_rank).empty() && left_[static_cast<size_t>(peer_of(world_rank))].reason.empty())
        return absent(batch, stage, true);
  return "";
}

std::string MessageGroup::absent(const Batch& batch, Stage stage, bool lost_alone) const {
  std::vector<std::pair<int, bool>> ranks;  // of the world, and whether something of theirs is awaited
  for (bool receives : {true, false})
    for (int world_rank : batch.awaited(receives))
      if (std::none_of(ranks.begin(), ranks.end(), [&](auto& seen) { return seen.first == world_rank; }))
        ranks.emplace_back(world_rank, receives);
  const bool receives = std::any_of(ranks.begin(), ranks.end(), [](auto& r) { return r.second; });
  std::string out;
  for (auto& [world_rank, is_receive] : ranks) {
    const std::string lost = transport_.lost(world_rank);
    if (lost_alone ? lost.empty() : is_receive != receives) continue;
    const int r = peer_of(world_rank);
    const std::string& last = last_[static_cast<size_t>(r)];
    const std::string before = last.empty() ? "which called none before" : "which was last at " + last;
    const char* what = stage == Stage::Coming ? (is_receive ? "did not come" : "did not hear of it") : "stopped while the data moved";
    out += fmt::format("{}rank {} {}{}, {},", out.empty() ? "" : " ", r, what, lost.empty() ? "" : " (" + lost + ")", before);
  }
  if (!out.empty()) out.pop_back();
  return out;
}

int MessageGroup::peer_of(int world_rank) const {
  return static_cast<int>(std::find(members().begin(), members().end(), world_rank) - members().begin());
}

void MessageGroup::note(int rank, const Collective& c) {
  last_[static_cast<size_t>(rank)] = said(c);
  std::lock_guard lock(history_mutex_);
  history_.push_back(fmt::format("{}: rank {} came to {}", begun_, rank, said(c)));
  if (history_.size() > kHistoryLines) history_.pop_front();
}

std::string MessageGroup::history() const {
  std::lock_guard lock(history_mutex_);
  return fmt::format("{}", fmt::join(history_, "\n"));
}

}  // namespace toroid::distributed::messages
