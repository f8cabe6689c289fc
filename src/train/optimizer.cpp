// What all optimizers share: groups, their state, clipping.
#include <algorithm>
#include <cmath>
#include <map>

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

std::string name_of_parameter(size_t place) { return "optimizer: parameter " + std::to_string(place); }

std::string without_gradient(size_t place, const Tensor& parameter) {
  const std::string where = toroid::detail::replaced(parameter), text = name_of_parameter(place) + " has no gradient: ";
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
  for (auto& p : parameters) {
    toroid::detail::note_trained(p);
    replaced_before_.push_back(toroid::detail::replaced(p));
  }
}
std::string Group::replaced(size_t i) const { return replaced_before_[i].empty() ? toroid::detail::replaced(parameters[i]) : ""; }
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
  std::map<const TensorImpl*, std::string> places;
  const auto place_of = [&](size_t group, size_t i) {
    return "parameter " + std::to_string(i) + (groups_.empty() ? "" : " of group " + std::to_string(group));
  };
  for (size_t k = 0; k < groups_.size(); ++k)
    for (size_t i = 0; i < groups_[k]->parameters.size(); ++i) places.emplace(groups_[k]->parameters[i].impl(), place_of(k, i));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string here = place_of(groups_.size(), i);
    if (!parameters[i].defined()) throw UserError("optimizer: " + here + " is undefined");
    if (!is_float_type(parameters[i].dtype()))
      throw UserError("optimizer: " + here + " is of dtype " + std::string(name_of(parameters[i].dtype())) +
                      "; only float tensors can be trained");
    const auto [first, fresh] = places.emplace(parameters[i].impl(), here);
    if (!fresh)
      throw UserError("optimizer: " + here + " is the same tensor as " + first->second +
                      ", and would be stepped twice; give each once, as Module::parameters() and named_parameters() do");
  }
  groups_.push_back(std::make_unique<Group>(std::move(parameters), lr, std::move(slots)));
  return *groups_.back();
}

// Before anything is written.
void Optimizer::check(std::span<const Tensor> gradients) const {
  size_t count = 0;
  for (auto& g : groups_) count += g->parameters.size();
  if (gradients.size() != count)
    throw UserError("optimizer: " + std::to_string(gradients.size()) + " gradients for " + std::to_string(count) +
                    " parameters; step() takes one for each of optimizer.parameters()");
  size_t at = 0;
  for (auto& g : groups_)
    for (size_t i = 0; i < g->parameters.size(); ++i, ++at) {
      const Tensor &gradient = gradients[at], &p = g->parameters[i];
      if (!gradient.defined()) throw UserError(without_gradient(at, p));
      if (gradient.sizes() != p.sizes())
        throw UserError("optimizer: gradient " + std::to_string(at) + " is " + sizes_text(gradient.sizes()) + " and its parameter " +
                        sizes_text(p.sizes()) + "; gradients are given in the order of optimizer.parameters(), that of its groups");
      if (const std::string where = g->replaced(i); !where.empty())
        throw UserError(name_of_parameter(at) + " is no longer the module's: another tensor took its place (" + where +
                        "), and a step would train nothing. Make the optimizer after load_state() and to()");
    }
}

void Optimizer::step(std::span<const Tensor> gradients) {
  const NoGrad no_history;
  check(gradients);
  size_t at = 0;
  for (size_t k = 0; k < groups_.size(); ++k) {
    Group& group = *groups_[k];
    const auto own = gradients.subspan(at, group.parameters.size());
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
  const bool has_wide = std::any_of(gradients.begin(), gradients.end(), [](auto& g) { return g.dtype() == DType::F64; });
  std::vector<Tensor> norms;
  for (auto& g : gradients) norms.push_back(to(norm(g, p), has_wide ? DType::F64 : DType::F32));
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
