// One-way messages between the ranks of a group, beside its collectives: nobody waits for them.
#pragma once

#include <optional>
#include <string>

namespace toroid::distributed {

// One rank's end. Its functions may be called from any thread, and do nothing once the group has ended.
class Mail {
 public:
  virtual ~Mail() = default;
  // To all other ranks. What one rank posts arrives in its order. Nothing is thrown where a rank cannot be reached: collectives find that.
  virtual void post(const std::string& text) = 0;
  struct Letter {
    int from;  // in the group
    std::string text;
  };
  // The next one that has come; it never waits.
  virtual std::optional<Letter> take() = 0;
  // False: certainly none has come. True may mean that nothing is known without asking the system.
  virtual bool may_have_come() const { return true; }
};

}  // namespace toroid::distributed
