#include "front/precision.h"

#include <algorithm>
#include <iterator>

#include "base/options.h"

namespace toroid::front {
namespace {

// From the most exact to the least. Sums of f32 in another order are apart by parts in 10^7 of each operand; 1e-4 of an output's range
// covers deep models. tf32 and f16 keep 10 bits of a number, bf16 7.
constexpr Precision kPrecisions[] = {{"f64", 1e-4}, {"f32", 1e-4}, {"tf32", 5e-3}, {"f16", 5e-3}, {"bf16", 1.6e-2}};
enum Place : size_t { kF64, kF32, kTf32, kF16, kBf16 };

size_t place_of(DType t) {
  switch (t) {
    case DType::F32:
    case DType::C64:
      return kF32;
    case DType::F16:
      return kF16;
    case DType::BF16:
      return kBf16;
    default:
      return kF64;
  }
}

size_t lowest(const graph::Graph& g) {
  size_t out = kF64;
  for (auto& in : g.inputs) out = std::max(out, place_of(in.value->type.dtype));
  for (auto& n : g.nodes) {
    for (const graph::Value* v : n->results) out = std::max(out, place_of(v->type.dtype));
    for (auto& region : n->regions) out = std::max(out, lowest(*region));
  }
  return out;
}

}  // namespace

Precision precision_of(const graph::Graph& g, const Device& device, const CompileOptions& options) {
  size_t place = lowest(g);
  if (place == kF32 && device.is_cuda() && options.get(options::kAllowTf32)) place = kTf32;
  return kPrecisions[place];
}

}  // namespace toroid::front
