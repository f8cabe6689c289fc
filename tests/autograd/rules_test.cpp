// Gradient rules, against differences in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/rule.h"
#include "graph/interpreter.h"
#include "graph/recorder.h"
#include "ops/reference.h"
#include "toroid/error.h"

namespace toroid::autograd {
namespace {

using Sizes = std::vector<int64_t>;

std::mt19937 random_bits(7);

Tensor floats(const Sizes& sizes, double lo = -2, double hi = 2) {
  std::uniform_real_distribution<double> draw(lo, hi);
  Tensor t = Tensor::empty(sizes, DType::F64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = draw(random_bits);
  return t;
}
Tensor integers(const Sizes& sizes, std::initializer_list<double> values) {
  return Tensor::of(std::vector<double>(values), sizes, DType::I64);
}
Tensor product(const Tensor& a, const Tensor& b) { return ops::call1("mm", {a, b}); }
Tensor transposed(const Tensor& a) { return ops::call1("t", {a}); }
Tensor well_conditioned(int64_t n) {
  Tensor a = floats({n, n});
  for (int64_t i = 0; i < n; ++i) a.data<double>()[i * n + i] += 5;
  return a;
}
Tensor symmetric(int64_t n) {
  const Tensor a = well_conditioned(n);
  return ops::call1("add.Tensor", {a, transposed(a)});
}
Tensor positive_definite(int64_t n) {
  const Tensor a = well_conditioned(n);
  return product(a, transposed(a));
}
std::vector<Expr> list(std::initializer_list<int64_t> v) { return {v.begin(), v.end()}; }

struct Sample {
  std::string op;
  CallArgs args;
  bool symmetric = false;            // its first operand is taken for symmetric: it is moved so
  std::vector<size_t> results = {};  // those that count; empty: all floats
};

// At least one call of each rule.
std::vector<Sample> samples() {
  const Tensor x = floats({2, 3, 4}), m = floats({3, 4});
  const Tensor with_zero = Tensor::of({1, 2, 0, 3, -1, 2, 2, 0, 0, 1, 3, 2}, {3, 4}, DType::F64);
  const Tensor index = integers({2, 3}, {0, 1, 1, 2, 0, 2});
  std::vector<Sample> out;
  const auto add = [&](const char* op, CallArgs args) { out.push_back({op, std::move(args)}); };
  // reductions
  add("sum.dim_IntList", {x, list({1})});
  add("sum.dim_IntList", {x, list({0, -1}), true});
  add("prod", {m});
  add("prod.dim_int", {with_zero, Expr(1)});
  add("amax", {x, list({1})});
  add("amin", {x, list({0, 2}), true});
  add("median", {m});
  add("nanmedian", {m});
  for (const char* op : {"max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode", "sort", "cummax", "cummin"}) add(op, {x, Expr(1)});
  add("sort.stable", {x, true, Expr(1), true});
  add("kthvalue", {x, Expr(2), Expr(-1)});
  add("topk", {x, Expr(2), Expr(1)});
  for (const char* op : {"_softmax", "_log_softmax"}) add(op, {x, Expr(1), false});
  for (const char* op : {"softmax.int", "log_softmax.int", "special_softmax", "special_log_softmax"}) add(op, {x, Expr(-1)});
  add("logsumexp", {x, list({0, 2})});
  for (double p : {1.0, 2.0, 3.0, 1.5, 0.5, HUGE_VAL}) add("linalg_vector_norm", {x, p, list({1}), true});
  // scans
  add("cumsum", {x, Expr(1)});
  add("cumprod", {with_zero, Expr(1)});
  add("logcumsumexp", {x, Expr(0)});
  // products
  add("mm", {m, floats({4, 2})});
  add("bmm", {x, floats({2, 4, 3})});
  const Tensor image = floats({2, 4, 7, 6});
  for (bool transposed : {false, true})
    for (int64_t groups : {1, 2})
      add("convolution",
          {image, transposed ? floats({4, 3, 3, 2}) : floats({6, 4 / groups, 3, 2}), transposed ? floats({3 * groups}) : floats({6}),
           list({2, 1}), list({1, 0}), list({1, 2}), transposed, list({transposed ? 1 : 0, 0}), Expr(groups)});
  add("convolution", {floats({2, 3, 9}), floats({5, 3, 4}), Arg<Tensor>(), list({3}), list({2}), list({1}), false, list({0}), Expr(1)});
  // indices
  add("index.Tensor", {m, std::vector<Tensor>{integers({4}, {0, 2, 2, -1})}});
  for (bool accumulate : {true, false}) add("index_put", {m, std::vector<Tensor>{integers({2}, {0, 2})}, floats({2, 4}), accumulate});
  add("embedding", {m, index});
  add("gather", {m, Expr(1), index});
  add("scatter.src", {m, Expr(0), integers({2, 3}, {0, 1, 2, 2, 0, 1}), floats({2, 4})});
  add("scatter_add", {m, Expr(0), index, floats({2, 3})});
  for (const char* kind : {"sum", "mean", "amax", "amin", "prod"})
    for (bool include : {true, false}) add("scatter_reduce.two", {m, Expr(0), index, floats({2, 3}), std::string(kind), include});
  add("scatter_reduce.two", {with_zero, Expr(0), index, Tensor::of({0, 1, 2, 3, 0, 4}, {2, 3}, DType::F64), std::string("prod"), true});
  add("cat", {std::vector<Tensor>{x, floats({2, 1, 4}), floats({2, 2, 4})}, Expr(1)});
  add("constant_pad_nd", {x, list({1, 2, -1, 0}), 3.0});
  add("_to_copy", {x, DType::F64});
  add("slice_scatter", {m, floats({3, 2}), Expr(1), Expr(0), Expr(4), Expr(2)});
  add("select_scatter", {m, floats({3}), Expr(1), Expr(2)});
  add("diagonal_scatter", {m, floats({3})});
  add("as_strided_scatter", {m, floats({2, 2}), list({2, 2}), list({4, 1})});
  // views
  add("expand", {floats({3, 1}), list({2, 3, 4})});
  add("expand_copy", {floats({3, 1}), list({3, 4})});
  add("broadcast_to", {floats({3, 1}), list({2, 3, 4})});
  add("flip", {x, list({0, 2})});
  add("roll", {x, list({1, -2}), list({0, 2})});
  add("roll", {x, list({5})});
  add("repeat", {m, list({2, 1, 3})});
  for (const char* op : {"unfold", "unfold_copy"}) add(op, {x, Expr(2), Expr(3), Expr(1)});
  add("unfold", {floats({40}), Expr(0), Expr(20), Expr(7)});
  for (const char* op : {"as_strided", "as_strided_copy"}) add(op, {m, list({3, 3}), list({4, 1}), Expr(1)});
  // kinds of rows
  add("mul.Tensor", {x, floats({4})});
  add("where.self", {ops::call1("gt.Scalar", {m, 0.0}), m, floats({4})});
  add("permute", {x, list({2, 0, 1})});
  add("view_copy", {x, list({6, 4})});
  add("_unsafe_view", {x, list({4, 6})});
  add("split.Tensor", {x, Expr(2), Expr(1)});
  add("reflection_pad1d", {m, list({2, 1})});
  add("diagonal", {m, Expr(1)});
  // matrices
  const Tensor a = well_conditioned(4), b = floats({4, 3});
  add("linalg_inv_ex", {a});
  add("_linalg_det", {a});
  out.back().results = {0};
  add("_linalg_slogdet", {a});
  out.back().results = {1};
  add("_linalg_solve_ex", {a, b});
  out.back().results = {0};
  add("_linalg_solve_ex", {a, transposed(b), false});
  out.back().results = {0};
  add("_linalg_solve_ex", {a, floats({4})});
  out.back().results = {0};
  for (bool upper : {true, false}) {
    const Tensor triangle = ops::call1(upper ? "triu" : "tril", {a});
    for (bool unit : {true, false}) {
      add("linalg_solve_triangular", {triangle, b, upper, true, unit});
      add("linalg_solve_triangular", {triangle, transposed(b), upper, false, unit});
    }
    out.push_back({"linalg_cholesky_ex", {positive_definite(4), upper}, true});
  }
  for (const Tensor& t : {a, floats({5, 3}), floats({3, 5})}) add("linalg_lu_factor_ex", {t});
  const auto lu = ops::call("linalg_lu_factor_ex", {a});
  add("lu_unpack", {lu[0], lu[1]});
  for (bool left : {true, false})
    for (bool adjoint : {true, false}) add("linalg_lu_solve", {lu[0], lu[1], left ? b : transposed(b), left, adjoint});
  out.push_back({"_linalg_eigh", {symmetric(4)}, true, {0}});
  out.push_back({"_linalg_eigh", {symmetric(4), std::string("L"), false}, true, {0}});
  for (const Tensor& t : {a, floats({5, 3}), floats({3, 5})}) {
    add("_linalg_svd", {t});
    add("_linalg_svd", {t, false, false});
    out.back().results = {1};
    add("linalg_qr", {t});
  }
  for (const char* op : {"linalg_householder_product", "orgqr"}) add(op, {floats({5, 4}), floats({3})});
  add("linalg_matrix_exp", {floats({3, 3}, -0.5, 0.5)});
  for (const Tensor& t : {floats({5, 3}), floats({3, 5})}) {
    add("linalg_pinv", {t, 1e-9});
    add("linalg_pinv.rcond_tensor", {t, Tensor::of({1e-9}, {}, DType::F64)});
    add("linalg_pinv.atol_rtol_float", {t});
    add("linalg_pinv.atol_rtol_tensor", {t});
  }
  // complex numbers, with real results
  const Tensor pairs = floats({3, 4, 2});
  add("view_as_complex", {pairs});
  add("view_as_complex_copy", {pairs});
  add("complex", {m, floats({3, 4})});
  add("_fft_r2c", {m, list({1}), Expr(0), true});
  add("_fft_r2c", {m, list({0, 1}), Expr(1), false});
  return out;
}

// The sum of the results' floats, each times a number of its own: a function of the operands.
class Checked {
 public:
  Checked(const Sample& s, std::shared_ptr<graph::Graph> g) : sample_(s), graph_(std::move(g)) {}

  static std::vector<Tensor> operands(const CallArgs& args) {
    std::vector<Tensor> out;
    for (auto& a : args) {
      if (auto* t = std::get_if<Tensor>(&a)) out.push_back(*t);
      if (auto* l = std::get_if<std::vector<Tensor>>(&a)) out.insert(out.end(), l->begin(), l->end());
    }
    return out;
  }

  double value(std::span<const Tensor> inputs, std::span<const Tensor> cotangents) const {
    const auto results = graph::interpret(*graph_, inputs);
    double sum = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto y = results[i].to_vector(), g = cotangents[i].to_vector();
      for (size_t k = 0; k < y.size(); ++k) sum += y[k] * g[k];
    }
    return sum;
  }

  const Sample& sample_;
  std::shared_ptr<graph::Graph> graph_;
};

// The call as a graph whose outputs are its float results; complex ones as real pairs.
std::shared_ptr<graph::Graph> graph_of(const Sample& s) {
  auto g = std::make_shared<graph::Graph>();
  graph::Recorder recorder(*g);
  const ops::Op& op = ops::get(s.op);
  CallArgs args;
  for (auto& a : ops::complete(op, s.args))
    args.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
      if (!t.defined()) return t;
      TensorType type{t.dtype(), {}, {}};
      for (int64_t d : t.sizes()) type.sizes.push_back(d);
      return recorder.proxy(g->add_input(type, graph::InputKind::User, "x"));
    }));
  DispatchScope scope(recorder);
  const auto results = recorder.call(op, args, std::source_location::current());
  for (size_t r = 0; r < results.size(); ++r) {
    const bool counts = s.results.empty() || std::count(s.results.begin(), s.results.end(), r);
    if (!counts || !(is_float(results[r].dtype()) || is_complex(results[r].dtype()))) continue;
    const Tensor real = is_complex(results[r].dtype()) ? ops::call1("view_as_real", {results[r]}) : results[r];
    g->outputs.push_back({recorder.value_of(real), {}, -1});
  }
  return g;
}

