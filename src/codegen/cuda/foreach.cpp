#include "codegen/cuda/foreach.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "codegen/cuda/plan.h"
#include "codegen/cuda/writer.h"
#include "codegen/simplify.h"
#include "loop/var_map.h"

namespace toroid::codegen {
namespace {

using loop::Nest;
using loop::Step;

constexpr int kOwn = 1 << 24;           // numbers of a loop's buffers begin here, behind those of the program
constexpr size_t kMostPointers = 4000;  // of 32,764 bytes of parameters (since CUDA 12.1)

bool accesses_memory(const loop::Statement& s) { return s.step == Step::Load || s.step == Step::Store; }

// The numbers in which equal loops differ, and a symbol for each.
class Numbers {
 public:
  // most: the largest number that each symbol stands for; empty where that does not matter.
  explicit Numbers(std::span<const int64_t> most) : most_(most) {}
  // A number that is a multiple of `unit`. what: equal numbers of one kind share a symbol.
  Expr operator()(size_t what, int64_t number, int64_t unit) {
    const auto [at, made] = symbols_.try_emplace({what, number}, values_.size());
    if (made) values_.push_back(number / unit);
    const size_t i = at->second;
    return Expr(unit) * sym::symbol(name(i), 1, i < most_.size() ? most_[i] : sym::kInf);
  }
  const std::vector<int64_t>& values() const { return values_; }
  static std::string name(size_t i) { return fmt::format("size{}", i); }

