// Where the ranks of a group meet that are threads of one process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "dist/collective.h"
#include "dist/local/mailboxes.h"

namespace toroid::distributed::local {

class Meeting {
 public:
  Meeting(std::string name, int size)
      : mail(std::make_shared<Mailboxes>(size)), name_(std::move(name)), calls_(size), last_(size), left_(size) {}

  // See Group::run.
  void run(int rank, const Collective& c);
  // Nobody waits for this rank any more. reason: "failed: ..." or "has ended".
  void leave(int rank, const std::string& reason);
  std::string history() const;

  const std::shared_ptr<Mailboxes> mail;

 private:
  void arrive(int rank, const Collective& c, std::unique_lock<std::mutex>& lock);
  void depart(std::unique_lock<std::mutex>& lock);
  void compute(int rank) const;
  void note(int rank, const Collective& c);
  // Ends the group. EnvironmentError, here and wherever another rank waits.
  [[noreturn]] void fail_group(const Collective& c, const std::string& reason);
  std::string absent() const;  // the ranks that have not come, and where they were last

  const std::string name_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<const Collective*> calls_;  // what each rank brings to the one that gathers or runs; null: it has not come
  size_t arrived_ = 0, departed_ = 0;
  std::atomic<uint64_t> begun_ = 0, ended_ = 0;  // collectives; also read without the mutex
  std::string mismatch_;                         // of the one that runs
  std::string failure_;                          // why the group is of no use any more; empty: it is
  std::vector<std::string> last_;                // of each rank, what it called last
  std::vector<std::string> left_;                // of each rank, why it does not come any more; empty: it does
  std::deque<std::string> history_;
};

}  // namespace toroid::distributed::local
