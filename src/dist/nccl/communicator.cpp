#include "dist/nccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/options.h"

namespace toroid::distributed::nccl {
namespace {

using device::cuda::CUstream;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool reduces(Kind k) { return k == Kind::AllReduce || k == Kind::ReduceScatter; }

// Elements of a reduction as NCCL knows them. Numbers that are complex can only be added: they are two each. Bools are bytes of 0 and 1.
struct Elements {
  ncclDataType_t dtype;
  size_t each = 1;
};

std::optional<Elements> elements_of(DType t) {
  switch (t) {
    case DType::F32:
      return Elements{ncclFloat32};
    case DType::F64:
      return Elements{ncclFloat64};
    case DType::F16:
      return Elements{ncclFloat16};
    case DType::BF16:
      return Elements{ncclBfloat16};
    case DType::I8:
      return Elements{ncclInt8};
    case DType::I32:
      return Elements{ncclInt32};
    case DType::I64:
      return Elements{ncclInt64};
    case DType::U8:
    case DType::Bool:
      return Elements{ncclUint8};
    case DType::U32:
      return Elements{ncclUint32};
    case DType::U64:
      return Elements{ncclUint64};
    case DType::C64:
      return Elements{ncclFloat32, 2};
    case DType::C128:
      return Elements{ncclFloat64, 2};
    case DType::I16:
    case DType::U16:
      return std::nullopt;
  }
  return std::nullopt;
}

// Of bools the sum is "any of them", the product "all of them".
ncclRedOp_t operation_of(DType t, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return is_bool(t) ? ncclMax : ncclSum;
    case ReduceOp::Avg:
      return ncclAvg;
    case ReduceOp::Min:
      return ncclMin;
    case ReduceOp::Max:
      return ncclMax;
    case ReduceOp::Product:
      return is_bool(t) ? ncclMin : ncclProd;
  }
  return ncclSum;
}

bool is_empty(const Collective& c) {
  const auto none = [](const std::vector<int64_t>& parts) {
    return std::all_of(parts.begin(), parts.end(), [](int64_t n) { return n == 0; });
  };
  if (c.kind == Kind::AllToAll) return none(c.in_splits) && none(c.out_splits);
  return c.kind != Kind::Barrier && c.count == 0;
}

// The number of the capture that the stream's work becomes part of; none where it runs.
std::optional<uint64_t> capture_of(const device::cuda::Gpu& gpu, CUstream stream) {
  int status = 0;
  uint64_t id = 0;
  const auto& driver = gpu.driver_functions();
  driver.check(driver.capture_info(stream, &status, &id, nullptr, nullptr, nullptr, nullptr), "asking whether work is recorded");
  return status != 0 ? std::optional<uint64_t>(id) : std::nullopt;
}

// The longest that the ranks may take; none: no limit.
std::optional<milliseconds> limit() {
  const int64_t ms = get_option(options::kDistTimeoutMs);
  return ms > 0 ? std::optional(milliseconds(ms)) : std::nullopt;
}

// Threads of communicators that have been given up, each of which waits in NCCL for what holds the communicator. A process that ends waits
// a while for them, as a library that ends beneath such a thread takes the process down.
class Aborts {
 public:
  static void start(std::function<void()> work) {
    std::lock_guard lock(mutex());
    std::thread([work = std::move(work)] {
      work();
      std::lock_guard done(mutex());
      --running();
      ended().notify_all();
    }).detach();
    ++running();
    std::atexit([] { wait(); });  // now, so that it comes before the end of NCCL and of the driver
  }

 private:
  static void wait() {
    constexpr milliseconds kLongEnough{5000};
    std::unique_lock lock(mutex());
    ended().wait_for(lock, kLongEnough, [] { return running() == 0; });
  }
  // None is ever destroyed: the threads outlive the statics of this file.
  static std::mutex& mutex() {
    static std::mutex& m = *new std::mutex;
    return m;
  }
  static std::condition_variable& ended() {
    static std::condition_variable& c = *new std::condition_variable;
    return c;
  }
  static int& running() {
    static int count = 0;
    return count;
  }
};

}  // namespace

