#include "ops/refused.h"

namespace toroid::ops {
namespace {

using enum Refusal;

constexpr Refused kRefused[] = {
    {"_fake_quantize_learnable*", Whole,
     "write it as operations before the export: clamp(round(x / scale) + zero_point, low, high), and back"},
    {"_foreach_lerp", Whole, "call lerp for each tensor"},
    {"affine_grid", OtherName, "affine_grid_generator"},
    {"cartesian_prod", Whole, "stack the flattened results of meshgrid"},
    {"cross_entropy", OtherName, "cross_entropy_loss"},
    {"fold", OtherName, "col2im"},
    {"grid_sample", OtherName, "grid_sampler"},
    {"interpolate", OtherName, "upsample_nearest2d, upsample_bilinear2d and the like"},
    {"linalg_matrix_rank", Whole, "count the singular values (linalg_svdvals) above the tolerance"},
    {"lstm.data", Whole, "packed sequences are not taken; export the module with padded ones"},
    {"tensor_split.tensor_indices_or_sections", Whole, "indices in a tensor are not taken; give numbers"},
    {"torchvision.roi_align", InPart,
     "not with sampling_ratio 0, where regions say how many samples there are; export with a positive one"},
};

bool is_of(std::string_view name, std::string_view of) {
  if (of.ends_with('*')) return name.starts_with(of.substr(0, of.size() - 1));
  return name == of || (name.starts_with(of) && name[of.size()] == '.');
}

}  // namespace

std::span<const Refused> refused() { return kRefused; }

const Refused* find_refused(std::string_view name) {
  for (const Refused& r : kRefused)
    if (is_of(name, r.name)) return &r;
  return nullptr;
}

}  // namespace toroid::ops
