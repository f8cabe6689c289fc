#include "dist/mpi/mpi_transport.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "dist/deadline.h"
#include "dist/mpi/library.h"

namespace toroid::distributed::mpi {
namespace {

using namespace std::chrono_literals;

// What a call of MPI that waits gives, run in a thread of its own; none where it takes longer than `seconds` (0: any). It then goes on, as
// nothing can stop it.
std::optional<int32_t> within(double seconds, std::function<int32_t()> call) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<int32_t> code;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, call = std::move(call)] {
    const int32_t code = call();
    std::lock_guard lock(shared->mutex);
    shared->code = code;
    shared->changed.notify_all();
  }).detach();
  std::unique_lock lock(shared->mutex);
  const auto is_over = [&] { return shared->code.has_value(); };
  shared->changed.wait_until(lock, deadline(seconds), is_over);
  return shared->code;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// Where `toroid launch` has made a folder for it, each rank leaves a file that says that it has come: MPI does not say who is missing.
class Roll {
 public:
  Roll() : folder_(variable("TOROID_LAUNCH")), size_(std::atoi(variable("OMPI_COMM_WORLD_SIZE").c_str())) {
    if (!folder_.empty()) std::ofstream(file(variable("OMPI_COMM_WORLD_RANK"))).put('\n');
  }
  std::string missing() const {
    std::string out;
    std::error_code ignored;
    for (int r = 0; r < size_ && !folder_.empty(); ++r)
      if (!std::filesystem::exists(file(std::to_string(r)), ignored)) out += fmt::format("{}rank {}", out.empty() ? "" : ", ", r);
    return out.empty() ? "other ranks" : out;
  }

 private:
  std::filesystem::path file(const std::string& rank) const { return std::filesystem::path(folder_) / ("came." + rank); }
  const std::string folder_;
  const int size_;
};

struct Numbers {
  int32_t rank = 0, size = 0, most_tag = 0;
};

std::string version_of(const ToroidMpi& mpi) {
  char text[256] = "";
  mpi.version(text, sizeof text);
  return text;
}

class MpiTransport : public messages::Transport {
 public:
  MpiTransport(const ToroidMpi& mpi, const Numbers& numbers) : mpi_(mpi), numbers_(numbers) {}

  int rank() const override { return numbers_.rank; }
  int size() const override { return numbers_.size; }
  int most_tag() const override { return numbers_.most_tag; }
  std::string engine() const override { return "mpi"; }
  std::string version() const override { return version_of(mpi_); }

  Request send(const std::byte* data, int64_t bytes, int to, int tag) override {
    auto m = std::make_unique<Open>(Open{nullptr, to, false});
    check(mpi_.send(data, bytes, to, tag, &m->request), *m);
    return m.release();
  }

  Request receive(std::byte* data, int64_t bytes, int from, int tag) override {
    auto m = std::make_unique<Open>(Open{nullptr, from, true});
    check(mpi_.receive(data, bytes, from, tag, &m->request), *m);
    return m.release();
  }

  std::optional<int64_t> test(Request& request) override {
    auto* m = static_cast<Open*>(request);
    int32_t done = 0;
    int64_t bytes = 0;
    check(mpi_.test(&m->request, &done, &bytes), *m);
    if (!done) return std::nullopt;
    delete m;
    request = nullptr;
    return bytes;
  }

  // MPI 4 does not cancel what is sent.
  void cancel(Request request) override {
    auto* m = static_cast<Open*>(request);
    if (m->is_receive) mpi_.cancel(m->request);
  }

  std::optional<Waiting> find(int tag) override {
    int32_t found = 0, from = 0;
    int64_t bytes = 0;
    if (mpi_.find(tag, &found, &from, &bytes) != 0 || !found) return std::nullopt;
    return Waiting{from, bytes};
  }

  // Others may need the processor: ranks are often more than processors. Sleeps only where the wait is long already.
  void pause(std::chrono::steady_clock::duration waited) override {
    if (waited < 2ms)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(waited < 50ms ? 50us : 500us);
  }

  void stop(double seconds) override {
    const auto code = within(seconds, mpi_.stop);
    if (!code) fail<EnvironmentError>("distributed::finalize: MPI does not end within {} s (timeout_seconds of init)", seconds);
    if (*code != 0) fail<EnvironmentError>("distributed::finalize: MPI does not end: code {}", *code);
  }

  void abort(int exit_code) override { mpi_.abort(exit_code); }

 private:
  struct Open {
    void* request;
    int rank;
    bool is_receive;
  };

  void check(int32_t code, const Open& m) const {
    if (code != 0)
      fail<EnvironmentError>("MPI cannot {} rank {}: {}", m.is_receive ? "receive from" : "send to", m.rank, describe(mpi_, code));
  }

  const ToroidMpi& mpi_;
  const Numbers numbers_;
};

}  // namespace

std::unique_ptr<messages::Transport> start(double timeout) {
  const ToroidMpi& mpi = library();
  const Roll roll;
  auto numbers = std::make_shared<Numbers>();  // which the thread writes that may go on
  const auto code = within(timeout, [&mpi, numbers] { return mpi.start(&numbers->rank, &numbers->size, &numbers->most_tag); });
  if (!code) fail<EnvironmentError>("distributed::init: {} did not come within {} s (timeout_seconds)", roll.missing(), timeout);
  if (*code != 0) fail<EnvironmentError>("distributed::init: MPI does not start: {}", describe(mpi, *code));
  return std::make_unique<MpiTransport>(mpi, *numbers);
}

std::string describe_library() { return fmt::format("{}, by {}", version_of(library()), library_path()); }

}  // namespace toroid::distributed::mpi
