// Tensors without elements or dimensions, family by family, as constants and as sizes that only the run tells: compiled = interpreted, and
// the values that PyTorch gives.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/options.h"
#include "front/compile_model.h"
#include "fuzz_compiled/differential.h"
#include "graph/interpreter.h"
#include "graph/random_graph.h"
#include "graph/recorder.h"
#include "import/load_model.h"
#include "import/safetensors.h"
#include "ops/table.h"

namespace toroid::fuzz {
namespace {

using Exprs = std::vector<Expr>;
using Tensors = std::vector<Tensor>;
using Ints = std::vector<int64_t>;
using graph::InputKind;
using ops::call;
using ops::call1;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// Names that start with "w" are constants, with "i" integers, with "m" bools. A size of 0 becomes a symbol of that value where sizes are
// dynamic.
struct In {
  const char* name;
  Ints sizes;
};
struct Case {
  const char* name;
  std::vector<In> inputs;
  Tensor (*build)(const Tensors&);
  Ints sizes;              // of the result
  double value = kNan;     // of each of its elements, where they are all alike
  bool computed = false;   // its elements differ, or depend on the inputs
  bool is_static = false;  // a size that is known to be 0 makes it valid
};

Tensor on(const char* op, CallArgs args) { return call1(op, std::move(args)); }
Exprs dims(std::initializer_list<int64_t> list) { return Exprs(list.begin(), list.end()); }
constexpr std::monostate kNone{};

// clang-format off
const std::vector<Case>& products() {
  static const std::vector<Case> list = {
      {"mm, k = 0", {{"a", {3, 0}}, {"b", {0, 5}}}, [](const Tensors& x) { return on("mm", {x[0], x[1]}); }, {3, 5}, 0},
      {"mm, no rows", {{"a", {0, 4}}, {"b", {4, 5}}}, [](const Tensors& x) { return on("mm", {x[0], x[1]}); }, {0, 5}},
      {"mm, no columns", {{"a", {3, 4}}, {"b", {4, 0}}}, [](const Tensors& x) { return on("mm", {x[0], x[1]}); }, {3, 0}},
      {"bmm, k = 0", {{"a", {2, 3, 0}}, {"b", {2, 0, 5}}}, [](const Tensors& x) { return on("bmm", {x[0], x[1]}); }, {2, 3, 5}, 0},
      {"bmm, no batch", {{"a", {0, 3, 4}}, {"b", {0, 4, 5}}}, [](const Tensors& x) { return on("bmm", {x[0], x[1]}); }, {0, 3, 5}},
      {"matmul of vectors", {{"a", {0}}, {"b", {0}}}, [](const Tensors& x) { return on("matmul", {x[0], x[1]}); }, {}, 0},
      {"linear, k = 0", {{"a", {3, 0}}, {"w0", {4, 0}}}, [](const Tensors& x) { return on("exp", {on("linear", {x[0], x[1]})}); }, {3, 4}, 1, false, true},
      {"linear, k = 0, with a bias", {{"a", {3, 0}}, {"b", {4, 0}}, {"c", {4}}}, [](const Tensors& x) { return on("relu", {on("linear", {x[0], x[1], x[2]})}); }, {3, 4}, 0, true},
      {"linear, no rows", {{"a", {2, 0, 8}}, {"w0", {16, 8}}, {"w1", {16}}}, [](const Tensors& x) { return on("gelu", {on("linear", {x[0], x[1], x[2]})}); }, {2, 0, 16}},
      {"two linears of one input", {{"a", {0, 8}}, {"w0", {16, 8}}, {"w1", {16, 8}}}, [](const Tensors& x) { return on("mul.Tensor", {on("linear", {x[0], x[1]}), on("linear", {x[0], x[2]})}); }, {0, 16}},
      {"addmm, k = 0", {{"a", {3, 0}}, {"b", {0, 5}}}, [](const Tensors& x) { return on("addmm", {on("full", {dims({5}), 2.0, x[0].dtype()}), x[0], x[1], 0.5}); }, {3, 5}, 1},
      {"einsum, k = 0", {{"a", {2, 0, 3}}, {"b", {0, 4}}}, [](const Tensors& x) { return on("einsum", {std::string("bki,kj->bij"), Tensors{x[0], x[1]}}); }, {2, 3, 4}, 0},
  };
  return list;
}

const std::vector<Case>& convolutions() {
  static const std::vector<Case> list = {
      {"conv2d, no batch", {{"a", {0, 8, 9, 9}}, {"w0", {16, 8, 3, 3}}, {"w1", {16}}}, [](const Tensors& x) { return on("relu", {on("conv2d", {x[0], x[1], x[2], dims({2, 2})})}); }, {0, 16, 4, 4}},
      {"conv2d, weights given, no batch", {{"a", {0, 3, 9, 9}}, {"b", {4, 3, 3, 3}}}, [](const Tensors& x) { return on("conv2d", {x[0], x[1]}); }, {0, 4, 7, 7}},
      {"depthwise, no batch", {{"a", {0, 8, 9, 9}}, {"w0", {8, 1, 3, 3}}}, [](const Tensors& x) { return on("conv2d", {x[0], x[1], kNone, dims({1, 1}), dims({1, 1}), dims({1, 1}), Expr(8)}); }, {0, 8, 9, 9}},
      {"conv1d, no batch", {{"a", {0, 8, 9}}, {"w0", {16, 8, 3}}}, [](const Tensors& x) { return on("conv1d", {x[0], x[1]}); }, {0, 16, 7}},
      {"conv3d, no batch", {{"a", {0, 3, 5, 5, 5}}, {"w0", {4, 3, 3, 3, 3}}}, [](const Tensors& x) { return on("conv3d", {x[0], x[1]}); }, {0, 4, 3, 3, 3}},
      {"transposed, no batch", {{"a", {0, 4, 5, 5}}, {"w0", {4, 3, 3, 3}}}, [](const Tensors& x) { return on("conv_transpose2d.input", {x[0], x[1], kNone, dims({2, 2})}); }, {0, 3, 11, 11}},
      {"max pool, no batch", {{"a", {0, 3, 8, 8}}}, [](const Tensors& x) { return on("max_pool2d", {x[0], dims({2, 2})}); }, {0, 3, 4, 4}},
      {"average pool, no batch", {{"a", {0, 3, 8, 8}}}, [](const Tensors& x) { return on("avg_pool2d", {x[0], dims({2, 2})}); }, {0, 3, 4, 4}},
      {"adaptive pool, no batch", {{"a", {0, 3, 8, 8}}}, [](const Tensors& x) { return on("adaptive_avg_pool2d", {x[0], dims({3, 2})}); }, {0, 3, 3, 2}},
      {"resampling, no batch", {{"a", {0, 3, 4, 4}}}, [](const Tensors& x) { return on("upsample_bilinear2d", {x[0], dims({8, 7}), false}); }, {0, 3, 8, 7}},
      {"pixel shuffle, no batch", {{"a", {0, 4, 3, 3}}}, [](const Tensors& x) { return on("pixel_shuffle", {x[0], Expr(2)}); }, {0, 1, 6, 6}},
  };
  return list;
}

const std::vector<Case>& attentions() {
  static const auto build = [](const Tensors& x) { return on("scaled_dot_product_attention", {x[0], x[1], x[2]}); };
  static const std::vector<Case> list = {
      {"no keys", {{"a", {1, 2, 3, 8}}, {"b", {1, 2, 0, 8}}, {"c", {1, 2, 0, 8}}}, build, {1, 2, 3, 8}, 0},
      {"no queries", {{"a", {1, 2, 0, 8}}, {"b", {1, 2, 5, 8}}, {"c", {1, 2, 5, 8}}}, build, {1, 2, 0, 8}},
      {"no batch", {{"a", {0, 2, 3, 8}}, {"b", {0, 2, 5, 8}}, {"c", {0, 2, 5, 8}}}, build, {0, 2, 3, 8}},
      {"no heads", {{"a", {2, 0, 3, 8}}, {"b", {2, 0, 5, 8}}, {"c", {2, 0, 5, 8}}}, build, {2, 0, 3, 8}},
      {"no values", {{"a", {1, 2, 3, 8}}, {"b", {1, 2, 5, 8}}, {"c", {1, 2, 5, 0}}}, build, {1, 2, 3, 0}, kNan, false, true},
      {"no depth", {{"a", {1, 2, 3, 0}}, {"b", {1, 2, 5, 0}}, {"c", {1, 2, 5, 4}}}, build, {1, 2, 3, 4}, 0, true, true},
      {"causal without queries", {{"a", {1, 2, 0, 8}}}, [](const Tensors& x) { return on("scaled_dot_product_attention", {x[0], x[0], x[0], kNone, 0.0, true}); }, {1, 2, 0, 8}},
      {"masked without keys", {{"a", {1, 2, 3, 8}}, {"b", {1, 2, 0, 8}}, {"m", {3, 0}}}, [](const Tensors& x) { return on("scaled_dot_product_attention", {x[0], x[1], x[1], x[2]}); }, {1, 2, 3, 8}, 0},
  };
  return list;
}

const std::vector<Case>& reductions() {
  static const std::vector<Case> list = {
      {"largest of a softmax, no rows", {{"a", {0, 4}}}, [](const Tensors& x) { return on("amax", {on("softmax.int", {x[0], Expr(1)}), dims({1})}); }, {0}},
      {"multilabel_margin_loss, no rows", {{"a", {0, 3}}, {"i", {0, 3}}}, [](const Tensors& x) { return on("multilabel_margin_loss", {x[0], x[1], Expr(0)}); }, {0}},
      {"multilabel_margin_loss, no rows, mean", {{"a", {0, 3}}, {"i", {0, 3}}}, [](const Tensors& x) { return on("multilabel_margin_loss", {x[0], x[1], Expr(1)}); }, {}, kNan},
      {"gelu_backward, no rows", {{"a", {0, 3}}, {"b", {0, 3}}}, [](const Tensors& x) { return on("gelu_backward", {x[0], x[1]}); }, {0, 3}},
      {"sum", {{"a", {3, 0}}}, [](const Tensors& x) { return on("sum.dim_IntList", {x[0], dims({1})}); }, {3}, 0},
      {"mean", {{"a", {3, 0}}}, [](const Tensors& x) { return on("mean.dim", {x[0], dims({1}), true}); }, {3, 1}, kNan, true},
      {"mean of all", {{"a", {0}}}, [](const Tensors& x) { return on("mean", {x[0]}); }, {}, kNan, true},
      {"product", {{"a", {0, 3}}}, [](const Tensors& x) { return on("prod.dim_int", {x[0], Expr(0)}); }, {3}, 1},
      {"variance", {{"a", {0, 3}}}, [](const Tensors& x) { return on("var.correction", {x[0], dims({0}), Expr(1)}); }, {3}, kNan, true},
      {"norm", {{"a", {3, 0}}}, [](const Tensors& x) { return on("linalg_vector_norm", {x[0], 2.0, dims({1})}); }, {3}, 0},
      {"logsumexp", {{"a", {3, 0}}}, [](const Tensors& x) { return on("logsumexp", {x[0], dims({1})}); }, {3}, -kInfinity},
      {"count", {{"a", {3, 0}}}, [](const Tensors& x) { return on("count_nonzero.dim_IntList", {x[0], dims({1})}); }, {3}, 0},
      {"any", {{"m", {3, 0}}}, [](const Tensors& x) { return on("any.dim", {x[0], Expr(1)}); }, {3}, 0},
      {"all", {{"m", {3, 0}}}, [](const Tensors& x) { return on("all.dim", {x[0], Expr(1)}); }, {3}, 1},
      {"maximum beside nothing", {{"a", {0, 3}}}, [](const Tensors& x) { return on("amax", {x[0], dims({1})}); }, {0}},
      {"position beside nothing", {{"a", {0, 3}}}, [](const Tensors& x) { return on("argmax", {x[0], Expr(1)}); }, {0}},
      {"softmax", {{"a", {3, 0}}}, [](const Tensors& x) { return on("softmax.int", {x[0], Expr(1)}); }, {3, 0}},
      {"softmax beside nothing", {{"a", {0, 3}}}, [](const Tensors& x) { return on("softmax.int", {x[0], Expr(1)}); }, {0, 3}},
      {"layer norm of nothing", {{"a", {3, 0}}}, [](const Tensors& x) { return on("layer_norm", {x[0], dims({0})}); }, {3, 0}, kNan, false, true},
      {"layer norm beside nothing", {{"a", {0, 8}}, {"w0", {8}}, {"w1", {8}}}, [](const Tensors& x) { return on("layer_norm", {x[0], dims({8}), x[1], x[2]}); }, {0, 8}},
      {"group norm, no batch", {{"a", {0, 4, 3}}}, [](const Tensors& x) { return on("group_norm", {x[0], Expr(2)}); }, {0, 4, 3}},
      {"sum of a number", {{"a", {}}}, [](const Tensors& x) { return on("sum.dim_IntList", {x[0], dims({-1})}); }, {}, 0, true},
      {"running sum of nothing", {{"a", {3, 0}}}, [](const Tensors& x) { return on("cumsum", {x[0], Expr(1)}); }, {3, 0}},
      {"running maximum of a number", {{"a", {}}}, [](const Tensors& x) { return call("cummax", {x[0], Expr(0)})[0]; }, {}, 0, true},
      {"sort of nothing", {{"a", {3, 0}}}, [](const Tensors& x) { return call("sort", {x[0], Expr(1)})[1]; }, {3, 0}},
      {"sort beside nothing", {{"a", {0, 3}}}, [](const Tensors& x) { return call("sort", {x[0], Expr(1)})[0]; }, {0, 3}},
      {"sort of a number", {{"a", {}}}, [](const Tensors& x) { return call("sort", {x[0], Expr(0)})[1]; }, {}, 0},
      {"none of the largest", {{"a", {3, 5}}}, [](const Tensors& x) { return call("topk", {x[0], Expr(0), Expr(1)})[0]; }, {3, 0}},
  };
  return list;
}

const std::vector<Case>& indices() {
  static const std::vector<Case> list = {
      {"vector gathered by an empty matrix", {{"a", {5}}, {"i", {2, 0}}}, [](const Tensors& x) { return on("gather", {x[0], Expr(0), x[1]}); }, {2, 0}, kNan, false, true},
      {"matrix gathered by an empty vector", {{"a", {5, 3}}, {"i", {0}}}, [](const Tensors& x) { return on("gather", {x[0], Expr(1), x[1]}); }, {0}, kNan, false, true},
      {"nothing gathered by nothing", {{"a", {0, 3}}, {"i", {0, 2}}}, [](const Tensors& x) { return on("gather", {x[0], Expr(1), x[1]}); }, {0, 2}},
      {"scatter of nothing", {{"a", {5}}, {"i", {2, 0}}, {"b", {2, 0}}}, [](const Tensors& x) { return on("scatter.src", {on("ones_like", {x[0]}), Expr(0), x[1], x[2]}); }, {5}, 1, false, true},
      {"scatter add of nothing", {{"a", {5, 3}}, {"i", {0}}, {"b", {0}}}, [](const Tensors& x) { return on("scatter_add", {on("ones_like", {x[0]}), Expr(0), x[1], x[2]}); }, {5, 3}, 1, false, true},
      {"scatter of a number into nothing", {{"a", {0, 3}}, {"i", {0, 3}}}, [](const Tensors& x) { return on("scatter.value", {x[0], Expr(0), x[1], Expr(1)}); }, {0, 3}},
      {"scatter reduce of nothing", {{"a", {5}}, {"i", {2, 0}}, {"b", {2, 0}}}, [](const Tensors& x) { return on("scatter_reduce.two", {on("ones_like", {x[0]}), Expr(0), x[1], x[2], std::string("amax")}); }, {5}, 1, false, true},
      {"index", {{"a", {5, 3}}, {"i", {0}}}, [](const Tensors& x) { return on("index.Tensor", {x[0], Tensors{x[1]}}); }, {0, 3}},
      {"index of nothing else", {{"a", {5, 0}}, {"i", {2}}}, [](const Tensors& x) { return on("index.Tensor", {x[0], Tensors{x[1]}}); }, {2, 0}},
      {"index put", {{"a", {5, 3}}, {"i", {0}}, {"b", {0, 3}}}, [](const Tensors& x) { return on("index_put", {on("ones_like", {x[0]}), Tensors{x[1]}, x[2]}); }, {5, 3}, 1},
      {"index put of one value at no place", {{"a", {5, 3}}, {"i", {0}}, {"b", {}}}, [](const Tensors& x) { return on("index_put", {on("ones_like", {x[0]}), Tensors{x[1]}, x[2], true}); }, {5, 3}, 1},
      {"rows by no index", {{"a", {5, 3}}, {"i", {0}}}, [](const Tensors& x) { return on("index_select", {x[0], Expr(0), x[1]}); }, {0, 3}},
      {"index add of nothing", {{"a", {5, 3}}, {"i", {0}}, {"b", {0, 3}}}, [](const Tensors& x) { return on("index_add", {on("ones_like", {x[0]}), Expr(0), x[1], x[2]}); }, {5, 3}, 1},
      {"no token", {{"w0", {7, 4}}, {"i", {2, 0}}}, [](const Tensors& x) { return on("embedding", {x[0], x[1]}); }, {2, 0, 4}},
      {"take nothing", {{"a", {5, 3}}, {"i", {2, 0}}}, [](const Tensors& x) { return on("take", {x[0], x[1]}); }, {2, 0}},
  };
  return list;
}

const std::vector<Case>& joins() {
  static const std::vector<Case> list = {
      {"cat, empty vector first", {{"e", {0}}, {"a", {2, 3}}}, [](const Tensors& x) { return on("cat", {Tensors{x[0], on("ones_like", {x[1]})}, Expr(1)}); }, {2, 3}, 1, false, true},
      {"cat, empty vector between", {{"a", {2, 3, 4}}, {"e", {0}}}, [](const Tensors& x) { return on("cat", {Tensors{on("ones_like", {x[0]}), x[1], on("ones_like", {x[0]})}, Expr(-1)}); }, {2, 3, 8}, 1, false, true},
      {"cat, large parts and an empty vector", {{"e", {0}}, {"a", {2, 16}}}, [](const Tensors& x) { return on("cat", {Tensors{x[0], x[1], on("neg", {x[1]})}, Expr(1)}); }, {2, 32}, 0, true, true},
      {"cat of empty vectors", {{"e", {0}}, {"f", {0}}}, [](const Tensors& x) { return on("cat", {Tensors{x[0], x[1]}, Expr(0)}); }, {0}},
      {"cat, one part is empty", {{"a", {2, 0}}, {"b", {2, 3}}}, [](const Tensors& x) { return on("cat", {Tensors{x[0], on("ones_like", {x[1]})}, Expr(1)}); }, {2, 3}, 1},
      {"cat beside nothing", {{"a", {0, 2}}, {"b", {0, 3}}}, [](const Tensors& x) { return on("cat", {Tensors{x[0], x[1]}, Expr(1)}); }, {0, 5}},
      {"stack", {{"a", {0, 2}}}, [](const Tensors& x) { return on("stack", {Tensors{x[0], x[0]}, Expr(0)}); }, {2, 0, 2}},
      {"padding of nothing", {{"a", {2, 0}}}, [](const Tensors& x) { return on("constant_pad_nd", {x[0], dims({1, 2}), 0.5}); }, {2, 3}, 0.5},
      {"cut to nothing", {{"a", {2, 3}}}, [](const Tensors& x) { return on("constant_pad_nd", {x[0], dims({-1, -2})}); }, {2, 0}},
      {"flip", {{"a", {2, 0}}}, [](const Tensors& x) { return on("flip", {x[0], dims({0, 1})}); }, {2, 0}},
      {"roll", {{"a", {2, 0}}}, [](const Tensors& x) { return on("roll", {x[0], dims({3}), dims({1})}); }, {2, 0}},
      {"repeat no time", {{"a", {2, 3}}}, [](const Tensors& x) { return on("repeat", {x[0], dims({2, 0})}); }, {4, 0}},
      {"repeated elements of nothing", {{"a", {2, 0}}}, [](const Tensors& x) { return on("repeat_interleave.self_int", {x[0], Expr(3), Expr(1)}); }, {2, 0}},
      {"windows of nothing", {{"a", {0, 5}}}, [](const Tensors& x) { return on("unfold", {x[0], Expr(1), Expr(2), Expr(1)}); }, {0, 4, 2}},
      {"diagonal", {{"a", {0, 5}}}, [](const Tensors& x) { return on("diagonal", {x[0]}); }, {0}},
      {"triangle", {{"a", {0, 5}}}, [](const Tensors& x) { return on("tril", {x[0]}); }, {0, 5}},
      {"reshape", {{"a", {0, 6}}}, [](const Tensors& x) { return on("reshape", {x[0], dims({3, 0, 7})}); }, {3, 0, 7}, kNan, false, true},
      {"expand to nothing", {{"a", {1, 3}}}, [](const Tensors& x) { return on("add.Tensor", {on("expand", {x[0], dims({0, 3})}), 1.0}); }, {0, 3}},
      {"broadcast over nothing", {{"a", {0, 3}}, {"b", {1, 3}}}, [](const Tensors& x) { return on("mul.Tensor", {x[0], x[1]}); }, {0, 3}},
      {"range", {{"a", {}}}, [](const Tensors&) { return on("arange", {Expr(0)}); }, {0}},
  };
  return list;
}
// clang-format on

std::unique_ptr<graph::Graph> graph_of(const Case& c, DType dtype, bool dynamic) {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  Tensors x;
  const Expr size = dynamic ? g->new_symbol("s", 0, 64, false) : Expr(0);
  for (auto& in : c.inputs) {
    const bool index = in.name[0] == 'i', constant = in.name[0] == 'w', mask = in.name[0] == 'm';
    Exprs sizes;
    for (int64_t s : in.sizes) sizes.push_back(s == 0 ? size : Expr(s));
    const DType t = index ? DType::I64 : mask ? DType::Bool : dtype;
    x.push_back(recorder.proxy(g->add_input({t, sizes, {}}, constant ? InputKind::Parameter : InputKind::User, in.name)));
  }
  graph::fill_parameters(*g);
  DispatchScope scope(recorder);
  g->outputs.push_back({recorder.value_of(c.build(x)), {}, -1});
  return g;
}

void expect_pytorch(const Case& c, const graph::Graph& g, const Tensors& inputs) {
  const Tensor y = graph::interpret(g, inputs)[0];
  EXPECT_EQ(y.sizes(), c.sizes) << c.name;
  if (c.computed && !std::isnan(c.value)) return;
  for (double v : y.to_vector()) EXPECT_TRUE(v == c.value || (std::isnan(v) && std::isnan(c.value))) << c.name << ": " << v;
}

class Degenerate : public testing::TestWithParam<const std::vector<Case>& (*)()> {};

TEST_P(Degenerate, CompiledIsWhatPyTorchGives) {
  ScopedOption no_cache("cache", "0"), verify("verify_passes", "1");
  for (auto& c : GetParam()())
    for (const bool dynamic : {false, true}) {
      if (dynamic && c.is_static) continue;
      SCOPED_TRACE(std::string(c.name) + (dynamic ? ", dynamic" : ""));
      auto g = graph_of(c, DType::F32, dynamic);
      const Tensors inputs = graph::random_inputs(*graph_of(c, DType::F32, false), 3);
      expect_pytorch(c, *g, inputs);
      for (uint64_t seed : {3, 5, 9}) {  // the second one without templates, the third one without fusion
        auto model = front::compile_model(graph::clone(*g), variant_of(seed).options);
        const Verdict v = compare(*g, inputs, [&](const Tensors& x) { return model.run(x); });
        EXPECT_FALSE(v.refused);
        EXPECT_FALSE(v.failure) << v.failure.value_or("") << "\n" << graph::to_string(*g);
      }
    }
}

// Programs of PyTorch with empty tensors among those that are joined, an empty matrix of indices into a vector, and sums with products of
// integers.
TEST(DegenerateModels, AreWhatPyTorchComputed) {
  ScopedOption no_cache("cache", "0");
  auto read = [](const std::filesystem::path& path) {
    auto reader = import::SafetensorsReader::open(path);
    Tensors out;
    for (int i = 0; auto* r = reader.find(fmt::format("{:03}", i)); ++i) {
      out.push_back(Tensor::empty(r->sizes, r->dtype));
      if (auto bytes = r->bytes(); !bytes.empty()) std::memcpy(out.back().raw_data(), bytes.data(), bytes.size());
    }
    return out;
  };
  for (const char* name : {"cat_f32", "cat_i64", "gather", "addbmm_i64", "addmv_i64"}) {
    const std::filesystem::path folder = std::filesystem::path(TOROID_SOURCE_DIR) / "tests/data/models/degenerate" / name;
    const Tensors inputs = read(folder / "in.safetensors"), expected = read(folder / "out.safetensors");
    ASSERT_FALSE(expected.empty()) << name;
    auto model = front::compile_model(import::load_model(folder / "core.pt2"));
    const Tensors found = model.run(inputs);
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(difference(found[i], expected[i], 0), "") << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Degenerate, testing::Values(&products, &convolutions, &attentions, &reductions, &indices, &joins));

}  // namespace
}  // namespace toroid::fuzz
