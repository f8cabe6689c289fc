// Exported models: load, compile, run.
//
//   Model model = Model::load("bert.onnx");
//   for (const TensorSpec& t : model.inputs()) std::printf("%s: %s\n", t.name.c_str(), t.text.c_str());
//   auto results = model.run({{"input_ids", ids}, {"attention_mask", mask}});  // by name, or model.run({ids, mask}) in order
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toroid/capture.h"
#include "toroid/mode.h"
#include "toroid/tensor.h"
#include "toroid/tensor_spec.h"

namespace toroid {

struct ModelOptions {
  Device device = Device::cpu();  // where it runs: its inputs must be there, and its results will be
  Mode mode = Mode::Default;
  bool freeze = true;     // weights are constants: folded and packed when compiling
  bool templates = true;  // products, convolutions and attention by tuned templates; otherwise as plain loops
  Fusion fusion = Fusion::All;
  int threads = 0;  // on the CPU, at most so many threads run its kernels (from 0 on); 0: as many as the process uses
  // Values by name, in place of those that the process has: of list_options() those whose scope is no "process". UserError for others, and
  // for those of functions alone (backend, recompile_limit, fail_on_recompile_limit, verify_trace).
  std::map<std::string, std::string> options = {};
  ~ModelOptions();  // in the library: inlined, g++ 12 warns of the map in a call with designated initializers
};

// A compiled program. Cheap to move; safe to run from several threads (runs of a program that overwrites its buffers take turns, and see
// each other's contents: a model for each conversation keeps them apart). Every member function of a model that holds no program, because
// it was default-constructed or moved from, is a UserError. Indices out of range in its inputs (token ids, positions) are a UserError, see
// toroid/compile.h.
class Model {
 public:
  struct Summary {
    double compile_ms = 0;
    size_t operations = 0;        // nodes of the graph that was lowered
    size_t kernels_unfused = 0;   // kernels that one operation at a time would launch
    size_t kernels = 0;           // kernels that a run launches
    size_t host_calls = 0;        // operations that a run leaves to libraries or reference code
    size_t kernels_compiled = 0;  // kernels that were in no cache
  };

  // Reads an exported program (.pt2 or ONNX) and compiles it. UserError for what is not such a file or uses operations that Toroid lacks.
  // The file, and those with external data beside it, are read into memory as a whole, and may be overwritten, replaced or removed when
  // load() returns. The memory goes when no weight of the program lies in it any more.
  static Model load(const std::string& path, const ModelOptions& options = {});
  // The same with the inputs of a usual call: sizes that the model leaves open stay open, and modes that tune time at these; without inputs
  // at those of the example of torch.export, and an ONNX file, which says none, is not tuned. UserError for inputs that do not fit.
  // Of a model (ONNX) whose sizes follow from the contents of inputs, such as the shape of a Reshape, the program is made for inputs with
  // the contents of these, and a run with others is a UserError. Where sizes cannot stay open for other reasons, they are those of these
  // inputs (the log artifact "dynamic" says why).
  static Model load(const std::string& path, std::span<const Tensor> inputs, const ModelOptions& options = {});

  // Compiles a program that lies in memory: `json` is what an archive of torch.export.save has for the program (models/model.json), `held`
  // its parameters, buffers and constants by name, whose elements must not change where options.freeze is set. Inputs may have the strides
  // that the program states without a copy. `name` is for messages. UserError as above, naming the node, and for a name that is not held.
  static Model from_program(std::string_view json, const std::map<std::string, Tensor>& held, const std::string& name,
                            const ModelOptions& options = {});

  // Takes the program's tensors in the order of its signature, returns its results. Buffers that the program overwrites keep their
  // contents between runs. UserError naming the input when count, dtype or sizes do not fit, and when one that the program writes shares
  // memory with another.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) { return run(std::span(inputs.begin(), inputs.size())); }
  // The same by name: inputs of equal dtype and sizes cannot be mistaken for each other. Results that are no tensor are left out.
  // UserError for a name that is missing, and for one that the program does not have, with the nearest one.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& inputs);

  // What run() takes, in order, by the names that the model file has.
  const std::vector<TensorSpec>& inputs() const;
  // What run() returns, in order; "output0", "output1", ... where the file does not name each, all differently.
  const std::vector<TensorSpec>& outputs() const;

  const Summary& summary() const;
  // With the option tune_in_background: how far tuning has come, what it found, or why it failed or found nothing to time; else empty. Runs
  // are by the untuned program until it has ended.
  std::string tuning() const;
  // What was recorded of the runs so far, and what was not, with reasons.
  CaptureReport captures() const;

 private:
  struct Impl;
  Impl& impl() const;
  std::shared_ptr<Impl> impl_;
};

// The tensors of a safetensors file (or folder of shards) by name. Their memory may be written, which the file does not see; all of a
// file's tensors are views of one block, which lives as long as any of them. The file may change afterwards.
std::map<std::string, Tensor> load_tensors(const std::string& path);

}  // namespace toroid
