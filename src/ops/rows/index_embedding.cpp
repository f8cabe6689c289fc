// Embeddings and reductions over runs of rows: embedding, embedding_bag, embedding_renorm, segment_reduce.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"

namespace toroid::ops {
namespace {

using namespace host;
using Results = std::vector<Tensor>;

constexpr int64_t kBagSum = 0, kBagMean = 1, kBagMax = 2;

void bag_meta(MetaCall& c) {
  auto *weight = c.tensor("weight"), *indices = c.tensor("indices"), *offsets = c.tensor("offsets");
  TOROID_USER_CHECK(weight->dim() == 2 && indices->dim() == 1 && offsets->dim() == 1,
                    "{}: a matrix of weights and one dimension of indices and offsets are needed", c.op().name);
  TOROID_USER_CHECK(is_int(indices->dtype) && is_int(offsets->dtype), "{}: indices and offsets must be integers", c.op().name);
  int64_t mode = c.integer("mode");
  TOROID_USER_CHECK(mode >= kBagSum && mode <= kBagMax, "{}: mode is {}; it must be 0 (sum), 1 (mean) or 2 (max)", c.op().name, mode);
  if (auto* scale = c.opt_tensor("per_sample_weights")) {
    TOROID_USER_CHECK(mode == kBagSum, "{}: per_sample_weights need mode 0 (sum)", c.op().name);
    c.require_vector(*scale, indices->sizes[0], "{}: one weight is needed for each index", c.op().name);
  }
  Expr bags = c.flag("include_last_offset") ? offsets->sizes[0] - 1 : offsets->sizes[0];
  c.result(weight->dtype, {bags, weight->sizes[1]});
  c.result(indices->dtype, indices->sizes);
  c.result(indices->dtype, {bags});
  c.result(indices->dtype, mode == kBagMax ? std::vector<Expr>{bags, weight->sizes[1]} : std::vector<Expr>{bags});
}
void bag_kernel(KernelCall& c) {
  Tensor weight = c.tensor("weight").contiguous(), indices = c.tensor("indices").contiguous(), offsets = c.tensor("offsets").contiguous();
  Tensor scale = c.opt_tensor("per_sample_weights");
  if (scale.defined()) scale = scale.contiguous();
  int64_t mode = c.integer("mode"), padding = c.integer("padding_idx"), rows = weight.sizes()[0], width = weight.sizes()[1],
          count = indices.numel();
  int64_t bags = c.outputs[0].sizes()[0];
  for (auto& t : c.outputs) fill_zero(t);
  for (int64_t b = 0; b < bags; ++b) {
    int64_t first = get_int(offsets, b), last = b + 1 < offsets.numel() ? get_int(offsets, b + 1) : count;
    TOROID_USER_CHECK(first >= 0 && first <= last && last <= count, "{}: bag {} reaches from index {} to {} of {}", c.op().name, b, first,
                      last, count);
    TOROID_USER_CHECK(b > 0 || first == 0, "{}: the first bag starts at index {}; it must start at 0", c.op().name, first);
    std::vector<double> total(static_cast<size_t>(width));
    std::vector<int64_t> winner(static_cast<size_t>(width));
    int64_t taken = 0;
    for (int64_t i = first; i < last; ++i) {
      put(c.outputs[1], i, Number::of(b));
      int64_t row = checked_index("embedding_bag", get_int(indices, i), rows, 0, false);
      if (padding >= 0 && row == padding) continue;
      for (int64_t j = 0; j < width; ++j) {
        double v = get_real(weight, row * width + j) * (scale.defined() ? get_real(scale, i) : 1);
        double& t = total[static_cast<size_t>(j)];
        if (mode != kBagMax)
          t += v;
        else if (taken == 0 || v > t)
          t = v, winner[static_cast<size_t>(j)] = row;
      }
      ++taken;
    }
    put(c.outputs[2], b, Number::of(taken));
    for (int64_t j = 0; j < width; ++j) {
      double v = total[static_cast<size_t>(j)];
      put(c.outputs[0], b * width + j, Number::of(mode == kBagMean && taken ? v / static_cast<double>(taken) : v));
      if (mode == kBagMax) put(c.outputs[3], b * width + j, Number::of(winner[static_cast<size_t>(j)]));
    }
  }
}

void renorm_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  TOROID_USER_CHECK(self->dim() == 2 && is_float(self->dtype), "{}: a matrix of floats is needed", c.op().name);
  c.result(self->dtype, self->sizes);
}
void renorm_kernel(KernelCall& c) {
  Tensor self = c.tensor("self"), indices = c.tensor("indices").contiguous(), out = c.outputs[0];
  copy_elements(self, out);
  double limit = c.real("max_norm"), p = c.real("norm_type");
  int64_t width = out.sizes()[1];
  std::vector<bool> done(static_cast<size_t>(out.sizes()[0]));
  for (int64_t i = 0; i < indices.numel(); ++i) {
    int64_t row = checked_index(plain_name(c.op()), get_int(indices, i), out.sizes()[0], 0, false);
    if (done[static_cast<size_t>(row)]) continue;
    done[static_cast<size_t>(row)] = true;
    double norm = 0;
    for (int64_t j = 0; j < width; ++j) {
      double a = std::abs(get_real(out, row * width + j));
      if (std::isinf(p))
        norm = std::max(norm, a);
      else
        norm += p == 0 ? a != 0 : std::pow(a, p);
    }
    if (p != 0 && !std::isinf(p)) norm = std::pow(norm, 1 / p);
    if (!(norm > limit)) continue;
    constexpr double kTiny = 1e-7;  // as PyTorch divides
    for (int64_t j = 0; j < width; ++j) put(out, row * width + j, Number::of(get_real(out, row * width + j) * (limit / (norm + kTiny))));
  }
}

void segment_meta(MetaCall& c) {
  auto *data = c.tensor("data"), *lengths = c.opt_tensor("lengths"), *offsets = c.opt_tensor("offsets");
  int64_t axis = normal_dim(c.op(), c.integer("axis"), data->dim());
  auto* runs = lengths ? lengths : offsets;
  TOROID_USER_CHECK(runs && !data->sizes.empty(), "{}: lengths or offsets and data of at least one dimension are needed", c.op().name);
  TOROID_USER_CHECK(runs->dim() == axis + 1, "{}: runs along dimension {} need {} dimensions, they have {}", c.op().name, axis, axis + 1,
                    runs->dim());
  for (int64_t d = 0; d < axis; ++d)
    c.require_same(runs->sizes[static_cast<size_t>(d)], data->sizes[static_cast<size_t>(d)], "{}: runs and data differ in dimension {}",
                   c.op().name, d);
  std::string reduce = c.text("reduce");
  TOROID_USER_CHECK(reduce == "sum" || reduce == "mean" || reduce == "max" || reduce == "min" || reduce == "prod",
                    "{}: reduce is \"{}\"; it must be sum, mean, max, min or prod", c.op().name, reduce);
  auto sizes = data->sizes;
  sizes[static_cast<size_t>(axis)] = lengths ? lengths->sizes.back() : offsets->sizes.back() - 1;
  c.result(data->dtype, std::move(sizes));
}
void segment_kernel(KernelCall& c) {
  Tensor data = c.tensor("data").contiguous(), lengths = c.opt_tensor("lengths");
  Tensor runs = (lengths.defined() ? lengths : c.tensor("offsets")).contiguous();
  std::string reduce = c.text("reduce");
  int64_t axis = host::dim_of(c, data, "axis"), per_row = runs.sizes().back();
  Lines in(data, axis), out(c.outputs[0], axis);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double start = reduce == "max" ? -kInfinity : reduce == "min" ? kInfinity : reduce == "prod" ? 1 : 0;
  bool has_initial = c.has("initial");
  if (has_initial) start = c.real("initial");
  for (int64_t l = 0; l < out.count(); ++l) {
    int64_t row = l / out.inner, next = 0;
    for (int64_t s = 0; s < out.n; ++s) {
      int64_t first = lengths.defined() ? next : get_int(runs, row * per_row + s);
      int64_t last = lengths.defined() ? 0 : get_int(runs, row * per_row + s + 1);
      if (lengths.defined() && __builtin_add_overflow(first, get_int(runs, row * per_row + s), &last)) last = -1;
      TOROID_USER_CHECK(first >= 0 && first <= last && last <= in.n, "{}: run {} reaches from {} to {} of {}", c.op().name, s, first, last,
                        in.n);
      TOROID_USER_CHECK(c.flag("unsafe") || !lengths.defined() || s + 1 < out.n || last == in.n,
                        "{}: the lengths of row {} add up to {}; expected {}, as the data have along dimension {}", c.op().name, row, last,
                        in.n, axis);
      next = last;
      double v = start;
      for (int64_t k = first; k < last; ++k) {
        double x = get_real(data, in.at(l, k));
        if (reduce == "max")
          v = std::isnan(x) || x > v ? x : v;
        else if (reduce == "min")
          v = std::isnan(x) || x < v ? x : v;
        else if (reduce == "prod")
          v *= x;
        else
          v += x;
      }
      if (reduce == "mean") {
        if (last > first)
          v /= static_cast<double>(last - first);
        else if (!has_initial)
          v = std::nan("");
      }
      put(c.outputs[0], out.at(l, s), Number::of(v));
    }
  }
}

Results embedding_bag(const CallReader& c) {
  CallArgs args(c.args().begin(), c.args().end());
  if (c.op().schema.find("padding_idx") >= 0) {
    int64_t padding = c.has("padding_idx") ? c.integer("padding_idx") : -1;
    if (c.has("padding_idx") && padding < 0) padding += static_cast<int64_t>(c.tensor("weight").size(0));
    args.back() = Expr(padding);
  }
  return call(get("_embedding_bag"), std::move(args));
}

}  // namespace

