// The lists are those that PyTorch registers for CUDA and for the CPU (ATen's autocast_mode), under the names of the op table; what PyTorch
// makes of listed operations (einsum of bmm, cross_entropy_loss of log_softmax and nll_loss) stands in the group of those.
#include "ops/autocast.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ops/table.h"

namespace toroid::ops {
namespace {

using Names = std::set<std::string_view>;

const Names& kLower = *new Names{"addbmm",
                                 "addmm",
                                 "baddbmm",
                                 "bmm",
                                 "chain_matmul",
                                 "conv1d",
                                 "conv2d",
                                 "conv3d",
                                 "conv_tbc",
                                 "_convolution",
                                 "convolution",
                                 "conv_transpose1d",
                                 "conv_transpose2d",
                                 "conv_transpose3d",
                                 "einsum",
                                 "linalg_vecdot",
                                 "linear",
                                 "matmul",
                                 "mm",
                                 "prelu",
                                 "_prelu_kernel",
                                 "scaled_dot_product_attention",
                                 "_scaled_dot_product_attention_math",
                                 "linalg_multi_dot",
                                 "lstm",
                                 "gru",
                                 "rnn_tanh",
                                 "rnn_relu",
                                 "rnn_tanh_cell",
                                 "rnn_relu_cell"};
const Names& kLowerOnGpus = *new Names{"addmv", "addr", "mv", "lstm_cell", "gru_cell"};

const Names& kF32OnGpus = *new Names{"acos",
                                     "asin",
                                     "cosh",
                                     "sinh",
                                     "tan",
                                     "erfinv",
                                     "exp",
                                     "expm1",
                                     "log",
                                     "log10",
                                     "log1p",
                                     "log2",
                                     "reciprocal",
                                     "rsqrt",
                                     "pow",
                                     "softplus",
                                     "softmax",
                                     "_softmax",
                                     "log_softmax",
                                     "_log_softmax",
                                     "softmin",
                                     "logsumexp",
                                     "cumprod",
                                     "cumsum",
                                     "prod",
                                     "sum",
                                     "norm",
                                     "dist",
                                     "pdist",
                                     "cdist",
                                     "_cdist_forward",
                                     "renorm",
                                     "frobenius_norm",
                                     "nuclear_norm",
                                     "linalg_vector_norm",
                                     "linalg_matrix_norm",
                                     "linalg_norm",
                                     "layer_norm",
                                     "native_layer_norm",
                                     "group_norm",
                                     "native_group_norm",
                                     "cosine_similarity",
                                     "cosine_embedding_loss",
                                     "cross_entropy_loss",
                                     "binary_cross_entropy_with_logits",
                                     "hinge_embedding_loss",
                                     "huber_loss",
                                     "kl_div",
                                     "l1_loss",
                                     "margin_ranking_loss",
                                     "mse_loss",
                                     "multilabel_margin_loss",
                                     "multi_margin_loss",
                                     "nll_loss",
                                     "nll_loss_forward",
                                     "nll_loss2d",
                                     "nll_loss2d_forward",
                                     "nll_loss_nd",
                                     "poisson_nll_loss",
                                     "smooth_l1_loss",
                                     "soft_margin_loss",
                                     "triplet_margin_loss"};
const Names& kF32OnCpu = *new Names{"avg_pool3d",
                                    "max_pool3d",
                                    "max_unpool2d",
                                    "max_unpool3d",
                                    "adaptive_avg_pool3d",
                                    "binary_cross_entropy",
                                    "binary_cross_entropy_with_logits",
                                    "grid_sampler",
                                    "grid_sampler_2d",
                                    "grid_sampler_3d",
                                    "polar",
                                    "prod",
                                    "quantile",
                                    "nanquantile",
                                    "stft",
                                    "_fft_r2c",
                                    "cdist",
                                    "_cdist_forward",
                                    "trace",
                                    "view_as_complex",
                                    "cholesky",
                                    "cholesky_inverse",
                                    "cholesky_solve",
                                    "inverse",
                                    "lu_solve",
                                    "orgqr",
                                    "ormqr",
                                    "pinverse",
                                    "reflection_pad1d",
                                    "reflection_pad2d",
                                    "replication_pad1d",
                                    "replication_pad2d",
                                    "replication_pad3d",
                                    "mse_loss",
                                    "cosine_embedding_loss",
                                    "nll_loss",
                                    "nll_loss_forward",
                                    "nll_loss2d",
                                    "nll_loss2d_forward",
                                    "nll_loss_nd",
                                    "hinge_embedding_loss",
                                    "poisson_nll_loss",
                                    "smooth_l1_loss",
                                    "cross_entropy_loss",
                                    "l1_loss",
                                    "huber_loss",
                                    "margin_ranking_loss",
                                    "soft_margin_loss",
                                    "triplet_margin_loss",
                                    "multi_margin_loss",
                                    "ctc_loss",
                                    "kl_div",
                                    "multilabel_margin_loss",
                                    "linalg_cholesky",
                                    "linalg_cholesky_ex",
                                    "linalg_cond",
                                    "linalg_det",
                                    "linalg_eig",
                                    "linalg_eigh",
                                    "linalg_eigvals",
                                    "linalg_eigvalsh",
                                    "linalg_householder_product",
                                    "linalg_inv",
                                    "linalg_inv_ex",
                                    "linalg_lstsq",
                                    "linalg_matrix_rank",
                                    "linalg_pinv",
                                    "linalg_qr",
                                    "linalg_slogdet",
                                    "linalg_solve",
                                    "linalg_svd",
                                    "linalg_svdvals",
                                    "linalg_tensorinv",
                                    "linalg_tensorsolve",
                                    "geqrf",
                                    "logdet",
                                    "slogdet",
                                    "det"};

const Names& kPromoteOnGpus =
    *new Names{"addcdiv",      "addcmul",         "atan2",           "bilinear",  "cross",       "linalg_cross", "dot", "vdot",
               "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "index_put", "scatter_add", "tensordot",    "cat", "stack"};
const Names& kPromoteOnCpu = *new Names{"cat", "stack", "index_copy"};

thread_local AutocastStates states = {AutocastState{false, DType::BF16}, AutocastState{false, DType::F16}};

AutocastState& state_of(DeviceType d) { return states[static_cast<size_t>(d)]; }

std::string_view base_name(const Op& op) { return std::string_view(op.name).substr(0, op.name.find('.')); }

// What PyTorch makes of a call of "pad": "reflection_pad2d".
std::string padding_name(const Op& op, std::span<const Arg<Tensor>> args) {
  const auto* mode = std::get_if<std::string>(&args[static_cast<size_t>(op.schema.find("mode"))]);
  const auto* widths = std::get_if<std::vector<Expr>>(&args[static_cast<size_t>(op.schema.find("pad"))]);
  if (!mode || !widths || (*mode != "reflect" && *mode != "replicate")) return op.name;
  return fmt::format("{}_pad{}d", *mode == "reflect" ? "reflection" : "replication", widths->size() / 2);
}

// Autocast touches floats up to f32 that are on the device itself.
bool is_eligible(const Tensor& t, const Device& device) {
  return t.defined() && t.device() == device && (t.dtype() == DType::F32 || is_half(t.dtype()));
}

}  // namespace

AutocastPolicy autocast_policy(const Op& op, std::span<const Arg<Tensor>> args, DeviceType device) {
  if (op.inplace_of || (!op.schema.params.empty() && op.schema.params[0].mutated)) return AutocastPolicy::None;
  const std::string padding = op.name == "pad" ? padding_name(op, args) : "";
  const std::string_view name = padding.empty() ? base_name(op) : padding;
  const bool gpu = device == DeviceType::Cuda;
  if (kLower.count(name) || (gpu && kLowerOnGpus.count(name))) return AutocastPolicy::Lower;
  if ((gpu ? kF32OnGpus : kF32OnCpu).count(name)) return AutocastPolicy::F32;
  if ((gpu ? kPromoteOnGpus : kPromoteOnCpu).count(name)) return AutocastPolicy::Promote;
  // A number divided by a tensor is PyTorch's __rtruediv__: a reciprocal.
  if (gpu && op.name == "div.Tensor" && !std::holds_alternative<Tensor>(args[0])) return AutocastPolicy::F32;
  return AutocastPolicy::None;
}

CallArgs autocast_args(const Op& op, CallArgs args, const Device& device, const std::source_location& where) {
  return autocast_args(op, std::move(args), device, device.type, where);
}

CallArgs autocast_args(const Op& op, CallArgs args, const Device& device, DeviceType rules, const std::source_location& where) {
  const AutocastState state = state_of(rules);
  if (!state.enabled) return args;
  const AutocastPolicy policy = autocast_policy(op, args, rules);
  if (policy == AutocastPolicy::None) return args;
  // Reductions that are told their dtype keep to it.
  const int dtype = op.schema.find("dtype");
  if (policy == AutocastPolicy::F32 && dtype >= 0 && std::holds_alternative<DType>(args[static_cast<size_t>(dtype)])) return args;
  DType to = policy == AutocastPolicy::F32 ? DType::F32 : state.dtype;
  auto each = [&](auto&& f) {
    for (auto& a : args) {
      if (auto* t = std::get_if<Tensor>(&a); t && is_eligible(*t, device)) f(*t);
      if (auto* list = std::get_if<std::vector<Tensor>>(&a))
        for (auto& t : *list)
          if (is_eligible(t, device)) f(t);
    }
  };
  if (policy == AutocastPolicy::Promote) each([&](const Tensor& t) { to = promote_types(to, t.dtype()); });
  each([&](Tensor& t) {
    if (t.dtype() != to) t = call1("_to_copy", {t, to}, where);
  });
  return args;
}

AutocastStates autocast_states() {
  auto out = states;
  for (auto& s : out)
    if (!s.enabled) s.dtype = DType::F32;  // which no operation sees
  return out;
}

std::string difference(const AutocastStates& before, const AutocastStates& now) {
  auto text = [](const AutocastState& s) { return s.enabled ? name_of(s.dtype) : std::string_view("off"); };
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] != now[i])
      return fmt::format("autocast on {} was {}, is {}", static_cast<DeviceType>(i) == DeviceType::Cuda ? "cuda" : "cpu", text(before[i]),
                         text(now[i]));
  return "";
}

NoAutocast::NoAutocast() : before_(states) {
  for (auto& s : states) s.enabled = false;
}
NoAutocast::~NoAutocast() { states = before_; }

}  // namespace toroid::ops

namespace toroid {

autocast::autocast(DeviceType device, std::optional<DType> dtype, bool enabled)
    : device_(device), enabled_before_(ops::state_of(device).enabled), dtype_before_(ops::state_of(device).dtype) {
  const DType wanted = dtype.value_or(device == DeviceType::Cuda ? DType::F16 : DType::BF16);
  TOROID_USER_CHECK(is_half(wanted), "autocast: the dtype must be bf16 or f16, it is {}", name_of(wanted));
  ops::state_of(device) = {enabled, wanted};
}
autocast::~autocast() { ops::state_of(device_) = {enabled_before_, dtype_before_}; }

bool is_autocast_enabled(DeviceType device) { return ops::state_of(device).enabled; }
DType autocast_dtype(DeviceType device) { return ops::state_of(device).dtype; }

}  // namespace toroid
