// An exported program that returns a loss, as a module whose parameters can be trained.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "toroid/nn/module.h"
#include "toroid/train/data.h"

namespace toroid::cli {

class TrainProgram : public nn::Module {
 public:
  // Parameters and buffers have the program's names, and memory of their own. UserError for what is no exported program, for one without
  // float parameters, for one that does not return one float first, and for control flow within it.
  explicit TrainProgram(const std::string& path);

  // The names of the program's inputs, in order.
  std::vector<std::string> input_names() const;
  // The program's first result. What it writes to buffers (running statistics) is written while the module is in training. UserError for
  // inputs that are not those of the program, and for sizes that it was not exported for.
  Tensor loss(const train::Batch& inputs);

 private:
  const std::string path_;
  std::unique_ptr<graph::Graph> graph_;  // functional
  std::list<Tensor> members_;
  std::vector<Tensor*> held_;  // by input of the graph; null: one of the user's
};

}  // namespace toroid::cli
