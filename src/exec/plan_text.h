// Plans as text: a line each for buffers, inputs, steps and outputs, what is as usual left out.
//
//   plan(symbols=(s0 in 1..1000), name="chain", device="cpu", record=true) {
//     buffer 0(name="x", dtype=f32, numel=s0, role=input)
//     buffer 1(name="y", dtype=f32, numel=s0, role=output)
//     input(name="x", type=f32[s0], buffer=0, user=0)
//     launch(name="add_one", kernel="6a0c...", buffers=[0, 1], written=[false, true], params=[s0], tasks=floordiv(s0 + 15, 16))
//     output(buffer=1, type=f32[s0])
//   }
#pragma once

#include <string>

#include "exec/plan.h"

namespace toroid::exec {

std::string to_string(const Plan& plan);
// The inverse of to_string. UserError with line and column. Nothing is verified.
Plan parse_plan(const std::string& text);

}  // namespace toroid::exec
