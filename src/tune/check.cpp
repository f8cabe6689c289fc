#include "tune/check.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/custom.h"
#include "tensor/tensor_impl.h"
#include "tune/inputs.h"
#include "tune/memory.h"
#include "tune/sampler.h"
#include "tune/sizes.h"

namespace toroid::tune {
namespace {

// Terms of the longest sum of a node.
int64_t longest_sum(const choice::Node& n, const exec::Symbols& sizes) {
  int64_t terms = loop::has_reduction(n.domain) ? exec::evaluate(loop::reduction_size(n.domain), sizes) : 1;
  if (auto* g = std::get_if<choice::Gemm>(&n.problem)) terms = std::max(terms, exec::evaluate(g->k, sizes));
  if (auto* c = std::get_if<choice::Convolution>(&n.problem))
    terms = std::max(terms, c->in_channels / c->groups * c->kernel_h * c->kernel_w);
  if (auto* a = std::get_if<choice::Attention>(&n.problem)) terms = std::max(terms, exec::evaluate(a->keys, sizes) + a->head_dim);
  if (auto* o = std::get_if<choice::Open>(&n.problem))
    for (auto& way : o->alternatives)
      for (auto& inner : way.program->nodes) terms = std::max(terms, longest_sum(inner, sizes));
  return terms;
}

bool uses_tf32(const choice::Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [](const choice::Node& n) {
    if (auto* g = std::get_if<choice::Gemm>(&n.problem)) return g->tf32;
    if (auto* c = std::get_if<choice::Convolution>(&n.problem)) return c->tf32;
    auto* o = std::get_if<choice::Open>(&n.problem);
    return o && std::any_of(o->alternatives.begin(), o->alternatives.end(), [](auto& way) { return uses_tf32(*way.program); });
  });
}

Contract contract_of(const choice::Program& region, DType result, const exec::Symbols& sizes) {
  Contract c;
  c.result = result;
  c.length = 0;
  for (auto& n : region.nodes) c.length += longest_sum(n, sizes);
  for (auto& in : region.inputs) c.operands.push_back(in.type.dtype);
  c.intermediates = static_cast<int>(region.nodes.size());
  c.tf32 = uses_tf32(region);
  return c;
}

constexpr size_t kLargeWeights = 1 << 18;

// Large weights are read from memory in each step of a model, as other layers push them out of the caches in between.
bool flushes(const Region& region) { return bytes_of_constants(region.program) >= kLargeWeights; }

// Its elements in row-major order, as a tensor of one dimension on the CPU.
Tensor flat(const Tensor& t) {
  const Tensor dense = moved(t, Device::cpu()).contiguous();
  Tensor out = Tensor::empty({dense.numel()}, dense.dtype());
  std::memcpy(out.raw_data(), dense.raw_data(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
  return out;
}

// Whether some load or store is at an index that is read from memory and can only be 0.
bool indexes_one_element(const loop::Body& body) {
  bool found = false;
  for (auto& s : body.steps)
    sym::for_each_symbol(s.index, [&](const Expr& e) { found = found || (loop::step_of_symbol(*e.node()) >= 0 && e.node()->hi == 0); });
  return found;
}

bool indexes_one_element(const choice::Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [](const choice::Node& n) {
    bool found = indexes_one_element(n.body) || (n.producer && indexes_one_element(n.producer->body));
    for (auto& b : n.beside) found = found || indexes_one_element(b.body);
    if (auto* open = std::get_if<choice::Open>(&n.problem))
      for (auto& a : open->alternatives) found = found || indexes_one_element(*a.program);
    return found;
  });
}

// What a region is given at some sizes, and what the default makes of it.
struct Case {
  exec::Symbols sizes;
  std::vector<Tensor> inputs;
  std::vector<Tensor> wanted = {};  // on the host
  std::vector<Contract> contracts = {};
};

class Checked {
 public:
  Checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device, Equivalence equivalence)
      : callers_(callers), region_(region), equivalence_(equivalence), running_(callers.size()) {
    cases_.push_back(case_of(region.sizes, device));
    if (auto others = other_sizes(region.program, region.sizes); !others.empty()) cases_.push_back(case_of(others, device));
    for (auto& o : region.program.outputs) writes_inputs_ = writes_inputs_ || o.mutates >= 0;
    SamplerOptions how;
    how.symbols = region.sizes;
    if (flushes(region)) how.flush_bytes = cache_bytes(device);
    time_ = time_executables([this](size_t i) -> exec::Executable& { return *running_[i]; }, callers.size(), device, cases_[0].inputs, how);
  }

  double operator()(size_t i) {
    if (!running_[i]) check(i);
    return time_(i);
  }

 private:
  Case case_of(const exec::Symbols& sizes, const Device& device) const {
    Case out{sizes, {}};
    for (auto& in : region_.program.inputs)
      if (!in.data.defined()) out.inputs.push_back(contents_of(in, seed_of_input(out.inputs.size()), sizes, device));
    for (auto& o : region_.program.outputs) out.contracts.push_back(contract_of(region_.program, o.type.dtype, sizes));
    return out;
  }

  Tensor contents_of(const choice::ProgramInput& in, uint64_t seed, const exec::Symbols& sizes, const Device& device) const {
    const Tensor made = made_by_operation(region_, in, sizes);
    return made.defined() ? moved(made, device) : generate_input(in.type, seed, sizes, device, integers_of(region_, sizes));
  }

  // What a call gives, what it writes to its inputs among it.
  std::vector<Tensor> results_of(exec::Executable& e, const Case& at) const {
    std::vector<Tensor> inputs = at.inputs;
    if (writes_inputs_)
      for (auto& t : inputs) {
        Tensor own = Tensor::empty(t.sizes(), t.dtype(), t.device());
        copy_elements(t, own);
        t = own;
      }
    std::vector<Tensor> given = e.run(inputs, at.sizes), out;
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
    for (Case& at : cases_) {
      std::vector<Tensor> results = results_of(*e, at);
      if (i == 0)
        for (auto& t : results) at.wanted.push_back(t.to(Device::cpu()));
      else if (std::string why = compare(results, at.wanted, at.contracts, equivalence_); !why.empty())
        fail<UserError>("{}{}: {}", kNotEquivalent, at.sizes.empty() ? "" : " at " + exec::to_string(at.sizes), why);
    }
    running_[i] = std::move(e);
  }

  const std::vector<std::shared_ptr<ChoiceCaller>> callers_;
  const Region& region_;
  const Equivalence equivalence_;
  std::vector<Case> cases_;  // the first is timed; what is equal there alone is refused
  bool writes_inputs_ = false;
  std::vector<std::shared_ptr<exec::Executable>> running_;
  Sample time_;
};

}  // namespace