std::string lacks(const Collective& c) {
  if (!reduces(c.kind) || elements_of(c.dtype)) return "";
  return fmt::format("NCCL has no reductions of {}", name_of(c.dtype));
}

Communicator::Communicator(Group& group, int device)
    : library_(library()),
      gpu_(device::cuda::gpu(device)),
      who_(fmt::format("group \"{}\", rank {} on cuda:{}", group.name(), group.rank(), device)),
      ranks_(group.size()),
      check_(group) {}

std::shared_ptr<Communicator> Communicator::make(Group& group, int device, const ncclUniqueId& id) {
  std::shared_ptr<Communicator> out(new Communicator(group, device));
  out->join(group.rank(), group.size(), id);
  // Who waits may be another thread than the one that lets it go.
  out->watch_ = out->gpu_.watch([weak = std::weak_ptr(out)](milliseconds waited, bool is_over) {
    if (const auto alive = weak.lock()) alive->look(waited, is_over);
  });
  return out;
}

void Communicator::join(int rank, int ranks, const ncclUniqueId& id) {
  std::lock_guard lock(mutex_);
  gpu_.use();
  element_ = gpu_.allocate(sizeof(uint8_t));
  ncclConfig_t config;
  config.blocking = 0;
  settle(library_.init(&communicator_, ranks, id, rank, &config), "joining the ranks");
}

// Finalizing sends what is under way and waits for it, here no longer than it should take where no rank has failed.
Communicator::~Communicator() try {
  watch_ = nullptr;
  std::lock_guard lock(mutex_);
  if (!communicator_) return;
  gpu_.use();
  constexpr milliseconds kLongEnough{5000};
  const auto end = Clock::now() + kLongEnough;
  ncclResult_t status = library_.finalize(communicator_);
  while (status == ncclInProgress && Clock::now() < end) {
    std::this_thread::yield();
    if (library_.async_error(communicator_, &status) != ncclSuccess) break;
  }
  if (status == ncclSuccess)
    library_.destroy(communicator_);
  else
    give_up("it was not done when it was let go");
} catch (...) {  // a process that ends may have no driver any more
}

void Communicator::fail_as_before() const {
  if (is_users_) fail<UserError>("{}", failure_);
  fail<EnvironmentError>("{}", failure_);
}

void Communicator::checked(const std::function<void()>& compare) try { compare(); } catch (const UserError& e) {
  is_users_ = true;
  give_up("its calls are of no use any more");
  failure_ = e.what();
  fail_as_before();
}

// Kernels that wait for other ranks end at once. NCCL itself waits for graphs that hold some, so that nobody here may wait for it.
void Communicator::give_up(const std::string& why) {
  failure_ = fmt::format("NCCL ({}): {}: {}", library_.library.path(), who_, why);
  if (ncclComm_t left = std::exchange(communicator_, nullptr)) {
    device::cuda::Gpu* const gpu = &gpu_;  // never destroyed
    Aborts::start([gpu, left, abort = library_.abort] {
      try {
        gpu->use();
      } catch (const std::exception&) {
        return;  // the driver is gone, and its work with it
      }
      abort(left);
    });
  }
}

void Communicator::settle(ncclResult_t status, const std::string& doing) {
  const auto begin = Clock::now();
  const auto longest = limit();
  while (status == ncclInProgress) {
    if (longest && Clock::now() - begin > *longest) {
      give_up(fmt::format("{} was not done after {} ms (option dist_timeout_ms): another rank has not come", doing, longest->count()));
      fail_as_before();
    }
    std::this_thread::yield();
    const ncclResult_t asked = library_.async_error(communicator_, &status);
    if (asked != ncclSuccess) status = asked;
  }
  if (status == ncclSuccess) return;
  const char* const words = library_.last_error(communicator_);
  give_up(fmt::format("{} failed: {}{}", doing, library_.error_string(status), words && *words ? fmt::format(" ({})", words) : ""));
  fail_as_before();
}

