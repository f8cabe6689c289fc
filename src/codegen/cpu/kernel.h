// CPU kernels for loop nodes, and loop bodies printed into templates.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/templates/template_text.h"
#include "codegen/kernel_text.h"
#include "device/cpu/isa.h"
#include "loop/node.h"

namespace toroid::codegen {

// What C text uses: functions of the prelude, and more functions that follow it, by name.
struct PreludeNeeds {
  std::set<std::string> functions;
  std::map<std::string, std::string> helpers;
  void add(const PreludeNeeds& other);
  std::string text(int lanes) const;
};

// Different buffers must not overlap, except that a kernel without reductions may write an element in the place of one that the same
// point reads. Lanes follow from `isa`.
KernelText generate_loop(const loop::Domain& d, const loop::Body& b, const std::vector<loop::Buffer>& buffers, device::Isa isa);
// Several independent loops without reductions or scatters as one kernel: the tasks of the first, then those of the second, and so on.
KernelText generate_loops(std::span<const loop::Nest> nests, const std::vector<loop::Buffer>& buffers, device::Isa isa);

// How a template calls things: C expressions.
struct TemplateNames {
  std::function<std::string(int buffer, DType dtype)> pointer;  // of type dtype* ("f32*", Bool: "u8*")
  std::function<std::string(const sym::Node& symbol)> symbol;   // of type int64_t: the domain's variables and size symbols
  std::string vector_accumulator, scalar_accumulator;           // what Accumulate stands for; of type v<dtype> and <dtype>
};
struct EpilogueText {
  PointText vector, scalar;  // statements for `lanes` points along the last variable from its value on, and for one point
  PreludeNeeds needs;
};
// The steps of a body without reductions, at the point that names.symbol tells. The last `column_vars` variables say which column.
EpilogueText emit_epilogue(const loop::Domain& d, const loop::Body& b, size_t column_vars, int lanes, const TemplateNames& names);

struct RowText {
  std::string statements;  // see names' symbols, and `scratch` (char*, 64-byte aligned)
  Expr scratch_bytes = 0;  // that they use there
  PreludeNeeds needs;
};
// All points of a domain, one after another on one thread. names.symbol tells the variables that the body uses besides the domain's.
RowText emit_row(const loop::Domain& d, const loop::Body& b, int lanes, const TemplateNames& names);

// Lanes of all vectors in kernels for an instruction set; 1 for Scalar.
int lanes_of(device::Isa isa);

}  // namespace toroid::codegen
