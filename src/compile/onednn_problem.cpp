#include "compile/onednn_problem.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ops/table.h"
#include "sched/split_epilogue.h"

namespace toroid::compiler {
namespace {

using external::OneDnnProblem;
using external::PostOpKind;
using external::TensorMemory;
using loop::Step;

// --- tensors ----------------------------------------------------------------------------------------------------------------------

std::optional<std::vector<int64_t>> constants(const std::vector<Expr>& list) {
  std::vector<int64_t> out;
  for (auto& e : list) {
    auto c = e.maybe_constant();
    if (!c) return std::nullopt;
    out.push_back(*c);
  }
  return out;
}

// Dimensions with stride 0 are repeated: they have size 1 here.
TensorMemory memory_of(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d] == 0) sizes[d] = 1;
  return {dtype, std::move(sizes), std::move(strides), offset};
}

// Where a body reads or writes, over the variables of its domain; nullopt when the index is not linear in them.
std::optional<TensorMemory> memory_of(const loop::Domain& domain, const Expr& index, DType dtype) {
  std::vector<int64_t> sizes, strides;
  std::map<std::string, Expr> zeros;
  for (auto& v : domain.vars) {
    auto extent = v.extent().maybe_constant();
    auto stride = sym::linear_coefficient(index, v.symbol);
    if (!extent || !stride || !stride->is_const() || stride->constant() < 0) return std::nullopt;
    sizes.push_back(*extent);
    strides.push_back(*extent == 1 ? 0 : stride->constant());
    zeros.emplace(v.symbol.node()->name, 0);
  }
  Expr offset = sym::substitute(index, [&](const sym::Node& s) -> std::optional<Expr> {
    auto it = zeros.find(s.name);
    return it == zeros.end() ? std::nullopt : std::optional(it->second);
  });
  if (!offset.is_const()) return std::nullopt;
  return memory_of(dtype, std::move(sizes), std::move(strides), offset.constant());
}

// Strides of memory without gaps whose dimensions lie in this order, outermost first.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<size_t>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= sizes[order[i]];
  }
  return strides;
}

const std::vector<size_t> kChannelsLast = {0, 2, 3, 1};

// Gives dimensions of size 1, whose strides say nothing, those of channels-last memory. False when the memory has another layout.
bool take_channels_last(TensorMemory& m) {
  std::vector<int64_t> want = dense_strides(m.sizes, kChannelsLast);
  for (size_t d = 0; d < want.size(); ++d)
    if (m.sizes[d] != 1 && m.strides[d] != want[d]) return false;
  m.strides = std::move(want);
  return true;
}

// Joins the innermost batch dimension with the rows where all tensors allow it and b is the same for all of the batch.
bool join_batch(OneDnnProblem& p) {
  if (p.out.sizes.size() < 3) return false;
  const size_t d = p.out.sizes.size() - 3, m = d + 1;
  if (p.b.sizes[d] != 1) return false;
  std::vector<TensorMemory*> tensors = {&p.a, &p.out};
  for (auto& op : p.post_ops)
    if (!op.operand.sizes.empty()) tensors.push_back(&op.operand);
  const int64_t outer = p.out.sizes[d], inner = p.out.sizes[m];
  for (auto* t : tensors) {
    bool repeated = t->sizes[d] == 1 && t->sizes[m] == 1;
    bool whole = t->sizes[d] == outer && t->sizes[m] == inner;
    if (!repeated && !(whole && (outer == 1 || inner == 1 || t->strides[d] == t->strides[m] * inner))) return false;
  }
  for (auto* t : tensors) {
    t->strides[m] = t->sizes[m] == 1 ? t->strides[d] : t->strides[m];
    t->sizes[m] *= t->sizes[d];
  }
  tensors.push_back(&p.b);
  for (auto* t : tensors) {
    t->sizes.erase(t->sizes.begin() + static_cast<long>(d));
    t->strides.erase(t->strides.begin() + static_cast<long>(d));
  }
  return true;
}

