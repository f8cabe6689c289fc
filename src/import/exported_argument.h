// The leaves of an exported program's JSON: arguments, tensor metas, symbolic values.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "import/exported_program.h"
#include "import/json.h"

namespace toroid::import {

// A JSON object with exactly one member: its tag and its value. UserError otherwise.
struct JsonUnion {
  std::string_view tag;
  Json value;
};
JsonUnion read_union(const Json& value);

// Reads arguments and values; equal expressions share one tree.
class ArgumentReader {
 public:
  // Sub-graphs of higher-order operators are read by `read_graph`.
  explicit ArgumentReader(std::function<ExportedGraph(const Json&)> read_graph) : read_graph_(std::move(read_graph)) {}

  Argument argument(const Json& value);
  TensorMeta tensor_meta(const Json& value);
  SymInt sym_int(const Json& value);
  SymFloat sym_float(const Json& value);
  SymBool sym_bool(const Json& value);

 private:
  ArgumentValue read(const JsonUnion& arg);
  std::shared_ptr<const SymAst> expression(const Json& sym_expr, std::string& text);

  std::function<ExportedGraph(const Json&)> read_graph_;
  std::unordered_map<std::string, std::shared_ptr<const SymAst>> expressions_;
};

// {"name": n} as an argument.
Argument named_tensor(const Json& value);

}  // namespace toroid::import
