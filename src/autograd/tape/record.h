// Remembering calls: what the eager dispatcher asks of the tape.
#pragma once

#include "autograd/tape/history.h"

namespace toroid::autograd {

// Whether the tape has a part in a call: one of its tensors may require gradients, or shares memory with what does.
inline bool touches_tape(const CallArgs& args) {
  for (auto& a : args) {
    if (auto* t = std::get_if<Tensor>(&a); t && t->impl() && is_taped(*t->impl())) return true;
    if (auto* list = std::get_if<std::vector<Tensor>>(&a))
      for (auto& t : *list)
        if (t.impl() && is_taped(*t.impl())) return true;
  }
  return false;
}

// Makes what a call returned the results of its node.
void set_results(const std::shared_ptr<Node>& node, std::span<const Tensor> results, std::span<const Tensor> operands);

// What computes a call without the tape.
using Forward = std::function<std::vector<Tensor>(CallArgs)>;

// The call, remembered where this thread remembers (grad_mode). Not for what is run as its parts: those come here by themselves.
std::vector<Tensor> remembered(const ops::Op& op, CallArgs args, const std::source_location& where, const Forward& forward);

}  // namespace toroid::autograd
