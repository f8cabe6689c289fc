#include "autograd/tape/node.h"

#include "base/check.h"
#include "ops/call_errors.h"

namespace toroid::autograd {
namespace {

std::atomic<int64_t> nodes{0};

// The nodes that nobody holds any more, of the chain that is being destroyed: one after the other, as a chain may be long.
thread_local std::vector<std::shared_ptr<Node>>* dying = nullptr;

}  // namespace

Kept::Kept(const Tensor& t, std::string role) : role_(std::move(role)) {
  const TensorImpl& from = *t.impl();
  counter_ = from.storage->writes.watch();
  writes_ = counter_->load(std::memory_order_relaxed);
  auto storage = std::make_shared<Storage>();
  storage->data = from.storage->data;
  storage->bytes = from.storage->bytes;
  storage->device = from.storage->device;
  storage->owner = from.storage->owner;
  storage->late = from.storage->late;
  storage->lent = from.storage->lent;
  storage->static_address = from.storage->static_address;
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = from.dtype;
  impl->sizes = from.sizes;
  impl->strides = from.strides;
  impl->offset = from.offset;
  impl->storage = std::move(storage);
  tensor_ = Tensor(std::move(impl));
}

void Kept::make_own() {
  Tensor copy = Tensor::empty(tensor_.sizes(), tensor_.dtype(), tensor_.device());
  copy_elements(tensor_, copy);
  tensor_ = copy;
  counter_ = copy.impl()->storage->writes.watch();
  writes_ = 0;
}

bool Kept::was_written() const { return counter_->load(std::memory_order_relaxed) != writes_; }

Node::Node(std::string name, std::string place, std::vector<GradEdge> next)
    : name_(std::move(name)), place_(std::move(place)), next_(std::move(next)) {
  for (auto& e : next_)
    if (e.node) depth_ = std::max(depth_, e.node->depth());
  ++depth_;
  nodes.fetch_add(1, std::memory_order_relaxed);
}

Node::~Node() {
  nodes.fetch_sub(1, std::memory_order_relaxed);
  if (dying) {
    for (auto& e : next_)
      if (e.node) dying->push_back(std::move(e.node));
    return;
  }
  std::vector<std::shared_ptr<Node>> chain;
  for (auto& e : next_)
    if (e.node) chain.push_back(std::move(e.node));
  dying = &chain;
  while (!chain.empty()) {
    const auto last = std::move(chain.back());
    chain.pop_back();
  }
  dying = nullptr;
}

int64_t Node::count() { return nodes.load(std::memory_order_relaxed); }

std::string Node::who() const { return fmt::format("{} (called at {})", name_, place_); }

void Node::free() {
  freed_ = freed_ || !kept_.empty();
  kept_.clear();
}

std::vector<Tensor> Node::gradients(std::vector<Tensor> cotangents, bool retain) {
  TOROID_USER_CHECK(
      !freed_,
      "backward() through {} a second time: what it had kept for its gradients was freed by the first one. Pass retain_graph = "
      "true to all but the last backward(), or call the operations again",
      who());
  std::vector<Tensor> tensors;
  for (auto& k : kept_) {
    TOROID_USER_CHECK(
        !k.was_written(),
        "backward() through {}: {} was written in place after the call, which needs its elements for the gradient; write to a "
        "clone() of it, or use an operation that is not in place",
        who(), k.role());
    tensors.push_back(k.tensor());
  }
  if (!retain) free();
  const ops::PlaceScope place(place_);
  return reverse(std::move(tensors), std::move(cotangents));
}

Tensor Node::cotangent_or_zeros(const std::vector<Tensor>& cotangents, size_t result) const {
  if (cotangents[result].defined()) return cotangents[result];
  const auto& sizes = results[result].sizes;
  return ops::call1("zeros", {std::vector<Expr>(sizes.begin(), sizes.end()), results[result].dtype});
}

std::vector<Tensor> OperationNode::reverse(std::vector<Tensor> kept, std::vector<Tensor> cotangents) {
  TOROID_USER_CHECK(reverse_, "{}", error_);
  std::vector<Tensor> inputs;
  size_t next = 0;
  for (auto& source : reverse_->inputs) {
    if (source.kind == Reverse::Kind::Constant)
      inputs.emplace_back();
    else if (source.kind == Reverse::Kind::Cotangent)
      inputs.push_back(cotangent_or_zeros(cotangents, source.index));
    else
      inputs.push_back(std::move(kept[next++]));
  }
  cotangents.clear();
  return run(*reverse_, std::move(inputs));
}

std::vector<Tensor> FunctionNode::reverse(std::vector<Tensor> kept, std::vector<Tensor> cotangents) {
  for (size_t r = 0; r < cotangents.size(); ++r) cotangents[r] = cotangent_or_zeros(cotangents, r);
  return function_(std::move(kept), std::move(cotangents));
}

}  // namespace toroid::autograd
