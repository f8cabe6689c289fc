// The fields of each kind of problem, said once: its text and the reader of it, its sizes, operands, views, and what it reads and writes
// follow from what `fields` calls on a visitor.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace toroid::program {

// MayRead, MayWrite: the operand may be absent, which is without a buffer.
enum class Use : uint8_t { Read, MayRead, Write, MayWrite };
constexpr bool reads(Use use) { return use == Use::Read || use == Use::MayRead; }
constexpr bool is_required(Use use) { return use == Use::Read || use == Use::Write; }

// What a visitor leaves out. Visitors derive from it, and hide what they look at.
struct NoFields {
  // Sizes in brackets: a list of them that may lead, then each an Expr or an int64_t. least: what is expected where there are too few.
  template <class... Size>
  void sizes(std::string_view /*least*/, Size&...) {}
  void word(std::string_view) {}
  // int64_t or double.
  template <class Value>
  void number(std::string_view /*name*/, Value&) {}
  template <class Value>
  void pair(std::string_view /*name*/, Value& /*first*/, Value& /*second*/) {}
  template <class Value>
  void dtype(std::string_view /*name*/, Value&) {}
  template <class Value>
  void flag(std::string_view /*name*/, Value&) {}
  // extents: gives those along the strides. Memory is an Operand or an optional one.
  template <class Memory, class Extents>
  void operand(std::string_view /*name*/, Memory&, Use, std::string_view /*what*/, const Extents&) {}
  // Of calls: tensors, by their order alone.
  template <class Views>
  void views(Views&, Use, std::string_view /*what*/) {}
};

template <class P, class Kind>
concept IsKind = std::same_as<std::remove_const_t<P>, Kind>;

// The word that the text of a kind begins with; empty for loops and calls, whose texts are their own.
template <class Kind>
inline constexpr std::string_view kKeyword = "";
template <>
inline constexpr std::string_view kKeyword<Gemm> = "gemm";
template <>
inline constexpr std::string_view kKeyword<Convolution> = "convolution";
template <>
inline constexpr std::string_view kKeyword<Attention> = "attention";
template <>
inline constexpr std::string_view kKeyword<Sort> = "sort";

inline std::vector<Expr> joined(std::vector<Expr> front, std::initializer_list<Expr> back) {
  front.insert(front.end(), back);
  return front;
}

// In the order of the text. Operands are read and written in this order, too.
template <IsKind<std::monostate> P, class Visitor>
void fields(P&, Visitor&) {}

template <IsKind<Gemm> P, class Visitor>
void fields(P& g, Visitor& v) {
  const auto right = [&] { return joined(g.batch, {g.k, g.n}); };
  v.sizes("at least m, n and k are expected", g.batch, g.m, g.n, g.k);
  v.operand("a", g.a, Use::Read, "the left operand", [&] { return joined(g.batch, {g.m, g.k}); });
  v.operand("b", g.b, Use::Read, "the right operand", right);
  v.operand("b2", g.b2, Use::Read, "the second right operand", right);
  v.dtype("in", g.accumulate);
  v.flag("tf32", g.tf32);
}

template <IsKind<Convolution> P, class Visitor>
void fields(P& c, Visitor& v) {
  v.sizes("", c.n, c.in_channels, c.in_h, c.in_w);
  v.word("->");
  v.sizes("", c.out_channels, c.out_h, c.out_w);
  v.pair("kernel", c.kernel_h, c.kernel_w);
  v.pair("stride", c.stride_h, c.stride_w);
  v.pair("pad", c.pad_h, c.pad_w);
  v.pair("dilation", c.dilation_h, c.dilation_w);
  v.number("groups", c.groups);
  v.operand("input", c.input, Use::Read, "the input", [&] { return std::vector<Expr>{c.n, c.in_channels, c.in_h, c.in_w}; });
  v.operand("weight", c.weight, Use::Read, "the weight", [&] {
    return std::vector<Expr>{c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w};
  });
  v.number("less", c.zero);
  v.dtype("in", c.accumulate);
  v.flag("tf32", c.tf32);
}

template <IsKind<Attention> P, class Visitor>
void fields(P& a, Visitor& v) {
  const auto of_heads = [&](const Expr& heads, const Expr& positions, const Expr& dim) {
    return std::vector<Expr>{a.batch, heads, positions, dim};
  };
  v.sizes("", a.batch, a.heads, a.kv_heads, a.queries, a.keys);
  v.number("head", a.head_dim);
  v.number("value", a.value_dim);
  v.operand("q", a.q, Use::Read, "the query", [&] { return of_heads(a.heads, a.queries, a.head_dim); });
  v.operand("k", a.k, Use::Read, "the key", [&] { return of_heads(a.kv_heads, a.keys, a.head_dim); });
  v.operand("v", a.v, Use::Read, "the value", [&] { return of_heads(a.kv_heads, a.keys, a.value_dim); });
  v.operand("mask", a.mask, Use::MayRead, "the mask", [&] { return of_heads(a.heads, a.queries, a.keys); });
  v.number("scale", a.scale);
  v.flag("causal", a.causal);
}

template <IsKind<Sort> P, class Visitor>
void fields(P& s, Visitor& v) {
  const auto kept = [&] { return joined(s.rows, {s.count}); };
  v.sizes("the length of a row is expected", s.rows, s.length);
  v.word("first");
  v.sizes("", s.count);
  v.operand("keys", s.keys, Use::Read, "the keys", [&] { return joined(s.rows, {s.length}); });
  v.operand("values", s.values, Use::MayWrite, "the sorted values", kept);
  v.operand("positions", s.positions, Use::MayWrite, "the positions", kept);
  v.flag("descending", s.descending);
}

template <class P, class Visitor>
requires IsKind<P, Extern> || IsKind<P, Open>
void fields(P& call, Visitor& v) {
  v.views(call.inputs, Use::Read, "an argument");
  v.views(call.outputs, Use::Write, "a result");
}

// A visitor of operands alone: calls f(operand, use, what, extents) for those of problems, absent ones too, and of calls. extents is called
// for the extents along the strides.
template <class F>
struct OperandFields : NoFields {
  const F& f;
  explicit OperandFields(const F& f) : f(f) {}

  template <class Memory, class Extents>
  void operand(std::string_view, Memory& o, Use use, std::string_view what, const Extents& extents) {
    if constexpr (std::same_as<std::remove_const_t<Memory>, Operand>)
      f(o, use, what, extents);
    else if (o)
      f(*o, use, what, extents);
  }
  template <class Views>
  void views(Views& list, Use use, std::string_view what) {
    for (auto& view : list) f(view.memory, use, what, [&] { return view.sizes; });
  }
};

// Of a Node or a const one.
template <class N, class F>
void visit_operands(N& n, const F& f) {
  OperandFields<F> visitor(f);
  std::visit([&](auto& problem) { fields(problem, visitor); }, n.problem);
}

}  // namespace toroid::program
