// Symbolic size expressions as PyTorch writes them, parsed to a small tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::import {

enum class SymAstKind : uint8_t { Integer, Rational, Float, Bool, Infinity, Symbol, Call };

struct SymAst {
  SymAstKind kind = SymAstKind::Integer;
  int64_t value = 0;         // Integer; numerator of a Rational; Bool; sign of an Infinity (1 or -1)
  int64_t denominator = 1;   // Rational, positive
  double real = 0;           // Float
  std::string name;          // Symbol: its name; Call: its head, see below
  std::vector<SymAst> args;  // Call
  bool positive = false;     // Symbol: assumed greater than 0
  int height = 1;            // levels of the tree, at most about 200: recursion over it is safe

  bool is_call(std::string_view head) const { return kind == SymAstKind::Call && name == head; }
};

// Parses sympy's srepr form (PyTorch 2.6 and newer: "Mul(Integer(4), Symbol('s0', integer=True))") and its infix form
// (2.5: "((s0 - 1)//2)"). Heads come out under one name each: Equality, Unequality, LessThan, GreaterThan, StrictLessThan,
// StrictGreaterThan, And, Or, Not, Add, Mul, Pow, FloorDiv, Mod, Min, Max, ...; infix subtraction and division become Add, Mul and
// Pow as sympy has them. Call heads that the list of PyTorch does not contain are kept as written.
// Throws UserError with the text and the position for bad syntax, integers beyond 64 bits, or more than 200 levels.
SymAst parse_sym_expr(std::string_view text);

// The tree in srepr-like form, for messages and tests: "Mul(4, s0)".
std::string to_string(const SymAst& expr);

}  // namespace toroid::import
