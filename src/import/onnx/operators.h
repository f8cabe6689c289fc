// What the import of one ONNX operator sees of its node, and the table of all operators.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "import/onnx/tensors.h"
#include "ops/table.h"

namespace toroid::import::onnx {

class GraphBuilder;
struct Scope;

// Sizes of a tensor, or whole numbers that are expressions of them. Models may have tensors of fewer dimensions than an operator reads:
// that is a UserError.
class Sizes : public std::vector<Expr> {
 public:
  using std::vector<Expr>::vector;
  Sizes(std::vector<Expr> v) : std::vector<Expr>(std::move(v)) {}  // NOLINT: the same
  Expr& operator[](size_t d) { return need(d), std::vector<Expr>::operator[](d); }
  const Expr& operator[](size_t d) const { return need(d), std::vector<Expr>::operator[](d); }
  Expr& back() { return (*this)[size() - 1]; }
  const Expr& back() const { return (*this)[size() - 1]; }

 private:
  void need(size_t d) const;
};

// One node on its way into the graph. What the node lacks or has otherwise than it should is a UserError; whoever calls the import
// function adds the node's name.
class OpCall {
 public:
  OpCall(GraphBuilder& builder, Scope& scope, const NodeProto& node, int64_t version)
      : builder_(builder), scope_(scope), node_(node), version_(version) {}

  const NodeProto& node() const { return node_; }
  // The version of the operator's domain that the model was written for.
  int64_t version() const { return version_; }

  // ---- inputs
  size_t count() const { return node_.inputs.size(); }
  bool has(size_t i) const;
  Tensor in(size_t i);
  Tensor opt(size_t i) { return has(i) ? in(i) : Tensor(); }
  std::vector<Tensor> all();
  // Of any kind; absent ones are undefined tensors.
  Item item(size_t i) const;
  std::vector<Tensor> sequence(size_t i) const;

  // ---- attributes
  bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;  // empty when absent
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const Attribute* attribute(std::string_view name) const;
  // Attributes that change no result here.
  void ignore(std::initializer_list<std::string_view> names) { read_.insert(read_.end(), names.begin(), names.end()); }
  // UserError for an attribute that nobody asked for: it may change what the operator means.
  void check_attributes() const;
  Tensor tensor(std::string_view name) const;
  const GraphProto& graph(std::string_view name) const;

  // ---- contents of inputs that have to be known when compiling
  // Whole numbers, which may be expressions of sizes of the program's inputs.
  Sizes sizes(size_t i);
  std::vector<int64_t> numbers(size_t i);
  std::vector<double> real_numbers(size_t i);
  // The only one that input i holds.
  Expr size(size_t i);
  int64_t number(size_t i);
  double real_number(size_t i);
  Tensor contents(size_t i);
  // Nothing when they are not constant.
  std::optional<Tensor> constant(size_t i);
  std::optional<Tensor> constant(const Tensor& t);

  // ---- results
  size_t results() const { return node_.outputs.size(); }
  bool wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  void set(size_t i, Item item);

  // Sizes that must agree: UserError where they cannot, a guard where that depends on the inputs.
  void require_equal(const Expr& a, const Expr& b, std::string_view what);

  GraphBuilder& builder() { return builder_; }
  Scope& scope() { return scope_; }

 private:
  GraphBuilder& builder_;
  Scope& scope_;
  const NodeProto& node_;
  int64_t version_;
  mutable std::vector<std::string_view> read_;  // names of attributes, texts of the program
};

using ImportOp = void (*)(OpCall&);

// Operators by domain and name; each version of one stands for itself until the next.
class Operators {
 public:
  void add(std::string_view name, int64_t since, ImportOp run) { add("", name, since, run); }
  void add(std::string_view domain, std::string_view name, int64_t since, ImportOp run);
  // The operator as it was in a version of its domain; nullptr where there is none.
  ImportOp find(const std::string& domain, const std::string& name, int64_t version) const;
  // The first version that there is; 0 for an unknown name.
  int64_t first_version(const std::string& domain, const std::string& name) const;
  std::vector<std::string> near(const std::string& name) const;

  struct Listed {
    std::string domain, name;
    std::vector<int64_t> versions;  // of the domain, from which on it is another operator; ascending
  };
  // By domain (ONNX's own first) and name.
  std::vector<Listed> list() const;