 private:
  std::span<const int64_t> most_;
  std::map<std::pair<size_t, int64_t>, size_t> symbols_;
  std::vector<int64_t> values_;
};

// A loop over one variable, or over several that walk through memory in different orders (a transpose). Its buffers are numbered in the
// order in which it takes them; its sizes, and how far apart neighbours lie, are symbols.
struct Uniform {
  Nest nest;
  std::vector<int64_t> numbers;  // what the symbols stand for
  std::vector<int> buffers;
};

// The variables in the order in which the first store walks through memory, so that a loop over a matrix by columns is one over its
// elements.
void walk_along_store(Nest& nest) {
  const auto store = std::find_if(nest.body.steps.begin(), nest.body.steps.end(), [](auto& s) { return s.step == Step::Store; });
  if (store == nest.body.steps.end() || loop::has_reduction(nest.domain)) return;
  auto apart = [&](const loop::Var& v) {
    const auto c = sym::linear_coefficient(store->index, v.symbol);
    return c && c->is_const() ? c->constant() : 0;
  };
  std::stable_sort(nest.domain.vars.begin(), nest.domain.vars.end(), [&](auto& a, auto& b) { return apart(a) > apart(b); });
}

// An address that is linear in the variables.
struct Walk {
  std::vector<int64_t> apart;  // what neighbours along each are apart
  int64_t begin = 0;
  bool operator==(const Walk&) const = default;
};

std::optional<Walk> walk_of(const Expr& address, const loop::Domain& d) {
  Walk w;
  Expr rest = address;
  for (auto& v : d.vars) {
    const auto c = sym::linear_coefficient(address, v.symbol);
    if (!c || !c->is_const()) return std::nullopt;
    w.apart.push_back(c->constant());
    rest = rest - *c * v.symbol;
  }
  if (!rest.is_const()) return std::nullopt;
  w.begin = rest.constant();
  return w;
}

// Whether no two points have one address.
bool is_one_to_one(const Walk& w, const loop::Domain& d) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (size_t v = 0; v < d.vars.size(); ++v) steps.emplace_back(w.apart[v], d.vars[v].extent().constant());
  std::sort(steps.begin(), steps.end());
  int64_t next = 1;
  for (auto [apart, count] : steps) {
    if (apart < next) return false;
    next = apart * count;
  }
  return true;
}

// most: see Numbers.
std::optional<Uniform> uniform_of(const Nest& given, std::span<const int64_t> most = {}) {
  constexpr size_t kMostVariables = 3;
  // Of several variables, numbers below kFew stay what they are, and so do those below kSome that make no vectors (25 taps).
  constexpr int64_t kFew = 16, kSome = 64;
  Nest nest = given;
  walk_along_store(nest);
  simplify(nest.domain, nest.body);
  auto& vars = nest.domain.vars;
  if (vars.empty()) {  // a number: one element
    vars.push_back({sym::loop_symbol("i", 1), false});
    for (auto& s : nest.body.steps)
      if (accesses_memory(s) && s.index == Expr(0)) s.index = vars[0].symbol;
  }
  if (vars.size() > kMostVariables) return std::nullopt;
  for (auto& v : vars)
    if (v.reduction || !v.extent().is_const()) return std::nullopt;

  const bool one = vars.size() == 1;
  Numbers numbers(most);
  const auto number = [&](size_t what, int64_t n) -> std::optional<Expr> {
    if (one) return numbers(what, n, 1);
    if (n < kFew) return Expr(n);
    for (int64_t unit : {64, 8})
      if (n % unit == 0) return numbers(what, n, unit);
    return n < kSome ? std::optional(Expr(n)) : std::nullopt;
  };
  Uniform u;
  for (size_t v = 0; v < vars.size(); ++v) {
    const auto extent = number(v, vars[v].extent().constant());
    if (!extent) return std::nullopt;
    u.nest.domain.vars.push_back({sym::loop_symbol(fmt::format("i{}", v), *extent), false});
  }
  std::vector<std::pair<const loop::Statement*, Walk>> walks;
  u.nest.body = nest.body;
  for (auto& s : u.nest.body.steps) {
    const bool memory = accesses_memory(s), stores = s.step == Step::Store;
    if (!memory && s.step != Step::Scalar) return std::nullopt;
    if (!memory) continue;
    const auto walk = walk_of(s.index, nest.domain);
    if (!walk || std::abs(walk->begin) >= kFew || (stores && (s.mode != loop::StoreMode::Set || !is_one_to_one(*walk, nest.domain))))
      return std::nullopt;
    s.index = walk->begin;
    for (size_t v = 0; v < vars.size(); ++v) {
      const int64_t apart = walk->apart[v];
      const auto known = one || apart < kFew ? Expr(apart) : number(vars.size() + v, apart);
      if (!known) return std::nullopt;
      s.index = s.index + *known * u.nest.domain.vars[v].symbol;
    }
    auto at = std::find(u.buffers.begin(), u.buffers.end(), s.buffer);
    if (at == u.buffers.end()) at = u.buffers.insert(at, s.buffer);
    s.buffer = kOwn + static_cast<int>(at - u.buffers.begin());
    walks.emplace_back(&s, *walk);
  }
  // Each point touches its own elements of what is stored.
  for (auto& [store, stored] : walks)
    for (auto& [other, walk] : walks)
      if (store->step == Step::Store && other->buffer == store->buffer && walk != stored) return std::nullopt;
  u.numbers = numbers.values();
  return u;
}

std::string key_of(const Uniform& u) { return loop::to_string(u.nest.domain, u.nest.body); }

// For how many blocks the kernel runs in all, and what a block looks up: the first block of each loop, and its numbers.
struct Shares {
  int64_t blocks = 0;
  std::string text;
};

Shares shares_of(const std::vector<Uniform>& loops, const CudaPlan& plan) {
  Shares out;
  std::vector<int64_t> first;
  for (auto& u : loops) {
    first.push_back(out.blocks);
    out.blocks += sym::evaluate(plan.grid, [&](const sym::Node& n) {
      for (size_t i = 0; i < u.numbers.size(); ++i)
        if (n.name == Numbers::name(i)) return u.numbers[i];
      throw InternalError("a loop of one launch has no number " + n.name);
    });
  }
  out.text = fmt::format("__constant__ u32 first_block[] = {{{}}};\n", fmt::join(first, ", "));
  for (size_t i = 0; i < loops[0].numbers.size(); ++i) {
    std::vector<int64_t> numbers;
    for (auto& u : loops) numbers.push_back(u.numbers[i]);
    out.text += fmt::format("__constant__ i64 loop_{}[] = {{{}}};\n", Numbers::name(i), fmt::join(numbers, ", "));
  }
  return out;
}

}  // namespace

