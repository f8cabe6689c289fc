// Which dtypes operations want under autocast.
#pragma once

#include <array>

#include "ops/op.h"
#include "toroid/autocast.h"

namespace toroid::ops {

enum class AutocastPolicy : uint8_t {
  None,     // operands as they are
  Lower,    // in autocast's dtype
  F32,      // at least f32
  Promote,  // in the widest dtype among them
};
// Of a call on tensors of that device.
AutocastPolicy autocast_policy(const Op& op, std::span<const Arg<Tensor>> args, DeviceType device);

// The arguments of a call on `device`, cast by calls of the current dispatcher where autocast is in force there.
CallArgs autocast_args(const Op& op, CallArgs args, const Device& device, const std::source_location& where);
// The same for tensors that stand on `device` in place of those of a device of kind `rules`.
CallArgs autocast_args(const Op& op, CallArgs args, const Device& device, DeviceType rules, const std::source_location& where);

struct AutocastState {
  bool enabled = false;
  DType dtype = DType::F32;
  bool operator==(const AutocastState&) const = default;
};
using AutocastStates = std::array<AutocastState, 2>;  // by DeviceType
// Of this thread.
AutocastStates autocast_states();
// "autocast on cuda was off, is bf16": the first difference.
std::string difference(const AutocastStates& before, const AutocastStates& now);

// Suspends autocast on this thread, within what an operation is made of.
class NoAutocast {
 public:
  NoAutocast();
  ~NoAutocast();
  NoAutocast(const NoAutocast&) = delete;

 private:
  AutocastStates before_;
};

}  // namespace toroid::ops