// The library reads strides of dimensions of size 1 too.
void set_unused_strides(TensorMemory& m) {
  int64_t inner = 1;
  for (size_t d = m.sizes.size(); d-- > 0;) {
    if (m.sizes[d] == 1) m.strides[d] = inner;
    inner = m.strides[d] * m.sizes[d];
  }
}

// Brings the finished problem into the form that the library knows. Empty, or why there is none.
std::string normalize(OneDnnProblem& p) {
  if (!p.window) {
    while (join_batch(p)) {
    }
    for (auto* t : {&p.a, &p.b, &p.out}) set_unused_strides(*t);
    for (auto& op : p.post_ops) set_unused_strides(op.operand);
    return "";
  }
  if (!take_channels_last(p.a)) return "its input is not in channels-last memory";
  if (!take_channels_last(p.out)) return "its result is not in channels-last memory";
  for (auto& op : p.post_ops)
    if (!op.operand.sizes.empty() && !take_channels_last(op.operand)) return "an operand of its epilogue is not in channels-last memory";
  return "";
}

// --- problems ---------------------------------------------------------------------------------------------------------------------

constexpr const char* kSymbolic = "its sizes are symbolic";

// The operands; out is left to the caller. A reason when there is no such problem.
std::string read_operands(const choice::Gemm& g, OneDnnProblem& p) {
  if (!is_float(g.accumulate)) return "it is a product of whole numbers";
  std::vector<Expr> a_sizes = g.batch, b_sizes = g.batch;
  a_sizes.insert(a_sizes.end(), {g.m, g.k});
  b_sizes.insert(b_sizes.end(), {g.k, g.n});
  auto a = constants(a_sizes), b = constants(b_sizes), a_strides = constants(g.a.strides), b_strides = constants(g.b.strides);
  if (!a || !b || !a_strides || !b_strides || !g.a.offset.is_const() || !g.b.offset.is_const()) return kSymbolic;
  p.a = memory_of(g.a.dtype, *a, *a_strides, g.a.offset.constant());
  p.b = memory_of(g.b.dtype, *b, *b_strides, g.b.offset.constant());
  for (size_t d = g.batch.size(); d < a->size(); ++d)
    if (p.a.sizes[d] != (*a)[d] || p.b.sizes[d] != (*b)[d]) return "an operand repeats its rows or columns";
  return "";
}

std::string read_operands(const choice::Convolution& c, OneDnnProblem& p) {
  auto sizes = constants({c.n, c.in_channels, c.in_h, c.in_w}), strides = constants(c.input.strides), weights = constants(c.weight.strides);
  if (!sizes || !strides || !weights || !constants({c.out_h, c.out_w, c.input.offset, c.weight.offset})) return kSymbolic;
  for (size_t d = 0; d < 4; ++d)
    if ((*sizes)[d] > 1 && (*strides)[d] == 0) return "its input repeats elements";
  p.a = {c.input.dtype, *sizes, *strides, c.input.offset.constant()};
  p.b = {c.weight.dtype, {c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w}, *weights, c.weight.offset.constant()};
  if (c.groups > 1) {
    p.b.sizes[0] /= c.groups;
    p.b.sizes.insert(p.b.sizes.begin(), c.groups);
    p.b.strides.insert(p.b.strides.begin(), p.b.sizes[1] * p.b.strides[0]);
  }
  p.window = OneDnnProblem::Window{{c.stride_h, c.stride_w}, {c.pad_h, c.pad_w}, {c.dilation_h, c.dilation_w}};
  return "";
}

std::vector<Expr> result_sizes(const choice::Gemm& g) {
  std::vector<Expr> sizes = g.batch;
  sizes.insert(sizes.end(), {g.m, g.n});
  return sizes;
}
std::vector<Expr> result_sizes(const choice::Convolution& c) { return {c.n, c.out_channels, c.out_h, c.out_w}; }

