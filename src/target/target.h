// What a device is, takes, refuses and proposes, as data over programs. Lowering, scheduling and tuning ask it; the backends implement
// it. It holds no device and makes no code.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/compile_options.h"
#include "program/program.h"
#include "program/verify.h"

namespace toroid::target {

struct ProgramPass;

struct Facts {
  Device device = {};          // that programs are compiled for
  std::string isa = "native";  // of its kernels' code, as in jit::CompileRequest
  std::string key = {};        // what measured times hold for: the processor and its threads, or the GPU
  int workers = 1;             // that run tasks of one kernel side by side: threads, or multiprocessors
  bool tf32 = false;           // operands of f32 can be rounded to tf32, where the option allow_tf32 says so
  bool copies_pieces = false;  // kernels copy operands in pieces of 16 bytes from aligned rows; else they pack what they read
  bool int8 = false;           // products and convolutions of int8 are faster than those of f32
  bool gradients = false;      // templates compute those of attention and of convolutions' weights, of half dtypes
  int spare_operations = 8;    // that a kernel can do for an element in less time than a kernel more takes
};

// What a target is told of a problem that it may take, beside the problem.
struct Question {
  const CompileOptions& options;  // who may compute it
  bool constant = false;          // the elements of a product's right operand, of a convolution's weight are known when compiling
};

// A device that takes nothing, schedules nothing and proposes nothing, unless a subclass says more.
class Target {
 public:
  explicit Target(Facts facts) : facts_(std::move(facts)) {}
  virtual ~Target() = default;

  const Facts& facts() const { return facts_; }

  // --- lowering -----------------------------------------------------------------------------------------------------------------
  // Why neither a template nor a library computes the problem as it is; empty when one does. What is refused becomes loops, or what its
  // operation is made of. Operands may still lack buffers and strides: products are asked about by their sizes and dtypes, and what is
  // taken so once more as they lie in memory.
  virtual std::string refusal(const program::Problem& problem, const Question& question) const;

  // --- scheduling ---------------------------------------------------------------------------------------------------------------
  // The passes that take a program to a stage, in their order. Lowered: what is done before programs are tuned.
  virtual std::span<const ProgramPass> passes(program::Stage to) const;
  // Why a product should not compute rows of its left operand itself, as a node with its producer; empty when it should.
  virtual std::string producer_refusal(const program::Node& product) const;
  // Why a product should not have two right operands (program::Gemm::b2), as such a node; empty when it should.
  virtual std::string pair_refusal(const program::Node& product) const;
  // Why the template that computes a product or convolution should not leave sums of its columns (loop::StoreMode::Sum), as the node that
  // does; empty when it should.
  virtual std::string sums_refusal(const program::Node& node, const program::Program& p) const;
  // Why a product should not bring its sums to the other ranks itself, as a program::Meeting with a product; empty when it should.
  virtual std::string bringing_refusal(const program::Node& meeting) const;
  // What loops that can share one kernel have in common; empty for nodes that share none. And whether so many like this one can.
  virtual std::string foreach_key(const program::Node& node) const;
  virtual bool foreach_takes(const program::Node& node, size_t count) const;

  // --- tuning -------------------------------------------------------------------------------------------------------------------
  // Ways worth a trial to compute a node of a scheduled program (see tune::Choice), the most hopeful first, without the one that is taken
  // by default.
  virtual std::vector<program::Config> proposals(const program::Program& scheduled, size_t node) const;
  // Configurations of the same template one step away; `from` empty: away from what is taken by default.
  virtual std::vector<program::Config> neighbours(const program::Program& scheduled, size_t node, const program::Config& from) const;

 private:
  const Facts facts_;
};

// The one that takes nothing: everything becomes loops, and calls of reference kernels.
const Target& reference();

}  // namespace toroid::target
