#include "autograd/tape/backward.h"

#include <map>
#include <queue>
#include <unordered_map>

#include "autograd/tape/history.h"
#include "base/check.h"
#include "ops/autocast.h"
#include "ops/call_errors.h"

namespace toroid::autograd {
namespace {

std::string type_text(DType dtype, const std::vector<int64_t>& sizes) {
  return to_string(TensorType{dtype, {sizes.begin(), sizes.end()}, {}});
}

// What hooks make of a gradient.
Tensor hooked(Tensor gradient, const GradHooks& hooks) {
  for (auto& h : hooks) {
    if (!h->call) continue;
    const Tensor by = h->call(gradient);
    if (!by.defined()) continue;
    TOROID_USER_CHECK(by.dtype() == gradient.dtype() && by.sizes() == gradient.sizes() && by.device() == gradient.device(),
                      "a hook returned {} on {} in place of a gradient that is {} on {}", type_text(by.dtype(), by.sizes()),
                      to_string(by.device()), type_text(gradient.dtype(), gradient.sizes()), to_string(gradient.device()));
    gradient = by;
  }
  return gradient;
}

// The first gradient becomes the sum itself where nobody else holds it.
void add_to(Tensor& sum, Tensor gradient) {
  if (sum.defined()) {
    ops::call1("add_.Tensor", {sum, gradient});
    return;
  }
  const TensorImpl* impl = gradient.impl();
  const bool own = gradient.shared_impl().use_count() == 1 && impl->storage.use_count() == 1 && impl->storage->owner.use_count() == 1 &&
                   !impl->grad && gradient.is_contiguous();
  sum = own ? std::move(gradient) : ops::call1("clone", {gradient, std::monostate{}});
}

bool has_nan(const Tensor& t) { return t.defined() && t.numel() > 0 && ops::call1("any", {ops::call1("isnan", {t})}).item() != 0; }

class Walk {
 public:
  explicit Walk(bool retain_graph) : retain_(retain_graph) {}

  void add(const GradEdge& to, Tensor gradient) {
    if (!gradient.defined()) return;
    Tensor* sum = nullptr;
    if (to.leaf) {
      auto [at, fresh] = leaves_.try_emplace(to.leaf.get());
      if (fresh) order_.push_back(to.leaf);
      sum = &at->second;
    } else {
      auto [at, fresh] = cotangents_.try_emplace(to.node.get());
      if (fresh) {
        at->second.resize(to.node->results.size());
        ready_.push(to.node);
      }
      sum = &at->second[to.result];
    }
    *sum = sum->defined() ? ops::call1("add.Tensor", {*sum, gradient}) : std::move(gradient);
  }

  void run() {
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top();
      ready_.pop();
      auto at = cotangents_.find(node.get());
      std::vector<Tensor> cotangents = std::move(at->second);
      cotangents_.erase(at);
      step(*node, std::move(cotangents));
    }
    for (auto& leaf : order_) {
      Tensor gradient = std::move(leaves_.at(leaf.get()));
      GradHooks hooks;
      {
        std::lock_guard lock(leaf->mutex);
        hooks = leaf->hooks;
      }
      gradient = hooked(std::move(gradient), hooks);
      std::lock_guard lock(leaf->mutex);
      add_to(leaf->sum, std::move(gradient));
    }
  }

 private:
  void step(Node& node, std::vector<Tensor> cotangents) {
    const DeviceScope there(node.device);
    for (size_t r = 0; r < cotangents.size(); ++r) {
      if (!cotangents[r].defined()) continue;
      cotangents[r] = hooked(std::move(cotangents[r]), node.results[r].hooks);
      if (const auto retained = node.results[r].retained.lock()) {
        std::lock_guard lock(retained->mutex);
        add_to(retained->sum, cotangents[r]);
      }
    }
    bool nan = false;
    for (auto& c : cotangents) nan = nan || (detects_anomaly && has_nan(c));
    auto gradients = node.gradients(std::move(cotangents), retain_);
    TOROID_CHECK(gradients.size() == node.next().size(), "{} gives {} gradients for {} operands", node.who(), gradients.size(),
                 node.next().size());
    for (size_t i = 0; detects_anomaly && !nan && i < gradients.size(); ++i)
      TOROID_USER_CHECK(!has_nan(gradients[i]), "backward() through {} gives NaN: gradient {} of {} has one, though none came in",
                        node.who(), i, gradients.size());
    for (size_t i = 0; i < gradients.size(); ++i) add(node.next()[i], std::move(gradients[i]));
  }

  struct Shallower {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const { return a->depth() < b->depth(); }
  };

  const bool retain_;
  std::unordered_map<const Node*, std::vector<Tensor>> cotangents_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Shallower> ready_;
  std::unordered_map<const GradState*, Tensor> leaves_;
  std::vector<std::shared_ptr<GradState>> order_;  // of the leaves, as they were reached
};

}  // namespace

void walk_back(const GradEdge& root, Tensor gradient, bool retain_graph) {
  const GradModeScope off(false);
  const ops::NoAutocast chosen;
  Walk walk(retain_graph);
  walk.add(root, std::move(gradient));
  walk.run();
}

}  // namespace toroid::autograd
