#include "import/exported_program.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "import/exported_argument.h"
#include "import/treespec.h"

namespace toroid::import {
namespace {

constexpr int64_t kMaxSchemaMajor = 8, kMinSchemaMajor = 7;

struct InputRow {
  std::string_view tag;
  InputKind kind;
  std::string_view target;  // member that names it
};
constexpr InputRow kInputs[] = {{"user_input", InputKind::User, ""},
                                {"parameter", InputKind::Parameter, "parameter_name"},
                                {"buffer", InputKind::Buffer, "buffer_name"},
                                {"tensor_constant", InputKind::TensorConstant, "tensor_constant_name"},
                                {"custom_obj", InputKind::CustomObj, "custom_obj_name"},
                                {"token", InputKind::Token, ""},
                                {"constant_input", InputKind::ConstantInput, "name"}};

struct OutputRow {
  std::string_view tag;
  OutputKind kind;
  std::string_view target;
};
constexpr OutputRow kOutputs[] = {{"user_output", OutputKind::User, ""},
                                  {"loss_output", OutputKind::Loss, ""},
                                  {"buffer_mutation", OutputKind::BufferMutation, "buffer_name"},
                                  {"parameter_mutation", OutputKind::ParameterMutation, "parameter_name"},
                                  {"user_input_mutation", OutputKind::UserInputMutation, "user_input_name"},
                                  {"gradient_to_parameter", OutputKind::GradientToParameter, "parameter_name"},
                                  {"gradient_to_user_input", OutputKind::GradientToUserInput, "user_input_name"},
                                  {"token", OutputKind::Token, ""}};

// "model.py:116" from the last frame of a Python stack trace that is not PyTorch's own code.
std::string user_frame(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  for (size_t end = trace.size(); end > 0;) {
    const size_t at = trace.rfind(kFile, end - 1);
    if (at == trace.npos) break;
    const std::string_view rest = trace.substr(at + kFile.size(), 4096);
    const size_t quote = rest.find(kLine);
    if (quote != rest.npos) {
      std::string_view path = rest.substr(0, quote), line = rest.substr(quote + kLine.size());
      line = line.substr(0, line.find_first_not_of("0123456789"));
      const bool torch_code = path.starts_with("torch/") || path.find("/torch/") != path.npos;
      if (!torch_code) return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), line);
    }
    end = at;
  }
  return "";
}

// Path of the innermost module in "key,path,type;key,path,type".
std::string_view innermost_module(std::string_view stack) {
  stack = stack.substr(stack.rfind(';') + 1);
  if (stack.starts_with("_empty_nn_module_stack")) return "";  // what exporters write for nodes of no module
  stack = stack.substr(std::min(stack.size(), stack.find(',') + 1));
  return stack.substr(0, stack.find(','));
}

class ProgramReader {
 public:
  ProgramReader() : values_([this](const Json& g) { return graph(g); }) {}

  ExportedProgram program(const Json& root) {
    ExportedProgram out;
    version(root.at("schema_version"), out);
    if (const auto v = root.find("torch_version"); v && v->is_string()) out.torch_version = v->as_str();
    verifiers(root, out);
    const Json module = root.at("graph_module");
    out.graph = graph(module.at("graph"));
    signature(module.at("signature"), out);
    ranges(root.at("range_constraints"), out);
    leaf_names(module, out);
    return out;
  }

 private:
  static void version(const Json& version, ExportedProgram& out) {
    out.schema_major = version.at("major").as_int();
    out.schema_minor = version.at("minor").as_int();
    if (out.schema_major < kMinSchemaMajor || out.schema_major > kMaxSchemaMajor)
      version.refuse(fmt::format("schema version {}.{} is not supported; expected 8.x (PyTorch 2.5 or newer): export the model again",
                                 out.schema_major, out.schema_minor));
  }

  static void verifiers(const Json& root, ExportedProgram& out) {
    if (const auto list = root.find("verifiers"))
      for (size_t i = 0; i < list->size(); ++i) out.verifiers.emplace_back((*list)[i].as_str());
    else if (const auto dialect = root.find("dialect"))
      out.verifiers.emplace_back(dialect->as_str());
  }

  ExportedGraph graph(const Json& json) {
    ExportedGraph out;
    out.inputs = arguments(json.at("inputs"));
    out.outputs = arguments(json.at("outputs"));
    const Json nodes = json.at("nodes");
    out.nodes.reserve(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) out.nodes.push_back(node(nodes[i]));
    table(json, "tensor_values", out.tensor_values, [this](const Json& v) { return values_.tensor_meta(v); });
    table(json, "sym_int_values", out.sym_int_values, [this](const Json& v) { return values_.sym_int(v); });
    table(json, "sym_float_values", out.sym_float_values, [this](const Json& v) { return values_.sym_float(v); });
    table(json, "sym_bool_values", out.sym_bool_values, [this](const Json& v) { return values_.sym_bool(v); });
    if (const auto single = json.find("is_single_tensor_return"); single && !single->is_null())
      out.is_single_tensor_return = single->as_bool();
    return out;
  }

  std::vector<Argument> arguments(const Json& json) {
    std::vector<Argument> out;
    out.reserve(json.size());
    for (size_t i = 0; i < json.size(); ++i) out.push_back(values_.argument(json[i]));
    return out;
  }

  template <class T, class F>
  static void table(const Json& graph, std::string_view name, std::unordered_map<std::string, T>& out, F read) {
    const auto json = graph.find(name);
    if (!json || json->is_null()) return;
    out.reserve(json->size());
    for (size_t i = 0; i < json->size(); ++i)
      if (!out.emplace(json->key(i), read(json->value(i))).second) json->value(i).refuse("this name is given twice");
  }