// The layout of results in memory of their own.
TensorMemory own_memory(const choice::Gemm&, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(d);
  return {DType::F32, sizes, dense_strides(sizes, order)};
}
TensorMemory own_memory(const choice::Convolution&, const std::vector<int64_t>& sizes) {
  return {DType::F32, sizes, dense_strides(sizes, kChannelsLast)};
}

template <class Problem>
std::string refusal_of(const Problem& problem, bool constant_b) {
  OneDnnProblem p;
  p.constant_b = constant_b;
  auto sizes = constants(result_sizes(problem));
  if (!sizes) return kSymbolic;
  if (std::string reason = read_operands(problem, p); !reason.empty()) return reason;
  p.out = own_memory(problem, *sizes);
  if (std::string reason = normalize(p); !reason.empty()) return reason;
  return external::onednn_refusal(p);
}

// --- epilogues --------------------------------------------------------------------------------------------------------------------

// One operation of the library on the running value, and the step of the body that holds its result.
struct Link {
  PostOpKind kind;
  int load = -1;  // Add, Mul: the step that reads the other operand
  int value = -1;
  std::string_view name;
};

struct Chain {
  int first = -1;  // the accumulator
  std::vector<Link> links;
  const loop::Statement* store = nullptr;  // the only thing that happens to the last value
  int value(size_t length) const { return length == 0 ? first : links[length - 1].value; }
};

struct Activation {
  PostOpKind kind;
  std::string_view name;
  loop::Body formula;  // of the accumulator; its last step is the result
};

// The formulas of the op table: what a body holds where a program calls these operations.
const std::vector<Activation>& activations() {
  static const std::vector<Activation>& all = *new std::vector<Activation>([] {
    std::vector<Activation> out;
    auto add = [&](PostOpKind kind, std::string_view op, const char* approximate = nullptr) {
      Activation a{kind, op, {}};
      loop::BodyBuilder builder(a.formula);
      TensorType type{DType::F32, {}, {}};
      std::vector<Arg<const TensorType*>> args = {&type};
      if (approximate) args.emplace_back(std::string(approximate));
      ops::FormulaCall call(ops::get(op), args);
      call.operands = {builder.accumulator(DType::F32)};
      ops::get(op).formula(call);
      out.push_back(std::move(a));
    };
    add(PostOpKind::Relu, "relu");
    add(PostOpKind::GeluErf, "gelu", "none");
    add(PostOpKind::GeluTanh, "gelu", "tanh");
    add(PostOpKind::Silu, "silu");
    add(PostOpKind::Sigmoid, "sigmoid");
    add(PostOpKind::Tanh, "tanh");
    add(PostOpKind::HardSwish, "hardswish");
    return out;
  }());
  return all;
}

class ChainReader {
 public:
  explicit ChainReader(const loop::Body& body) : body_(body), users_(body.steps.size()) {
    for (size_t i = 0; i < body.steps.size(); ++i) {
      const loop::Statement& s = body.steps[i];
      for (int x : s.args) use(x, i);
      use(s.mask, i);
      sym::for_each_symbol(s.index, [&](const Expr& e) { use(loop::step_of_symbol(*e.node()), i); });
    }
  }

  Chain read() const {
    Chain chain;
    for (size_t i = 0; i < body_.steps.size(); ++i)
      if (body_.steps[i].step == Step::Accumulate) chain.first = static_cast<int>(i);
    if (chain.first < 0 || step(chain.first).dtype != DType::F32) return chain;
    int value = chain.first;
    while (auto link = next(value)) {
      chain.links.push_back(*link);
      value = link->value;
    }
    if (only_user(value) >= 0 && step(only_user(value)).step == Step::Scalar && step(only_user(value)).op == ScalarOp::Cast)
      value = only_user(value);
    if (int user = only_user(value); user >= 0 && step(user).step == Step::Store && step(user).mask < 0 &&
                                     step(user).mode == loop::StoreMode::Set && step(user).args[0] == value)
      chain.store = &step(user);
    for (auto& s : body_.steps)
      if (s.step == Step::Store && &s != chain.store) chain.store = nullptr;
    return chain;
  }

