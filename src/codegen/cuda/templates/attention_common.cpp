#include "codegen/cuda/templates/attention_common.h"

#include <algorithm>

#include "codegen/cuda/templates/attention_common.cu.h"
#include "codegen/emit.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kPiece = 8;  // halves in the 16 bytes of an access
constexpr int64_t kMaxDepth = 256;
constexpr double kLog2E = 1.4426950408889634;

// Whether rows of an operand can be read in pieces of 16 bytes.
bool is_aligned(const program::Attention& a, const program::Operand& o, const Expr& heads, const Expr& rows) {
  const Expr extents[] = {a.batch, heads, rows};
  bool aligned = sym::known_multiple(o.offset, kPiece) && o.strides[3] == Expr(1);
  for (size_t d = 0; d < 3; ++d) aligned = aligned && (extents[d] == Expr(1) || sym::known_multiple(o.strides[d], kPiece));
  return aligned;
}

std::string mask_value_text(const program::Attention& a) {
  if (a.mask.buffer < 0) return "";
  std::string value = "return x;";
  if (a.mask.dtype == DType::BF16) value = "return __uint_as_float((u32)x << 16);";
  if (a.mask.dtype == DType::F16) value = R"(float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r;)";
  return fmt::format(
      "typedef {} mask_type;\nconstexpr float kLog2E = {:.9e}f;\n__device__ __forceinline__ float mask_value(mask_type x) {{ {} }}\n",
      memory_type(a.mask.dtype), kLog2E, value);
}

}  // namespace

std::string cuda_attention_refusal(const program::Attention& a) {
  if (!is_half(a.q.dtype) || a.k.dtype != a.q.dtype || a.v.dtype != a.q.dtype) return "not all of bf16, or all of f16";
  for (int64_t d : {a.head_dim, a.value_dim})
    if (d < 16 || d > kMaxDepth || d % 16 != 0) return fmt::format("a head of {} columns", d);
  if (!a.heads.is_const() || !a.kv_heads.is_const()) return "the number of heads is not a constant";
  if (!is_aligned(a, a.q, a.heads, a.queries) || !is_aligned(a, a.k, a.kv_heads, a.keys) || !is_aligned(a, a.v, a.kv_heads, a.keys))
    return "rows are not aligned to 16 bytes";
  for (const Expr* e : {&a.queries, &a.keys})
    if (sym::bounds(*e).hi >= int64_t{1} << 30) return "too many positions";
  if (a.mask.buffer >= 0 && !is_bool(a.mask.dtype) && !is_half(a.mask.dtype) && a.mask.dtype != DType::F32)
    return "the mask is not bool, f32, bf16 or f16";
  return "";
}

bool has_mask_vectors(const program::Attention& a) {
  constexpr int64_t kBytes = 16;
  if (a.mask.buffer < 0 || !is_bool(a.mask.dtype) || !(a.mask.strides[3] == Expr(1))) return false;
  bool aligned = sym::known_multiple(a.keys, kBytes) && sym::known_multiple(a.mask.offset, kBytes);
  for (size_t d = 0; d < 3; ++d) aligned = aligned && sym::known_multiple(a.mask.strides[d], kBytes);
  return aligned;
}

int64_t heads_of_group(const program::Attention& a) { return a.heads.constant() / a.kv_heads.constant(); }

AttentionSizes typical_sizes(const program::Attention& a) {
  const auto size = [](const Expr& e, int64_t guess) {
    const sym::Bounds b = sym::bounds(e);
    return std::clamp(guess, std::min(b.lo, b.hi), b.hi);
  };
  return {size(a.batch, 1), size(a.queries, 128), size(a.keys, 4096)};
}

std::string attention_definitions(const program::Attention& a) {
  const bool bf = a.q.dtype == DType::BF16;
  return expand(attention_common_cu::kDefinitions, {{"T", bf ? "bf16" : "f16"}, {"MASK", mask_value_text(a)}});
}

std::string attention_sizes(CudaArguments& arguments, const program::Attention& a) {
  const std::string queries = cuda_size(arguments, a.queries), keys = cuda_size(arguments, a.keys);
  return fmt::format(
      "constexpr int heads = {}, kv_heads = {};\nconst int M = (int)({}), N = (int)({});\n"
      "constexpr float kFactor = {:.9e}f;\n",
      a.heads.constant(), a.kv_heads.constant(), queries, keys, a.scale * kLog2E);
}

std::string attention_pointer(CudaArguments& arguments, const program::Operand& o, const std::string& batch, const std::string& head,
                              const std::string& row) {
  const std::string at[] = {batch, head, row, "0"};
  return arguments.pointer(o.buffer, o.dtype) + " + " + cuda_address(arguments, o.offset, o.strides, at);
}

std::string apply_mask_text(const program::Attention& a, const std::string& score, const std::string& element) {
  if (a.mask.buffer < 0) return "";
  if (is_bool(a.mask.dtype)) return fmt::format("if (!{}) {} = NEGATIVE_INFINITY;", element, score);
  return fmt::format("{} += mask_value({}) * kLog2E;", score, element);
}

CudaAttentionTarget cuda_attention_target(const device::cuda::GpuInfo& gpu) {
  return {gpu.multiprocessors, static_cast<int64_t>(gpu.shared_bytes), gpu.is_hopper()};
}

}  // namespace toroid::codegen
