// A function of control flow (toroid/control_flow.h), recorded as a region.
#pragma once

#include <set>

#include "autograd/function_trace.h"
#include "toroid/control_flow.h"
#include "trace/tracer.h"

namespace toroid::front {

// Records what one region calls, above the dispatcher that will be given the control flow. It knows what is assumed of sizes around the
// region, and what is assumed in it is told there, but for sizes that only the region knows. Tensors from outside become inputs behind the
// parameters; their contents stay as they are.
class Region : public autograd::FunctionTrace {
 public:
  // name: of the region, for errors ("the body of while_loop") and in the text of graphs ("body").
  Region(std::string name, std::string_view name_in_text, Dispatcher& below);

  // The next input; before the function is recorded.
  void add_parameter(const TensorType& type, const Device& device);
  // Calls the function with the parameters. UserError unless it returns defined tensors whose sizes are known around it.
  void record(const detail::RegionFunction& fn);

  // What the function has returned.
  size_t size() const { return results_.tensors.size(); }
  const std::string& structure() const { return results_.structure; }
  const TensorType& type(size_t result);
  Device device(size_t result) const { return results_.tensors[result].device(); }
  // The line of the operation that made it.
  std::string place(size_t result);
  // Makes a result of this type of one of equal dtype, rank and sizes, whose sizes are told to be equal to these. False: they differ.
  bool fit(size_t result, const TensorType& type);

  const std::string& name() const { return name_; }
  // The graph, with inputs for the parameters and then for these tensors, which include all originals().
  std::shared_ptr<graph::Graph> finish(const std::vector<Tensor>& captured);

  std::vector<Expr> sizes_outside(const Tensor& t) override;
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
  bool decide(const sym::Relation& r) override;
  void require(const sym::Relation& r, const std::string& error) override;
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;

 protected:
  bool has_elements() const override { return false; }  // its parameters have none
  void tell_guards(size_t) override {}                  // all are told when the call has ended

 private:
  Region(std::string name, std::string_view name_in_text, Dispatcher& below, std::shared_ptr<graph::Graph> g);
  void know(Dispatcher& around);
  void know(const graph::Graph& around);
  void know_symbols(const graph::Graph& around);
  bool is_own(const Expr& e) const;
  void tell_new_guards();
  template <class F>
  auto telling_guards(F&& f);
  void refuse_write(const ops::Op& op, const Tensor& written, const std::source_location& where);
  graph::Value* result(size_t i) { return value_of(results_.tensors[i]); }

  Expr usable(const Expr& e);

  const std::string name_;
  trace::Tracer* tracer_ = nullptr;  // whose graph this becomes a part of
  std::shared_ptr<graph::Graph> graph_;
  std::vector<Tensor> parameters_;
  std::set<std::string> around_;  // sizes that are known around it
  size_t told_ = 0;               // guards that are known around it
  bool telling_ = false;          // is within telling_guards()
  detail::RegionResults results_;
};

}  // namespace toroid::front
