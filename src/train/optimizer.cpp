// What all optimizers share: groups, their state, clipping.
#include <cmath>

#include "toroid/autograd.h"
#include "toroid/error.h"
#include "toroid/ops.h"
#include "toroid/tensor_notes.h"
#include "toroid/train/optimizers.h"
#include "train/group.h"

namespace toroid::train {
namespace {

Tensor number_of(double value, const Device& device) { return Tensor::full(std::vector<int64_t>(), value, DType::F64, device); }
std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string out = "[";
  for (size_t d = 0; d < sizes.size(); ++d) out += (d ? ", " : "") + std::to_string(sizes[d]);
  return out + "]";
}
bool is_float_type(DType t) { return t == DType::F32 || t == DType::F64 || t == DType::F16 || t == DType::BF16; }

std::string without_gradient(size_t place, const Tensor& parameter) {
  const std::string where = toroid::detail::replaced(parameter),
                    text = "optimizer: parameter " + std::to_string(place) + " has no gradient: ";
  if (where.empty())
    return text + "no loss that was differentiated depends on it. Give the optimizer what the loss depends on, or a gradient of zeros";
  return text + "another tensor took its place in the module (" + where + "). Make the optimizer after load_state() and to()";
}

}  // namespace

Group::Group(std::vector<Tensor> given, double rate, std::vector<std::string> slots) : parameters(std::move(given)) {
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].device();
  lr = number_of(rate, device);
  step = number_of(0, device);
  for (auto& slot : slots)
    for (auto& p : parameters) state_[slot].push_back(Tensor::full(p.sizes(), 0, p.dtype(), p.device()));
  for (auto& p : parameters) toroid::detail::note_trained(p);
}
Group::~Group() {
  for (auto& p : parameters) toroid::detail::withdraw_trained(p);
}

Tensor& Group::number(const std::string& name, double initial) {
  Tensor& t = numbers_[name];
  if (!t.defined()) t = number_of(initial, lr.device());
  return t;
}

std::vector<std::pair<std::string, Tensor>> Group::state(const std::string& prefix) const {
  std::vector<std::pair<std::string, Tensor>> out{{prefix + "lr", lr}, {prefix + "step", step}};
  for (auto& [name, t] : numbers_) out.emplace_back(prefix + name, t);
  for (auto& [slot, tensors] : state_)
    for (size_t i = 0; i < tensors.size(); ++i) out.emplace_back(prefix + slot + "." + std::to_string(i), tensors[i]);
  return out;
}

Optimizer::Optimizer() = default;
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

Group& Optimizer::add_group(std::vector<Tensor> parameters, double lr, std::vector<std::string> slots) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].defined()) throw UserError("optimizer: parameter " + std::to_string(i) + " is undefined");
    if (!is_float_type(parameters[i].dtype()))
      throw UserError("optimizer: parameter " + std::to_string(i) + " is of dtype " + std::string(name_of(parameters[i].dtype())) +
                      "; only float tensors can be trained");
  }
  groups_.push_back(std::make_unique<Group>(std::move(parameters), lr, std::move(slots)));
  return *groups_.back();
}

void Optimizer::step(std::span<const Tensor> gradients) {
  const NoGrad no_history;
  size_t count = 0;
  for (auto& g : groups_) count += g->parameters.size();
  if (gradients.size() != count)
    throw UserError("optimizer: " + std::to_string(gradients.size()) + " gradients for " + std::to_string(count) + " parameters");
  size_t at = 0;
  for (size_t k = 0; k < groups_.size(); ++k) {
    Group& group = *groups_[k];
    const auto own = gradients.subspan(at, group.parameters.size());
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i].defined()) throw UserError(without_gradient(at + i, group.parameters[i]));
      if (own[i].sizes() != group.parameters[i].sizes())
        throw UserError("optimizer: gradient " + std::to_string(at + i) + " is not of the sizes of its parameter, " +
                        sizes_text(group.parameters[i].sizes()));
    }
    add_(group.step, 1);
    update(group, k, own);
    at += own.size();
  }
}

void Optimizer::step_if(const Tensor& condition, std::span<const Tensor> gradients) {
  if (!condition.defined() || condition.dtype() != DType::Bool || condition.numel() != 1)
    throw UserError("optimizer: the condition of step_if() must be one bool");
  std::vector<Tensor> written = parameters(), before;
  for (auto& [name, t] : state())
    if (!name.ends_with(".lr")) written.push_back(t);
  for (auto& t : written) before.push_back(clone(t));
  step(gradients);
  for (size_t i = 0; i < written.size(); ++i) copy_(written[i], where(condition, written[i], before[i]));
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> out;
  for (auto& g : groups_) out.insert(out.end(), g->parameters.begin(), g->parameters.end());
  return out;
}

Tensor Optimizer::learning_rate(size_t group) const {
  if (group >= groups_.size())
    throw UserError("optimizer: there is no group " + std::to_string(group) + "; there are " + std::to_string(groups_.size()));
  return groups_[group]->lr;
}
void Optimizer::set_learning_rate(double lr, size_t group) { fill_(learning_rate(group), lr); }

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (size_t k = 0; k < groups_.size(); ++k)
    for (auto& entry : groups_[k]->state(std::to_string(k) + ".")) out.push_back(entry);
  return out;
}

Tensor grad_norm(std::span<const Tensor> gradients, double p) {
  std::vector<Tensor> norms;
  for (auto& g : gradients) norms.push_back(to(norm(g, p), DType::F32));
  return norms.empty() ? scalar_tensor(0) : norm(stack(norms), p);
}

std::pair<std::vector<Tensor>, Tensor> clip_grad_norm(std::span<const Tensor> gradients, double max_norm, double p) {
  const Tensor total = grad_norm(gradients, p);
  const Tensor share = clamp(max_norm / (total + 1e-6), std::nullopt, 1.0);
  std::vector<Tensor> out;
  for (auto& g : gradients) out.push_back(g * share);
  return {out, total};
}

std::vector<Tensor> clip_grad_value(std::span<const Tensor> gradients, double limit) {
  std::vector<Tensor> out;
  for (auto& g : gradients) out.push_back(clamp(g, -limit, limit));
  return out;
}

}  // namespace toroid::train
