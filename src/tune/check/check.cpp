#include "tune/check/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "base/scalar.h"
#include "ops/custom.h"
#include "tensor/tensor_impl.h"
#include "tune/check/integers.h"
#include "tune/check/written.h"
#include "tune/measure/sampler.h"
#include "tune/memory/memory.h"
#include "tune/region/sizes.h"

namespace toroid::tune {
namespace {

// Terms of the longest sum of a node.
int64_t longest_sum(const program::Node& n, const exec::Symbols& sizes) {
  int64_t terms = loop::has_reduction(n.domain) ? exec::evaluate(loop::reduction_size(n.domain), sizes) : 1;
  if (auto* g = program::product_of(n)) terms = std::max(terms, exec::evaluate(g->k, sizes));
  if (auto* c = std::get_if<program::Convolution>(&n.problem))
    terms = std::max(terms, c->in_channels / c->groups * c->kernel_h * c->kernel_w);
  if (auto* a = std::get_if<program::Attention>(&n.problem)) terms = std::max(terms, exec::evaluate(a->keys, sizes) + a->head_dim);
  if (auto* c = std::get_if<program::Collective>(&n.problem)) terms = std::max(terms, c->ranks);
  if (auto* r = std::get_if<program::Meeting>(&n.problem); r && program::reduces(*r)) terms = std::max(terms, r->ranks);
  if (auto* o = std::get_if<program::Open>(&n.problem))
    for (auto& way : o->alternatives)
      for (auto& inner : way.program->nodes) terms = std::max(terms, longest_sum(inner, sizes));
  return terms;
}

// Over all its nodes, one behind the other.
int64_t longest_sum(const program::Program& p, const exec::Symbols& sizes) {
  int64_t terms = 0;
  for (auto& n : p.nodes) terms += longest_sum(n, sizes);
  return terms;
}

bool uses_tf32(const program::Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [](const program::Node& n) {
    if (auto* g = program::product_of(n)) return g->tf32;
    if (auto* c = std::get_if<program::Convolution>(&n.problem)) return c->tf32;
    auto* o = std::get_if<program::Open>(&n.problem);
    return o && std::any_of(o->alternatives.begin(), o->alternatives.end(), [](auto& way) { return uses_tf32(*way.program); });
  });
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

// Their magnitudes, away from zero.
Tensor positive(Tensor t) {
  if (!is_float(t.dtype())) return t;
  constexpr double kLeast = 0x1p-4;
  for (int64_t i = 0; i < t.numel(); ++i) {
    std::byte* const at = t.raw_data() + static_cast<size_t>(i) * size_of(t.dtype());
    store_number(at, t.dtype(), Number::of(std::fabs(load_number(at, t.dtype()).as_double()) + kLeast));
  }
  return t;
}

bool has_nan(const Tensor& t) {
  if (!is_float(t.dtype())) return false;
  for (int64_t i = 0; i < t.numel(); ++i)
    if (std::isnan(load_number(t.raw_data() + static_cast<size_t>(i) * size_of(t.dtype()), t.dtype()).as_double())) return true;
  return false;
}

// What a region is given at some sizes, and what the default makes of it.
struct Case {
  exec::Symbols sizes;
  std::vector<Tensor> inputs;
  std::vector<Contract> contracts = {};
  bool both_patterns = true;  // the second one, too, shows what is written
  struct Result {
    Tensor patterns[2];                   // on the device; none for what is written in place of an input
    Tensor wanted[2];                     // on the host, without what the default leaves unwritten
    std::vector<uint8_t> unwritten = {};  // by the default; empty: nothing is
  };
  std::vector<Result> results = {};
};

class Checked {
 public:
  Checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device, Equivalence equivalence,
          bool elsewhere)
      : callers_(callers), region_(region), device_(device), equivalence_(equivalence), running_(callers.size()) {
    cases_.push_back(case_of(region.sizes, integers_of(region, region.sizes)));
    if (elsewhere) {
      if (auto others = other_sizes(region.program, region.sizes); !others.empty()) elsewhere_.push_back(std::move(others));
      for (auto& inside : sizes_across(region.program, region.sizes, !region.sizes_seen)) elsewhere_.push_back(std::move(inside));
    }
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
  Case case_of(const exec::Symbols& sizes, const std::vector<Integers>& integers, bool is_positive = false) const {
    Case out{sizes, {}};
    for (auto& in : region_.program.inputs)
      if (!in.data.defined()) {
        const size_t k = out.inputs.size();
        const Tensor made = made_by_operation(region_, in, sizes);
        const Tensor all = made.defined() ? made : generate_input(in.type, seed_of_input(k), sizes, Device::cpu(), integers.at(k));
        out.inputs.push_back(moved(is_positive && !made.defined() ? positive(all) : all, device_));
      }
    for (auto& o : region_.program.outputs) {
      out.contracts.push_back(contract_of(region_.program, o.type.dtype, sizes));
      Case::Result& r = out.results.emplace_back();
      if (o.mutates >= 0) continue;
      for (int which : {0, 1})
        r.patterns[which] = moved(pattern(exec::evaluate(o.type.sizes, sizes), o.type.dtype, out.results.size(), which), device_);
    }
    return out;
  }

  Tensor copy_of(const Tensor& t) const {
    Tensor own = Tensor::empty(t.sizes(), t.dtype(), t.device());
    copy_elements(t, own);
    return own;
  }

  // What a call gives, what it writes to its inputs among it, in memory that begins as the pattern. On the host.
  std::vector<Tensor> results_of(exec::Executable& e, const Case& at, int which) const {
    std::vector<Tensor> inputs = at.inputs, memory;
    if (writes_inputs_)
      for (auto& t : inputs) t = copy_of(t);
    for (auto& r : at.results)
      if (r.patterns[which].defined()) memory.push_back(copy_of(r.patterns[which]));
    const std::vector<Tensor> given = e.run(inputs, at.sizes, memory);
    std::vector<Tensor> out;
    std::vector<size_t> users;
    for (size_t k = 0; k < region_.program.inputs.size(); ++k)
      if (!region_.program.inputs[k].data.defined()) users.push_back(k);
    size_t next = 0;
    for (auto& o : region_.program.outputs) {
      const auto user = std::find(users.begin(), users.end(), static_cast<size_t>(o.mutates));
      out.push_back(moved(o.mutates >= 0 ? inputs[static_cast<size_t>(user - users.begin())] : given[next++], Device::cpu()));
    }
    return out;
  }

  void check(size_t i) {
    if (!running_[0]) check_default();
    if (i == 0) return;
    auto e = callers_[i]->executable();
    for (auto& at : cases_)
      if (const std::string why = difference(*e, at); !why.empty())
        fail<UserError>("{}{}: {}", kNotEquivalent, at.sizes.empty() ? "" : " at " + exec::to_string(at.sizes), why);
    running_[i] = std::move(e);
  }

  // Makes the cases but for the first, which is there, with what the default gives in each.
  void check_default() {
    auto e = callers_[0]->executable();
    cases_.resize(1);
    note_default(*e, cases_[0]);
    const auto add = [&](Case made) {
      note_default(*e, made);
      cases_.push_back(std::move(made));
    };
    const exec::Symbols& usual = region_.sizes;
    if (auto narrow = narrow_integers(region_.program, usual, longest_sum(region_.program, usual)); !narrow.empty())
      add(case_of(usual, narrow));
    if (gives_nan(cases_[0])) add(case_of(usual, integers_of(region_, usual), true));
    for (auto& sizes : elsewhere_) try {
        add(case_of(sizes, integers_of(region_, sizes)));
      } catch (const EnvironmentError& no_memory) {
        log(Artifact::Choices, fmt::format("{}: not compared at {}: {}", region_.label, exec::to_string(sizes), no_memory.what()));
      }
    running_[0] = std::move(e);
  }

  // What the default computes, and which elements it writes.
  void note_default(exec::Executable& e, Case& at) const {
    const std::vector<Tensor> first = results_of(e, at, 0), second = results_of(e, at, 1);
    at.both_patterns = false;
    for (size_t k = 0; k < first.size(); ++k) {
      Case::Result& r = at.results[k];
      r.wanted[0] = first[k], r.wanted[1] = second[k];
      if (!r.patterns[0].defined()) continue;
      const Left left{{moved(r.patterns[0], Device::cpu()), moved(r.patterns[1], Device::cpu())}, {first[k], second[k]}};
      r.unwritten = unwritten(left);
      const bool is_partial = std::any_of(r.unwritten.begin(), r.unwritten.end(), [](uint8_t u) { return u != 0; });
      // A float that is left is not what was wanted; what has few values may be.
      at.both_patterns = at.both_patterns || is_partial || !is_float(first[k].dtype()) || combines(left, r.unwritten);
      for (int which : {0, 1})
        if (is_partial) r.wanted[which] = without(r.wanted[which], r.unwritten);
      if (!is_partial) r.unwritten.clear();
    }
    if (at.both_patterns) return;
    for (Case::Result& r : at.results) r.patterns[1] = r.wanted[1] = Tensor();
  }

  static bool gives_nan(const Case& at) {
    return std::any_of(at.results.begin(), at.results.end(),
                       [](const Case::Result& r) { return r.unwritten.empty() && has_nan(r.wanted[0]); });
  }

  // Why another choice's results are not the default's; empty where they are.
  std::string difference(exec::Executable& e, const Case& at) const {
    for (int which = 0; which <= static_cast<int>(at.both_patterns); ++which) {
      std::vector<Tensor> got = results_of(e, at, which), wanted;
      for (size_t k = 0; k < got.size(); ++k) {
        const Case::Result& r = at.results[k];
        wanted.push_back(r.wanted[which]);
        if (r.unwritten.empty()) continue;
        const std::string why = compare_unwritten(moved(r.patterns[which], Device::cpu()), got[k], r.unwritten);
        if (!why.empty()) return fmt::format("result {} {}", k, why);
        got[k] = without(got[k], r.unwritten);
      }
      if (std::string why = compare(got, wanted, at.contracts, equivalence_); !why.empty()) return why;
    }
    return {};
  }

  const std::vector<std::shared_ptr<ChoiceCaller>> callers_;
  const Region& region_;
  const Device device_;
  const Equivalence equivalence_;
  std::vector<Case> cases_;  // the first is timed; what is equal there alone is refused
  std::vector<exec::Symbols> elsewhere_;
  bool writes_inputs_ = false;
  std::vector<std::shared_ptr<exec::Executable>> running_;
  Sample time_;
};

}  // namespace

Contract contract_of(const program::Program& region, DType result, const exec::Symbols& sizes) {
  Contract c;
  c.result = result;
  c.length = longest_sum(region, sizes);
  for (auto& in : region.inputs) c.operands.push_back(in.type.dtype);
  c.intermediates = static_cast<int>(region.nodes.size());
  c.tf32 = uses_tf32(region);
  return c;
}

uint64_t seed_of_input(size_t position) { return 1 + position; }

std::vector<Integers> integers_of(const Region& region, const exec::Symbols& sizes) {
  return integers_of_inputs(region.program, sizes, longest_sum(region.program, sizes));
}

Tensor made_by_operation(const Region& region, const program::ProgramInput& in, const exec::Symbols& sizes) {
  for (auto& n : region.program.nodes) {
    auto* open = std::get_if<program::Open>(&n.problem);
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

size_t bytes_of_constants(const program::Program& p) {
  size_t bytes = 0;
  for (auto& in : p.inputs)
    if (in.data.defined()) bytes += static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype());
  return bytes;
}

Sample time_checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device,
                    Equivalence equivalence, bool elsewhere) {
  auto checked = std::make_shared<Checked>(callers, region, device, equivalence, elsewhere);
  return [checked](size_t i) { return (*checked)(i); };
}

double grain_ns(const Region& region, const Device& device) { return !device.is_cuda() ? 0 : flushes(region) ? 340 : 90; }

}  // namespace toroid::tune
