#include "kernel_texts/corpus.h"

#include <functional>
#include <sstream>

#include "base/check.h"
#include "graph/random_graph.h"
#include "graph/recorder.h"
#include "ops/table.h"

namespace toroid::kernel_texts {
namespace {

constexpr uint64_t kRandomGraphs = 1800;

using Exprs = std::vector<Expr>;
using Tensors = std::vector<Tensor>;

Tensor on(const char* op, CallArgs args) { return ops::call1(op, std::move(args)); }

struct Shape {
  const char* name;
  std::vector<Exprs> inputs;  // a dtype that is not the graph's own is said by `positions`
  std::function<Tensor(const Tensors&)> build;
};

Tensor mlp(const Tensors& x) {
  return on("add.Tensor", {on("linear", {on("gelu", {on("linear", {x[0], x[1], x[2]})}), x[3], x[4]}), x[0]});
}

Tensor gated(const Tensors& x) { return on("mul.Tensor", {on("silu", {on("linear", {x[0], x[1]})}), on("linear", {x[0], x[2]})}); }

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (int64_t rows : {1, 4, 64, 257, 2048}) {
    out.push_back({"linear", {{rows, 1024}, {1536, 1024}, {1536}}, [](const Tensors& x) { return on("linear", {x[0], x[1], x[2]}); }});
    out.push_back({"gated", {{rows, 512}, {768, 512}, {768, 512}}, gated});
    out.push_back({"mlp", {{rows, 256}, {1024, 256}, {1024}, {256, 1024}, {256}}, mlp});
    out.push_back({"normed linear", {{rows, 512}, {512}, {512}, {384, 512}}, [](const Tensors& x) {
                     return on("linear", {on("layer_norm", {x[0], Exprs{512}, x[1], x[2]}), x[3]});
                   }});
  }
  for (int64_t keys : {1, 17, 128, 1024}) {
    const auto attend = [](bool causal) {
      return [causal](const Tensors& x) { return on("scaled_dot_product_attention", {x[0], x[1], x[2], std::monostate{}, 0.0, causal}); };
    };
    out.push_back({"decode", {{2, 8, 1, 64}, {2, 8, keys, 64}, {2, 8, keys, 64}}, attend(false)});
    out.push_back({"prefill", {{1, 4, keys, 128}, {1, 4, keys, 128}, {1, 4, keys, 128}}, attend(true)});
  }
  for (int64_t side : {7, 14, 56})
    for (int64_t kernel : {1, 3})
      for (int64_t stride : {1, 2})
        out.push_back({"convolution", {{2, 64, side, side}, {128, 64, kernel, kernel}, {128}}, [kernel, stride](const Tensors& x) {
                         return on("relu", {on("conv2d", {x[0], x[1], x[2], Exprs{stride, stride}, Exprs{kernel / 2, kernel / 2}})});
                       }});
  out.push_back({"depthwise", {{1, 96, 28, 28}, {96, 1, 3, 3}}, [](const Tensors& x) {
                   return on("conv2d", {x[0], x[1], std::monostate{}, Exprs{1, 1}, Exprs{1, 1}, Exprs{1, 1}, Expr(96)});
                 }});
  out.push_back({"softmax", {{64, 4099}}, [](const Tensors& x) { return on("softmax.int", {x[0], Expr(-1)}); }});
  out.push_back({"sum of all", {{1031, 1024}}, [](const Tensors& x) { return on("sum", {on("sigmoid", {x[0]})}); }});
  out.push_back({"sums of columns", {{4096, 511}}, [](const Tensors& x) { return on("sum.dim_IntList", {x[0], Exprs{0}}); }});
  out.push_back({"scan", {{16, 5000}}, [](const Tensors& x) { return on("cumsum", {x[0], Expr(1)}); }});
  out.push_back({"batched", {{12, 65, 96}, {12, 96, 80}}, [](const Tensors& x) { return on("bmm", {x[0], x[1]}); }});
  out.push_back({"transposed", {{601, 907}}, [](const Tensors& x) {
                   return on("add.Tensor", {on("tanh", {on("permute", {x[0], Exprs{1, 0}})}), 0.5});
                 }});
  return out;
}

// The first operand is given by the caller; `frozen`: the others are parameters.
std::unique_ptr<graph::Graph> graph_of(const Shape& s, DType dtype, bool frozen) {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  Tensors x;
  for (auto& sizes : s.inputs) {
    const bool weight = frozen && !x.empty();
    x.push_back(recorder.proxy(g->add_input({dtype, sizes, {}}, weight ? graph::InputKind::Parameter : graph::InputKind::User,
                                            fmt::format("{}{}", weight ? "w" : "a", x.size()))));
  }
  DispatchScope scope(recorder);
  g->outputs.push_back({recorder.value_of(s.build(x)), {}, -1});
  return g;
}

graph::RandomGraphOptions options_of(uint64_t seed) {
  graph::RandomGraphOptions o;
  o.nodes = 4 + static_cast<int>(seed % 17);
  o.in_place = seed % 3 != 1;
  o.dynamic_sizes = seed % 4 == 2;
  o.mixed_dtypes = seed % 5 != 3;
  o.degenerate = seed % 7 == 4;
  return o;
}

}  // namespace

std::vector<Entry> draw() {
  std::vector<Entry> out;
  for (uint64_t seed = 1; seed <= kRandomGraphs; ++seed)
    out.push_back({fmt::format("random {}", seed), graph::to_string(*graph::random_graph(seed, options_of(seed)))});
  for (DType dtype : {DType::F32, DType::BF16, DType::F16})
    for (bool frozen : {false, true})
      for (auto& s : shapes()) {
        const auto g = graph_of(s, dtype, frozen);
        std::string name = fmt::format("{}, {}{}", s.name, name_of(dtype), frozen ? ", frozen" : "");
        for (auto& d : g->inputs[0].value->type.sizes) name += fmt::format(" {}", d.constant());
        out.push_back({std::move(name), graph::to_string(*g)});
      }
  return out;
}

std::string to_file(const std::vector<Entry>& entries) {
  std::string out;
  for (auto& e : entries) out += "== " + e.name + "\n" + e.text;
  return out;
}

std::vector<Entry> from_file(const std::string& file) {
  std::vector<Entry> out;
  std::istringstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      out.push_back({line.substr(3), ""});
    } else {
      TOROID_CHECK(!out.empty(), "the corpus begins with \"{}\", expected \"== name\"", line);
      out.back().text += line + "\n";
    }
  }
  return out;
}

}  // namespace toroid::kernel_texts
