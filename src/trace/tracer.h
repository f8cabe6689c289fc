// Runs C++ functions on stand-in tensors: what they call is recorded as a graph, up to the end or to a read of a value.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "graph/outside.h"
#include "graph/recorder.h"
#include "tensor/element_reads.h"
#include "tensor/watch.h"
#include "trace/sizes.h"

namespace toroid::trace {

// What was recorded up to the end of the function, or up to a graph break.
struct Segment {
  std::unique_ptr<graph::Graph> graph;
  std::vector<Tensor> inputs;  // the tensors behind the graph's user inputs, in their order
  size_t arguments = 0;        // how many of those are arguments of the function
  Origins origins;
  std::vector<std::string> guard_places;
  std::string break_reason;      // empty at the end of the function
  std::vector<FixedSize> fixed;  // by settle_guards
  bool writes_inputs = false;
  Device device;                       // where it runs: that of its tensors which are on a GPU
  std::vector<Device> output_devices;  // where its results belong
  WatchedReads reads;                  // variables that the function has read: while they stand, another trace would find the same tensors
  ElementReads elements;               // of captured tensors, which the function has read as numbers: while they stand, so does the graph
};

// Runs a recorded segment on its inputs. It returns the graph's outputs.
using SegmentRunner = std::function<std::vector<Tensor>(Segment)>;

class Tracer : public Dispatcher, public ElementReader, public graph::Outside {
 public:
  // on_break runs the part before a read of a value; when it is null such a read is a UserError.
  Tracer(std::string name, SegmentRunner on_break);
  ~Tracer() override;

  // The stand-in for an argument. Two arguments that are the same tensor get the same stand-in. sizes: one entry a dimension, or none.
  Tensor argument(const Tensor& t, const std::string& what, const std::vector<SizePolicy>& sizes);
  // Ends the trace. The tensors that the function returned become the graph's outputs. UserError when the function kept a tensor of the
  // trace elsewhere.
  Segment finish(std::vector<Tensor> results);

  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
  bool decide(const sym::Relation& r) override;
  void require(const sym::Relation& r, const std::string& error) override;
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;
  // Ends the segment where it has written the tensor, so that the reader finds what it wrote.
  void read_elements(const Tensor& t, std::string_view what, const std::source_location& where) override;
  bool is_asked_by_function() const override { return WatchedReads::are_noted(); }
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override;
  bool copy(const Tensor& from, const Tensor& to) override { return Dispatcher::copy(from, to); }

  // Lets the first read of a captured tensor's elements end the segment: they change between calls.
  void break_at_reads(bool on) { breaks_at_reads_ = on; }
  // Ends the segment and makes every tensor of the trace an ordinary one.
  void break_graph(const std::string& reason);
  // Whether a break happened.
  bool broken() const { return segments_ > 0; }
  size_t operations() const { return operations_; }
  // What is recorded of the segment so far.
  const graph::Graph& graph() const { return *graph_; }
  std::vector<Expr> sizes_outside(const Tensor& t) override;
  Tensor behind(const Tensor& t) override;
  std::optional<int64_t> usual_size(const std::string& symbol) override;
  void note_call(const std::string& call) override { last_place_ = call; }
  // A size with numbers in place of symbols that no input of the segment carries.
  Expr usable(const Expr& e) const;

  // The innermost tracer of this thread.
  static Tracer* current();
  // Makes it the innermost one, and the dispatcher of the thread.
  class Scope {
   public:
    explicit Scope(Tracer* t);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Tracer* before_;
    std::unique_ptr<DispatchScope> dispatch_;
    WatchedReads::Scope reads_;
    ElementReader::Scope elements_;
  };

 private:
  struct Lifted {
    Tensor original, stand_in;
  };
  void start_segment();
  Tensor lift(const Tensor& t);
  Tensor stand_in(const Tensor& original, TensorType type, graph::InputKind kind, const std::string& name);
  Tensor on_graph(const Tensor& t);
  Expr new_size(int64_t size, const SizePolicy& policy, const std::string& what);
  void runs_on(const Device& device);
  void note_written(const Tensor& t);
  void renew_own_tensors();
  void note_guards(const std::string& place);
  void noting_guards(const std::string& place, const std::function<void()>& record);
  void decide_written_views();
  Segment take_segment(std::string reason, std::vector<Device> output_devices);
  int64_t hint_of(const Expr& e) const;

  std::string name_;
  SegmentRunner on_break_;
  WatchedReads reads_;
  ElementReads elements_;
  std::unique_ptr<graph::Graph> graph_;
  std::unique_ptr<graph::Recorder> recorder_;
  std::vector<Lifted> lifted_;
  std::unordered_map<const TensorImpl*, size_t> lifted_by_impl_;
  std::unordered_map<const Storage*, std::vector<size_t>> lifted_by_storage_;
  std::vector<std::pair<std::weak_ptr<TensorImpl>, graph::Value*>> issued_;
  std::unordered_map<const TensorImpl*, std::pair<std::weak_ptr<TensorImpl>, std::vector<Expr>>>
      sizes_of_real_;  // made by earlier segments
  Origins origins_;
  std::vector<std::string> guard_places_;
  std::string last_place_;
  size_t arguments_ = 0, segments_ = 0, operations_ = 0;
  std::unordered_set<const Storage*> written_;  // of tensors from outside, by the segment
  bool breaks_at_reads_ = false;
  Device device_;  // of the segment
};

}  // namespace toroid::trace
