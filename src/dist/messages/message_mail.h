// Mail between processes, over a transport of messages.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "dist/mail.h"
#include "dist/messages/batch.h"

namespace toroid::distributed::messages {

class MessageMail : public Mail {
 public:
  // members: of the group, as ranks of the world. tag: of this mail alone.
  MessageMail(Transport& transport, int tag, std::vector<int> members) : transport_(&transport), tag_(tag), members_(std::move(members)) {}

  void post(const std::string& text) override;
  std::optional<Letter> take() override;
  // The group ends, perhaps before the last who has this: what has come is dropped.
  void end();

 private:
  std::optional<Letter> take_one();

  std::mutex mutex_;      // of all below
  Transport* transport_;  // null: the group has ended
  const int tag_;
  const std::vector<int> members_;
  std::list<Batch> under_way_;  // what is sent
};

}  // namespace toroid::distributed::messages
