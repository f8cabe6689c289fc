// Symbolic sizes of an export file as expressions of Toroid: one table of symbols for a whole program.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "import/exported_program.h"

namespace toroid::import {

class SymValues {
 public:
  // Declares the symbols of the program in `graph`, with their bounds.
  SymValues(const ExportedProgram& program, graph::Graph& graph);

  // An integer expression. UserError for what only floating arithmetic or data could tell.
  Expr expr(const SymAst& ast) const;
  Expr expr(const SymInt& value) const { return value.is_expr ? expr(*value.expr) : Expr(value.value); }
  TensorType type(const TensorMeta& meta) const;

  // The relations that a condition states; nothing when it is more than relations between sizes joined by And.
  std::optional<std::vector<sym::Relation>> relations(const SymAst& condition) const;

  // Whether a symbol depends on data: "u3" in an archive does, unless it is the size of an input.
  bool is_unbacked(const std::string& symbol) const { return symbol.starts_with('u') && !given_.count(symbol); }

  // The sizes that symbols had in the example inputs.
  const std::unordered_map<std::string, int64_t>& hints() const { return hints_; }

 private:
  // A quotient of two integer expressions.
  struct Ratio {
    Expr numerator, denominator = 1;
  };
  Ratio ratio(const SymAst& ast) const;
  Ratio power(const SymAst& ast) const;
  static Ratio dyadic(double real);
  void collect(const ExportedGraph& graph);
  void note(const SymInt& value, bool is_size);

  std::unordered_map<std::string, Expr> symbols_;
  std::unordered_map<std::string, int64_t> hints_;
  std::unordered_map<std::string, bool> seen_;  // name -> is the size of a tensor
  std::unordered_set<std::string> given_;       // sizes of inputs
};

// Value of an expression without symbols; nullopt when it has some, or uses a function that is not known.
std::optional<double> fold(const SymAst& ast);

}  // namespace toroid::import
