#include "backend/cpu/onednn_problem.h"

#include <algorithm>

#include "backend/epilogue_chain.h"
#include "base/check.h"
#include "sched/split_epilogue.h"

namespace toroid::backend {
namespace {

using external::OneDnnProblem;
using external::PostOpKind;
using external::TensorMemory;

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
std::string read_operands(const program::Gemm& g, OneDnnProblem& p) {
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

std::string read_operands(const program::Convolution& c, OneDnnProblem& p) {
  if (!is_float(c.accumulate)) return "it is a convolution of whole numbers";
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

std::vector<Expr> result_sizes(const program::Gemm& g) {
  std::vector<Expr> sizes = g.batch;
  sizes.insert(sizes.end(), {g.m, g.n});
  return sizes;
}
std::vector<Expr> result_sizes(const program::Convolution& c) { return {c.n, c.out_channels, c.out_h, c.out_w}; }

// The layout of results in memory of their own.
TensorMemory own_memory(const program::Gemm&, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(d);
  return {DType::F32, sizes, dense_strides(sizes, order)};
}
TensorMemory own_memory(const program::Convolution&, const std::vector<int64_t>& sizes) {
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

// --- nodes ------------------------------------------------------------------------------------------------------------------------

bool is_constant(const program::Program& p, int buffer) {
  return p.buffers[static_cast<size_t>(buffer)].kind == loop::BufferKind::Constant;
}

// The node with the first `length` links of its chain, into `out`. A reason when there is no such problem.
template <class Problem>
std::string read_node(const program::Node& node, const Problem& problem, int b_buffer, const program::Program& program, const Chain& chain,
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

std::string read_node(const program::Node& node, const program::Program& program, const Chain& chain, size_t length, TensorMemory out,
                      OneDnnProblem& p) {
  if (auto* g = std::get_if<program::Gemm>(&node.problem))
    return read_node(node, *g, g->b.buffer, program, chain, length, std::move(out), p);
  const auto& c = std::get<program::Convolution>(node.problem);
  return read_node(node, c, c.weight.buffer, program, chain, length, std::move(out), p);
}

}  // namespace

std::string onednn_refusal(const program::Gemm& g, bool constant_b) { return refusal_of(g, constant_b); }
std::string onednn_refusal(const program::Convolution& c, bool constant_weight) { return refusal_of(c, constant_weight); }

void fit_epilogue(program::Program& program, size_t i) {
  const program::Node& node = program.nodes[i];
  const Chain chain = read_chain(node.body);
  OneDnnProblem p;
  auto taken = [&](size_t length, const TensorMemory& out) {
    return read_node(node, program, chain, length, out, p).empty() && external::onednn_refusal(p).empty();
  };
  if (auto out = direct_result(node, chain); out && taken(chain.links.size(), *out)) return;
  std::vector<int64_t> sizes;
  for (auto& v : node.domain.vars) sizes.push_back(v.extent().constant());
  const auto* g = std::get_if<program::Gemm>(&node.problem);
  const TensorMemory own = g ? own_memory(*g, sizes) : own_memory(std::get<program::Convolution>(node.problem), sizes);
  size_t length = chain.links.size();
  while (length > 0 && !taken(length, own)) --length;
  sched::split_epilogue(program, i, chain.value(length), {own.strides.begin(), own.strides.end()});
}

OneDnnNode describe_onednn(const program::Node& node, const program::Program& program) {
  const Chain chain = read_chain(node.body);
  auto out = direct_result(node, chain);
  TOROID_CHECK(out, "the epilogue of {} is not one that oneDNN computes", program::label(node));
  OneDnnNode made;
  std::string reason = read_node(node, program, chain, chain.links.size(), *out, made.problem);
  TOROID_CHECK(reason.empty(), "{}: {}", program::label(node), reason);
  const auto* g = std::get_if<program::Gemm>(&node.problem);
  const program::Operand &a = g ? g->a : std::get<program::Convolution>(node.problem).input,
                         &b = g ? g->b : std::get<program::Convolution>(node.problem).weight;
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

}  // namespace toroid::backend
