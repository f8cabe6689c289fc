// Each family of operations on tensors of more than 2 MiB whose memory is not row-major, in f32, f16 and bf16: compiled = interpreted.
#include <gtest/gtest.h>

#include "base/options.h"
#include "fuzz_compiled/differential.h"
#include "graph/random_graph.h"
#include "graph/recorder.h"
#include "ops/table.h"

namespace toroid::fuzz {
namespace {

using Exprs = std::vector<Expr>;
using Tensors = std::vector<Tensor>;
using graph::InputKind;
using ops::call1;

// Sizes of the inputs; the first dimension of `large` ones counts double for the halves. Names that start with "w" are constants, with
// "i" whole numbers.
struct In {
  const char* name;
  Exprs sizes;
  bool large = false;
};
struct Family {
  const char* name;
  std::vector<In> inputs;
  Tensor (*build)(const Tensors&);
};

Tensor on(const char* op, CallArgs args) { return call1(op, std::move(args)); }

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      {"pointwise",
       {{"a", {801, 701}, true}, {"b", {701}}},
       [](const Tensors& x) {
         return on("gelu", {on("add.Tensor", {on("mul.Tensor", {x[0], x[1]}), x[0]})});
       }},
      {"broadcast",
       {{"a", {803, 1, 13}}, {"b", {53, 1}}},
       [](const Tensors& x) {
         return on("sub.Tensor", {x[0], x[1]});
       }},
      {"transposed",
       {{"a", {601, 907}, true}},
       [](const Tensors& x) {
         return on("add.Tensor", {on("tanh", {on("permute", {x[0], Exprs{1, 0}})}), 0.5});
       }},
      {"flipped slice",
       {{"a", {613, 907}, true}},
       [](const Tensors& x) {
         return on("mul.Tensor", {on("slice.Tensor", {on("flip", {x[0], Exprs{1}}), Expr(1), Expr(3), Expr(900), Expr(2)}), 0.5});
       }},
      {"sum over rows",
       {{"a", {607, 911}, true}},
       [](const Tensors& x) {
         return on("sum.dim_IntList", {on("sigmoid", {x[0]}), Exprs{1}});
       }},
      {"mean over columns",
       {{"a", {607, 911}, true}},
       [](const Tensors& x) {
         return on("mean.dim", {x[0], Exprs{0}, true});
       }},
      {"sum of all", {{"a", {607, 911}, true}}, [](const Tensors& x) { return on("sum", {on("sigmoid", {x[0]})}); }},
      {"maximum in the middle",
       {{"a", {19, 331, 89}, true}},
       [](const Tensors& x) {
         return on("amax", {x[0], Exprs{1}});
       }},
      {"variance",
       {{"a", {607, 911}, true}},
       [](const Tensors& x) {
         return on("var.correction", {x[0], Exprs{1}, Expr(1), true});
       }},
      {"first maximum",
       {{"a", {607, 911}, true}},
       [](const Tensors& x) {
         return on("argmax", {x[0], Expr(1)});
       }},
      {"softmax",
       {{"a", {401, 1361}, true}},
       [](const Tensors& x) {
         return on("softmax.int", {x[0], Expr(1)});
       }},
      {"softmax of columns",
       {{"a", {401, 1361}, true}},
       [](const Tensors& x) {
         return on("log_softmax.int", {x[0], Expr(0)});
       }},
      {"layer norm",
       {{"a", {701, 769}, true}, {"w0", {769}}, {"w1", {769}}},
       [](const Tensors& x) {
         return on("layer_norm", {x[0], Exprs{769}, x[1], x[2]});
       }},
      {"group norm",
       {{"a", {9, 12, 71, 71}, true}},
       [](const Tensors& x) {
         return on("group_norm", {x[0], Expr(4)});
       }},
      {"gather",
       {{"a", {601, 907}, true}, {"i0", {601, 907}, true}},
       [](const Tensors& x) {
         return on("gather", {x[0], Expr(1), on("remainder.Scalar", {x[1], Expr(907)})});
       }},
      {"rows by index",
       {{"a", {701, 777}, true}, {"i0", {999}}},
       [](const Tensors& x) {
         return on("index.Tensor", {x[0], Tensors{x[1]}});
       }},
      {"scatter add",
       {{"a", {601, 907}, true}, {"i0", {601, 907}, true}},
       [](const Tensors& x) {
         return on("scatter_add", {on("sigmoid", {x[0]}), Expr(1), on("remainder.Scalar", {x[1], Expr(907)}), x[0]});
       }},
      {"scatter add with collisions",
       {{"a", {907, 601}, true}, {"i0", {907, 601}, true}},
       [](const Tensors& x) {
         return on("scatter_add", {on("sigmoid", {x[0]}), Expr(0), on("remainder.Scalar", {x[1], Expr(5)}), on("sign", {x[0]})});
       }},
      {"index put",
       {{"a", {701, 777}, true}, {"i0", {9}}, {"b", {9, 777}}},
       [](const Tensors& x) {
         return on("index_put", {x[0], Tensors{x[1]}, x[2]});
       }},
      {"joined",
       {{"a", {301, 1003}, true}, {"b", {301, 777}, true}},
       [](const Tensors& x) {
         return on("cat", {Tensors{x[0], on("neg", {x[1]})}, Expr(1)});
       }},
      {"padded",
       {{"a", {601, 907}, true}},
       [](const Tensors& x) {
         return on("constant_pad_nd", {on("sin", {x[0]}), Exprs{3, 2, 1, 0}, 0.5});
       }},
      {"running sum",
       {{"a", {601, 907}, true}},
       [](const Tensors& x) {
         return on("cumsum", {on("sigmoid", {x[0]}), Expr(1)});
       }},
      {"sorted",
       {{"a", {601, 907}, true}},
       [](const Tensors& x) {
         return ops::call("sort", {x[0], Expr(1)})[0];
       }},
      {"max pool",
       {{"a", {5, 7, 131, 127}, true}},
       [](const Tensors& x) {
         return on("max_pool2d", {x[0], Exprs{3, 3}, Exprs{2, 2}, Exprs{1, 1}});
       }},
      {"average pool",
       {{"a", {5, 7, 131, 127}, true}},
       [](const Tensors& x) {
         return on("avg_pool2d", {x[0], Exprs{2, 2}});
       }},
      {"convolution",
       {{"a", {1, 8, 263, 261}, true}, {"w0", {4, 8, 3, 3}}, {"w1", {4}}},
       [](const Tensors& x) {
         return on("relu", {on("conv2d", {x[0], x[1], x[2], Exprs{2, 2}, Exprs{1, 1}})});
       }},
      {"convolution, weights given",
       {{"a", {1, 6, 301, 299}, true}, {"b", {4, 6, 3, 3}}},
       [](const Tensors& x) {
         return on("conv2d", {x[0], x[1], std::monostate{}, Exprs{2, 3}, Exprs{1, 2}});
       }},
      {"product",
       {{"a", {7, 1031}}, {"b", {1031, 1061}}},
       [](const Tensors& x) {
         return on("mm", {x[0], x[1]});
       }},
      {"product with a constant",
       {{"a", {9, 1031}}, {"w0", {1201, 1031}}, {"w1", {1201}}},
       [](const Tensors& x) {
         return on("relu", {on("linear", {x[0], x[1], x[2]})});
       }},
      {"batched product",
       {{"a", {61, 5, 97}, true}, {"b", {61, 97, 97}, true}},
       [](const Tensors& x) {
         return on("bmm", {x[0], x[1]});
       }},
      {"attention",
       {{"a", {1, 8, 3, 64}, true}, {"b", {1, 1031, 8, 64}, true}, {"c", {1, 1031, 8, 64}, true}},
       [](const Tensors& x) {
         auto heads = [](const Tensor& t) { return on("transpose.int", {t, Expr(1), Expr(2)}); };
         return on("scaled_dot_product_attention", {x[0], heads(x[1]), heads(x[2])});
       }},
  };
  return list;
}

