// What computes each part of a program, as JSON for people and for `toroid trace`.
#pragma once

#include <map>
#include <string>

#include "compile/pipeline.h"

namespace toroid::compiler {

// An array of the program's steps in their order, those of blocks of control flow behind the step that runs them:
//   {"name": "fused_add_relu", "by": "kernel", "block": "", "origins": ["add", "relu"], "where": "model.cpp:7", "file": "kernels/...c",
//    "plan": "tasks ..."}
// by: "kernel", the name of a library, or "host" for what runs there. origins: the values of the graph that it computes. file: of a kernel.
// files: of the kernels' texts.
std::string steps_json(const Kernels& kernels, const std::map<const codegen::KernelText*, std::string>& files);

}  // namespace toroid::compiler
