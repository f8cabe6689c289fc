// Small programs of torch.export, written by hand.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>

#include "graph/graph.h"
#include "import/pt2_importer.h"
#include "import/zip_builder.h"
#include "toroid/error.h"
#include "toroid/tensor.h"

namespace toroid::import {

inline const std::string kOfStorage =
    R"("requires_grad":false,"device":{"type":"cpu","index":null},"storage_offset":{"as_int":0},"layout":7})";
inline std::string meta(const std::string& sizes, int rank, int dtype = 7) {
  std::string strides;
  for (int i = 0; i < rank; ++i) strides += std::string(i ? "," : "") + R"({"as_int":1})";
  return fmt::format(R"({{"dtype":{},"sizes":[{}],"strides":[{}],)", dtype, sizes, strides) + kOfStorage;
}
inline std::string int_size(int n) { return fmt::format(R"({{"as_int":{}}})", n); }
inline std::string expr_size(const std::string& text, int hint) {
  return fmt::format(R"j({{"as_expr":{{"expr_str":"{}","hint":{{"as_int":{}}}}}}})j", text, hint);
}
inline const std::string kS0 = "Symbol('s0', positive=True, integer=True)";

struct Program {
  std::string nodes, values, output = "y", ranges, sym_ints, sym_floats, verifier = "ATEN";

  std::unique_ptr<graph::Graph> load() const {
    std::string json = R"({"schema_version":{"major":8,"minor":20},"verifiers":[")" + verifier +
                       R"("],"torch_version":"2.14","range_constraints":{)" + ranges +
                       R"(},"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":")" + output +
                       R"("}}],"nodes":[)" + nodes + R"(],"tensor_values":{)" + values + R"(},"sym_int_values":{)" + sym_ints +
                       R"(},"sym_float_values":{)" + sym_floats +
                       R"(},"sym_bool_values":{}},"signature":{"input_specs":[{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],)" +
                       R"("output_specs":[{"user_output":{"arg":{"as_tensor":{"name":")" + output + R"("}}}}]},"module_call_graph":[]}})";
    bytes_ = ZipBuilder{}.build({{"net/archive_format", "pt2"},
                                 {"net/byteorder", "little"},
                                 {"net/models/model.json", json},
                                 {"net/data/weights/model_weights_config.json", R"({"config":{}})"}});
    return import_pt2(std::make_shared<Pt2Archive>(Pt2Archive::from_bytes(std::as_bytes(std::span(bytes_)), "net.pt2")));
  }
  std::string error() const {
    try {
      load();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  mutable std::string bytes_;
};

inline std::string node(const std::string& target, const std::string& inputs, const std::string& output, const std::string& name = "n") {
  return R"({"target":"torch.ops.aten.)" + target + R"(","inputs":[)" + inputs + R"(],"outputs":[)" + output +
         R"(],"metadata":{},"name":")" + name + "\"}";
}
inline std::string arg(const std::string& name, const std::string& value) {
  return R"({"name":")" + name + R"(","arg":)" + value + R"(,"kind":1})";
}
inline std::string tensor_arg(const std::string& name) { return R"({"as_tensor":{"name":")" + name + R"("}})"; }

inline Program scaled() {
  Program p;
  p.nodes = node("mul.Tensor", arg("self", tensor_arg("x")) + "," + arg("other", R"({"as_float":2.5})"), tensor_arg("y"));
  p.values = R"("x":)" + meta(int_size(3), 1) + R"(,"y":)" + meta(int_size(3), 1);
  return p;
}

inline void expect_near(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.sizes(), expected.sizes());
  auto g = got.to_vector(), e = expected.to_vector();
  for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], e[i], 1e-5 * (1 + std::abs(e[i]))) << "element " << i;
}

}  // namespace toroid::import
