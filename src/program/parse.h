// Reads the text form of programs.
#pragma once

#include <string>

#include "program/program.h"

namespace toroid::program {

// What to_string(Program) prints, one thing a line:
//   program "softplus" symbols(s0 in 1..64) guards(s0 >= 2) {
//   buffer %0 "x": f32[s0] input
//   buffer %1 "faults": i64[8] faults
//   in %0 user "x": f32[s0]
//   out %2: f32[s0]
//   site "embedding" dim 0 @ "model.cpp:3"
//   gemm [4, 8, 16] a=%0 f32[0, 16, 1] b=%3 f32[0, 8, 1] in f32 parts [0] # "mm" "relu" @ "model.cpp:5"
//   loop (i0: 4, i1: 8) {
//   ...
// Operands are a buffer, a dtype, an offset and strides. Behind the line of a problem stand the loops of its node: `rows` is the producer,
// `beside` what shares its launch. No part of the text are the data of parameters and constants, and the hints of symbols. UserError with
// line and column; the program is not verified.
Program parse(const std::string& text);

}  // namespace toroid::program
