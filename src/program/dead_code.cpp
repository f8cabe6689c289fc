#include "program/dead_code.h"

#include <algorithm>

namespace toroid::program {

void eliminate_dead(Program& p) {
  std::vector<bool> needed;
  for (auto& b : p.buffers) needed.push_back(b.kind != loop::BufferKind::Temporary);
  std::vector<bool> stays(p.nodes.size());
  for (size_t i = p.nodes.size(); i-- > 0;) {
    const Node& n = p.nodes[i];
    const auto written = writes(n);
    stays[i] =
        n.is_call() || n.is_open() || std::any_of(written.begin(), written.end(), [&](int b) { return needed[static_cast<size_t>(b)]; });
    if (stays[i])
      for (int b : reads(n)) needed[static_cast<size_t>(b)] = true;
  }
  size_t at = 0;
  std::erase_if(p.nodes, [&](const Node&) { return !stays[at++]; });
}

}  // namespace toroid::program
