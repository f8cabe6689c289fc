// Collectives between GPUs by NCCL: one rank's end of a group, on one GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/gpu.h"
#include "dist/call_check.h"
#include "dist/group.h"
#include "dist/nccl/symbols.h"

namespace toroid::distributed::nccl {

// Why NCCL cannot do it, whatever the group; empty where it can: reductions of i16 and u16, which it lacks. It is the same on all ranks.
std::string lacks(const Collective& c);

// Why the group has no communicator between the GPUs of its ranks; empty where group.on_gpu(device.index) has one. All ranks of the group
// ask for it alike: the first call makes the communicator, and its answer is kept. All get the same text, which names the first rank
// without the library or a GPU, or two that have the same GPU. EnvironmentError on all ranks where NCCL cannot join those that could be
// joined, or a rank does not come within the option dist_timeout_ms.
std::string refusal(Group& group, const Device& device);

// Whatever runs its collectives, a recorded graph too, must be gone before the last reference to it: steps of plans and captures hold one.
class Communicator {
 public:
  // Made by all ranks of the group together, with the id that one of them got from NCCL. EnvironmentError naming group and rank where NCCL
  // fails, or takes longer than the option dist_timeout_ms.
  static std::shared_ptr<Communicator> make(Group& group, int device, const ncclUniqueId& id);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  // Starts a collective on memory of the GPU (in, out), in the order of the stream, or makes it part of what is captured there. All ranks
  // start the same ones in the same order: those of different ranks are compared beside them (CallCheck). Nothing is started where all
  // counts are 0; a barrier is an all_reduce of one element. All ranks get the same bits; sums are in an order of NCCL's own, of 16 bits
  // rounded at each step. UserError for what NCCL lacks, and, then and ever after, where another rank's call is found to be another one:
  // who waits for the GPU is told so, too. EnvironmentError, then and ever after, where NCCL fails, or has been given up.
  void enqueue(const Collective& c, device::cuda::CUstream stream);
  // The collectives that the calling rank's latest capture has by now, or since this was called last.
  using Captured = std::vector<CallCheck::CallPtr>;
  Captured take_captured();
  // Before what was captured is replayed: fails as enqueue() does, as its kernels would move nothing any more.
  void begin_replay(const Captured& calls);

 private:
  Communicator(Group& group, int device);
  void join(int rank, int ranks, const ncclUniqueId& id);
  ncclResult_t start(const Collective& c, device::cuda::CUstream stream);
  ncclResult_t exchange(const Collective& c, device::cuda::CUstream stream);
  // Until NCCL is done with what the host has to do.
  void settle(ncclResult_t status, const std::string& doing);
  void look(std::chrono::milliseconds waited, bool is_over);
  // Runs what compares calls; one that differs ends the communicator.
  void checked(const std::function<void()>& compare);
  void give_up(const std::string& why);
  [[noreturn]] void fail_as_before() const;

  const Library& library_;
  device::cuda::Gpu& gpu_;
  const std::string who_;  // "group \"world\", rank 1 on cuda:1"
  const int ranks_;
  std::mutex mutex_;  // of all below
  ncclComm_t communicator_ = nullptr;
  std::shared_ptr<void> element_;  // for barriers
  std::string last_ = "none so far";
  std::shared_ptr<void> passed_;  // an event behind the last collective outside of captures
  bool recorded_ = false;         // graphs have some, whose replays are not seen here
  CallCheck check_;
  Captured captured_;
  uint64_t capture_ = 0;  // what those are of
  std::string failure_;
  bool is_users_ = false;  // a UserError
  std::shared_ptr<const device::cuda::Gpu::Watch> watch_;
};

}  // namespace toroid::distributed::nccl
