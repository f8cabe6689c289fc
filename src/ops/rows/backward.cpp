// The backward operations of ATen that graphs of torch.compile have: each is the gradient of the operation that it belongs to.
#include "base/check.h"
#include "ops/gradients.h"
#include "ops/rows/forms.h"

namespace toroid::ops {
namespace {

using forms::Sizes;

VectorJacobian installed = nullptr;

using Wanted = std::vector<std::string>;

// The gradients of a call of `forward` by its arguments named in `wanted`, each for itself where several are one tensor. args: of the call.
std::vector<Tensor> gradients(const Op& forward, CallArgs args, const Wanted& wanted, const Tensor& cotangent) {
  std::vector<Tensor> by;
  for (auto& name : wanted) {
    auto& argument = args.at(static_cast<size_t>(forward.schema.find(name)));
    by.push_back(call1("alias", {std::get<Tensor>(argument)}));
    argument = by.back();
  }
  return vector_jacobian()([&] { return std::vector<Tensor>{call(forward, args)[0]}; }, by, std::span(&cotangent, 1));
}

// What a backward operation is called with behind its first argument, the gradient of the result: the arguments of `forward`.
CallArgs rest(const CallReader& c, const Op& forward) {
  return {c.args().begin() + 1, c.args().begin() + 1 + static_cast<std::ptrdiff_t>(forward.schema.params.size())};
}

// By the first of these arguments.
template <const char* const& kForward>
std::vector<Tensor> by_first(const CallReader& c) {
  const Op& forward = get(kForward);
  return gradients(forward, rest(c, forward), {forward.schema.params[0].name}, c.tensor(c.op().schema.params[0].name));
}

// By those that output_mask names; the others, which nobody reads, have no elements.
std::vector<Tensor> masked(const CallReader& c, const Op& forward, const CallArgs& args, const Wanted& names) {
  const auto mask = std::get<std::vector<bool>>(c.at("output_mask"));
  TOROID_USER_CHECK(mask.size() == names.size(), "{}: output_mask has {} elements, expected {}", c.op().name, mask.size(), names.size());
  Wanted wanted;
  for (size_t i = 0; i < names.size(); ++i)
    if (mask[i]) wanted.push_back(names[i]);
  std::vector<Tensor> found = gradients(forward, args, wanted, c.tensor("grad_output")), out(names.size());
  for (size_t i = 0, next = 0; i < names.size(); ++i)
    out[i] = mask[i] ? found[next++] : forms::full({0}, 0, c.tensor("grad_output").dtype());
  return out;
}

std::vector<Tensor> convolution_backward(const CallReader& c) {
  const Tensor weight = c.tensor("weight");
  const auto mask = std::get<std::vector<bool>>(c.at("output_mask"));
  const Expr channels = c.flag("transposed") ? forms::size_at(weight, 1) * c.expr("groups") : forms::size_at(weight, 0);
  CallArgs args{c.tensor("input"), weight, Arg<Tensor>()};
  if (mask.size() == 3 && mask[2]) args[2] = forms::full({channels}, 0, weight.dtype());
  for (const char* name : {"stride", "padding", "dilation", "transposed", "output_padding", "groups"}) args.push_back(c.at(name));
  return masked(c, get("convolution"), args, {"input", "weight", "bias"});
}

template <const char* const& kForward>
std::vector<Tensor> grid_sampler_backward(const CallReader& c) {
  const Op& forward = get(kForward);
  return masked(c, forward, rest(c, forward), {"input", "grid"});
}

template <size_t kSpatial>
std::vector<Tensor> adaptive_avg_pool_backward(const CallReader& c) {
  Sizes out = forms::sizes_of(c.tensor("grad_output"));
  TOROID_USER_CHECK(c.tensor("self").dim() == static_cast<int64_t>(out.size()) && out.size() >= kSpatial,
                    "{}: grad_output has {} dimensions, self {}", c.op().name, out.size(), c.tensor("self").dim());
  out.erase(out.begin(), out.end() - kSpatial);
  const Op& forward = get(kSpatial == 2 ? "_adaptive_avg_pool2d" : "_adaptive_avg_pool3d");
  return gradients(forward, {c.tensor("self"), out}, {"self"}, c.tensor("grad_output"));
}

// Of operations that are linear in what only has sizes here.
template <const char* const& kForward>
std::vector<Tensor> resize_backward(const CallReader& c) {
  const Tensor g = c.tensor("grad_output");
  const Op& forward = get(kForward);
  CallArgs args = rest(c, forward);
  args[0] = forms::full(c.exprs("input_size"), 0, g.dtype());
  args[1] = c.at("output_size");
  for (size_t i = 2; i < forward.schema.params.size(); ++i) args[i] = c.at(forward.schema.params[i].name);
  return gradients(forward, args, {"self"}, g);
}

std::vector<Tensor> masked_scatter_backward(const CallReader& c) {
  const Tensor g = c.tensor("grad_output"), source = forms::full(c.exprs("sizes"), 0, g.dtype());
  return gradients(get("masked_scatter"), {forms::full(forms::sizes_of(g), 0, g.dtype()), c.tensor("mask"), source}, {"source"}, g);
}

std::vector<Tensor> cdist_backward(const CallReader& c) {
  return gradients(get("_cdist_forward"), {c.tensor("x1"), c.tensor("x2"), c.at("p"), Arg<Tensor>()}, {"x1"}, c.tensor("grad_output"));
}

std::vector<Tensor> segment_reduce_backward(const CallReader& c) {
  const Op& forward = get("segment_reduce");
  CallArgs args(forward.schema.params.size());
  for (const char* name : {"data", "reduce", "lengths", "offsets", "axis", "initial"})
    args[static_cast<size_t>(forward.schema.find(name))] = c.at(name);
  args[static_cast<size_t>(forward.schema.find("unsafe"))] = false;
  return gradients(forward, args, {"data"}, c.tensor("grad"));
}

constexpr const char *kAvgPool2d = "avg_pool2d", *kAvgPool3d = "avg_pool3d", *kPdist = "_pdist_forward", *kGrid2d = "grid_sampler_2d",
                     *kGrid3d = "grid_sampler_3d", *kReplicate1d = "replication_pad1d", *kReplicate2d = "replication_pad2d",
                     *kReplicate3d = "replication_pad3d", *kBilinear = "_upsample_bilinear2d_aa", *kBicubic = "_upsample_bicubic2d_aa";

std::string pool_schema(const std::string& n) {
  return "avg_pool" + n + "d_backward(Tensor grad_output, Tensor self, int[" + n + "] kernel_size, int[" + n + "] stride, int[" + n +
         "] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor";
}

std::string grid_schema(const std::string& n) {
  return "grid_sampler_" + n +
         "d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
         "align_corners, bool[2] output_mask) -> (Tensor, Tensor)";
}

std::string padding_schema(int n) {
  return "replication_pad" + std::to_string(n) + "d_backward(Tensor grad_output, Tensor self, SymInt[" + std::to_string(2 * n) +
         "] padding) -> Tensor";
}

std::string resize_schema(const std::string& name) {
  return name +
         "_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, "
         "float? scales_w=None) -> Tensor";
}

}  // namespace

void install_vector_jacobian(VectorJacobian f) { installed = f; }

VectorJacobian vector_jacobian() {
  TOROID_CHECK(installed, "nothing here differentiates");
  return installed;
}

void add_backward_rows(Table& t) {
  t.composite(
      "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, "
      "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      convolution_backward);
  t.composite(pool_schema("2"), by_first<kAvgPool2d>);
  t.composite(pool_schema("3"), by_first<kAvgPool3d>);
  t.composite("_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", adaptive_avg_pool_backward<2>);
  t.composite("_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor", adaptive_avg_pool_backward<3>);
  t.composite(grid_schema("2"), grid_sampler_backward<kGrid2d>);
  t.composite(grid_schema("3"), grid_sampler_backward<kGrid3d>);
  t.composite(padding_schema(1), by_first<kReplicate1d>);
  t.composite(padding_schema(2), by_first<kReplicate2d>);
  t.composite(padding_schema(3), by_first<kReplicate3d>);
  t.composite(resize_schema(kBilinear), resize_backward<kBilinear>);
  t.composite(resize_schema(kBicubic), resize_backward<kBicubic>);
  t.composite("masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor", masked_scatter_backward);
  t.composite("_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", cdist_backward);
  t.composite("_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor", by_first<kPdist>);
  t.composite(
      "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? lengths=None, Tensor? offsets=None, int "
      "axis=0, Scalar? initial=None) -> Tensor",
      segment_reduce_backward);
}

}  // namespace toroid::ops
