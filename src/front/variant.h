// A call of a compiled function, and one compiled variant: what it takes, and for which calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "front/backend.h"
#include "front/captures.h"
#include "front/guards.h"
#include "front/scalar_arguments.h"
#include "front/settings.h"
#include "front/taped_function.h"

namespace toroid::front {

// A call, with its tensors laid out in a row.
struct Call {
  std::vector<const Tensor*> tensors;
  std::span<const detail::ArgumentView> arguments;
  detail::Body body;
  void* function;

  std::vector<Tensor> run(std::span<const Tensor> in_place_of_tensors) const { return body(function, in_place_of_tensors, arguments); }
  std::vector<Tensor> run_eagerly() const;
};
Call call_of(std::span<const detail::ArgumentView> arguments, detail::Body body, void* function);

struct Entry {
  Surroundings surroundings;
  std::shared_ptr<const OptionsNow> options;  // that it was compiled with
  Guards guards;
  std::vector<Scalar> scalars;
  std::vector<int> inputs;  // argument tensor for each input of the program
  Program program;          // null: run eagerly, or still being compiled
  bool runs_eagerly = false;
  std::shared_ptr<const Captures> captures;
  bool writes = false;
  std::vector<bool> from_call;           // by input of the graph: an argument; else a captured tensor
  std::vector<size_t> written;           // inputs of the graph that it writes to
  std::shared_ptr<TapedFunction> taped;  // for calls whose gradients may be wanted
  std::string text;                      // of the traced graph
  std::vector<std::vector<trace::SizePolicy>> policies;

  // options: of the function now.
  bool matches(const Call& c, const OptionsNow& now) const;
  // The same, of one that is still being compiled.
  bool fits(const Call& c, const OptionsNow& now) const;
  // Whether it may run a call that it matches: else captured variables have been assigned, and the call looks at them anew.
  bool is_current() const { return !program || captures->stand(); }
  // Whether two different tensors among those of the call and those captured share memory.
  bool memory_is_shared(const Call& c) const;
  // What the inputs of the graph stand for in a call on these arguments.
  std::vector<Tensor> operands(std::span<const Tensor> arguments) const;
  // Why the call does not match: one line at least.
  std::vector<std::string> failures(const Call& c, const OptionsNow& now) const;
};
using Entries = std::vector<std::shared_ptr<const Entry>>;

// Why the call does not match the variant that differs from it least, of several the last one: the first of its reasons. Empty: there is
// no variant.
std::string failure_of_nearest(const Entries& entries, const Call& c, const OptionsNow& now);

}  // namespace toroid::front
