#include "codegen/cuda/templates/exchange.cu.h"
#include "codegen/cuda/templates/meeting.h"

namespace toroid::codegen {
namespace {

using distributed::p2p::Layout;

Form exchange_form(const CudaSite& site, MeetingForm how) {
  const auto& m = site.problem<program::Meeting>();
  how.holes = {{"DELIVER", std::string(program::reduces(m) ? exchange_cu::kDeliverFolded : exchange_cu::kDeliverEach)}};
  return meeting_form(site, how);
}

}  // namespace

Form cuda_exchange_inline_form(const CudaSite& site) {
  const auto& m = site.problem<program::Meeting>();
  const int threads = m.ranks <= 2 ? 512 : 256;
  Form form = exchange_form(site, {.name = "exchange_inline",
                                   .text = exchange_cu::kInline,
                                   .pieces = threads,
                                   .threads = threads,
                                   .per_processor = 4,
                                   .rule_most = 64,
                                   .room = Layout(m.ranks).inline_bytes});
  if (typical_part_bytes(m) > (int64_t{1} << 20) / (m.ranks * m.ranks)) form.reluctance = "it sends each byte twice";
  return form;
}

Form cuda_exchange_rings_form(const CudaSite& site) {
  return exchange_form(site, {.name = "exchange_rings", .text = exchange_cu::kRings, .pieces = 256, .per_processor = 2, .rings = true});
}

}  // namespace toroid::codegen