void add_index_embedding_rows(Table& t) {
  t.composite("embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
              [](const CallReader& c) -> Results {
                Tensor weight = c.tensor("weight");
                TOROID_USER_CHECK(weight.dim() == 2, "{}: the weight must have 2 dimensions, it has {}", c.op().name, weight.dim());
                const Tensor rows = forms::checked_index(c, c.tensor("indices"), forms::size_at(weight, 0), 0);
                return {call1("index.Tensor", {weight, std::vector<Tensor>{rows}})};
              });
  for (const char* name : {"_embedding_bag_forward_only", "_embedding_bag"})
    t.primitive(std::string(name) +
                    "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
                    "per_sample_weights=None, "
                    "bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
                bag_meta, bag_kernel);
  std::string bag =
      "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
      "per_sample_weights=None, bool include_last_offset=False";
  t.composite("embedding_bag" + bag + ") -> (Tensor, Tensor, Tensor, Tensor)", embedding_bag);
  t.composite("embedding_bag.padding_idx" + bag + ", int? padding_idx=None) -> (Tensor, Tensor, Tensor, Tensor)", embedding_bag);
  t.primitive("embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor", renorm_meta, renorm_kernel);
  t.primitive(
      "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool "
      "unsafe=False, Scalar? initial=None) -> "
      "Tensor",
      segment_meta, segment_kernel);
}

}  // namespace toroid::ops
