#include "compile/memory.h"

#include <algorithm>

#include "exec/run/arena.h"

namespace toroid::compiler {

MemoryNeed memory_of(const program::Program& p) {
  std::vector<exec::LiveRange> ranges(p.buffers.size());
  const auto bytes_of = [&](int b) {
    const auto& buffer = p.buffers[static_cast<size_t>(b)];
    return graph::usual_value(buffer.numel, p.symbols) * static_cast<int64_t>(size_of(buffer.dtype));
  };
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    std::vector<int> touched = program::reads(p.nodes[i]);
    for (const int b : program::writes(p.nodes[i])) touched.push_back(b);
    for (const int b : touched) {
      if (p.buffers[static_cast<size_t>(b)].kind != loop::BufferKind::Temporary) continue;
      exec::LiveRange& r = ranges[static_cast<size_t>(b)];
      if (r.bytes == 0) r = {std::max<int64_t>(bytes_of(b), 1), static_cast<int>(i), 0};
      r.last = static_cast<int>(i);
    }
  }
  MemoryNeed out;
  out.temporaries = exec::place(ranges).bytes;
  for (auto& o : p.outputs)
    if (o.buffer >= 0 && o.mutates < 0) out.outputs += bytes_of(o.buffer);
  std::vector<int64_t> change(p.nodes.size() + 1, 0);  // of what is alive, before each node
  for (auto& r : ranges)
    if (r.bytes > 0) change[static_cast<size_t>(r.first)] += r.bytes, change[static_cast<size_t>(r.last) + 1] -= r.bytes;
  int64_t alive = 0, most = 0;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    alive += change[i];
    if (alive > most) most = alive, out.fullest = program::label(p.nodes[i]);
  }
  return out;
}

}  // namespace toroid::compiler
