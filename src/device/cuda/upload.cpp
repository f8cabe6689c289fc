// Copies from ordinary memory of the host at the speed of the bus: threads bring it into pinned memory, which the GPU reads meanwhile. (The
// driver does the same for memory that is not pinned, by one thread.)
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <thread>

#include "base/check.h"
#include "device/cuda/gpu.h"

namespace toroid::device::cuda {
namespace {

constexpr size_t kPiece = size_t{8} << 20;  // some hundred microseconds of the bus
constexpr unsigned kMostThreads = 12;       // together they read faster than a bus of 64 GB/s takes

}  // namespace

// A thread's pinned memory: one piece on its way while the next is read. It is kept for later uploads.
struct Gpu::Stage {
  explicit Stage(const Driver& d) : driver(d) {
    constexpr unsigned kNonBlocking = 1, kNoTiming = 2;
    driver.check(driver.create_stream(&stream, kNonBlocking), "making a stream");
    for (int i = 0; i < 2; ++i) {
      driver.check(driver.allocate_host(&pieces[i], kPiece, 0), "pinning memory of the host");
      driver.check(driver.create_event(&sent[i], kNoTiming), "making an event");
    }
  }
  void send(const HostBlock& block) {
    const int i = turn++ % 2;
    driver.check(driver.wait_event(sent[i]), "waiting for the GPU");
    std::memcpy(pieces[i], block.from, block.bytes);
    driver.check(driver.copy_in(reinterpret_cast<CUdeviceptr>(block.to), pieces[i], block.bytes, stream), "copying to the GPU");
    driver.check(driver.record_event(sent[i], stream), "copying to the GPU");
  }

  const Driver& driver;
  CUstream stream = nullptr;
  void* pieces[2] = {};
  CUevent sent[2] = {};
  unsigned turn = 0;
};

void Gpu::upload(std::span<const HostBlock> blocks) {
  std::vector<HostBlock> pieces;
  for (const HostBlock& b : blocks)
    for (size_t at = 0; at < b.bytes; at += kPiece)
      pieces.push_back({static_cast<std::byte*>(b.to) + at, static_cast<const std::byte*>(b.from) + at, std::min(kPiece, b.bytes - at)});
  synchronize(stream());  // what uses the memory now
  std::lock_guard one_at_a_time(upload_mutex_);
  const size_t threads = std::min<size_t>({kMostThreads, std::max(1u, std::thread::hardware_concurrency()), pieces.size()});
  while (stages_.size() < threads) stages_.push_back(std::make_shared<Stage>(driver_));
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> failures(threads);
  auto work = [&](size_t thread) {
    try {
      use();
      for (size_t i = next++; i < pieces.size(); i = next++) stages_[thread]->send(pieces[i]);
      driver_.check(driver_.synchronize(stages_[thread]->stream), "copying to the GPU");
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t t = 1; t < threads; ++t) others.emplace_back(work, t);
    if (threads > 0) work(0);
  }
  for (auto& f : failures)
    if (f) std::rethrow_exception(f);
}

}  // namespace toroid::device::cuda