 private:
  const loop::Statement& step(int i) const { return body_.steps[static_cast<size_t>(i)]; }
  void use(int used, size_t by) {
    if (used >= 0) users_[static_cast<size_t>(used)].insert(static_cast<int>(by));
  }
  int only_user(int value) const {
    const auto& users = users_[static_cast<size_t>(value)];
    return users.size() == 1 ? *users.begin() : -1;
  }

  std::optional<Link> next(int value) const {
    for (auto& a : activations())
      for (int user = value + 1; user < static_cast<int>(body_.steps.size()); ++user) {
        std::set<int> inside;
        if (same(a.formula, static_cast<int>(a.formula.steps.size()) - 1, user, value, inside) && closed(inside, value, user))
          return Link{a.kind, -1, user, a.name};
      }
    int user = only_user(value);
    if (user < 0 || step(user).step != Step::Scalar || (step(user).op != ScalarOp::Add && step(user).op != ScalarOp::Mul))
      return std::nullopt;
    const bool adds = step(user).op == ScalarOp::Add;
    int other = step(user).args[0] == value ? step(user).args[1] : step(user).args[0];
    if (other == value) return std::nullopt;
    if (step(other).step == Step::Scalar && step(other).op == ScalarOp::Cast) other = step(other).args[0];
    const loop::Statement& load = step(other);
    if (load.step != Step::Load || load.mask >= 0 || (load.dtype != DType::F32 && !is_half(load.dtype))) return std::nullopt;
    return Link{adds ? PostOpKind::Add : PostOpKind::Mul, other, user, adds ? "add" : "mul"};
  }

  // Whether step i is the formula's step f, with `value` for the accumulator. Collects the steps in between.
  bool same(const loop::Body& formula, int f, int i, int value, std::set<int>& inside) const {
    const loop::Statement &want = formula.steps[static_cast<size_t>(f)], &got = step(i);
    if (want.step == Step::Accumulate) return i == value;
    if (want.step != Step::Scalar || got.step != Step::Scalar || want.op != got.op || want.dtype != got.dtype ||
        (want.op == ScalarOp::Const && !(want.value == got.value)))
      return false;
    for (size_t k = 0; k < 3; ++k) {
      if ((want.args[k] < 0) != (got.args[k] < 0)) return false;
      if (want.args[k] >= 0 && !same(formula, want.args[k], got.args[k], value, inside)) return false;
    }
    inside.insert(i);
    return true;
  }

  // Nobody else uses `value`, nor what lies between it and the result.
  bool closed(const std::set<int>& inside, int value, int result) const {
    auto within = [&](int i) {
      return std::all_of(users_[static_cast<size_t>(i)].begin(), users_[static_cast<size_t>(i)].end(),
                         [&](int user) { return inside.count(user) > 0; });
    };
    return within(value) &&
           std::all_of(inside.begin(), inside.end(), [&](int i) { return i == result || step(i).op == ScalarOp::Const || within(i); });
  }

  const loop::Body& body_;
  std::vector<std::set<int>> users_;
};

// --- nodes ------------------------------------------------------------------------------------------------------------------------

bool is_constant(const choice::Program& p, int buffer) { return p.buffers[static_cast<size_t>(buffer)].kind == loop::BufferKind::Constant; }

// The node with the first `length` links of its chain, into `out`. A reason when there is no such problem.
template <class Problem>
std::string read_node(const choice::Node& node, const Problem& problem, int b_buffer, const choice::Program& program, const Chain& chain,
                      size_t length, TensorMemory out, OneDnnProblem& p) {
  p = {};
  p.constant_b = is_constant(program, b_buffer);
  p.out = std::move(out);
  if (std::string reason = read_operands(problem, p); !reason.empty()) return reason;
  for (size_t i = 0; i < length; ++i) {
    external::PostOp op{chain.links[i].kind, {}};
    if (int load = chain.links[i].load; load >= 0) {
      const loop::Statement& s = node.body.steps[static_cast<size_t>(load)];
      auto memory = memory_of(node.domain, s.index, s.dtype);
      if (!memory) return "an operand of its epilogue is read at indices that are not linear";
      op.operand = *memory;
    }
    p.post_ops.push_back(std::move(op));
  }
  return normalize(p);
}

