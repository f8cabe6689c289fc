// Functions recorded on stand-ins of whatever tensors they use, and the graphs that are called in their place.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "graph/outside.h"
#include "graph/recorder.h"
#include "tensor/element_reads.h"

namespace toroid::autograd {

// Records calls above another dispatcher, which is asked of sizes and gets a graph to call afterwards. Tensors that are not made here,
// among them stand-ins of a trace below, become inputs.
class FunctionTrace : public graph::Recorder, public ElementReader, public graph::Outside {
 public:
  // function: what is recorded, for errors.
  FunctionTrace(graph::Graph& g, Dispatcher& below, std::string function = "a function that is differentiated")
      : Recorder(g), below_(below), function_(std::move(function)) {}

  // Stand-ins that somebody has kept become empty tensors.
  ~FunctionTrace() override;

  // What stands for t here. A tensor from outside is one input, however deep within regions and other functions it is first read: each of
  // them names the tensor itself to the one around it, never a stand-in of it, so that its gradient is the sum over all uses.
  virtual Tensor lift(const Tensor& t);
  // Behind the inputs of the graph, in their order.
  const std::vector<Tensor>& originals() const { return originals_; }
  // Forgets what stands for the tensors from outside, and returns a stand-in that somebody else still holds; undefined: nobody does.
  Tensor still_held();
  // Where the graph runs as a whole: on the one GPU that an operation is on, else on the CPU.
  const Device& device() const { return device_; }
  Dispatcher& below() const { return below_; }
  std::vector<Expr> sizes_outside(const Tensor& t) override;
  Tensor behind(const Tensor& t) override;
  std::optional<int64_t> usual_size(const std::string& symbol) override;
  void note_call(const std::string& call) override;

  // The elements of these tensors as what is recorded so far will compute them, with what that draws drawn from the process's stream.
  // Nothing is written. Only where has_elements().
  std::vector<Tensor> elements_of(std::span<const Tensor> tensors);

  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override;
  // What is decided below stays a guard of the graph, for what is made of it.
  bool decide(const sym::Relation& r) override;
  void require(const sym::Relation& r, const std::string& error) override;
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;
  // UserError where it is to write the tensor.
  void read_elements(const Tensor& t, std::string_view what, const std::source_location& where) override;
  bool is_asked_by_function() const override { return true; }

 protected:
  // t, as made here.
  Tensor keep(Tensor t, const Device& device);
  // "slice.Tensor (m.cpp:7)": what was called last; empty: nothing yet.
  const std::string& last_call() const { return last_call_; }
  // Whether what is recorded can be computed at once: it runs eagerly when it has ended.
  virtual bool has_elements() const;
  // What a call has assumed of sizes since there were so many guards is told around it.
  virtual void tell_guards(size_t since);

 private:
  std::vector<Tensor> recorded(const ops::Op& op, const CallArgs& args, const std::source_location& where);
  std::vector<Tensor> recorded_parts(const ops::Op& op, const CallArgs& args, const std::source_location& where);
  void set_sizes_of_data(const ops::Op& op, const CallArgs& args, std::span<const Tensor> results, const std::source_location& where);
  bool draws();
  void note_written(const Tensor& t);
  void declare_symbols(const Expr& e);
  void note(sym::Guard g);
  void runs_on(const Device& device, const std::source_location& where);

  struct Calling {
    const ops::Op& op;
    const std::source_location& where;
    const Calling*& innermost;
    const Calling* const before;
    Calling(const ops::Op& o, const std::source_location& w, const Calling*& at) : op(o), where(w), innermost(at), before(at) { at = this; }
    ~Calling() { innermost = before; }
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;
  };

  Dispatcher& below_;
  const Calling* calling_ = nullptr;  // the call that is recorded, for errors
  ElementReader* const around_ = ElementReader::current();
  const std::string function_;
  std::string last_call_;
  Device device_;
  std::unordered_set<const TensorImpl*> made_;
  std::vector<Tensor> kept_;  // so that no address of made_ is used again
  std::unordered_map<const TensorImpl*, Tensor> lifted_;
  std::vector<Tensor> originals_;
  std::unordered_set<const Storage*> written_;  // of those
};

// t there; t itself where it is there, or undefined.
Tensor on_device(const Tensor& t, const Device& device);

// Calls the nodes of a functional graph on tensors, through the innermost dispatcher, on one device. What the graph writes to inputs is
// written. The casts of autocast are nodes already.
std::vector<Tensor> called(const graph::Graph& g, std::span<const Tensor> inputs, const Device& device);

}  // namespace toroid::autograd
