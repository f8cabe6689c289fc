// Writes in graphs that are not functional yet.
#pragma once

#include "graph/graph.h"
#include "ops/custom.h"

namespace toroid::graph {

// Its results share memory with its first argument (rows without the mark, such as view_copy, are copies).
inline bool is_alias_view(const ops::Op& op) { return (op.index_map || op.write_back) && op.schema.params[0].alias; }

// The value whose memory v lies in: v, seen through views and writes.
inline const Value* memory_of(const Value* v) {
  while (v->producer && (is_alias_view(*v->producer->op) || is_mutating(*v->producer->op))) v = std::get<Value*>(v->producer->args[0]);
  return v;
}

// Calls f with each tensor that a call writes: those that its row marks, and running statistics in training.
template <class T, class F>
void for_each_written(const ops::Op& op, const std::vector<Arg<T>>& args, F&& f) {
  const auto flag = [&](const char* name) {
    const int i = op.schema.find(name);
    const bool* on = i < 0 ? nullptr : std::get_if<bool>(&args[static_cast<size_t>(i)]);
    return on && *on;
  };
  const bool trains = op.decompose && op.schema.find("running_mean") >= 0 && (flag("training") || flag("use_input_stats")) &&
                      op.name.find("functional") == std::string::npos;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto& p = op.schema.params[i];
    const bool written = p.mutated || (i == 0 && is_mutating(op)) || (trains && p.name.starts_with("running_"));
    if (const T* t = written ? std::get_if<T>(&args[i]) : nullptr) f(*t);
  }
}

// Whether more than one element lies at one place, in a way that strides show: PyTorch refuses to write to such tensors. Open strides and
// sizes are taken for none that do.
template <class Sizes, class Strides>
bool elements_overlap(const Sizes& sizes, const Strides& strides) {
  bool overlap = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == typename Sizes::value_type(0)) return false;
    overlap = overlap || (strides[d] == typename Strides::value_type(0) && !(sizes[d] == typename Sizes::value_type(1)));
  }
  return overlap;
}
// A write of one value, which all elements at one place may get.
inline bool writes_one_value(const ops::Op& op) {
  const std::string_view stem = std::string_view(op.name).substr(0, op.name.find('.'));
  return stem == "fill_" || stem == "zero_";
}
inline constexpr const char* kOverlapError =
    "{}: more than one element of the tensor that is written lies at one place in memory (it was expanded); clone() it first";

// The arguments of a call that writes within a NoGrad: detach(t) in place of each tensor that may have a gradient, so that what is written
// keeps the history that it had.
template <class Detach>
CallArgs without_history(CallArgs args, const Detach& detach) {
  for (auto& a : args)
    a = map_arg<Tensor>(a, [&](const Tensor& t) {
      const bool has_gradient = t.defined() && (is_float(t.dtype()) || is_complex(t.dtype()));
      return has_gradient ? detach(t) : t;
    });
  return args;
}

}  // namespace toroid::graph