std::string read_node(const choice::Node& node, const choice::Program& program, const Chain& chain, size_t length, TensorMemory out,
                      OneDnnProblem& p) {
  if (auto* g = std::get_if<choice::Gemm>(&node.problem))
    return read_node(node, *g, g->b.buffer, program, chain, length, std::move(out), p);
  const auto& c = std::get<choice::Convolution>(node.problem);
  return read_node(node, c, c.weight.buffer, program, chain, length, std::move(out), p);
}

// Where the node's only store puts its results; nullopt when a library cannot put them there.
std::optional<TensorMemory> direct_result(const choice::Node& node, const Chain& chain) {
  if (!chain.store) return std::nullopt;
  const std::vector<int> reads = choice::reads(node);
  if (std::find(reads.begin(), reads.end(), chain.store->buffer) != reads.end()) return std::nullopt;
  auto memory = memory_of(node.domain, chain.store->index, chain.store->dtype);
  if (!memory) return std::nullopt;
  for (size_t d = 0; d < memory->sizes.size(); ++d)
    if (!(node.domain.vars[d].extent() == Expr(memory->sizes[d]))) return std::nullopt;  // several points store to one place
  return memory;
}

}  // namespace

std::string onednn_refusal(const choice::Gemm& g, bool constant_b) { return refusal_of(g, constant_b); }
std::string onednn_refusal(const choice::Convolution& c, bool constant_weight) { return refusal_of(c, constant_weight); }

void fit_epilogue(choice::Program& program, size_t i) {
  const choice::Node& node = program.nodes[i];
  const Chain chain = ChainReader(node.body).read();
  OneDnnProblem p;
  auto taken = [&](size_t length, const TensorMemory& out) {
    return read_node(node, program, chain, length, out, p).empty() && external::onednn_refusal(p).empty();
  };
  if (auto out = direct_result(node, chain); out && taken(chain.links.size(), *out)) return;
  std::vector<int64_t> sizes;
  for (auto& v : node.domain.vars) sizes.push_back(v.extent().constant());
  const auto* g = std::get_if<choice::Gemm>(&node.problem);
  const TensorMemory own = g ? own_memory(*g, sizes) : own_memory(std::get<choice::Convolution>(node.problem), sizes);
  size_t length = chain.links.size();
  while (length > 0 && !taken(length, own)) --length;
  sched::split_epilogue(program, i, chain.value(length), {own.strides.begin(), own.strides.end()});
}

OneDnnNode describe_onednn(const choice::Node& node, const choice::Program& program) {
  const Chain chain = ChainReader(node.body).read();
  auto out = direct_result(node, chain);
  TOROID_CHECK(out, "the epilogue of {} is not one that oneDNN computes", choice::label(node));
  OneDnnNode made;
  std::string reason = read_node(node, program, chain, chain.links.size(), *out, made.problem);
  TOROID_CHECK(reason.empty(), "{}: {}", choice::label(node), reason);
  const auto* g = std::get_if<choice::Gemm>(&node.problem);
  const choice::Operand &a = g ? g->a : std::get<choice::Convolution>(node.problem).input,
                        &b = g ? g->b : std::get<choice::Convolution>(node.problem).weight;
  made.name = g ? "onednn_gemm" : "onednn_convolution";
  made.buffers = {a.buffer};
  if (!made.problem.constant_b) made.buffers.push_back(b.buffer);
  made.buffers.push_back(chain.store->buffer);
  for (auto& link : chain.links) {
    made.name += "_" + std::string(link.name);
    if (link.load >= 0) made.buffers.push_back(node.body.steps[static_cast<size_t>(link.load)].buffer);
  }
  return made;
}

}  // namespace toroid::compiler
