#include "codegen/cuda/templates/attention_hopper.h"

#include "codegen/cuda/templates/attention_hopper.cu.h"

namespace toroid::codegen {

device::cuda::TensorMap attention_boxes(const Expr& batch, const program::Operand& o, const Expr& heads, const Expr& rows, int64_t columns,
                                        int box_rows) {
  constexpr int kRowBytes = 128;
  const Expr extents[] = {batch, heads, rows};
  device::cuda::TensorMap map;
  map.buffer = o.buffer;
  map.dtype = o.dtype;
  map.offset = o.offset;
  map.sizes = {columns, rows, heads, batch};
  for (size_t d = 3; d-- > 0;) map.strides.push_back(extents[d] == Expr(1) ? Expr(columns) : o.strides[d]);
  map.box = {kRowBytes / static_cast<int>(size_of(o.dtype)), box_rows, 1, 1};
  map.swizzle = kRowBytes;
  return map;
}

bool has_attention_boxes(const Expr& batch, const program::Operand& o, const Expr& heads, const Expr& rows) {
  const Expr extents[] = {batch, heads, rows};
  for (size_t d = 0; d < 3; ++d)
    if (!(extents[d] == Expr(1)) && sym::bounds(o.strides[d]).lo <= 0) return false;
  return true;
}

std::string wgmma_text(DType type, const WgmmaProduct& p) {
  const int n = static_cast<int>(p.columns) / 2, operands = p.a_in_registers ? 4 : 1;
  std::string d, bound, a;
  for (int i = 0; i < n; ++i) {
    d += fmt::format("{}%{}", i ? ", " : "", i);
    bound += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  for (int i = 0; i < operands; ++i) a += fmt::format("{}%{}", i ? ", " : "", n + i);
  if (p.a_in_registers) a = "{" + a + "}";
  const std::string t = type == DType::BF16 ? "bf16" : "f16";
  const int b = n + operands, add = b + 1;
  std::string instruction = fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, {}, %{}, {}, 1, 1, ", p.columns, t, t, d,
                                        a, b, p.may_begin ? "p" : "1");
  instruction +=
      p.a_in_registers ? fmt::format("{};", p.b_by_depth ? 1 : 0) : fmt::format("{}, {};", p.a_by_depth ? 1 : 0, p.b_by_depth ? 1 : 0);
  if (p.may_begin) instruction = fmt::format("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n{}\\n}}\\n", add, instruction);
  return fmt::format(
      "__device__ __forceinline__ void {}(float (&d)[{}], {} a, u64 b{}) {{\n  asm volatile(\"{}\"\n               : {}\n"
      "               : {}, \"l\"(b){});\n}}\n",
      p.name, n, p.a_in_registers ? "const u32*" : "u64", p.may_begin ? ", int add" : "", instruction, bound,
      p.a_in_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)", p.may_begin ? ", \"r\"(add)" : "");
}

std::string_view attention_copies() { return attention_hopper_cu::kCopies; }
std::string_view attention_stores() { return attention_hopper_cu::kStores; }

}  // namespace toroid::codegen