void check(const Sample& s) {
  SCOPED_TRACE(s.op);
  const auto g = graph_of(s);
  const std::vector<Tensor> inputs = Checked::operands(s.args);
  Request request{.inputs = {}, .takes_cotangents = true};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype())) request.inputs.push_back(i);
  const auto joint = differentiate(*g, request);
  std::vector<Tensor> cotangents, all = inputs;
  for (auto& o : g->outputs) {
    Sizes sizes;
    for (auto& e : o.value->type.sizes) sizes.push_back(e.constant());
    cotangents.push_back(floats(sizes, 0.5, 2));
  }
  all.insert(all.end(), cotangents.begin(), cotangents.end());
  const auto got = graph::interpret(*joint, all);
  const Checked checked(s, g);
  for (size_t k = 0; k < request.inputs.size(); ++k) {
    const size_t i = request.inputs[k];
    const Tensor& gradient = got[g->outputs.size() + k];
    ASSERT_EQ(gradient.sizes(), inputs[i].sizes());
    Tensor direction = floats(inputs[i].sizes(), -1, 1);
    if (s.symmetric) direction = ops::call1("add.Tensor", {direction, transposed(direction)});
    const auto along = [&](double h) {
      std::vector<Tensor> at = inputs;
      at[i] = ops::call1("add.Tensor", {inputs[i], ops::call1("mul.Tensor", {direction, h})});
      return checked.value(at, cotangents);
    };
    constexpr double kStep = 1e-6;
    const double slope = (along(kStep) - along(-kStep)) / (2 * kStep);
    double product = 0, size = 0;
    const auto gv = gradient.to_vector(), dv = direction.to_vector();
    for (size_t e = 0; e < gv.size(); ++e) product += gv[e] * dv[e], size += std::abs(gv[e] * dv[e]);
    EXPECT_NEAR(product, slope, 1e-5 * (1 + size)) << "operand " << i;
  }
}

