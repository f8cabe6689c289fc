#include "compile/memory.h"

#include <algorithm>

#include "compile/pipeline.h"
#include "exec/run/arena.h"
#include "exec/run/bound.h"

namespace toroid::compiler {

MemoryNeed memory_of(const Kernels& kernels, const Job& job) {
  const program::Program& p = kernels.program;
  const auto usual = [&](const Expr& e) { return graph::usual_value(e, p.symbols); };
  const auto bytes_of = [&](int b) {
    const auto& buffer = p.buffers[static_cast<size_t>(b)];
    return usual(buffer.numel) * static_cast<int64_t>(size_of(buffer.dtype));
  };
  std::vector<exec::LiveRange> ranges(p.buffers.size());
  const auto touch = [&](int b, size_t node) {
    if (p.buffers[static_cast<size_t>(b)].kind != loop::BufferKind::Temporary) return;
    exec::LiveRange& r = ranges[static_cast<size_t>(b)];
    const int at = static_cast<int>(node);
    if (r.bytes == 0) r = {std::max<int64_t>(bytes_of(b), 1), at, at};
    r.last = at;
  };
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const auto text = kernels.texts.find(i);
    if (text == kernels.texts.end()) {
      for (const int b : program::reads(p.nodes[i])) touch(b, i);
      for (const int b : program::writes(p.nodes[i])) touch(b, i);
      continue;
    }
    const codegen::KernelText& k = text->second;
    for (const int b : k.buffers) touch(b, i);
    const int64_t scratch = usual(k.scratch_bytes_per_thread) * exec::threads_of(job.options()) + usual(k.scratch_bytes);
    if (scratch > 0) ranges.push_back({scratch, static_cast<int>(i), static_cast<int>(i)});
  }
  MemoryNeed out;
  out.temporaries = exec::place(ranges).bytes;
  for (auto& o : p.outputs)
    if (o.buffer >= 0 && o.mutates < 0) out.outputs += bytes_of(o.buffer);
  std::vector<int64_t> change(p.nodes.size() + 1, 0);  // of what is in use, before each node
  for (auto& r : ranges)
    if (r.bytes > 0) change[static_cast<size_t>(r.first)] += r.bytes, change[static_cast<size_t>(r.last) + 1] -= r.bytes;
  int64_t in_use = 0, most = 0;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    in_use += change[i];
    if (in_use > most) most = in_use, out.fullest = program::label(p.nodes[i]);
  }
  return out;
}

}  // namespace toroid::compiler