std::unique_ptr<graph::Graph> graph_of(const Family& f, DType dtype) {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  Tensors x;
  for (auto& in : f.inputs) {
    Exprs sizes = in.sizes;
    bool index = in.name[0] == 'i', constant = in.name[0] == 'w';
    if (is_half(dtype) && in.large) sizes[0] = sizes[0] * Expr(2);
    x.push_back(
        recorder.proxy(g->add_input({index ? DType::I64 : dtype, sizes, {}}, constant ? InputKind::Parameter : InputKind::User, in.name)));
  }
  graph::fill_parameters(*g);
  DispatchScope scope(recorder);
  Tensor y = f.build(x);
  g->outputs.push_back({recorder.value_of(y), {}, -1});
  return g;
}

class Corpus : public testing::TestWithParam<DType> {};

TEST_P(Corpus, LargeTensorsWithOddStrides) {
  ScopedOption no_cache("cache", "0");
  for (auto& f : families()) {
    auto g = graph_of(f, GetParam());
    Verdict v = check(*g, {.options = {}, .seed = 3, .strided = true});
    EXPECT_FALSE(v.refused) << f.name;
    EXPECT_FALSE(v.failure) << f.name << ": " << v.failure.value_or("") << "\n" << graph::to_string(*g);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Corpus, testing::Values(DType::F32, DType::F16, DType::BF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace toroid::fuzz
