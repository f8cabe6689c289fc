#include "tune/check.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/custom.h"
#include "tensor/tensor_impl.h"
#include "tune/equivalence.h"
#include "tune/inputs.h"
#include "tune/memory.h"
#include "tune/sampler.h"

namespace toroid::tune {
namespace {

int64_t value_of(const Expr& e) { return e.maybe_constant().value_or(1); }

// Terms of the longest sum of a node.
int64_t longest_sum(const choice::Node& n) {
  int64_t terms = loop::has_reduction(n.domain) ? value_of(loop::reduction_size(n.domain)) : 1;
  if (auto* g = std::get_if<choice::Gemm>(&n.problem)) terms = std::max(terms, value_of(g->k));
  if (auto* c = std::get_if<choice::Convolution>(&n.problem))
    terms = std::max(terms, c->in_channels / c->groups * c->kernel_h * c->kernel_w);
  if (auto* a = std::get_if<choice::Attention>(&n.problem)) terms = std::max(terms, value_of(a->keys) + a->head_dim);
  if (auto* o = std::get_if<choice::Open>(&n.problem))
    for (auto& way : o->alternatives)
      for (auto& inner : way.program->nodes) terms = std::max(terms, longest_sum(inner));
  return terms;
}

Contract contract_of(const choice::Program& region, DType result) {
  Contract c;
  c.result = result;
  c.length = 0;
  for (auto& n : region.nodes) c.length += longest_sum(n);
  for (auto& in : region.inputs) c.operands.push_back(in.type.dtype);
  c.intermediates = static_cast<int>(region.nodes.size());
  return c;
}

constexpr size_t kLargeWeights = 1 << 18;

// Large weights are read from memory in each step of a model, as other layers push them out of the caches in between.
bool flushes(const Region& region) { return bytes_of_constants(region.program) >= kLargeWeights; }

// Its elements in row-major order, as a tensor of one dimension there.
Tensor flat(const Tensor& t, const Device& device) {
  const Tensor dense = moved(t, Device::cpu()).contiguous();
  Tensor out = Tensor::empty({dense.numel()}, dense.dtype());
  std::memcpy(out.raw_data(), dense.raw_data(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
  return moved(out, device);
}

class Checked {
 public:
  Checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device)
      : callers_(callers), region_(region), running_(callers.size()) {
    uint64_t seed = 1;
    for (auto& in : region.program.inputs)
      if (!in.data.defined()) inputs_.push_back(contents_of(in, seed++, device));
    for (auto& o : region.program.outputs) {
      contracts_.push_back(contract_of(region.program, o.type.dtype));
      writes_inputs_ = writes_inputs_ || o.mutates >= 0;
    }
    SamplerOptions how;
    if (flushes(region)) how.flush_bytes = cache_bytes(device);
    time_ = time_executables([this](size_t i) -> exec::Executable& { return *running_[i]; }, callers.size(), device, inputs_, how);
  }

  double operator()(size_t i) {
    if (!running_[i]) check(i);
    return time_(i);
  }

 private:
  // As the generator of a custom operation's argument says, where the input is one; else by its type.
  Tensor contents_of(const choice::ProgramInput& in, uint64_t seed, const Device& device) const {
    for (auto& n : region_.program.nodes) {
      auto* open = std::get_if<choice::Open>(&n.problem);
      if (!open || !open->op || !ops::is_tuned(*open->op)) continue;
      for (size_t i = 0; i < open->inputs.size(); ++i) {
        const auto& v = open->inputs[i];
        if (v.memory.buffer != in.buffer) continue;
        CustomOperand operand{open->alternatives[0].program->inputs[i].name, v.memory.dtype, {}};
        for (auto& s : v.sizes) operand.sizes.push_back(s.constant());
        const Tensor made = ops::generated_operand(*open->op, operand);
        if (made.defined() && Expr(made.numel()) == in.type.numel()) return flat(made, device);
      }
    }
    return generate_input(in.type, seed, {}, device);
  }

  // What a call gives, what it writes to its inputs among it.
  std::vector<Tensor> results_of(exec::Executable& e) const {
    std::vector<Tensor> inputs = inputs_;
    if (writes_inputs_)
      for (auto& t : inputs) {
        Tensor own = Tensor::empty(t.sizes(), t.dtype(), t.device());
        copy_elements(t, own);
        t = own;
      }
    std::vector<Tensor> given = e.run(inputs), out;
    std::vector<size_t> users;
    for (size_t k = 0; k < region_.program.inputs.size(); ++k)
      if (!region_.program.inputs[k].data.defined()) users.push_back(k);
    size_t next = 0;
    for (auto& o : region_.program.outputs) {
      const auto user = std::find(users.begin(), users.end(), static_cast<size_t>(o.mutates));
      out.push_back(o.mutates >= 0 ? inputs[static_cast<size_t>(user - users.begin())] : given[next++]);
    }
    return out;
  }

  void check(size_t i) {
    if (i > 0 && !running_[0]) check(0);
    auto e = callers_[i]->executable();
    std::vector<Tensor> results = results_of(*e);
    if (i == 0)
      wanted_ = std::move(results);
    else if (std::string why = compare(results, wanted_, contracts_); !why.empty())
      fail<UserError>("{}: {}", kNotEquivalent, why);
    running_[i] = std::move(e);
  }

  const std::vector<std::shared_ptr<ChoiceCaller>> callers_;
  const Region& region_;
  std::vector<Tensor> inputs_, wanted_;
  std::vector<Contract> contracts_;
  bool writes_inputs_ = false;
  std::vector<std::shared_ptr<exec::Executable>> running_;
  Sample time_;
};

}  // namespace

size_t bytes_of_constants(const choice::Program& p) {
  size_t bytes = 0;
  for (auto& in : p.inputs)
    if (in.data.defined()) bytes += static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype());
  return bytes;
}

Sample time_checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device) {
  auto checked = std::make_shared<Checked>(callers, region, device);
  return [checked](size_t i) { return (*checked)(i); };
}

double grain_ns(const Region& region, const Device& device) { return !device.is_cuda() ? 0 : flushes(region) ? 250 : 60; }

}  // namespace toroid::tune
