// Traces functions, and gives what they are recorded as.
#pragma once

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "errors.h"
#include "graph/graph.h"
#include "graph/interpreter.h"
#include "toroid/ops.h"
#include "trace/tracer.h"

namespace toroid::test {

using Body = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
using Policies = std::vector<std::vector<trace::SizePolicy>>;  // of each argument's dimensions; those that are missing are plain

// One trace from beginning to end. on_break: runs the segments before the last.
inline trace::Segment traced(const std::vector<Tensor>& arguments, const Body& body, const Policies& policies = {},
                             const trace::SegmentRunner& on_break = nullptr) {
  trace::Tracer tracer("f", on_break);
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < arguments.size(); ++i)
      stand_ins.push_back(
          tracer.argument(arguments[i], "input " + std::to_string(i), i < policies.size() ? policies[i] : Policies::value_type{}));
    const trace::Tracer::Scope scope(&tracer);
    results = body(stand_ins);
  }
  return tracer.finish(std::move(results));
}

// The recorded graph as text, without the places of the source.
inline std::string text_of(const trace::Segment& s) { return std::regex_replace(graph::to_string(*s.graph), std::regex("  @ [^\n]*"), ""); }

inline const std::vector<trace::SizePolicy> kOpenRows = {{.dynamic = true}};
inline const std::vector<trace::SizePolicy> kOpen = {{.dynamic = true}, {.dynamic = true}};

// 0, 1, 2, ... in row-major order.
inline Tensor counting(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (int64_t s : sizes) count *= s;
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Tensor::of(values, sizes);
}

}  // namespace toroid::test
