// The program inside a PyTorch export archive: plain structs that mirror its JSON schema (major version 8).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "import/json.h"
#include "import/sym_expr_parser.h"
#include "toroid/dtype.h"

namespace toroid::import {

// The schema's own numbers for dtypes (not those of c10). fp8 and quantised ones have no DType.
std::optional<DType> dtype_from_scalar_type(int64_t number);
// "float8_e4m3fn" etc.; "ScalarType 77" for an unknown number.
std::string scalar_type_name(int64_t number);

enum class MemoryFormat : uint8_t { Unknown, Contiguous, ChannelsLast, ChannelsLast3d, Preserve };

// A size, stride or integer value: a number, or an expression with its text.
struct SymInt {
  int64_t value = 0;  // the number; for an expression its hint, if it has one
  bool is_expr = false;
  bool has_hint = false;
  std::string text;                    // of the expression
  std::shared_ptr<const SymAst> expr;  // null for a number

  bool is_int() const { return !is_expr; }
};

struct SymFloat {
  double value = 0;
  std::string text;
  std::shared_ptr<const SymAst> expr;  // null for a number
};

struct SymBool {
  bool value = false;
  std::string text;
  std::shared_ptr<const SymAst> expr;  // null for a constant
};

struct DeviceRef {
  std::string type;  // "cpu", "cuda", ...
  std::optional<int64_t> index;
};

// Dense tensors only; the reader refuses other layouts and dtypes that Toroid does not have.
struct TensorMeta {
  DType dtype = DType::F32;
  std::vector<SymInt> sizes, strides;
  SymInt storage_offset;  // always 0 in files of PyTorch 2.7 and older: do not trust it there
  DeviceRef device;
  bool requires_grad = false;
};

struct ExportedGraph;
struct Argument;

struct NoneArg {};
struct TensorArg {
  std::string name;
};
struct TensorsArg {
  std::vector<std::string> names;
};
struct OptionalTensorArg {
  std::optional<std::string> name;
};
struct OptionalTensorsArg {
  std::vector<std::optional<std::string>> names;
};
// Either the name of a value or a number.
template <class T>
struct SymRef {
  std::string name;  // empty: the number counts
  T value = {};

  bool is_name() const { return !name.empty(); }
};
using SymIntArg = SymRef<int64_t>;
using SymFloatArg = SymRef<double>;
using SymBoolArg = SymRef<bool>;
// Kept as its number: an argument of an unsupported dtype is refused by whoever uses it.
struct ScalarTypeArg {
  int64_t number = 0;
};
struct LayoutArg {
  int64_t number = 0;  // 7 is dense
};
struct GraphArg {
  std::string name;
  std::shared_ptr<const ExportedGraph> graph;
};
struct CustomObjArg {
  std::string name, class_fqn;
};
struct OperatorArg {
  std::string name;
};
struct ComplexArg {
  double real = 0, imag = 0;
};
struct NestedTensorsArg {
  std::vector<std::vector<std::string>> names;
};
struct DictArg {
  std::vector<std::pair<std::string, Argument>> items;
};

using ArgumentValue = std::variant<NoneArg, TensorArg, TensorsArg, OptionalTensorArg, OptionalTensorsArg, int64_t, std::vector<int64_t>,
                                   double, std::vector<double>, std::string, std::vector<std::string>, bool, std::vector<bool>, SymIntArg,
                                   std::vector<SymIntArg>, SymFloatArg, std::vector<SymFloatArg>, SymBoolArg, std::vector<SymBoolArg>,
                                   ScalarTypeArg, MemoryFormat, LayoutArg, DeviceRef, GraphArg, CustomObjArg, OperatorArg, ComplexArg,
                                   NestedTensorsArg, std::vector<std::vector<int64_t>>, std::vector<std::vector<double>>, DictArg>;

struct Argument {
  ArgumentValue value;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value);
  }
  // nullptr when it is something else.
  template <class T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  // The schema's tag: "as_tensor", "as_sym_ints", ...
  std::string_view tag() const;
};

struct NamedArgument {
  std::string name;  // empty for the operands of higher-order operators
  Argument arg;
  bool is_keyword = false;  // false too where the file does not say (2.6)
};

struct ExportedNode {
  std::string target;  // "torch.ops.aten.add.Tensor"
  std::string name;    // empty where the file does not say (2.6)
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string source;  // last user-code line of the stack trace: "model.py:116"; may be empty
  std::string module;  // innermost module path: "encoder.layer.0"; may be empty

  // nullptr when the file leaves the argument at its default.
  const Argument* find_input(std::string_view name) const;
};

// Names are unique within one graph; a sub-graph has its own scope.
struct ExportedGraph {
  std::vector<Argument> inputs, outputs;
  std::vector<ExportedNode> nodes;
  std::unordered_map<std::string, TensorMeta> tensor_values;
  std::unordered_map<std::string, SymInt> sym_int_values;
  std::unordered_map<std::string, SymFloat> sym_float_values;
  std::unordered_map<std::string, SymBool> sym_bool_values;
  bool is_single_tensor_return = false;  // of sub-graphs
};

enum class InputKind : uint8_t { User, Parameter, Buffer, TensorConstant, CustomObj, Token, ConstantInput };
struct InputSpec {
  InputKind kind = InputKind::User;
  Argument arg;             // graph-side value; the literal of a ConstantInput
  std::string target;       // name of the parameter, buffer, constant, object or baked-in input
  bool persistent = false;  // of buffers
};

enum class OutputKind : uint8_t {
  User,
  Loss,
  BufferMutation,
  ParameterMutation,
  UserInputMutation,
  GradientToParameter,
  GradientToUserInput,
  Token
};
struct OutputSpec {
  OutputKind kind = OutputKind::User;
  Argument arg;
  std::string target;  // buffer, parameter or user input that is meant
};

// Bounds of a symbol; nothing means unbounded.
struct SymbolRange {
  std::optional<int64_t> min, max;
};

struct ExportedProgram {
  int64_t schema_major = 0, schema_minor = 0;
  std::string torch_version;
  std::vector<std::string> verifiers;  // "TRAINING": may hold views and in-place operators; "ATEN": functional
  ExportedGraph graph;
  std::vector<InputSpec> input_specs;    // parallel to graph.inputs
  std::vector<OutputSpec> output_specs;  // parallel to graph.outputs
  std::map<std::string, SymbolRange> range_constraints;
  // Of the root module: one name for each leaf of (args, kwargs) and of the result, such as "input_ids", "past.0", "logits".
  // May be empty, or fewer than the specs, where the file has no tree.
  std::vector<std::string> input_names, output_names;
};

// Throws UserError with the path inside the JSON for what is missing, of a wrong kind, or unsupported.
// Unknown members are ignored: minor versions only add.
ExportedProgram parse_exported_program(const Json& root);

}  // namespace toroid::import