void Communicator::enqueue(const Collective& c, CUstream stream) {
  if (const std::string why = lacks(c); !why.empty()) fail<UserError>("{}: {}", to_string(c), why);
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) fail_as_before();
  gpu_.use();
  const auto capture = capture_of(gpu_, stream);
  if (!capture) {
    checked([&] { check_.note(c); });
  } else {
    if (std::exchange(capture_, *capture) != *capture) captured_.clear();
    captured_.push_back(check_.prepare(c));
  }
  if (is_empty(c)) return;
  last_ = to_string(c) + (c.where.empty() ? "" : " at " + c.where);
  settle(start(c, stream), last_);
  if (capture)
    recorded_ = true;
  else
    passed_ = gpu_.mark(stream);
}

Communicator::Captured Communicator::take_captured() {
  std::lock_guard lock(mutex_);
  return std::exchange(captured_, {});
}

void Communicator::begin_replay(const Captured& calls) {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) fail_as_before();
  checked([&] {
    for (auto& call : calls) check_.note(call);
  });
}

ncclResult_t Communicator::start(const Collective& c, CUstream stream) {
  const auto count = static_cast<size_t>(c.count), bytes = count * size_of(c.dtype);
  const Elements e = elements_of(c.dtype).value_or(Elements{ncclUint8});
  switch (c.kind) {
    case Kind::AllReduce:
      return library_.all_reduce(c.in, c.out, count * e.each, e.dtype, operation_of(c.dtype, c.op), communicator_, stream);
    case Kind::ReduceScatter:
      return library_.reduce_scatter(c.in, c.out, count * e.each, e.dtype, operation_of(c.dtype, c.op), communicator_, stream);
    case Kind::AllGather:
      return library_.all_gather(c.in, c.out, bytes, ncclUint8, communicator_, stream);
    case Kind::Broadcast:
      return library_.broadcast(c.in, c.out, bytes, ncclUint8, c.root, communicator_, stream);
    case Kind::AllToAll:
      return exchange(c, stream);
    case Kind::Barrier:
      return library_.all_reduce(element_.get(), element_.get(), 1, ncclUint8, ncclMax, communicator_, stream);
  }
  return ncclSuccess;
}

// A part that is empty is so for its giver and its taker.
ncclResult_t Communicator::exchange(const Collective& c, CUstream stream) {
  const auto ranks = static_cast<size_t>(ranks_);
  TOROID_CHECK(c.in_splits.size() == ranks && c.out_splits.size() == ranks, "{} of {} ranks", to_string(c), ranks);
  const std::byte* in = c.in;
  std::byte* out = c.out;
  ncclResult_t status = library_.group_start();
  if (status != ncclSuccess) return status;
  const auto note = [&](ncclResult_t s) {
    if (status == ncclSuccess && s != ncclInProgress) status = s;
  };
  for (size_t r = 0; r < ranks; ++r) {
    const size_t given = static_cast<size_t>(c.in_splits[r]) * size_of(c.dtype),
                 taken = static_cast<size_t>(c.out_splits[r]) * size_of(c.dtype);
    if (given > 0) note(library_.send(in, given, ncclUint8, static_cast<int>(r), communicator_, stream));
    if (taken > 0) note(library_.receive(out, taken, ncclUint8, static_cast<int>(r), communicator_, stream));
    in += given, out += taken;
  }
  const ncclResult_t ended = library_.group_end();
  return status != ncclSuccess ? status : ended;
}

// Called while somebody waits for the GPU, and when the wait is over. One that enqueues at this moment looks by itself.
void Communicator::look(milliseconds waited, bool is_over) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !communicator_) return;
  checked([&] { check_.compare(); });
  if (is_over) return;
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = library_.async_error(communicator_, &status);
  if (asked != ncclSuccess) status = asked;
  if (status != ncclSuccess && status != ncclInProgress) {
    give_up(fmt::format("{} failed: {}", last_, library_.error_string(status)));
    fail_as_before();
  }
  const auto longest = limit();
  if (!longest || waited < *longest) return;
  if (!recorded_ && (!passed_ || gpu_.passed(passed_.get()))) return;
  give_up(
      fmt::format("the GPU's work was not done after {} ms (option dist_timeout_ms): another rank has not come to {}, or to a replay of "
                  "what it is part of (the last collective of this rank)",
                  waited.count(), last_));
  fail_as_before();
}

}  // namespace toroid::distributed::nccl
