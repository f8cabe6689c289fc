// From an opened model file to a graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "import/pt2_archive.h"

namespace toroid::import {

// The program of the archive as a graph: inputs in the order of the file's signature, weights as views of the file's bytes (which they
// keep alive; those that the program overwrites are copies), outputs with their mutations. Programs of the "TRAINING" kind keep their
// in-place operations: the functionalize pass comes next.
// UserError for operations that Toroid does not have (all of them listed) and for what cannot be represented, with the node's name;
// InternalError when the type of a result differs from what the file states.
std::unique_ptr<graph::Graph> import_pt2(std::shared_ptr<const Pt2Archive> archive);

// The tensor that an input of kind Parameter, Buffer or TensorConstant holds.
using HeldTensor = std::function<Tensor(const InputSpec&)>;

// The same of a program that lies in memory as the JSON of an archive's program; `source` names it in messages. The caller's tensors are
// expected to have the strides that the program states, and need no copy then.
std::unique_ptr<graph::Graph> import_program(std::string_view json, const std::string& source, const HeldTensor& held);

}  // namespace toroid::import
