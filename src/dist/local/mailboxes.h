// Mail between threads of one process.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "dist/mail.h"

namespace toroid::distributed::local {

class Mailboxes {
 public:
  explicit Mailboxes(int ranks);
  ~Mailboxes();
  // The end of one rank.
  static std::shared_ptr<Mail> of(std::shared_ptr<Mailboxes> all, int rank);

 private:
  class End;
  struct Box {
    std::mutex mutex;  // of what follows
    std::deque<Mail::Letter> letters;
    std::atomic<size_t> count{0};  // of the letters
  };
  std::vector<std::unique_ptr<Box>> boxes_;  // of each rank
};

}  // namespace toroid::distributed::local
