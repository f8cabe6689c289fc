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

// A loop over one variable, whose buffers are numbered in the order in which it takes them.
struct Uniform {
  Nest nest;
  int64_t size = 0;
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

std::optional<Uniform> uniform_of(const Nest& given) {
  Uniform u{given, 0, {}};
  walk_along_store(u.nest);
  simplify(u.nest.domain, u.nest.body);
  auto& vars = u.nest.domain.vars;
  if (vars.empty()) {  // a number: one element
    vars.push_back({sym::loop_symbol("i", 1), false});
    for (auto& s : u.nest.body.steps)
      if (accesses_memory(s) && s.index == Expr(0)) s.index = vars[0].symbol;
  }
  if (vars.size() != 1 || vars[0].reduction || !vars[0].extent().is_const()) return std::nullopt;
  u.size = vars[0].extent().constant();
  for (auto& s : u.nest.body.steps) {
    const bool memory = accesses_memory(s);
    if (!memory && s.step != Step::Scalar) return std::nullopt;
    if (s.step == Step::Store && (s.mode != loop::StoreMode::Set || !(s.index == vars[0].symbol))) return std::nullopt;
    if (!memory) continue;
    if (!(s.index == vars[0].symbol) && !s.index.is_const()) return std::nullopt;
    auto at = std::find(u.buffers.begin(), u.buffers.end(), s.buffer);
    if (at == u.buffers.end()) at = u.buffers.insert(at, s.buffer);
    s.buffer = kOwn + static_cast<int>(at - u.buffers.begin());
  }
  return u;
}

// The loop over another variable.
Nest over(const Nest& nest, const Expr& variable) {
  loop::VarMap<Expr> to;
  to[nest.domain.vars[0].symbol] = variable;
  return {{{{variable, false}}}, loop::substitute(nest.body, loop::replacing(to))};
}

std::string key_of(const Uniform& u) {
  static const Expr any = sym::loop_symbol("i", 2);
  const Nest nest = over(u.nest, any);
  return loop::to_string(nest.domain, nest.body);
}

// For how many blocks the kernel runs in all, and what a block looks up: the first block of each loop, and its size.
struct Shares {
  int64_t blocks = 0;
  std::string text;
};

Shares shares_of(const std::vector<Uniform>& loops, const CudaPlan& plan) {
  Shares out;
  std::string first, sizes;
  for (auto& u : loops) {
    first += fmt::format("{}, ", out.blocks);
    sizes += fmt::format("{}, ", u.size);
    const int64_t of_block = int64_t{plan.block} * plan.vector;
    out.blocks += (u.size + of_block - 1) / of_block;
  }
  out.text = fmt::format("__constant__ u32 first_block[] = {{{}}};\n__constant__ i64 loop_size[] = {{{}}};\n", first, sizes);
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

  int64_t most = 0;
  for (auto& u : loops) most = std::max(most, u.size);
  const Expr size = sym::symbol("size", 1, most);
  const Nest nest = over(loops[0].nest, sym::loop_symbol("i", size));
  CudaPlan plan = make_cuda_plan(nest.domain, nest.body, {.faults = faults});
  TOROID_CHECK(plan.shape == CudaPlan::Shape::Flat && plan.tiled.empty() && plan.unroll == 1, "{}: no plan for loops of one launch",
               program::label(node));
  const Shares shares = shares_of(loops, plan);

  CudaArguments arguments;
  arguments.take_together();
  arguments.define(shares.text);
  arguments.name_size(*size.node(), "own_size");
  CudaWriter writer(plan, arguments);
  writer.use_block("own_block");
  std::map<int, DType> types;
  for (auto& s : nest.body.steps)
    if (accesses_memory(s)) types[s.buffer] = s.dtype;
  const std::vector<int> written = loop::buffers_written(nest.body);
  std::string declared;
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
  const idx own_block = (idx)(blockIdx.x - first_block[own]), own_size = (idx)loop_size[own];
{})",
                                       loops.size(), declared) +
                           writer.kernel_body();
  KernelText k = arguments.kernel(name_kernel(plan.body) + "_foreach", body, plan.block, plan.wide, plan.blocks, plan.overlaps);
  k.tasks = shares.blocks;
  k.plan = fmt::format("foreach of {} loops: {}", loops.size(), to_string(plan));
  return k;
}

}  // namespace toroid::codegen
