// What carries messages between the processes of one world: from one rank to one other, in the order in which they were sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace toroid::distributed::messages {

// Its functions may be called from any thread. None but `stop` waits for another rank. EnvironmentError, which names the rank, for what
// cannot be sent or received.
class Transport {
 public:
  // An open send or receive: until `test` says that it is done its memory belongs to the transport.
  using Request = void*;

  // Open messages of it are not asked for any more (batch.h); the system may still have their memory.
  virtual ~Transport();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int most_tag() const = 0;
  virtual std::string engine() const = 0;   // a word: "mpi", "tcp"
  virtual std::string version() const = 0;  // what must be the same on all ranks, a line

  // At most 2^31 - 1 bytes. A message is received by the first open receive from its rank with its tag.
  virtual Request send(const std::byte* data, int64_t bytes, int to, int tag) = 0;
  virtual Request receive(std::byte* data, int64_t bytes, int from, int tag) = 0;
  // The bytes that came (0 of a send) where it is done, and `request` is null then.
  virtual std::optional<int64_t> test(Request& request) = 0;
  // Asks that it be given up; `test` says when its memory is free.
  virtual void cancel(Request request) = 0;

  struct Waiting {
    int from;
    int64_t bytes;
  };
  // A message with this tag that no receive has taken.
  virtual std::optional<Waiting> find(int tag) = 0;

  // Lets messages travel; those who wait call it, then `test`.
  virtual void progress() {}
  // Returns when something may have come, and soon in any case. waited: how long the caller has waited so far.
  virtual void pause(std::chrono::steady_clock::duration waited) = 0;
  // Why a rank's messages do not come any more, beyond those that have: "its connection is closed"; empty: nothing is known.
  virtual std::string lost(int /*rank*/) { return ""; }

  // Ends it. All ranks call it, with no request open. EnvironmentError where that takes longer (0: any time).
  virtual void stop(double seconds) = 0;
  // Ends this process, and those of the world that can be reached. Does not return.
  virtual void abort(int exit_code) = 0;
};

}  // namespace toroid::distributed::messages
