// The tape: a node for each remembered call, which leads to the nodes of the calls that made its operands.
#pragma once

#include "autograd/tape/reverse.h"
#include "tensor/grad_state.h"

namespace toroid::autograd {

// The elements that a tensor had when it was kept. It shares the memory, and nothing that knows of gradients.
class Kept {
 public:
  // role: what it is to the call, for errors ("operand 1").
  Kept(const Tensor& t, std::string role);
  bool is_in(const Storage& s) const { return counter_ == s.writes.watch(); }
  // Copies the elements: the memory is about to be written.
  void make_own();
  bool was_written() const;
  const Tensor& tensor() const { return tensor_; }
  const std::string& role() const { return role_; }

 private:
  Tensor tensor_;
  WriteCount::Counter counter_;
  uint64_t writes_ = 0;
  std::string role_;
};

class Node {
 public:
  struct Result {
    DType dtype = DType::F32;
    std::vector<int64_t> sizes;
    GradHooks hooks;
    std::weak_ptr<GradState> retained;  // whose sum the gradient is added to, too
  };

  // name: of the operation; place: who called it (ops::place_text); next: one for each gradient.
  Node(std::string name, std::string place, std::vector<GradEdge> next);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // What is kept. A node that has freed it cannot be walked through again.
  void keep(const Tensor& t, std::string role) { kept_.emplace_back(t, std::move(role)); }
  std::vector<Kept>& kept() { return kept_; }
  void free();

  // The gradients, in the order of `next`; undefined: 0. cotangents: by result; undefined: 0. UserError where what is kept was written or
  // freed. retain: whether what is kept stays for another time; else it is given up.
  std::vector<Tensor> gradients(std::vector<Tensor> cotangents, bool retain);

  // "mul.Tensor (called at model.cpp:12)"
  std::string who() const;
  const std::string& name() const { return name_; }
  const std::string& place() const { return place_; }
  const std::vector<GradEdge>& next() const { return next_; }
  // More than that of each node that it leads to.
  uint64_t depth() const { return depth_; }

  std::vector<Result> results;
  Device device;  // of its results

  // Nodes that exist in the process.
  static int64_t count();

 protected:
  // kept: as they were kept.
  virtual std::vector<Tensor> reverse(std::vector<Tensor> kept, std::vector<Tensor> cotangents) = 0;
  // 0 in place of what is undefined.
  Tensor cotangent_or_zeros(const std::vector<Tensor>& cotangents, size_t result) const;

 private:
  const std::string name_, place_;
  std::vector<GradEdge> next_;
  uint64_t depth_ = 0;
  std::vector<Kept> kept_;
  bool freed_ = false;
};

// Of a call of an operation that has rules.
class OperationNode : public Node {
 public:
  // reverse: null where the operation has none; then `error` says why, when it is walked through.
  OperationNode(std::string name, std::string place, std::vector<GradEdge> next, std::shared_ptr<const Reverse> reverse, std::string error)
      : Node(std::move(name), std::move(place), std::move(next)), reverse_(std::move(reverse)), error_(std::move(error)) {}

 protected:
  std::vector<Tensor> reverse(std::vector<Tensor> kept, std::vector<Tensor> cotangents) override;

 private:
  const std::shared_ptr<const Reverse> reverse_;
  const std::string error_;
};

// Of anything else: its gradients are what a function makes of what is kept and the cotangents.
class FunctionNode : public Node {
 public:
  using Function = std::function<std::vector<Tensor>(std::vector<Tensor> kept, std::vector<Tensor> cotangents)>;
  FunctionNode(std::string name, std::string place, std::vector<GradEdge> next, Function function)
      : Node(std::move(name), std::move(place), std::move(next)), function_(std::move(function)) {}

 protected:
  // All cotangents are defined.
  std::vector<Tensor> reverse(std::vector<Tensor> kept, std::vector<Tensor> cotangents) override;

 private:
  const Function function_;
};

}  // namespace toroid::autograd
