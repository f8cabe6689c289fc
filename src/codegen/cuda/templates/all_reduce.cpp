#include "codegen/cuda/templates/all_reduce.cu.h"
#include "codegen/cuda/templates/meeting.h"

namespace toroid::codegen {

using distributed::p2p::Layout;

Form cuda_all_reduce_inline_form(const CudaSite& site) { return inline_meeting_form(site, "all_reduce_inline", all_reduce_cu::kInline); }

// Limits of the rules: measured on two and four H200s that NVLink joins, and by the bytes that each form sends for more ranks.
Form cuda_all_reduce_one_shot_form(const CudaSite& site) {
  const auto& m = site.problem<program::Meeting>();
  Form form = meeting_form(site, {.name = "all_reduce_one_shot",
                                  .text = all_reduce_cu::kOneShot,
                                  .pieces = 512,
                                  .rule_most = 128,
                                  .room = Layout(m.ranks).whole_bytes});
  if (typical_part_bytes(m) > (int64_t{8} << 20) / (m.ranks * (m.ranks - 1))) form.reluctance = "it sends whole inputs to all ranks";
  return form;
}

Form cuda_all_reduce_two_shot_form(const CudaSite& site) {
  const auto& m = site.problem<program::Meeting>();
  return meeting_form(site, {.name = "all_reduce_two_shot",
                             .text = all_reduce_cu::kTwoShot,
                             .pieces = m.ranks <= 2 ? 512 : 1024,
                             .per_processor = 2,
                             .rings = true,
                             .ring_pieces = m.ranks});
}

}  // namespace toroid::codegen
