#include "dist/call_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "dist/messages/call.h"

namespace toroid::distributed {
namespace {

// Of this rank's calls: a letter about an earlier one comes too late to be judged. A rank is not so far ahead of another one that computes
// with it: the queues of a GPU hold some thousands of calls.
constexpr int64_t kLatest = 1 << 15;
constexpr int64_t kBetweenLooks = 1024;  // calls
// How far back a likeness is looked for, and of how many calls it is at most.
constexpr int64_t kBack = 4096, kRow = 256;
// Letters: a call, with its number, or why the group is of no use.
constexpr char kCall = 'C', kFault = 'F';

size_t place(int64_t number) { return static_cast<size_t>(number % kLatest); }

bool same(const Collective& a, const Collective& b) { return alike(a, b) && a.in_splits == b.in_splits && a.out_splits == b.out_splits; }

std::string letter(int64_t number, const Collective& c) {
  std::string out(1, kCall);
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
  return out + messages::call_bytes(c, {});
}

}  // namespace

struct CallCheck::Call {
  Collective what;
  uint64_t likeness;
};

CallCheck::CallCheck(Group& group)
    : name_(group.name()),
      rank_(group.rank()),
      size_(group.size()),
      mail_(group.mail()),
      latest_(kLatest),
      likeness_(kLatest),
      ahead_(static_cast<size_t>(size_)) {}

CallCheck::CallPtr CallCheck::prepare(const Collective& c) {
  Collective what = c;
  what.in = what.out = nullptr;
  const bool reduces = c.kind == Kind::AllReduce || c.kind == Kind::ReduceScatter;
  const int64_t fields[] = {static_cast<int64_t>(c.kind), static_cast<int64_t>(c.dtype), reduces ? static_cast<int64_t>(c.op) : 0, c.root,
                            c.count};
  return std::make_shared<const Call>(Call{std::move(what), hash_bytes(fields, sizeof fields).lo});
}

void CallCheck::note(const Collective& c) {
  if (follows_ >= 0)
    if (const CallPtr& foretold = latest_[place(follows_)]; same(foretold->what, c) && foretold->what.where == c.where)
      return note(CallPtr(foretold));
  note(prepare(c));
}

void CallCheck::note(const CallPtr& call) {
  if (!fault_.empty()) compare();
  const bool is_like = follows_ >= 0 && likeness_[place(follows_)] == call->likeness;
  const bool is_news = !is_like || (latest_[place(follows_)] != call && !same(latest_[place(follows_)]->what, call->what));
  const int64_t number = noted_++;
  latest_[place(number)] = call;
  likeness_[place(number)] = call->likeness;
  if (is_like)
    ++follows_;
  else
    follow_likeness();
  const bool is_ahead = std::any_of(ahead_.begin(), ahead_.end(), [](auto& theirs) { return !theirs.empty(); });
  if (is_news || is_ahead || noted_ % kBetweenLooks == 0) compare();  // first, as what comes later follows from it
  if (!is_news) return;
  mail_->post(letter(number, call->what));
  ++posted_;
}

// Of the rows that end like the latest one the longest, and of these the latest.
void CallCheck::follow_likeness() {
  follows_ = -1;
  const int64_t last = noted_ - 1, first = std::max<int64_t>(noted_ - kBack, 0);
  int64_t longest = 0;
  for (int64_t end = last - 1; end >= first && longest < kRow; --end) {
    int64_t row = 0;
    while (row < kRow && end - row >= first && likeness_[place(end - row)] == likeness_[place(last - row)]) ++row;
    if (row > longest) longest = row, follows_ = end + 1;
  }
}

void CallCheck::take_letters() {
  while (const auto got = mail_->take()) {
    const std::string& text = got->text;
    int64_t number = 0;
    if (!text.empty() && text[0] == kFault) {
      if (fault_.empty()) fault_ = text.substr(1);
      continue;
    }
    if (text.size() < 1 + sizeof number || text[0] != kCall)
      fail<EnvironmentError>("another rank speaks otherwise; {}", messages::kSameVersion);
    std::memcpy(&number, text.data() + 1, sizeof number);
    const char* const bytes = text.data() + 1 + sizeof number;
    Collective its = messages::call_from({reinterpret_cast<const std::byte*>(bytes), text.size() - 1 - sizeof number}).what;
    ahead_[static_cast<size_t>(got->from)].push_back({number, std::move(its)});
  }
}

void CallCheck::judge(int from, int64_t number, const Collective& its) {
  if (number < noted_ - kLatest) return;
  const Collective& own = latest_[place(number)]->what;
  const std::string why = from < rank_ ? mismatch(from, its, rank_, own) : mismatch(rank_, own, from, its);
  if (why.empty()) return;
  fault_ = fmt::format("group \"{}\": the ranks' collectives do not fit together: {} (call {} of the group on GPUs)", name_, why, number);
  mail_->post(kFault + fault_);
}

void CallCheck::compare() {
  if (fault_.empty()) {
    if (mail_->may_have_come()) take_letters();
    for (size_t r = 0; r < ahead_.size(); ++r)
      for (auto& theirs = ahead_[r]; fault_.empty() && !theirs.empty() && theirs.front().number < noted_; theirs.pop_front())
        judge(static_cast<int>(r), theirs.front().number, theirs.front().call);
  }
  if (!fault_.empty()) fail<UserError>("{}", fault_);
}

}  // namespace toroid::distributed
