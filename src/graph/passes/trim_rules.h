// How operations pass on what is read of their results to what they read of their operands.
#pragma once

#include "graph/passes/demand.h"
#include "graph/recorder.h"

namespace toroid::graph {

// A node whose results are read in part.
struct TrimStep {
  const Node& node;
  std::vector<Demand> results;         // what is read; what is computed, which may be more, once a rule has seen it
  std::vector<const Value*> operands;  // in the order of for_each_operand
  std::vector<Demand> needs;           // of the operands
};

// Appends operations of known types to a graph.
class TrimBuilder {
 public:
  TrimBuilder(Recorder& recorder, std::string where) : recorder_(recorder), where_(std::move(where)) {}
  Tensor add(const char* op, CallArgs args, DType dtype, std::vector<Expr> sizes);
  std::vector<Tensor> add(const ops::Op& op, CallArgs args, std::vector<TensorType> types, const std::vector<std::string>& names);
  // t, which holds `have` of a value, cut to `need` of it.
  Tensor cut(Tensor t, const Demand& have, const Demand& need);
  Tensor reshaped(const Tensor& t, const std::vector<Expr>& sizes);

 private:
  Recorder& recorder_;
  std::string where_;
};

struct TrimRule {
  // Fills `needs`; false where the operation does not work part by part, so that all of it is computed.
  bool (*follow)(TrimStep& step) = nullptr;
  // The results, of operands that hold what `needs` says.
  std::vector<Tensor> (*emit)(const TrimStep& step, const std::vector<Tensor>& operands, TrimBuilder& out) = nullptr;
  bool moves = false;  // computes nothing
  bool cuts = false;   // may read part of its operand where all of its results are read
};

// nullptr: none.
const TrimRule* trim_rule(const Node& n);

}  // namespace toroid::graph
