// What follows from the fields of each kind of problem, which are said once (program/problems/): its text and the reader of it, its sizes,
// operands, views, what it reads and writes, its memory traffic, from what `fields` calls on a visitor.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace toroid::program {

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
  void text(std::string_view /*name*/, Value&) {}
  template <class Value>
  void flag(std::string_view /*name*/, Value&) {}
  // Whether there is a problem within this one, whose fields follow.
  template <class Inner>
  void presence(std::string_view /*name*/, std::optional<Inner>&) {}
  template <class Inner>
  void presence(std::string_view /*name*/, const std::optional<Inner>&) {}
  // An enumeration from 0 on, as the name of its value.
  template <class Value>
  void choice(std::string_view /*name*/, Value&, std::span<const std::string_view> /*names of values*/) {}
  // extents: gives those along the strides. Memory is an Operand or an optional one.
  template <class Memory, class Extents>
  void operand(std::string_view /*name*/, Memory&, Use, std::string_view /*what*/, const Extents&) {}
  // Of calls: tensors, by their order alone.
  template <class Views>
  void views(Views&, Use, std::string_view /*what*/) {}
};

// The word that the text of a kind begins with; empty for loops and calls, whose texts are their own.
template <class Kind>
inline constexpr std::string_view kKeyword = "";
template <class Kind>
requires requires { Kind::kKeyword; }
inline constexpr std::string_view kKeyword<Kind> = Kind::kKeyword;

// Of a kind that computes a value for each of its points (points(), formula()), which the node's body takes on; others do all their work
// at once (compute()), or are loops and calls.
template <class Kind>
concept HasPoints = requires(const Kind& problem) {
  points(problem);
};

// In the order of the text. Operands are read and written in this order, too.
template <IsKind<std::monostate> P, class Visitor>
void fields(P&, Visitor&) {}

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