std::string cuda_foreach_key(const program::Node& node) {
  if (!node.is_loop() || !node.beside.empty() || !node.config.empty()) return "";
  const auto u = uniform_of({node.domain, node.body});
  return u ? key_of(*u) : "";
}

bool cuda_foreach_takes(const program::Node& node, size_t loops) {
  return (program::reads(node).size() + program::writes(node).size()) * loops <= kMostPointers;
}

KernelText generate_cuda_foreach(const program::Node& node, int faults) {
  std::vector<Uniform> loops;
  auto add = [&](const Nest& nest) {
    auto u = uniform_of(nest);
    TOROID_CHECK(u && (loops.empty() || key_of(*u) == key_of(loops[0])), "{}: loops of one launch differ", program::label(node));
    loops.push_back(std::move(*u));
  };
  add({node.domain, node.body});
  for (auto& nest : node.beside) add(nest);

  std::vector<int64_t> most = loops[0].numbers;
  for (auto& u : loops)
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], u.numbers[i]);
  const Nest nest = uniform_of({node.domain, node.body}, most)->nest;
  CudaPlan plan = make_cuda_plan(nest.domain, nest.body, {.faults = faults});
  TOROID_CHECK(plan.shape == CudaPlan::Shape::Flat && plan.unroll == 1, "{}: no plan for loops of one launch", program::label(node));
  const Shares shares = shares_of(loops, plan);

  CudaArguments arguments;
  arguments.take_together();
  arguments.define(shares.text);
  std::string declared;
  for (size_t i = 0; i < most.size(); ++i) {
    const std::string name = Numbers::name(i);
    arguments.name_size(*sym::symbol(name, 1, most[i]).node(), "own_" + name);
    declared += fmt::format("  const idx own_{0} = (idx)loop_{0}[own];\n", name);
  }
  CudaWriter writer(plan, arguments);
  writer.use_block("own_block");
  std::map<int, DType> types;
  for (auto& s : nest.body.steps)
    if (accesses_memory(s)) types[s.buffer] = s.dtype;
  const std::vector<int> written = loop::buffers_written(nest.body);
  for (auto& [number, type] : types) {
    const auto position = static_cast<size_t>(number - kOwn);
    std::vector<size_t> places;
    for (auto& u : loops) places.push_back(arguments.place(u.buffers[position], type));
    const bool differ = std::any_of(places.begin(), places.end(), [&](size_t p) { return p != places[0]; });
    const std::string own = differ ? fmt::format("own{}", position) : arguments.pointer(loops[0].buffers[position], type);
    writer.use_pointer(number, own);
    if (!differ) continue;
    arguments.define(fmt::format("__constant__ u16 place{}[] = {{{}}};\n", position, fmt::join(places, ", ")));
    const bool writes = std::count(written.begin(), written.end(), number) > 0;
    declared +=
        fmt::format("  {0}{1}* const {2} = ({1}*)pointers.x[place{3}[own]];\n", writes ? "" : "const ", memory_type(type), own, position);
  }
  const std::string body = fmt::format(R"(  // The loop that this block has a part of: the last one that begins at it or before.
  u32 own = 0;
  for (u32 end = {}; end - own > 1;) {{
    const u32 middle = (own + end) / 2;
    (first_block[middle] <= blockIdx.x ? own : end) = middle;
  }}
  const idx own_block = (idx)(blockIdx.x - first_block[own]);
{})",
                                       loops.size(), declared) +
                           writer.kernel_body();
  KernelText k = arguments.kernel(name_kernel(plan.body) + "_foreach", body, plan.block, plan.wide, plan.blocks, plan.overlaps);
  k.tasks = shares.blocks;
  k.plan = fmt::format("foreach of {} loops: {}", loops.size(), to_string(plan));
  return k;
}

}  // namespace toroid::codegen
