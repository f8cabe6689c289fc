// Guards: what must hold of the arguments of a call for a compiled variant to be right, checked in nanoseconds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/autocast.h"
#include "trace/sizes.h"

namespace toroid::front {

// What tells one argument tensor from another. Sizes are numbers, or symbols that must be equal wherever they appear.
class Guards {
 public:
  Guards() = default;
  // Guards of a graph whose user inputs stand for `tensors`: positions[i] is the user input of argument i, -1 for an undefined tensor.
  // names: one for each argument. no_overlap: some input is written, so that no two different inputs may share memory. Requirements of
  // operations are guards, too: at other sizes another trace ends with the operation's error, or takes the way that the function has for
  // it.
  Guards(const graph::Graph& g, std::span<const Tensor* const> tensors, std::vector<int> positions, std::vector<std::string> names,
         bool no_overlap);
  // Tensor i may have any strides: the program makes it dense.
  void open_layout(size_t i) { tensors_[i].layout = Layout::Any; }
  // The program is the same for tensors that require gradients and others.
  void ignore_requires_grad() { any_requires_grad_ = true; }

  // Open sizes that the function has made numbers: reports say why.
  void note_fixed(std::vector<trace::FixedSize> fixed) { fixed_ = std::move(fixed); }

  bool hold(std::span<const Tensor* const> tensors) const noexcept;
  // The guards that do not hold: "input 0 (x): size of dimension 1 was 8, is 9". One that only has a meaning where others hold is left
  // out where they do not.
  std::vector<std::string> failures(std::span<const Tensor* const> tensors) const;
  // One line a guard.
  std::vector<std::string> describe() const;

 private:
  // One step of the value of an expression, in postfix order.
  struct Step {
    enum Kind : uint8_t { Number, Symbol, Add, Mul, FloorDiv, Mod, Min, Max } kind;
    int64_t value = 0;  // Number: it; Symbol: which
  };
  struct Condition {
    sym::Rel rel;
    std::vector<Step> a, b;
    std::string text;
  };
  enum class Layout : uint8_t { RowMajor, Strided, Any };
  struct TensorGuard {
    bool defined = true;
    DType dtype = DType::F32;
    Device device;
    bool requires_grad = false;
    Layout layout = Layout::RowMajor;
    uint32_t rank = 0, first = 0;  // first: of its dimensions in the two arrays below
    int same_as = -1;              // an earlier argument that must be the same tensor
    bool fixed = true;             // no size is a symbol
  };
  struct Dimension {
    int64_t size = 0;  // a number, when symbol < 0
    int symbol = -1;
    bool binds = false;  // the first appearance of the symbol
  };
  struct Symbol {
    std::string name, what;
    int64_t lo = 0, hi = 0;
  };

  std::string why_fixed(const std::string& what) const;
  int symbol_of(const Expr& e);
  bool is_bound(const Expr& e) const;
  void append(std::vector<Step>& steps, const Expr& e);
  static int64_t value(const std::vector<Step>& steps, const int64_t* symbols);
  bool bind(std::span<const Tensor* const> tensors, int64_t* symbols) const;
  bool tensor_holds(const TensorGuard& g, std::span<const Tensor* const> tensors, size_t i) const noexcept;
  void tensor_failures(std::span<const Tensor* const> tensors, size_t i, std::vector<std::string>& out) const;
  void size_failures(std::span<const Tensor* const> tensors, std::vector<std::string>& out) const;
  bool overlaps(std::span<const Tensor* const> tensors, size_t* first, size_t* second) const noexcept;

  std::vector<TensorGuard> tensors_;
  std::vector<Dimension> dimensions_;
  std::vector<int64_t> sizes_, strides_;  // parallel to dimensions_: of the tensors at hand
  std::vector<Symbol> symbols_;
  std::vector<Condition> conditions_;
  std::vector<std::string> names_;
  std::vector<trace::FixedSize> fixed_;
  bool no_overlap_ = false, any_requires_grad_ = false;
};

// What a trace depends on besides its arguments and options.
struct Surroundings {
  Device device;  // where new tensors are made
  ops::AutocastStates autocast;

  static Surroundings now() { return {default_device(), ops::autocast_states()}; }
  bool operator==(const Surroundings&) const = default;
  // What has changed: "autocast on cpu was off, is bf16".
  std::string change(const Surroundings& now) const;
};

// Whether two tensors have bytes in common, judged by the ranges of memory that they span.
bool share_memory(const Tensor& a, const Tensor& b);
// Whether any two of them do.
bool some_share_memory(std::span<const Tensor* const> tensors);

}  // namespace toroid::front
