#include "sched/passes.h"

namespace toroid::sched {

bool run_mark_meetings(program::Program& p, target::PassContext&) {
  bool changed = false;
  for (size_t i = 1; i < p.nodes.size(); ++i) {
    program::Node& n = p.nodes[i];
    const auto* meeting = std::get_if<program::Meeting>(&p.nodes[i - 1].problem);
    if (n.after_meeting || !meeting || program::in_pieces(*meeting) || !std::holds_alternative<program::Gemm>(n.problem) || n.is_library())
      continue;
    n.after_meeting = changed = true;
  }
  return changed;
}

}  // namespace toroid::sched
