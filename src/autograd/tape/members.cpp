// The members of Tensor that are about gradients, and toroid/autograd.h.
#include "autograd/tape/backward.h"
#include "autograd/tape/history.h"
#include "base/check.h"
#include "ops/call_errors.h"
#include "toroid/autograd.h"

namespace toroid {
namespace autograd {
namespace {

class Members : public TapedMembers {
 public:
  Tensor as_strided(const Tensor& t, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
                    const std::source_location& where) override {
    TOROID_USER_CHECK(!requires_grad(*t.impl()) || t.is_contiguous(),
                      "as_strided() of a tensor that requires gradients and is not contiguous (called at {}); take contiguous() of it, or "
                      "detach() it",
                      ops::place_text(where));
    if (requires_grad(*t.impl())) return ops::call1("as_strided", {t, exprs(sizes), exprs(strides), Expr(offset)}, where);
    const GradModeScope off(false);
    const Tensor view = t.as_strided(sizes, strides, offset, where);
    set_history(view, {}, &t);
    return view;
  }
  Tensor contiguous(const Tensor& t, const std::source_location& where) override { return ops::call1("contiguous", {t}, where); }
  Tensor to(const Tensor& t, const Device& device, const std::source_location& where) override {
    const Tensor moved_there = moved(t, device, where);
    GradEdge edge = has_gradient(t.dtype()) ? edge_of(t) : GradEdge{};
    if (!edge) return moved_there;
    auto node = std::make_shared<FunctionNode>("to", ops::place_text(where), std::vector{std::move(edge)},
                                               [back = t.device()](const std::vector<Tensor>&, std::vector<Tensor> cotangents) {
                                                 return std::vector{moved(cotangents[0], back)};
                                               });
    node->results.push_back({t.dtype(), t.sizes(), {}, {}});
    node->device = device;
    set_history(moved_there, {std::move(node), 0, nullptr});
    return moved_there;
  }
};

void check_defined(const Tensor& t, std::string_view what) {
  TOROID_USER_CHECK(t.defined(), "{} of an undefined tensor, which has no value yet", what);
}

// Members that need the tape have no meaning while a function is recorded.
void check_apart(const Tensor& t, std::string_view what) {
  check_defined(t, what);
  const Dispatcher* d = innermost_dispatcher();
  TOROID_USER_CHECK(
      !is_proxy(t) && (!d || d == eager_dispatcher()),
      "{} within a function that is compiled or differentiated; call it outside, or use value_and_gradients() (toroid/grad.h), "
      "which becomes a part of the program",
      what);
}

// A state of its own for t, which is to be a leaf.
GradState& leaf_state(const Tensor& t) {
  TensorImpl& impl = *t.impl();
  if (!impl.grad || impl.grad->base) cut_history(t);
  return *impl.grad;
}

void check_like(const Tensor& t, const Tensor& gradient, std::string_view what) {
  const auto type = [](const Tensor& x) { return to_string(TensorType{x.dtype(), exprs(x.sizes()), {}}); };
  TOROID_USER_CHECK(gradient.dtype() == t.dtype() && gradient.sizes() == t.sizes() && gradient.device() == t.device(),
                    "{}: the gradient is {} on {}; expected {} on {}, as the tensor is", what, type(gradient), to_string(gradient.device()),
                    type(t), to_string(t.device()));
}

}  // namespace

void install_members() {
  static Members& members = *new Members;  // never destroyed: threads may outlive main
  install_taped_members(&members);
}

}  // namespace autograd

using namespace autograd;

Tensor& Tensor::requires_grad_(bool value, Where where) {
  return ops::at_place(where, [&]() -> Tensor& {
    check_defined(*this, "requires_grad_()");
    TOROID_USER_CHECK(!value || has_gradient(dtype()),
                      "requires_grad_(): a tensor of {} has no gradients; only floats and complex numbers have", name_of(dtype()));
    if (impl_->proxy) {
      impl_->requires_grad = value;
      return *this;
    }
    if (value == requires_grad()) return *this;
    TOROID_USER_CHECK(value || is_leaf(), "requires_grad_(false) of a tensor that follows from others; take detach() of it");
    leaf_state(*this).asks = value;
    return *this;
  });
}

bool Tensor::is_leaf() const {
  check_defined(*this, "is_leaf()");
  return !requires_grad() || impl_->proxy || (impl_->grad && impl_->grad->asks);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, Where where) const {
  ops::at_place(where, [&] { check_apart(*this, "backward()"); });
  const std::string place = ops::place_text(where);
  TOROID_USER_CHECK(
      requires_grad(),
      "backward() at {}: the tensor does not require gradients; call requires_grad_() on the tensors that it is computed from, "
      "outside of NoGrad",
      place);
  Tensor seed = gradient;
  if (seed.defined()) {
    check_like(*this, seed, "backward() at " + place);
  } else {
    TOROID_USER_CHECK(numel() == 1,
                      "backward() at {} of a tensor of {} elements needs the gradient of each; give them, or reduce it by sum()", place,
                      numel());
    seed = Tensor::full(sizes(), 1, dtype(), device());
  }
  walk_back(edge_of(*this), std::move(seed), retain_graph);
}

Tensor Tensor::grad(Where where) const {
  ops::at_place(where, [&] { check_apart(*this, "grad()"); });
  if (!impl_->grad) return {};
  std::lock_guard lock(impl_->grad->mutex);
  return impl_->grad->sum;
}

void Tensor::set_grad(const Tensor& gradient, Where where) const {
  ops::at_place(where, [&] {
    check_apart(*this, "set_grad()");
    if (gradient.defined()) check_like(*this, gradient, "set_grad()");
  });
  if (!gradient.defined() && !impl_->grad) return;
  GradState& s = state_of(*this);
  std::lock_guard lock(s.mutex);
  s.sum = gradient;
}

void Tensor::retain_grad(Where where) const {
  ops::at_place(where, [&] {
    check_apart(*this, "retain_grad()");
    TOROID_USER_CHECK(requires_grad(), "retain_grad() of a tensor that does not require gradients");
  });
  if (is_leaf()) return;
  const GradState& s = state_of(*this);
  s.edge.node->results[s.edge.result].retained = impl_->grad;
}

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook, Where where) const {
  ops::at_place(where, [&] {
    check_apart(*this, "register_hook()");
    TOROID_USER_CHECK(requires_grad(), "register_hook() of a tensor that does not require gradients");
    TOROID_USER_CHECK(hook, "register_hook(): the hook is empty");
  });
  auto made = std::make_shared<GradHook>(GradHook{std::move(hook)});
  GradState& s = state_of(*this);
  if (s.asks) {
    std::lock_guard lock(s.mutex);
    s.hooks.push_back(made);
  } else {
    s.edge.node->results[s.edge.result].hooks.push_back(made);
  }
  return HookHandle(made);
}

Tensor Tensor::detach(Where where) const {
  check_defined(*this, "detach()");
  return ops::call1("detach", {*this}, where);
}

void HookHandle::remove() {
  if (const auto hook = hook_.lock()) hook->call = nullptr;
}

NoGrad::NoGrad() : before_(std::exchange(grad_mode, false)) {}
NoGrad::~NoGrad() { grad_mode = before_; }
EnableGrad::EnableGrad() : before_(std::exchange(grad_mode, true)) {}
EnableGrad::~EnableGrad() { grad_mode = before_; }
bool is_grad_enabled() { return grad_mode; }

DetectAnomaly::DetectAnomaly(bool on) : before_(std::exchange(detects_anomaly, on)) {}
DetectAnomaly::~DetectAnomaly() { detects_anomaly = before_; }

}  // namespace toroid
