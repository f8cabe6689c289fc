#include "exec/record/touched.h"

namespace toroid::exec {
namespace {

// Stand for what no memory of a launch's own tells. Moving memory of the caller's may at a later replay lie in other memory of the
// caller's: who writes it waits for all who use kCallers or read kOfOthers, and who reads it for all who write either.
constexpr std::byte kCallers{}, kOfOthers{};

void add_callers(std::vector<Touched>& out, bool moves, bool written) {
  if (moves) out.push_back({&kCallers, 1, written ? Access::Writes : Access::Reads});
  if (moves && written) out.push_back({&kOfOthers, 1, Access::Adds});
  if (!moves && written) out.push_back({&kCallers, 1, Access::Adds});
  if (!moves && !written) out.push_back({&kOfOthers, 1, Access::Reads});
}

std::vector<Touched> touched_by_one(const Plan& plan, const Bound& bound, size_t step, const Memory& memory,
                                    const std::function<bool(int)>& moves) {
  const auto& l = std::get<Launch>(plan.steps[step]);
  const BoundStep& s = bound.steps[step];
  std::vector<Touched> out;
  bool updates = false;
  for (size_t i = 0; i < l.buffers.size(); ++i) {
    const auto b = static_cast<size_t>(l.buffers[i]);
    const BufferRole role = plan.buffers[b].role;
    if (role == BufferRole::Constant || role == BufferRole::Faults) continue;             // nobody writes it; below
    const bool written = l.written.empty() || l.written[i] || role == BufferRole::Peers;  // other ranks write those, too
    out.push_back({static_cast<const std::byte*>(memory.at[b]), bound.bytes[b], written ? Access::Writes : Access::Reads});
    if (role != BufferRole::Input && role != BufferRole::Handed) continue;
    add_callers(out, moves(l.buffers[i]), written);
    updates = updates || written;
  }
  for (int b : l.buffers) {
    if (plan.buffers[static_cast<size_t>(b)].role != BufferRole::Faults) continue;
    const auto* record = static_cast<const std::byte*>(memory.at[static_cast<size_t>(b)]);
    out.push_back({record, 1, Access::Adds});
    if (updates) out.push_back({record, 1, Access::Reads});
  }
  auto add_own = [&](const std::shared_ptr<Storage>& in, int64_t at, int64_t bytes) {
    if (at >= 0) out.push_back({in->data + at, bytes, Access::Writes});
  };
  add_own(memory.lane.arena, s.scratch, bytes_of(l.gpu.scratch_bytes, 1, bound.symbols));
  add_own(memory.lane.zeros, s.counters, bytes_of(l.gpu.counters, sizeof(uint32_t), bound.symbols));
  return out;
}

}  // namespace

std::vector<std::vector<Touched>> touched_by(const Plan& plan, const Bound& bound, std::span<const size_t> steps, const Memory& memory,
                                             const std::function<bool(int)>& moves) {
  std::vector<std::vector<Touched>> out;
  for (size_t s : steps) out.push_back(touched_by_one(plan, bound, s, memory, moves));
  return out;
}

}  // namespace toroid::exec