 private:
  std::map<std::pair<std::string, std::string>, std::map<int64_t, ImportOp>> rows_;
};
const Operators& operators();

// Families of operators, one source file each.
void add_elementwise_operators(Operators& t);
void add_activation_operators(Operators& t);
void add_layout_operators(Operators& t);
void add_creation_operators(Operators& t);
void add_reduction_operators(Operators& t);
void add_matmul_operators(Operators& t);
void add_convolution_operators(Operators& t);
void add_pooling_operators(Operators& t);
void add_normalization_operators(Operators& t);
void add_indexing_operators(Operators& t);
void add_quantization_operators(Operators& t);
void add_recurrent_operators(Operators& t);
void add_resize_operators(Operators& t);
void add_loss_operators(Operators& t);
void add_signal_operators(Operators& t);
void add_control_flow_operators(Operators& t);
void add_attention_operators(Operators& t);
void add_selection_operators(Operators& t);
void add_sequence_operators(Operators& t);
void add_contrib_operators(Operators& t);

// ---- helpers of the families ------------------------------------------------------------------------------------------------------

template <class T>
Arg<Tensor> as_arg(const T& v) {
  if constexpr (std::is_same_v<T, bool>)
    return v;
  else if constexpr (std::is_integral_v<T>)
    return Expr(static_cast<int64_t>(v));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(v);
  else if constexpr (std::is_convertible_v<T, std::string_view>)
    return std::string(std::string_view(v));
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
    return std::vector<Expr>(v.begin(), v.end());
  else
    return v;
}
inline constexpr std::monostate kNone{};

// Calls an operation of the op table: op("add.Tensor", a, b).
template <class... A>
Tensor op(std::string_view name, const A&... args) {
  CallArgs list;
  (list.push_back(as_arg(args)), ...);
  return ops::call1(name, std::move(list));
}
template <class... A>
std::vector<Tensor> op_all(std::string_view name, const A&... args) {
  CallArgs list;
  (list.push_back(as_arg(args)), ...);
  return ops::call(name, std::move(list));
}

// The name of an operation as an argument of a template.
template <size_t N>
struct OpName {
  char text[N] = {};
  consteval OpName(const char (&s)[N]) {  // NOLINT: written as a text
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};
// The ONNX operator is that operation of its inputs.
template <OpName name>
void unary(OpCall& c) {
  c.set(0, op(name.text, c.in(0)));
}
template <OpName name>
void binary(OpCall& c) {
  c.set(0, op(name.text, c.in(0), c.in(1)));
}

Sizes sizes_of(const Tensor& t);
Expr numel_of(const Tensor& t);
inline int64_t rank_of(const Tensor& t) { return t.dim(); }
// A known size. UserError naming `what` where it is symbolic.
int64_t known_size(const Expr& e, std::string_view what);
std::vector<int64_t> known_sizes(const Tensor& t, std::string_view what);
// A size or place that was computed as a float. UserError unless it is a number that sizes can be.
int64_t whole_number(double v);
// UserError when out of range for the rank.
int64_t normal_axis(int64_t axis, int64_t rank);
std::vector<int64_t> normal_axes(std::vector<int64_t> axes, int64_t rank);
inline Tensor cast(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : op("to.dtype", t, dtype); }
inline Tensor reshape(const Tensor& t, const Sizes& sizes) { return op("reshape", t, sizes); }
Tensor permuted(const Tensor& t, const std::vector<int64_t>& order);
// Unsqueezes at the end until t has `rank` dimensions.
Tensor with_rank(Tensor t, int64_t rank);
// The activation that an operator of com.microsoft names in "activation" and "activation_params".
Tensor fused_activation(const OpCall& c, const Tensor& x);
// A list of whole numbers as a tensor of I64.
Tensor integer_tensor(const Sizes& values);
// A vector [n] so that it broadcasts along dimension `axis` of a tensor of `rank` dimensions.
Tensor along_axis(const Tensor& t, int64_t axis, int64_t rank);
// The first elements of each batch's sequence backwards; those after its length stay.
Tensor reversed_sequences(const Tensor& x, const Tensor& lengths, int64_t time, int64_t batch);
std::vector<int64_t> range(int64_t begin, int64_t end);

}  // namespace toroid::import::onnx
