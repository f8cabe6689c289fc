#include "codegen/cpu/templates/template_text.h"

#include "base/check.h"

namespace toroid::codegen {
namespace {

constexpr std::string_view kHead = R"(
#ifndef TOROID_TEMPLATE_HEAD
#define TOROID_TEMPLATE_HEAD
typedef __INT64_TYPE__ int64_t;
enum { T_LANES = @LANES@ };
typedef vf32 t_vf32_unaligned __attribute__((aligned(4)));
typedef int t_vi32 __attribute__((vector_size(@LANES@ * 4)));
typedef unsigned short t_u16;
typedef t_u16 t_vu16 __attribute__((vector_size(@LANES@ * 2), aligned(2)));
typedef _Float16 t_vf16 __attribute__((vector_size(@LANES@ * 2), aligned(2)));
#define T_INLINE static inline __attribute__((always_inline))
#define T_KERNEL static __attribute__((noinline)) /* a register tile: inlined copies only cost compile time */
T_INLINE vf32 t_load(const float* p) { return *(const t_vf32_unaligned*)p; }
typedef t_vi32 t_vi32_unaligned __attribute__((aligned(4)));
T_INLINE t_vi32 t_load_i32(const int* p) { return *(const t_vi32_unaligned*)p; }
T_INLINE void t_store(float* p, vf32 v) { *(t_vf32_unaligned*)p = v; }
T_INLINE vf32 t_splat(float x) { return (vf32){@SPLAT@}; }
T_INLINE vf32 t_max(vf32 a, vf32 b) { return __builtin_elementwise_max(a, b); }
T_INLINE vf32 t_load_bf16(const t_u16* p) { return (vf32)(__builtin_convertvector(*(const t_vu16*)p, t_vi32) << 16); }
T_INLINE float t_scalar_bf16(const t_u16* p) {
  union { unsigned u; float f; } x = {(unsigned)*p << 16};
  return x.f;
}
// Sum of the lanes.
T_INLINE float t_sum(vf32 v) {
  float x[T_LANES] __attribute__((aligned(64)));
  t_store(x, v);
#pragma clang loop unroll(full)
  for (int half = T_LANES / 2; half > 0; half /= 2) {
#pragma clang loop unroll(full)
    for (int i = 0; i < half; ++i) x[i] += x[i + half];
  }
  return x[0];
}
T_INLINE vf32 t_load_f16(const _Float16* p) { return __builtin_convertvector(*(const t_vf16*)p, vf32); }
// Copies min(count, T_LANES) floats; the rest of the vector is zero.
T_INLINE vf32 t_load_part(const float* p, int64_t count) {
  float x[T_LANES] = {0};
#pragma clang loop vectorize(disable) unroll(disable)
  for (int64_t i = 0; i < count; ++i) x[i] = p[i];
  return t_load(x);
}
#endif
)";

}  // namespace

Extent Extent::at(int param) {
  TOROID_CHECK(param >= 0, "negative parameter index");
  Extent e;
  e.param_ = param;
  return e;
}

std::string Extent::text() const { return is_constant() ? std::to_string(value_) : fmt::format("params[{}]", param_); }

std::string row_function_text(const std::string& name, const RowProducer& producer) {
  if (producer.empty()) return "";
  return expand(R"(
static void @NAME@_row(float* restrict row, int64_t m, int64_t batch, char* restrict scratch, void* const* bufs, const int64_t* params) {
  @STATEMENTS@
}
)",
                {{"NAME", name}, {"STATEMENTS", producer.statements}});
}

std::string template_head(int lanes) {
  std::string splat = "x";
  for (int i = 1; i < lanes; ++i) splat += ", x";
  return expand(kHead, {{"LANES", std::to_string(lanes)}, {"SPLAT", splat}});
}

std::string storage_type(DType t) {
  switch (t) {
    case DType::F32:
      return "float";
    case DType::BF16:
      return "t_u16";
    case DType::F16:
      return "_Float16";
    default:
      fail<InternalError>("no CPU template reads {} storage; expected f32, bf16 or f16", name_of(t));
  }
}

std::string load_vector(DType t, const std::string& pointer) {
  switch (t) {
    case DType::BF16:
      return fmt::format("t_load_bf16({})", pointer);
    case DType::F16:
      return fmt::format("t_load_f16({})", pointer);
    default:
      return fmt::format("t_load({})", pointer);
  }
}

std::string load_scalar(DType t, const std::string& pointer) {
  switch (t) {
    case DType::BF16:
      return fmt::format("t_scalar_bf16({})", pointer);
    case DType::F16:
      return fmt::format("(float)*({})", pointer);
    default:
      return fmt::format("*({})", pointer);
  }
}

}  // namespace toroid::codegen
