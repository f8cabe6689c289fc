// The reference evaluator: what each operation means, computed on host memory one operation at a time.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

// Runs one operation on concrete tensors. Those on a GPU are brought to the host, and the results back. Floating arithmetic is done in
// double and rounded to the result's dtype once an operation. UserError for arguments that the operation refuses.
std::vector<Tensor> evaluate(const Op& op, CallArgs args);

// Evaluates whatever is called at once by evaluate(): makes decompositions and user functions run as reference programs.
class ReferenceDispatcher : public Dispatcher {
 public:
  std::vector<Tensor> call(const Op& op, CallArgs args, const std::source_location& where) override;
  bool decide(const sym::Relation& r) override;
  void require(const sym::Relation& r, const std::string& error) override { Dispatcher::require(r, error); }
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    return Dispatcher::move(t, device, where);
  }
  bool copy(const Tensor& from, const Tensor& to) override { return Dispatcher::copy(from, to); }
};

}  // namespace toroid::ops
