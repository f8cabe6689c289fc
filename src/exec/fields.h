// Every field of a plan, once: the writers and readers of its text and of its binary form go by this list, so that none is forgotten by
// one.
//
// A stream S is called with the name of a field, its value and, where the text leaves the field out when it has it, a default. A record has
// fields and perhaps children: lists of records, which the text gives a line each.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "exec/plan.h"

namespace toroid::exec {

// T, constant or not.
template <class T, class Of>
concept Is = std::is_same_v<std::remove_const_t<T>, Of>;

// Names of the values of an enum, in their order.
template <class E>
inline constexpr std::array<std::string_view, 0> kNames{};
template <>
inline constexpr std::array<std::string_view, 7> kNames<BufferRole>{"input",  "constant", "temporary", "output",
                                                                    "handed", "faults",   "peers"};
template <>
inline constexpr std::array<std::string_view, 9> kNames<external::PostOpKind>{"add",  "mul",     "relu", "gelu_erf",  "gelu_tanh",
                                                                              "silu", "sigmoid", "tanh", "hard_swish"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<external::CublasLtActivation>{"none", "relu", "gelu_tanh"};
template <>
inline constexpr auto kNames<distributed::Kind> = std::to_array(distributed::kKindNames);
template <>
inline constexpr auto kNames<distributed::ReduceOp> = std::to_array(distributed::kReduceOpNames);

// Names of the alternatives of a variant, in their order.
inline constexpr std::array<std::string_view, 6> kStepNames{"launch", "call", "library", "branch", "loop", "collective"};
inline constexpr std::array<std::string_view, 4> kProblemNames{"onednn", "cublaslt", "cudnn", "pieces"};
static_assert(kProblemNames.size() == std::variant_size_v<LibraryProblem>);

using Exprs = std::vector<Expr>;
using Views = std::vector<HostCall::View>;

template <class S, Is<external::TensorMemory> M>
void fields(S& s, M& m) {
  s("dtype", m.dtype), s("sizes", m.sizes), s("strides", m.strides), s("offset", m.offset, int64_t{0});
}

template <class S, Is<external::PostOp> P>
void fields(S& s, P& p) {
  s("kind", p.kind), s("operand", p.operand);
}

template <class S, Is<external::OneDnnProblem::Window> W>
void fields(S& s, W& w) {
  s("stride", w.stride), s("pad", w.pad), s("dilation", w.dilation);
}

template <class S, Is<external::OneDnnProblem> P>
void fields(S& s, P& p) {
  s("a", p.a), s("b", p.b), s("out", p.out), s("window", p.window), s("post_ops", p.post_ops), s("constant_b", p.constant_b, false);
}

template <class S, Is<external::CublasLtProblem::Matrix> M>
void fields(S& s, M& m) {
  s("offset", m.offset, int64_t{0}), s("row", m.row), s("column", m.column), s("batch", m.batch, int64_t{0});
}

template <class S, Is<external::CublasLtProblem> P>
void fields(S& s, P& p) {
  s("dtype", p.dtype), s("out_dtype", p.out_dtype), s("m", p.m), s("n", p.n), s("k", p.k), s("batch", p.batch, int64_t{1});
  s("a", p.a), s("b", p.b), s("out", p.out), s("addend", p.addend), s("has_addend", p.has_addend, false);
  s("has_bias", p.has_bias, false), s("bias_offset", p.bias_offset, int64_t{0}), s("activation", p.activation), s("tf32", p.tf32, false);
}

template <class S, Is<PiecesProblem> P>
void fields(S& s, P& p) {
  s("kind", p.kind), s("group", p.group), s("ranks", p.ranks), s("stage", p.stage), s("product", p.product);
}

template <class S, Is<external::CudnnProblem::Window> W>
void fields(S& s, W& w) {
  s("size", w.size), s("stride", w.stride), s("pad", w.pad), s("dilation", w.dilation);
}

template <class S, Is<external::CudnnProblem> P>
void fields(S& s, P& p) {
  s("dtype", p.dtype), s("n", p.n), s("in_channels", p.in_channels), s("in_h", p.in_h), s("in_w", p.in_w);
  s("out_channels", p.out_channels), s("out_h", p.out_h), s("out_w", p.out_w), s("groups", p.groups, int64_t{1}), s("window", p.window);
  s("input_offset", p.input_offset, int64_t{0}), s("weight_offset", p.weight_offset, int64_t{0});
  s("out_offset", p.out_offset, int64_t{0}), s("bias_offset", p.bias_offset, int64_t{0});
  s("addend_offset", p.addend_offset, int64_t{0}), s("has_bias", p.has_bias, false), s("has_addend", p.has_addend, false);
  s("relu", p.relu, false), s("tf32", p.tf32, false);
}

template <class S, Is<device::cuda::TensorMap::Window> W>
void fields(S& s, W& w) {
  s("first", w.first), s("last", w.last), s("step", w.step);
}

template <class S, Is<device::cuda::TensorMap> M>
void fields(S& s, M& m) {
  s("buffer", m.buffer), s("dtype", m.dtype), s("tf32", m.tf32, false), s("offset", m.offset, Expr(0)), s("sizes", m.sizes);
  s("strides", m.strides), s("box", m.box), s("swizzle", m.swizzle, 0), s("window", m.window);
}

template <class S, Is<HostCall::View> V>
void fields(S& s, V& v) {
  s("buffer", v.buffer), s("dtype", v.dtype), s("offset", v.offset, Expr(0)), s("sizes", v.sizes), s("strides", v.strides);
}

template <class S, Is<BufferPlan> B>
void fields(S& s, B& b) {
  s("name", b.name), s("dtype", b.dtype), s("numel", b.numel), s("role", b.role), s("constant", b.constant, std::string());
}

template <class S, Is<InputPlan> I>
void fields(S& s, I& in) {
  s("name", in.name), s("type", in.type), s("buffer", in.buffer), s("user", in.user, -1), s("constant", in.constant, std::string());
  s("mutated", in.mutated, false), s("donated", in.donated, false), s("draws", in.draws);
}

template <class S, Is<OutputPlan> O>
void fields(S& s, O& o) {
  s("buffer", o.buffer), s("type", o.type), s("mutates", o.mutates, -1), s("where", o.where, std::string());
}

template <class S, Is<IndexSite> I>
void fields(S& s, I& site) {
  s("operation", site.operation), s("where", site.where, std::string()), s("dim", site.dim), s("wraps", site.wraps, false);
}

template <class S, Is<Launch> L>
void fields(S& s, L& l) {
  s("name", l.name), s("kernel", l.kernel), s("buffers", l.buffers), s("written", l.written, std::vector<bool>());
  s("params", l.params, Exprs()), s("tasks", l.tasks), s("scratch", l.scratch_bytes_per_thread, Expr(0)), s("serial", l.serial, false);
  s("bytes", l.bytes, Expr(0)), s("flops", l.flops, Expr(0)), s("in_place", l.in_place, false), s("threads", l.gpu.threads, 0);
  s("shared", l.gpu.shared_bytes, 0), s("overlaps", l.gpu.overlaps, false), s("device_scratch", l.gpu.scratch_bytes, Expr(0));
  s("counters", l.gpu.counters, Expr(0)), s("maps", l.gpu.tensor_maps), s("together", l.gpu.together, false),
      s("where", l.where, std::string());
}

template <class S, Is<HostCall> H>
void fields(S& s, H& h) {
  s("name", h.name), s("op", h.op), s("args", h.args), s("inputs", h.inputs), s("outputs", h.outputs);
  s("on_gpu", h.on_gpu, false), s("where", h.where, std::string());
}

template <class S, Is<LibraryCall> C>
void fields(S& s, C& c) {
  s("name", c.name), s("problem", c.problem), s("choice", c.choice, 0), s("buffers", c.buffers), s("constant", c.constant, std::string());
  s("where", c.where, std::string());
}

template <class S, Is<Branch> B>
void fields(S& s, B& b) {
  s("name", b.name), s("predicate", b.predicate), s("conditions", b.conditions), s("operands", b.operands), s("results", b.results);
  s("where", b.where, std::string());
}

template <class S, Is<Loop> L>
void fields(S& s, L& l) {
  s("name", l.name), s("carried", l.carried), s("slices", l.slices), s("unchanging", l.unchanging), s("results", l.results);
  s("where", l.where, std::string());
}

template <class S, Is<CollectiveCall> C>
void fields(S& s, C& c) {
  s("name", c.name), s("kind", c.kind), s("op", c.op, distributed::ReduceOp::Sum), s("group", c.group), s("ranks", c.ranks, int64_t{1});
  s("root", c.root, 0), s("count", c.count, Expr(0)), s("given", c.given, Exprs()), s("taken", c.taken, Exprs()), s("input", c.input);
  s("output", c.output), s("where", c.where, std::string());
}

template <class S, Is<Block> B>
void fields(S& s, B& b) {
  s("name", b.name), s("results", b.results);
}

// Symbols come first: what follows refers to them.
template <class S, Is<Plan> P>
void fields(S& s, P& p) {
  s.symbols(p.symbols);
  s("name", p.name), s("device", p.device), s("options", p.options, CompileOptions()), s("code_for", p.code_for, std::string());
  s("record", p.record, false), s("guards", p.guards);
}

template <class S, class T>
void children(S&, T&) {}
template <class S, Is<Plan> P>
void children(S& s, P& p) {
  s.lines("buffer", p.buffers), s.lines("input", p.inputs), s.steps(p.steps), s.lines("output", p.outputs), s.lines("site", p.sites);
}
template <class S, Is<Branch> B>
void children(S& s, B& b) {
  s.lines("block", b.blocks);
}
template <class S, Is<Loop> L>
void children(S& s, L& l) {
  s.lines("block", l.blocks);
}
template <class S, Is<Block> B>
void children(S& s, B& b) {
  s.plan(b.plan);
}

template <class T>
inline constexpr bool kHasChildren = Is<T, Plan> || Is<T, Branch> || Is<T, Loop> || Is<T, Block>;

}  // namespace toroid::exec
