// Runs one graph compiled and interpreted and says where they differ.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "toroid/model.h"

namespace toroid::fuzz {

// How one graph is compiled and what it is run on.
struct Variant {
  ModelOptions options;
  uint64_t seed = 0;     // of the inputs
  bool strided = false;  // inputs that are not row-major
};
std::string to_string(const Variant& v);

// What each seed is compiled as: mostly the default, then one option after the other switched off.
Variant variant_of(uint64_t seed);

struct Verdict {
  bool refused = false;                // the interpreter refuses the graph's inputs, and so does what is compared
  std::optional<std::string> failure;  // one line: what differs, or what was thrown
};

// Compares outputs, and inputs after the run. Tolerances follow from the dtypes and the number of the operations that a result depends
// on, and from the largest number among them; positions of NaN and infinities must agree, integers and truth values be equal.
Verdict check(const graph::Graph& g, const Variant& v);

// What the buffers of a graph hold, which its runs may change.
class Buffers {
 public:
  explicit Buffers(const graph::Graph& g);
  void restore() const;

 private:
  std::vector<std::pair<Tensor, Tensor>> kept_;  // the tensor, a copy
};

// The same for whatever runs graphs: takes the inputs, writes to them what the graph writes, and gives the outputs. Each run finds the
// buffers as they are now.
using Runner = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
Verdict compare(const graph::Graph& g, const std::vector<Tensor>& inputs, const Runner& run);

// Whether a result is what is expected. `tolerance` is absolute. Empty: it is.
std::string difference(const Tensor& found, const Tensor& expected, double tolerance);

}  // namespace toroid::fuzz
