// Calls whose gradients are checked against differences.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <random>

#include "autograd/checks.h"

namespace toroid::autograd {
namespace {

using Sizes = std::vector<int64_t>;

std::mt19937 random_bits;

}  // namespace

Tensor floats(const Sizes& sizes, double lo, double hi) {
  std::uniform_real_distribution<double> draw(lo, hi);
  Tensor t = Tensor::empty(sizes, DType::F64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = draw(random_bits);
  return t;
}
Tensor integers(const Sizes& sizes, std::initializer_list<double> values) {
  return Tensor::of(std::vector<double>(values), sizes, DType::I64);
}
std::vector<Expr> list(std::initializer_list<int64_t> v) { return {v.begin(), v.end()}; }

namespace {

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
Tensor complexes(Sizes sizes) {
  sizes.push_back(2);
  return ops::call1("view_as_complex", {floats(sizes)});
}

using Add = std::function<void(const std::string& op, CallArgs args)>;

void add_pools(const Add& add) {
  const Tensor line = floats({2, 3, 9}), image = floats({2, 3, 7, 6}), block = floats({1, 2, 4, 5, 4});
  const Arg<Tensor> none;
  add("avg_pool1d", {line, list({3}), list({2}), list({1}), true, false});
  for (bool padding_counts : {true, false}) add("avg_pool2d", {image, list({3, 2}), list({2, 2}), list({1, 0}), true, padding_counts});
  add("avg_pool2d", {image, list({2, 2}), list({}), list({0, 0}), false, true, Expr(3)});
  add("avg_pool3d", {block, list({2, 2, 2}), list({1, 2, 2})});
  add("adaptive_avg_pool1d", {line, list({4})});
  add("adaptive_avg_pool2d", {image, list({3, 4})});
  add("adaptive_avg_pool3d", {block, list({3, 2, 3})});
  add("adaptive_max_pool1d", {line, list({4})});
  add("adaptive_max_pool2d", {image, list({3, 4})});
  add("fractional_max_pool2d", {image, list({2, 2}), list({3, 3}), floats({2, 3, 2}, 0, 1)});
  add("max_unpool2d", {floats({1, 1, 2, 2}), integers({1, 1, 2, 2}, {0, 5, 8, 15}), list({4, 4})});
}

void add_max_pools(const Add& add) {
  const Tensor line = floats({2, 3, 9}), image = floats({2, 3, 7, 6}), block = floats({1, 2, 4, 5, 4});
  for (const std::string indices : {"", "_with_indices"}) {
    const auto pool = [&](int spatial, CallArgs args) { add(fmt::format("max_pool{}d{}", spatial, indices), std::move(args)); };
    pool(1, {line, list({3}), list({2}), list({1}), list({2})});
    pool(1, {line, list({2}), list({5})});
    pool(2, {image, list({3, 2}), list({2, 1}), list({1, 1}), list({1, 2}), true});
    pool(2, {image, list({2, 2}), list({2, 2}), list({0, 0}), list({1, 1}), true});
    pool(2, {image, list({3, 3}), list({2, 2}), list({1, 1})});
    pool(3, {block, list({2, 2, 2}), list({1, 2, 2})});
  }
}

void add_resamplings(const Add& add) {
  const Tensor line = floats({2, 3, 5}), image = floats({2, 2, 4, 5}), block = floats({1, 2, 3, 4, 3});
  for (const char* op : {"upsample_nearest1d", "_upsample_nearest_exact1d"}) add(op, {line, list({8})});
  for (const char* op : {"upsample_nearest2d", "_upsample_nearest_exact2d"}) add(op, {image, list({6, 3})});
  for (const char* op : {"upsample_nearest3d", "_upsample_nearest_exact3d"}) add(op, {block, list({4, 3, 5})});
  for (bool corners : {true, false}) {
    add("upsample_linear1d", {line, list({8}), corners});
    for (const char* op : {"upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"})
      add(op, {image, list({6, 3}), corners});
    add("upsample_trilinear3d", {block, list({4, 3, 5}), corners});
    for (int64_t padding : {0, 1, 2}) {
      for (int64_t mode : {0, 1, 2}) add("grid_sampler_2d", {image, floats({2, 3, 3, 2}, -1.3, 1.3), Expr(mode), Expr(padding), corners});
      add("grid_sampler_3d", {block, floats({1, 2, 3, 2, 3}, -1.3, 1.3), Expr(0), Expr(padding), corners});
    }
  }
  add("pixel_shuffle", {floats({1, 8, 2, 3}), Expr(2)});
  add("im2col", {image, list({2, 3}), list({1, 1}), list({1, 0}), list({1, 2})});
  add("col2im", {floats({1, 12, 2}), list({4, 4}), list({2, 3}), list({1, 1}), list({0, 0}), list({2, 2})});
  for (const char* op : {"reflection_pad2d", "replication_pad2d"}) add(op, {image, list({1, 2, 2, 1})});
}

void add_losses(const Add& add) {
  add("prims.with_forward", {floats({2, 3}), floats({2, 3})});
  const Tensor x = floats({4, 5}), y = floats({4, 5}), log_p = ops::call1("log_softmax.int", {x, Expr(1)});
  const Tensor p = floats({4, 5}, 0.1, 0.9), t = floats({4, 5}, 0.1, 0.9), classes = integers({4}, {1, 4, 0, 1}),
               weight = floats({5}, 0.5, 2);
  const Tensor signs = ops::call1("sign", {y}), sign = ops::call1("sign", {floats({4})});
  for (int64_t reduction : {0, 1, 2}) {
    const Expr r(reduction);
    for (const char* op : {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}) add(op, {x, y, r});
    for (const double p : {1.0, 2.0}) add("multi_margin_loss", {x, classes, p, 0.3, weight, r});
    add("multilabel_margin_loss", {x, integers({4, 5}, {1, 4, -1, 0, 0, 2, -1, 0, 1, 0, -1, 0, 0, 0, 0, 0, 1, 2, 3, 4}), r});
    add("binary_cross_entropy", {p, t, floats({4, 5}, 0.5, 2), r});
    add("binary_cross_entropy_with_logits", {p, t, floats({4, 5}, 0.5, 2), weight, r});
    for (const Expr& ignored : {Expr(-100), Expr(1)}) {
      add("nll_loss", {log_p, classes, weight, r, ignored});
      add("cross_entropy_loss", {x, classes, weight, r, ignored, 0.1});
    }
    add("cross_entropy_loss", {x, p, weight, r, Expr(-100), 0.1});
    for (int64_t rows : {0, 3})
      if (reduction != 0) add("prims.linear_cross_entropy", {x, floats({5, 5}), classes, rows ? weight : Tensor(), r, Expr(1), Expr(rows)});
    add("nll_loss2d", {floats({2, 3, 2, 2}), integers({2, 2, 2}, {0, 1, 2, 0, 1, 2, 2, 1}), Arg<Tensor>(), r});
    add("kl_div", {log_p, t, r});
    add("kl_div", {log_p, y, r, true});
    add("soft_margin_loss", {x, signs, r});
    add("margin_ranking_loss", {floats({4}), floats({4}), sign, 0.5, r});
    add("hinge_embedding_loss", {x, signs, 1.0, r});
    add("cosine_embedding_loss", {x, y, sign, 0.1, r});
    add("triplet_margin_loss", {x, y, floats({4, 5}), 1.0, 2.0, 1e-6, reduction == 1, r});
    add("poisson_nll_loss", {x, p, true, true, 1e-8, r});
  }
}

void add_networks(const Add& add) {
  const Tensor x = floats({3, 2, 4}), h = floats({2, 2, 5}), c = floats({2, 2, 5});  // steps, batch, features; both directions
  for (int64_t gates : {1, 3, 4}) {
    std::vector<Tensor> params;
    for (int direction = 0; direction < 2; ++direction)
      for (const auto& sizes : {Sizes{gates * 5, 4}, Sizes{gates * 5, 5}, Sizes{gates * 5}, Sizes{gates * 5}})
        params.push_back(floats(sizes, -0.7, 0.7));
    const auto network = [&](const char* op, Arg<Tensor> state) {
      add(op, {x, std::move(state), params, true, Expr(1), 0.0, false, true, false});
    };
    if (gates == 1) network("rnn_tanh.input", h), network("rnn_relu.input", h);
    if (gates == 3) network("gru.input", h);
    if (gates == 4) network("lstm.input", std::vector<Tensor>{h, c});
    const Tensor step = floats({2, 4}), w_ih = params[0], w_hh = params[1], b_ih = params[2], b_hh = params[3], before = floats({2, 5});
    if (gates == 1) add("rnn_tanh_cell", {step, before, w_ih, w_hh, b_ih, b_hh});
    if (gates == 3) add("gru_cell", {step, before, w_ih, w_hh, b_ih, b_hh});
    if (gates == 4) add("lstm_cell", {step, std::vector<Tensor>{before, floats({2, 5})}, w_ih, w_hh, b_ih, b_hh});
  }
}

}  // namespace

std::vector<Sample> samples() {
  random_bits.seed(7);
  const Tensor x = floats({2, 3, 4}), m = floats({3, 4});
  const Tensor with_zero = Tensor::of({1, 2, 0, 3, -1, 2, 2, 0, 0, 1, 3, 2}, {3, 4}, DType::F64);
  const Tensor index = integers({2, 3}, {0, 1, 1, 2, 0, 2});
  std::vector<Sample> out;
  const Tensor integral = ops::call1("round", {x}), mirrored = ops::call1("flip", {integral, list({2})});
  const auto add = [&](const std::string& op, CallArgs args) { out.push_back({op, std::move(args)}); };
  const auto add_tied = [&](const char* op, CallArgs args) { out.push_back({.op = op, .args = std::move(args), .tied = true}); };
  // reductions
  for (const std::string op : {"var", "std", "var_mean", "std_mean"}) {
    const bool alone = op == "var" || op == "std";
    add(op, {x, alone});
    add(op + ".dim", {x, list({1}), true, alone});
    for (int64_t correction : {0, 1, 2}) add(op + ".correction", {x, list({0, -1}), Expr(correction), correction > 0});
  }
  add_max_pools(add);
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
  for (const char* op : {"amax", "amin"}) add_tied(op, {integral, list({1})});
  add_tied("maximum", {integral, mirrored});
  add_tied("minimum", {integral, mirrored});
  for (double p : {1.0, 2.0, 3.0, 1.5}) {
    add("norm.Scalar", {x, p});
    add("norm.ScalarOpt_dtype", {x, p, DType::F64});
    add("norm.ScalarOpt_dim", {x, p, list({1}), true});
    add("norm.ScalarOpt_dim_dtype", {x, p, list({0, 2}), false, DType::F64});
    add("dist", {x, floats({4}), p});
    add("cdist", {m, floats({2, 4}), p});
    add("_cdist_forward", {x, floats({2, 2, 4}), p, std::monostate{}});
  }
  // scans
  add("cumsum", {x, Expr(1)});
  add("cumprod", {with_zero, Expr(1)});
  add("logcumsumexp", {x, Expr(0)});
  // products
  add("mm", {m, floats({4, 2})});
  add("mm", {floats({3, 3}), floats({3, 3})});
  add("bmm", {x, floats({2, 4, 3})});
  add("mm.dtype", {m, floats({4, 2}), m.dtype()});
  add("bmm.dtype", {x, floats({2, 4, 3}), x.dtype()});
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
  add("gather", {m, Expr(-1), integers({3, 1}, {2, 0, 3})});
  add("gather", {m, Expr(0), integers({1, 4}, {2, 0, 1, 1})});
  add("gather", {m, Expr(1), index});
  add("gather", {floats({3, 3}), Expr(0), index});
  add("scatter.src", {m, Expr(0), integers({2, 3}, {0, 1, 2, 2, 0, 1}), floats({2, 4})});
  add("scatter_add", {m, Expr(0), index, floats({2, 3})});
  for (const char* kind : {"sum", "mean", "amax", "amin", "prod"})
    for (bool include : {true, false}) add("scatter_reduce.two", {m, Expr(0), index, floats({2, 3}), std::string(kind), include});
  add("scatter_reduce.two", {with_zero, Expr(0), index, Tensor::of({0, 1, 2, 3, 0, 4}, {2, 3}, DType::F64), std::string("prod"), true});
  const Tensor nowhere = integers({3, 0}, {}), number = floats({});
  add("scatter_reduce.two", {number, Expr(0), nowhere, floats({}), std::string("amax")});
  add("scatter_add", {number, Expr(0), nowhere, floats({})});
  add("scatter_add", {number, Expr(0), integers({}, {0}), floats({2})});
  add("scatter.src", {m, Expr(0), integers({0}, {}), m});
  add("gather", {m, Expr(0), integers({0}, {})});
  for (const bool repeated : {false, true}) add("combinations", {floats({4}), Expr(3), repeated});
  add("cat", {std::vector<Tensor>{x, floats({2, 1, 4}), floats({2, 2, 4})}, Expr(1)});
  add("cat", {std::vector<Tensor>{x, floats({2, 3, 4}), floats({2, 3, 4})}, Expr(-1)});
  add("constant_pad_nd", {x, list({1, 2, -1, 0}), 3.0});
  add("_to_copy", {x, DType::F64});
  for (const char* op : {"split.Tensor", "split_copy.Tensor"}) add(op, {m, Expr(3), Expr(1)});
  for (const char* op : {"split_with_sizes", "split_with_sizes_copy", "split.sizes"}) add(op, {x, list({1, 0, 3}), Expr(-1)});
  for (int64_t parts : {1, 2, 3}) add("chunk", {m, Expr(parts), Expr(-1)});
  add("slice_scatter", {m, floats({3, 2}), Expr(1), Expr(0), Expr(4), Expr(2)});
  add("select_scatter", {m, floats({3}), Expr(1), Expr(2)});
  add("diagonal_scatter", {m, floats({3})});
  add("as_strided_scatter", {m, floats({2, 2}), list({2, 2}), list({4, 1})});
  // runs of rows
  const Tensor bag_index = integers({7}, {0, 2, 1, 2, 2, 0, 1}), offsets = integers({4}, {0, 3, 3, 5});
  for (const char* op : {"_embedding_bag", "_embedding_bag_forward_only"})
    for (int64_t mode : {0, 1, 2})
      for (int64_t padding : {-1, 1})
        for (bool last : {false, true}) add(op, {m, bag_index, offsets, false, Expr(mode), false, Arg<Tensor>(), last, Expr(padding)});
  add("_embedding_bag", {m, bag_index, offsets, false, Expr(0), false, floats({7}), false, Expr(1)});
  const auto add_segments = [&](const Tensor& data, const std::string& how) {
    add("segment_reduce", {data, how, integers({3}, {2, 4, 1})});
    add("segment_reduce", {data, how, Arg<Tensor>(), Arg<Tensor>(), integers({4}, {1, 3, 3, 6}), Expr(0), true, 0.5});
    const Tensor lengths = integers({2, 3}, {2, 4, 1, 1, 0, 6});
    add("segment_reduce", {transposed(data), how, lengths, Arg<Tensor>(), Arg<Tensor>(), Expr(1), false, 1.5});
  };
  for (const char* how : {"sum", "mean", "max", "min", "prod"}) add_segments(floats({7, 2}), how);
  add_segments(ops::call1("mul.Tensor", {floats({7, 2}), integers({7, 1}, {1, 0, 1, 1, 1, 0, 0})}), "prod");
  add_tied("segment_reduce", {Tensor::of({1, 2, 2, 0}, {4}, DType::F64), std::string("max"), integers({2}, {1, 3})});
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
  add("mul.Tensor", {x, ops::call1("_to_copy", {floats({4}), DType::F32})});
  add("mul.Tensor", {x, floats({1, 3, 1})});
  add("clamp", {x, -1.0, 1.0});
  for (const char* op : {"sin", "cos", "tanh", "exp", "sigmoid", "atan", "erf", "gelu"}) add(op, {x});
  for (const char* op : {"log", "sqrt", "rsqrt", "lgamma"}) add(op, {floats({3, 4}, 0.5, 2)});
  for (const char* approximate : {"none", "tanh"}) add("gelu_backward", {m, floats({4}), std::string(approximate)});
  add("logit_backward", {m, floats({4}, 0.2, 0.8)});
  add("logit_backward", {m, Tensor::of({0.1, 0.3, 0.6, 1.2}, {4}, DType::F64), 0.25});
  add("pow.Tensor_Scalar", {floats({3, 4}, 0.5, 2), 2.5});
  add("pow.Tensor_Tensor", {floats({3, 4}, 0.5, 2), m});
  add("div.Tensor", {m, floats({4}, 0.5, 2)});
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
    add("cholesky_inverse", {a, upper});
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
  // complex operands
  const Tensor z = complexes({3, 4}), w = complexes({4});
  for (const char* op : {"_conj", "_conj_physical", "conj_physical", "resolve_conj", "resolve_neg", "view_as_real", "view_as_real_copy",
                         "real", "exp", "abs", "neg", "clone"})
    add(op, {z});
  add("real", {m});
  for (const char* op : {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"}) {
    add(op, {z, w});
    add(op, {z, floats({4})});
    add(op, {m, w});
  }
  for (bool forward : {true, false}) add("_fft_c2c", {z, list({0, 1}), Expr(1), forward});
  for (int64_t last : {6, 7}) add("_fft_c2r", {z, list({1}), Expr(2), Expr(last)});
  add("sum.dim_IntList", {z, list({1})});
  add("index.Tensor", {z, std::vector<Tensor>{integers({4}, {0, 2, 2, -1})}});
  add("mm", {z, complexes({4, 2})});
  for (const char* op : {"exp2", "expm1", "log",  "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "square",  "sin",   "cos",
                         "tan",  "asin",  "acos", "atan", "sinh",  "cosh",  "tanh", "asinh", "atanh",      "sigmoid", "angle", "prod"})
    add(op, {z});
  add("pow.Tensor_Tensor", {z, w});
  add("where.self", {ops::call1("gt.Scalar", {m, 0.0}), z, w});
  for (double p : {1.0, 2.0, 3.0, 1.5}) add("linalg_vector_norm", {z, p, list({1}), true});
  for (const char* op : {"cumsum", "cumprod", "cumsum"}) add(op, {z, Expr(1)});
  add("convolution",
      {complexes({1, 2, 5}), complexes({3, 2, 2}), complexes({3}), list({2}), list({1}), list({1}), false, list({0}), Expr(1)});
  return out;
}

std::vector<Sample> composite_samples() {
  random_bits.seed(8);
  std::vector<Sample> out;
  const auto add = [&](const std::string& op, CallArgs args) { out.push_back({op, std::move(args)}); };
  const Arg<Tensor> none;
  add_pools(add);
  add_resamplings(add);
  add_losses(add);
  add_networks(add);
  // attention
  const Tensor q = floats({2, 4, 3, 5}), k = floats({2, 4, 6, 5}), v = floats({2, 4, 6, 5}), mask = floats({3, 6});
  const Tensor square = floats({2, 4, 3, 5}), some = ops::call1("gt.Scalar", {floats({3, 6}), -1.0});
  for (const char* op :
       {"scaled_dot_product_attention", "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu"}) {
    add(op, {q, k, v});
    out.back().results = {0};
  }
  const Tensor few_k = floats({2, 2, 6, 5}), few_v = floats({2, 2, 6, 5});
  add("_scaled_dot_product_flash_attention_for_cpu", {q, few_k, few_v, 0.0, false, mask, 0.7});  // by both results
  const Tensor grad_out = floats({2, 4, 3, 5}), result = floats({2, 4, 3, 5}), logarithms = floats({2, 4, 3});
  add("_scaled_dot_product_flash_attention_for_cpu_backward", {grad_out, q, few_k, few_v, result, logarithms, 0.0, false});
  for (const Tensor& m : {mask, some}) add("scaled_dot_product_attention", {q, k, v, m});
  add("scaled_dot_product_attention", {q, square, square, none, 0.0, true});
  add("scaled_dot_product_attention", {q, floats({2, 2, 6, 5}), floats({2, 2, 6, 5}), none, 0.0, false, 0.7, true});
  // norms
  const Tensor x = floats({3, 4, 5}), w = floats({4}), b = floats({4});
  add("layer_norm", {x, list({4, 5}), floats({4, 5}), floats({4, 5}), 1e-3});
  add("native_layer_norm", {x, list({5}), floats({5}), floats({5}), 1e-3});
  add("rms_norm", {x, list({5}), floats({5}), 1e-3});
  add("group_norm", {x, Expr(2), w, b, 1e-3});
  add("native_group_norm", {x, w, b, Expr(3), Expr(4), Expr(5), Expr(2), 1e-3});
  add("instance_norm", {x, w, b, none, none, true, 0.1, 1e-3, false});
  for (bool training : {true, false}) {
    add("batch_norm", {x, w, b, none, none, true, 0.1, 1e-3, training});
    add("native_batch_norm", {x, w, b, none, none, true, 0.1, 1e-3});
    out.back().results = {0};
  }
  add("_native_batch_norm_legit_no_training", {x, w, b, floats({4}), floats({4}, 0.5, 2), 0.1, 1e-3});
  out.back().results = {0};
  // products and joins
  add("linear", {x, floats({2, 5}), floats({2})});
  add("bilinear", {floats({3, 4}), floats({3, 5}), floats({2, 4, 5}), floats({2})});
  add("addmm", {floats({4}), floats({3, 2}), floats({2, 4}), 2.0, 0.5});
  add("baddbmm", {floats({3, 4, 2}), x, floats({3, 5, 2}), 1.0, 0.5});
  add("einsum", {std::string("abc,adc->bd"), std::vector<Tensor>{x, floats({3, 2, 5})}});
  add("stack", {std::vector<Tensor>{x, floats({3, 4, 5})}, Expr(1)});
  add("embedding_bag", {floats({3, 4}), integers({5}, {0, 2, 1, 2, 0}), integers({2}, {0, 3}), false, Expr(1)});
  out.back().results = {0};
  // statistics
  add("std.correction", {x, list({1}), Expr(1), true});
  add("mean.dim", {x, list({0, 2}), true});
  add("pdist", {floats({4, 3}), 2.0});
  add("cosine_similarity", {x, floats({3, 4, 5}), Expr(1)});
  add("linalg_vecdot", {x, floats({3, 1, 5}), Expr(1)});
  add("linalg_vecdot", {complexes({2, 3}), complexes({2, 3})});
  add("nansum", {x, list({1})});
  add("dist", {x, floats({5}), 3.0});
  add("index_add", {x, Expr(1), integers({2}, {3, 0}), floats({3, 2, 5})});
  add("masked_fill.Tensor", {x, ops::call1("gt.Scalar", {x, 0.0}), floats({})});
  add("masked_scatter", {x, ops::call1("gt.Scalar", {x, 0.0}), floats({60})});
  return out;
}

}  // namespace toroid::autograd
