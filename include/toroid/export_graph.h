// C++ functions as model files: what Model::load, `toroid run`, `compile` and the other commands take, without the program that has the
// function.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

struct ExportOptions {
  // What the function takes and returns, one name for each; none: input0, input1, ... and output0, output1, ... All inputs have different
  // names, all outputs too.
  std::vector<std::string> input_names = {}, output_names = {};
};

namespace detail {
void export_graph(std::span<const Tensor> examples, const std::function<std::vector<Tensor>(std::span<const Tensor>)>& fn,
                  const std::string& path, const ExportOptions& options);
}  // namespace detail

// Traces a function from a list of tensors to a list of tensors once, and replaces the file in one step: the graph as text, and the tensors
// that the function captures. Its inputs have the sizes of the examples, those that mark_dynamic names aside. Equal graphs give equal
// bytes. UserError for a function that reads values of tensors, and for one that overwrites a captured tensor which shares memory with
// another.
template <class F>
void export_graph(F&& fn, const std::vector<Tensor>& examples, const std::string& path, const ExportOptions& options = {}) {
  detail::export_graph(
      examples, [&](std::span<const Tensor> in) { return std::vector<Tensor>(fn(std::vector<Tensor>(in.begin(), in.end()))); }, path,
      options);
}

}  // namespace toroid
