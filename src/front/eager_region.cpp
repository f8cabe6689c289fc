#include "front/eager_region.h"

#include <algorithm>

#include "autograd/tape/reverse.h"
#include "base/check.h"
#include "graph/graph.h"
#include "ops/call_errors.h"
#include "ops/custom.h"

namespace toroid::front {
namespace {

thread_local EagerRegion* innermost = nullptr;

}  // namespace

void fail_outside_write(const ops::Op& op, const std::string& region, const std::source_location& where) {
  fail<UserError>(
      "{} ({}): {} writes in place to a tensor from outside, which it may only read; return the new contents from it, or write to clone() "
      "of the tensor",
      op.name, ops::place_text(where), region);
}

EagerRegion::EagerRegion(std::string name) : name_(std::move(name)), around_(innermost) { innermost = this; }
EagerRegion::~EagerRegion() { innermost = around_; }
EagerRegion* EagerRegion::current() { return innermost; }

bool EagerRegion::has_made(const Tensor& t) const {
  const auto at = made_.find(t.impl()->storage.get());
  return at != made_.end() && !at->second.expired();
}

void EagerRegion::note_made(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors)
    if (t.defined()) made_[t.impl()->storage.get()] = t.impl()->storage;
}

std::vector<Tensor> EagerRegion::call(const ops::Op& op, const CallArgs& args, const std::source_location& where,
                                      const std::function<std::vector<Tensor>()>& run) {
  const auto check = [&](size_t argument) {
    if (const auto* t = std::get_if<Tensor>(&args.at(argument)); t && t->defined() && !has_made(*t)) fail_outside_write(op, name_, where);
  };
  if (ops::is_registered(op))
    for (size_t i : ops::written_arguments(op)) check(i);
  else if (graph::is_mutating(op))
    check(0);
  std::vector<Tensor> results;
  {
    struct PartsScope {
      explicit PartsScope(EagerRegion* before) : before(before) { innermost = nullptr; }
      ~PartsScope() { innermost = before; }
      EagerRegion* const before;
    } const parts(this);
    results = run();
  }
  const std::vector<Tensor> operands = autograd::operands_of(args);
  std::vector<Tensor> made;
  for (const Tensor& r : results) {
    const auto shares = [&](const Tensor& t) { return t.impl()->storage == r.impl()->storage; };
    if (std::none_of(operands.begin(), operands.end(), shares)) made.push_back(r);
  }
  note_made(made);
  return results;
}

}  // namespace toroid::front
