// What `toroid bench` measures: a model file, or a model of toroid/nn with random weights.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "graph/graph.h"
#include "toroid/mode.h"

namespace toroid::cli {

struct BenchSubject {
  std::string description;                               // "bert-base, 12 layers, batch 1, 128 tokens, f32"
  std::function<std::unique_ptr<graph::Graph>()> graph;  // made anew at each call
  std::vector<Tensor> inputs;
  int64_t weight_bytes = 0;
};

// UserError for a name that is neither a file nor a known model, with the known ones.
BenchSubject make_subject(const BenchArgs& args);
// The graph alone. A model file is read as Model::load does: without contents of inputs, unless --inputs gives them. outputs: see
// import::load_model.
std::unique_ptr<graph::Graph> make_graph(const BenchArgs& args, std::vector<std::string>* outputs = nullptr);

// "bert-base, gpt2, ...".
std::string built_in_models();
bool is_built_in(const std::string& model);

// "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs".
Mode mode_from_name(const std::string& name);
const std::vector<std::string>& mode_names();

}  // namespace toroid::cli
