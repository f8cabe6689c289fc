#include "codegen/packing.h"

#include "base/check.h"
#include "codegen/cpu/packings.h"
#include "codegen/rearrange.h"

namespace toroid::codegen {

Packed pack(const Packing& how, const std::vector<Tensor>& from) {
  if (how.name == "gemm") return pack_gemm(how, from);
  if (how.name == "gemm_int8") return pack_gemm_int8(how, from);
  if (how.name == "rearranged") return rearrange(how, from);
  if (is_conv_packing(how)) return pack_conv(how, from);
  fail<UserError>("unknown packing \"{}\"", how.name);
}

}  // namespace toroid::codegen
