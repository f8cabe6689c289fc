// What a compiled variant reads besides its arguments: captured tensors, and whether the variables that hold them have been assigned.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/tracer.h"

namespace toroid::front {

class Captures {
 public:
  // Of a trace that has ended, without its reads, which come here. frozen: what is compiled holds what the elements are now.
  explicit Captures(trace::Segment& s, bool frozen = false);

  // One for each input of the graph that is bound to a tensor, in the graph's order.
  std::span<const Tensor> tensors() const { return tensors_; }
  // Whether all variables that the function read still hold what they held, and those that it read as numbers the same elements. A load and
  // a comparison, unless some variable of the process that a trace has read was assigned meanwhile, and a comparison for each number.
  bool stand() const;
  // Whether the elements that the function has read as numbers are what they were.
  bool elements_stand() const { return elements_.stand(); }
  // Whether nobody but the program has written to frozen tensors since, as load_state() does.
  bool frozen_stand() const { return frozen_.stand(); }
  // Why a program made for these cannot run on those of a later trace with the same text: the first that has another dtype, size, stride
  // or device, "captured tensor 0 (captured) was f32[2], is f32[3]". Empty: it can.
  std::string difference(const Captures& now) const;
  // Those that are other tensors now (second), of the same types.
  std::vector<std::pair<Tensor, Tensor>> exchanged(const Captures& now) const;
  // The first that is another tensor now, or one that the function has made itself with other elements; empty: none. For a trace that is
  // repeated while the variables stand.
  std::string untold(const Captures& now) const;

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::string> names_;
  Device device_;
  std::vector<Device> output_devices_;
  WatchedReads reads_;
  ElementReads elements_, frozen_;
  mutable std::atomic<uint64_t> stood_;  // WatchedReads::changes() when the variables last stood; another number at first
};

// Where two texts differ first: "\"line\" was recorded, now it is \"line\"".
std::string first_difference(const std::string& recorded, const std::string& now);

}  // namespace toroid::front