class Rules : public ::testing::Test {
 protected:
  ops::ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

TEST_F(Rules, AgreeWithDifferences) {
  for (const Sample& s : samples()) check(s);
}

// The gradient of an embedding is not always that of its result: a row may be left alone, or share by how often it was read.
TEST_F(Rules, EmbeddingsLeavePaddingAloneAndCountRows) {
  const auto gradient = [](const Expr& padding, bool by_frequency) {
    const Sample s{"embedding", {floats({3, 1}), integers({4}, {0, 1, 1, 1}), padding, by_frequency}};
    const auto g = graph_of(s);
    const auto joint = differentiate(*g, {.inputs = {0}, .takes_cotangents = true});
    const std::vector<Tensor> inputs{std::get<Tensor>(s.args[0]), std::get<Tensor>(s.args[1]), Tensor::full(Sizes{4, 1}, 6, DType::F64)};
    return graph::interpret(*joint, inputs)[1].to_vector();
  };
  EXPECT_EQ(gradient(-1, false), (std::vector<double>{6, 18, 0}));
  EXPECT_EQ(gradient(1, false), (std::vector<double>{6, 0, 0}));
  EXPECT_EQ(gradient(-1, true), (std::vector<double>{6, 6, 0}));
}

// Rules of which no difference can be taken.
const std::set<std::string> kWithoutSample = {
    "detach", "detach_copy", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "bernoulli", "bernoulli.p",
    "embedding_renorm",
    // of complex operands: gradients of Fourier transforms of complex numbers are checked by their composites in the fixtures
    "_conj", "_conj_physical", "conj_physical", "resolve_conj", "resolve_neg", "view_as_real", "view_as_real_copy", "real", "_fft_c2c",
    "_fft_c2r"};

TEST_F(Rules, EachHasASample) {
  std::set<std::string> sampled;
  for (const Sample& s : samples()) sampled.insert(s.op);
  for (auto family : {reduction_rules(), scan_rules(), product_rules(), index_rules(), view_rules(), linalg_rules(), complex_rules()})
    for (auto& row : family) {
      EXPECT_TRUE(ops::table().find(row.name)) << row.name << " is no operation";
      EXPECT_NE(sampled.count(row.name) > 0, kWithoutSample.count(row.name) > 0) << row.name;
    }
}

// What is no composite must have a rule, or a reason to have none.
TEST_F(Rules, NoPrimitiveIsForgotten) {
  const std::set<std::string> none = {
      // integers and truths, sizes, checks
      "_int_mm", "nonzero", "nonzero_static", "_number_as_size", "_check_index", "bincount", "histc", "argmax", "argmin", "any", "any.dim",
      "any.dims", "all", "all.dim", "all.dims", "hash_tensor", "prims.iota", "tril_indices", "triu_indices", "torchvision.nms",
      "repeat_interleave.Tensor", "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "_assert_scalar",
      "_assert_async", "_assert_async.msg", "sym_constrain_range", "sym_constrain_range_for_size", "_linalg_check_errors",
      "searchsorted.Tensor", "searchsorted.Scalar", "bucketize.Tensor", "isin.Tensor_Tensor", "_histogramdd_bin_edges",
      "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors", "histogram.bin_ct", "histogram.bins_tensor",
      // made of nothing
      "full", "prims.rand_uniform", "prims.rand_normal", "prims.rand_uniform.state", "prims.rand_normal.state",
      // other bits of the same memory
      "view.dtype", "view_copy.dtype"};
  std::vector<std::string> forgotten;
  for (const ops::Op& op : ops::table().rows())
    if (op.kernel && !op.inplace_of && !op.collective && op.name.find("higher_order") != 0 && !find_rule(op) && !none.count(op.name))
      forgotten.push_back(op.name);
  std::string names;
  for (auto& n : forgotten) names += n + " ";
  // These are refused by name: nobody has asked for their gradients.
  const std::set<std::string> refused = {
      "linalg_eig",     "linalg_ldl_factor_ex",        "linalg_ldl_solve", "cholesky_inverse", "geqrf", "ormqr",
      "_embedding_bag", "_embedding_bag_forward_only", "segment_reduce"};
  for (auto& n : forgotten) EXPECT_TRUE(refused.count(n)) << n << " has no gradient rule; all such: " << names;
}

TEST_F(Rules, WhatHasNoneIsRefusedByName) {
  Sample s{"geqrf", {floats({3, 3})}};
  const auto g = graph_of(s);
  g->nodes[0]->where = "model.cpp:7";
  try {
    differentiate(*g, {.inputs = {0}, .takes_cotangents = true});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("geqrf (model.cpp:7): this operation has no gradient"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace toroid::autograd
