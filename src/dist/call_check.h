// Compares the calls of a group's ranks that nobody compares when they are made: those of NCCL, which start without a meeting.
//
// Each rank numbers its calls, and foretells the next one from those so far: what followed the last time that a like row of calls came to
// its end. Only a call that was not foretold is posted to the other ranks, with its number, so that calls in a steady order cost no
// message. Ranks that have called the same so far foretell the same: where two calls of one number differ, at least one of them was posted,
// and the rank that it came to finds that it called something else, and posts that in turn. Nobody waits for mail.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"

namespace toroid::distributed {

// One thread at a time.
class CallCheck {
 public:
  explicit CallCheck(Group& group);
  CallCheck(const CallCheck&) = delete;

  // This rank's next call. UserError as compare() where a letter has come.
  void note(const Collective& c);
  // What is called again and again, such as that of a recording.
  struct Call;
  using CallPtr = std::shared_ptr<const Call>;
  CallPtr prepare(const Collective& c);
  void note(const CallPtr& call);
  // UserError where another rank's call of some number was not this rank's, as far as it is known here; and ever after.
  void compare();

  int64_t calls() const { return noted_; }
  int64_t posted() const { return posted_; }

 private:
  void follow_likeness();
  void take_letters();
  void judge(int from, int64_t number, const Collective& its);

  const std::string name_;
  const int rank_, size_;
  const std::shared_ptr<Mail> mail_;
  std::vector<CallPtr> latest_;     // by number, around
  std::vector<uint64_t> likeness_;  // of these: what is compared, but for splits, which may be others at each call
  int64_t follows_ = -1;            // the number of the earlier call that the next one will be like; -1: nothing is foretold
  int64_t noted_ = 0, posted_ = 0;
  struct Theirs {
    int64_t number;
    Collective call;
  };
  std::vector<std::deque<Theirs>> ahead_;  // of each rank: what is not judged yet, as this rank has not called so much
  std::string fault_;
};

}  // namespace toroid::distributed
