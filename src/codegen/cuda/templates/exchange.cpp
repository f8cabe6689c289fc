#include "codegen/cuda/templates/exchange.cu.h"
#include "codegen/cuda/templates/meeting.h"

namespace toroid::codegen {
namespace {

Substitutions deliver(const program::Meeting& m) {
  return {{"DELIVER", std::string(program::reduces(m) ? exchange_cu::kDeliverFolded : exchange_cu::kDeliverEach)}};
}

}  // namespace

Form cuda_exchange_inline_form(const CudaSite& site) {
  return inline_meeting_form(site, "exchange_inline", exchange_cu::kInline, deliver(site.problem<program::Meeting>()));
}

Form cuda_exchange_rings_form(const CudaSite& site) {
  return meeting_form(site, {.name = "exchange_rings",
                             .text = exchange_cu::kRings,
                             .pieces = 256,
                             .per_processor = 2,
                             .rings = true,
                             .holes = deliver(site.problem<program::Meeting>())});
}

}  // namespace toroid::codegen