  ExportedNode node(const Json& json) {
    ExportedNode out;
    out.target = json.at("target").as_str();
    if (const auto name = json.find("name"); name && !name->is_null()) out.name = name->as_str();
    const Json inputs = json.at("inputs");
    out.inputs.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Json input = inputs[i];
      NamedArgument& arg = out.inputs.emplace_back();
      arg.name = input.at("name").as_str();
      arg.arg = values_.argument(input.at("arg"));
      if (const auto kind = input.find("kind"); kind && !kind->is_null()) arg.is_keyword = kind->as_int() == 2;
    }
    out.outputs = arguments(json.at("outputs"));
    if (const auto metadata = json.find("metadata"); metadata && metadata->is_object()) {
      if (const auto trace = metadata->find("stack_trace"); trace && trace->is_string()) out.source = user_frame(trace->as_str());
      if (const auto stack = metadata->find("nn_module_stack"); stack && stack->is_string()) out.module = innermost_module(stack->as_str());
    }
    return out;
  }

  void signature(const Json& json, ExportedProgram& out) {
    const Json inputs = json.at("input_specs"), outputs = json.at("output_specs");
    for (size_t i = 0; i < inputs.size(); ++i) out.input_specs.push_back(input_spec(inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) out.output_specs.push_back(output_spec(outputs[i]));
    if (out.input_specs.size() != out.graph.inputs.size() || out.output_specs.size() != out.graph.outputs.size())
      json.refuse(fmt::format("{} input and {} output specs for a graph of {} inputs and {} outputs", out.input_specs.size(),
                              out.output_specs.size(), out.graph.inputs.size(), out.graph.outputs.size()));
  }

  InputSpec input_spec(const Json& json) {
    const JsonUnion u = read_union(json);
    for (const InputRow& row : kInputs) {
      if (row.tag != u.tag) continue;
      InputSpec out;
      out.kind = row.kind;
      if (!row.target.empty()) out.target = u.value.at(row.target).as_str();
      if (row.kind == InputKind::User)
        out.arg = values_.argument(u.value.at("arg"));
      else if (row.kind == InputKind::ConstantInput)
        out.arg = values_.argument(u.value.at("value"));
      else
        out.arg = named_tensor(u.value.at("arg"));
      if (row.kind == InputKind::Buffer) out.persistent = persistent(u.value);
      return out;
    }
    json.refuse(fmt::format("input spec \"{}\" is unknown", u.tag));
  }

  static bool persistent(const Json& buffer) {
    const auto flag = buffer.find("persistent");
    return !flag || flag->is_null() || flag->as_bool();
  }

  OutputSpec output_spec(const Json& json) {
    const JsonUnion u = read_union(json);
    for (const OutputRow& row : kOutputs) {
      if (row.tag != u.tag) continue;
      OutputSpec out;
      out.kind = row.kind;
      if (!row.target.empty()) out.target = u.value.at(row.target).as_str();
      out.arg = row.kind == OutputKind::User ? values_.argument(u.value.at("arg")) : named_tensor(u.value.at("arg"));
      return out;
    }
    json.refuse(fmt::format("output spec \"{}\" is unknown", u.tag));
  }

  // Unbounded is null, an infinite number, or the ends of the 64-bit range, by version.
  static std::optional<int64_t> bound(const Json::Found& json) {
    if (!json || json->is_null()) return std::nullopt;
    if (json->kind() == JsonKind::Double && std::isinf(json->as_double())) return std::nullopt;
    const int64_t value = json->as_int();
    constexpr int64_t kEdge = std::numeric_limits<int64_t>::max() - 2;
    if (value >= kEdge || value <= -kEdge) return std::nullopt;
    return value;
  }

  static void ranges(const Json& json, ExportedProgram& out) {
    for (size_t i = 0; i < json.size(); ++i) {
      const Json range = json.value(i);
      out.range_constraints[std::string(json.key(i))] = {bound(range.find("min_val")), bound(range.find("max_val"))};
    }
  }

  // The entry of the call graph with the empty path is the root module.
  static void leaf_names(const Json& module, ExportedProgram& out) {
    const auto calls = module.find("module_call_graph");
    if (!calls || calls->is_null()) return;
    for (size_t i = 0; i < calls->size(); ++i) {
      const Json entry = (*calls)[i];
      if (!entry.at("fqn").as_str().empty()) continue;
      const Json signature = entry.at("signature");
      if (signature.is_null()) return;
      std::vector<std::string> names;
      if (const auto list = signature.find("forward_arg_names"); list && !list->is_null())
        for (size_t k = 0; k < list->size(); ++k) names.emplace_back((*list)[k].as_str());
      out.input_names = input_leaf_names(signature.at("in_spec").as_str(), names, module.source());
      out.output_names = treespec_leaf_names(signature.at("out_spec").as_str(), module.source());
      for (std::string& name : out.output_names)
        name = name.empty() ? "output" : name[0] >= '0' && name[0] <= '9' ? "output." + name : name;
      return;
    }
  }

  ArgumentReader values_;
};

}  // namespace

const Argument* ExportedNode::find_input(std::string_view wanted) const {
  for (const NamedArgument& input : inputs)
    if (input.name == wanted) return &input.arg;
  return nullptr;
}

ExportedProgram parse_exported_program(const Json& root) { return ProgramReader().program(root); }

}  // namespace toroid::import