uint64_t seed_of_input(size_t position) { return 1 + position; }

int64_t integers_of(const Region& region, const exec::Symbols& sizes) {
  // Integers may be indices of what has a fraction of an open size.
  const bool is_small = std::any_of(sizes.begin(), sizes.end(), [](auto& s) { return s.second < 8; });
  return is_small || indexes_one_element(region.program) ? 1 : 2;
}

Tensor made_by_operation(const Region& region, const choice::ProgramInput& in, const exec::Symbols& sizes) {
  for (auto& n : region.program.nodes) {
    auto* open = std::get_if<choice::Open>(&n.problem);
    if (!open || !open->op || !ops::is_tuned(*open->op)) continue;
    size_t next = 0;  // of the call's operands: inputs of the alternatives but for constants
    for (auto& argument : open->alternatives[0].program->inputs) {
      if (argument.data.defined()) continue;
      const auto& v = open->inputs.at(next++);
      if (v.memory.buffer != in.buffer) continue;
      const CustomOperand operand{argument.name, v.memory.dtype, exec::evaluate(v.sizes, sizes), {}};
      const Tensor made = ops::generated_operand(*open->op, operand);
      if (made.defined() && made.numel() == exec::evaluate(in.type.numel(), sizes)) return flat(made);
    }
  }
  return {};
}

size_t bytes_of_constants(const choice::Program& p) {
  size_t bytes = 0;
  for (auto& in : p.inputs)
    if (in.data.defined()) bytes += static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype());
  return bytes;
}

Sample time_checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device,
                    Equivalence equivalence) {
  auto checked = std::make_shared<Checked>(callers, region, device, equivalence);
  return [checked](size_t i) { return (*checked)(i); };
}

double grain_ns(const Region& region, const Device& device) { return !device.is_cuda() ? 0 : flushes(region) ? 340 : 90; }

}  // namespace toroid::tune
