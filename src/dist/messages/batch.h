// Messages between processes that are on their way together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dist/messages/transport.h"

namespace toroid::distributed::messages {

// Each has memory of its own, which the transport alone knows: whoever stops waiting may leave, and what comes late, or is read late, is
// never the caller's. Such memory outlives the batch until the transport lets go of it.
class Batch {
 public:
  Batch(Transport& transport, int tag) : transport_(transport), tag_(tag) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // `to` and `from` are ranks of the world; at most 2^31 - 1 bytes.
  void send(int to, const void* data, int64_t bytes);
  // Of at most `bytes`. Its place among what this batch receives.
  size_t receive(int from, int64_t bytes);

  // Whether all are done, after looking once. EnvironmentError for what the transport reports, naming the rank.
  bool poll();
  // What is not done: the ranks that it comes from (receives), or goes to.
  std::vector<int> awaited(bool receives) const;
  // What came; valid when that one is done.
  std::span<const std::byte> received(size_t place) const;

  // Ends the memory of batches that did not end, where the transport has let go of it. How many remain.
  static size_t sweep();
  // Of a transport that ends: what is not done is not looked at again, and its memory stays until the process ends.
  static void abandon(const Transport& transport);

 private:
  struct Message {
    Transport* transport;
    int rank;
    bool is_receive;
    std::unique_ptr<std::byte[]> memory;
    Transport::Request request = nullptr;  // null: done
    int64_t bytes = 0;
  };

  Transport& transport_;
  const int tag_;
  size_t first_open_ = 0;  // all before are done
  std::vector<Message> messages_;
  std::vector<size_t> receives_;  // of messages_
};

}  // namespace toroid::distributed::messages
