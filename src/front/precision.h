// How exactly a program computes, which says how far its results may be from another program's of the same model.
#pragma once

#include "base/compile_options.h"
#include "graph/graph.h"

namespace toroid::front {

struct Precision {
  const char* name = "f64";  // the lowest that floats of the program have: "f64", "f32", "tf32", "f16", "bf16"
  double tolerance = 0;      // error of f32 results, as a part of an output's range; other dtypes scale with it
};

// Of a graph on a device. Operands of f32 products are tf32 on GPUs where the option allow_tf32 says so.
Precision precision_of(const graph::Graph& g, const Device& device, const CompileOptions& options);

}  // namespace toroid::front
