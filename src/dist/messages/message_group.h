// A group whose ranks are processes, and whose messages a transport carries.
//
// Each collective has two parts. First each rank tells all others what it calls (dist/messages/call.h): so all know who has come, and judge
// alike whether the calls fit together. What is small comes with that; else the data moves then, in pieces between pairs of ranks. All are
// messages from one to one, as of those it is known which rank is missing, and as one that is missing does not hold the memory of the
// others.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <vector>

#include "dist/group.h"
#include "dist/messages/message_mail.h"

namespace toroid::distributed::messages {

class MessageGroup : public Group {
 public:
  // number: of the group in its world; messages of two groups never meet.
  MessageGroup(Transport& transport, const std::string& name, int64_t number, int rank, std::vector<int> members);

  ~MessageGroup() override { end_mail(); }

  void run(const Collective& c) override;
  std::string engine() const override { return transport_.engine(); }
  std::shared_ptr<Mail> mail() override { return mail_; }
  // Before the transport ends.
  void end_mail() { mail_->end(); }
  std::string history() const override;
  // This rank does not come any more. reason: "failed: ...".
  void leave(const std::string& reason);

  // How many groups a world can have one after the other.
  static int64_t most_groups(int most_tag);

 private:
  using Clock = std::chrono::steady_clock;
  struct Piece {
    int peer;  // in this group
    std::byte* at;
    int64_t bytes;
  };
  enum class Stage { Coming, Moving };
  // A group's messages: calls, data, what ranks say that give up or leave, and mail.
  enum Tag { kCall, kData, kNotice, kMail, kTags };

  // Of each rank what its call carries; empty, of all, where it carries nothing.
  using Carried = std::vector<std::vector<std::byte>>;
  Carried meet(const Collective& told, const Collective& c);
  void take(const Collective& c, const Carried& carried) const;
  void move(const Collective& c);
  void exchange(const Collective& c, const std::vector<Piece>& given, const std::vector<Piece>& taken);
  void gather(const Collective& c);
  void scatter(const Collective& c);
  void broadcast(const Collective& c);
  void reduce_all(const Collective& c);
  void reduce_parts(const Collective& c, const std::vector<int64_t>& begins, std::byte* out);

  // Returns when the batch is done; otherwise ends the group.
  void wait(Batch& batch, const Collective& c, Stage stage);
  // Reads what ranks that give up or leave have said.
  void hear();
  void tell_all(char kind, const std::string& text);
  // Ends the group here and, where the others have not been told, there. EnvironmentError.
  [[noreturn]] void fail_group(const Collective& c, const std::string& reason, bool is_news);
  std::string gone(const Batch& batch) const;
  // Of awaited ranks whose messages do not come any more, why; empty: there are none.
  std::string lost(const Batch& batch, Stage stage) const;
  std::string absent(const Batch& batch, Stage stage, bool lost_alone) const;
  void note(int rank, const Collective& c);
  // size() where it is not of this group.
  int peer_of(int world_rank) const;

  struct Left {
    std::string reason;  // empty: it comes
    Clock::time_point when;
  };

  Transport& transport_;
  const int first_tag_;
  const std::shared_ptr<MessageMail> mail_;
  std::string failure_;               // why the group is of no use any more; empty: it is
  std::vector<Left> left_;            // of each rank
  std::vector<std::string> last_;     // of each rank, what it called last
  mutable std::mutex history_mutex_;  // of what is below
  std::deque<std::string> history_;
  int64_t begun_ = 0;
};

}  // namespace toroid::distributed::messages
