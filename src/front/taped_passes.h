// A remembered call of a compiled function as two programs: the forward pass, which gives the results and what is saved, and the backward
// pass, which takes that and cotangents. Each is compiled when it first runs.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "autograd/partition/divide.h"
#include "front/backend.h"

namespace toroid::front {

class TapedPasses {
 public:
  // g: functional; what it writes are outputs behind the others, which name the input. options: of the function's own program.
  // wanted: by input, whether its gradient is. devices: of the inputs.
  TapedPasses(const graph::Graph& g, const std::string& name, const Backend& backend, const BackendOptions& options,
              const std::vector<bool>& wanted, std::vector<Device> devices);

  // Why there are no gradients, for who asks for them; then nothing else may be called.
  const std::string& error() const { return error_; }
  // Whether the gradient of an output of the graph, a result or what is written, may go to a wanted input.
  bool follows(size_t output) const { return follows_[output]; }
  // What is saved, and why.
  const std::string& report() const { return divided_.report; }

  struct Results {
    std::vector<Tensor> results, saved;
  };
  // Runs on the operands, and writes those that the function writes.
  Results forward(std::span<const Tensor> operands);

  // What the backward pass takes of the operands and of the results: indices.
  std::vector<size_t> read_operands() const { return read(autograd::Divided::Kind::Operand); }
  std::vector<size_t> read_results() const { return read(autograd::Divided::Kind::Result); }
  // By size that varies, what it is in a call on these operands.
  std::vector<int64_t> sizes_of(std::span<const Tensor> operands) const;

  // The gradients of the wanted inputs; undefined: 0. kept: the operands and the results that it reads, then what was saved. Memory that
  // nobody else holds is written over. cotangents: by result.
  std::vector<Tensor> backward(std::vector<Tensor> kept, const std::vector<Tensor>& cotangents, const std::vector<int64_t>& sizes);

 private:
  std::vector<size_t> read(autograd::Divided::Kind kind) const;
  struct Compiled {
    BackendOptions options = {};
    std::once_flag once = {};
    std::mutex mutex = {};  // where all ranks compile it, in place of `once`
    Program program = {};
  };
  void separate(std::vector<Tensor>& made, std::span<const Tensor> operands) const;
  const Program& compiled(Compiled& c, const std::unique_ptr<graph::Graph>& g) const;

  const Backend backend_;
  std::string error_;
  std::vector<bool> follows_;
  autograd::Divided divided_;
  size_t returned_ = 0;         // results in front of what is saved
  std::vector<bool> is_input_;  // by result: an input as it is
  bool has_gradients_ = false;
  Compiled forward_, backward_;
};

}  // namespace toroid::front
