// Collectives as steps: on memory of the host, or on a stream of a GPU.
#include <algorithm>

#include "base/check.h"
#include "base/index_fault.h"
#include "dist/beside.h"
#include "dist/group.h"
#include "exec/record/manual_capture.h"
#include "exec/run/executable.h"
#include "exec/run/run.h"

namespace toroid::exec {
namespace {

using distributed::Collective;
using distributed::Group;
using distributed::Kind;

// The call with its sizes known, without memory.
Collective call_of(const CollectiveCall& c, const Symbols& symbols) {
  Collective out{.kind = c.kind, .dtype = c.input.dtype, .op = c.op, .root = c.root, .count = evaluate(c.count, symbols)};
  out.in_splits = evaluate(c.given, symbols), out.out_splits = evaluate(c.taken, symbols);
  out.where = c.where;
  return out;
}

// What the plan says about the group's size holds for this one.
void check_ranks(const CollectiveCall& c, const Group& group) {
  const std::string_view name = distributed::name_of(c.kind);
  if (c.kind == Kind::AllGather || c.kind == Kind::ReduceScatter)
    TOROID_USER_CHECK(c.ranks == group.size(), "{}: group_size is {}, the group \"{}\" has {} ranks", name, c.ranks, group.name(),
                      group.size());
  if (c.kind == Kind::AllToAll)
    TOROID_USER_CHECK(c.given.size() == static_cast<size_t>(group.size()), "{}: {} splits, the group \"{}\" has {} ranks", name,
                      c.given.size(), group.name(), group.size());
  if (c.kind == Kind::Broadcast)
    TOROID_USER_CHECK(c.root < group.size(), "{}: src is rank {}, the group \"{}\" has {} ranks", name, c.root, group.name(), group.size());
}

// By the calling thread's group.
void meet(const CollectiveCall& c, Collective what) {
  Group& group = distributed::current_world().group(c.group);
  check_ranks(c, group);
  group.run(what);
}

}  // namespace

void Executable::run_collective(const CollectiveCall& c, size_t step, Run& run) {
  Collective what = call_of(c, run.bound.symbols);
  const Tensor in = tensor_at(c.input, run), out = tensor_at(c.output, run);
  what.in = in.raw_data(), what.out = out.raw_data();
  if (!plan_.device.is_cuda()) {
    if (run.capture) return capture_call(c, [c, what] { meet(c, what); });
    const size_t end = end_of(step, run);
    if (end == 0) return meet(c, std::move(what));
    Group& group = distributed::current_world().group(c.group);
    check_ranks(c, group);
    run.begun.push_back({end, distributed::Beside::own().begin(group, std::move(what))});
    return;
  }
  if (auto& communicator = loaded_.steps[step].communicator) {
    check_ranks(c, distributed::current_world().group(c.group));
    return on_stream(step, run, [&] { communicator->enqueue(what, device::cuda::gpu(plan_.device.index).stream()); });
  }
  device::refuse_in_capture(plan_.device, c.name + ", whose ranks meet on the host");
  const Tensor given = moved(in, Device::cpu()), taken = Tensor::empty(out.sizes(), out.dtype());
  what.in = given.raw_data(), what.out = taken.raw_data();
  meet(c, std::move(what));
  copy_elements(taken, out);
}

size_t Executable::end_of(size_t step, const Run& run) const { return run.late || observer_ ? 0 : run.bound.ends[step]; }

void Executable::on_stream(size_t step, Run& run, const std::function<void()>& work) const {
  const size_t end = end_of(step, run);
  if (end == 0) return work();
  device::cuda::Gpu& gpu = device::cuda::gpu(plan_.device.index);
  if (!run.lane.side) run.lane.side = std::make_unique<device::cuda::SideStream>(gpu, plan_.device);
  device::cuda::SideStream& side = *run.lane.side;
  side.follow();
  struct OtherStream {
    device::cuda::Gpu& gpu;
    const device::cuda::CUstream before;
    ~OtherStream() { gpu.set_stream(before); }
  } const other{gpu, gpu.set_stream(side.get())};
  run.begun.push_back({end, 0});
  work();
  run.begun.back().number = side.mark();
}

void Executable::end_collectives(size_t before, Run& run) const {
  uint64_t last = 0;
  std::erase_if(run.begun, [&](const Run::Begun& b) {
    if (b.end < before) last = std::max(last, b.number);
    return b.end < before;
  });
  if (last == 0) return;
  if (plan_.device.is_cuda())
    run.lane.side->join(last);
  else
    distributed::Beside::own().end(last);
}

void Executable::abandon_collectives(Run& run) const {
  if (run.begun.empty()) return;
  if (!plan_.device.is_cuda()) return distributed::Beside::own().end_all();
  try {
    run.lane.side->join();
  } catch (const EnvironmentError&) {  // the GPU is of no use any more; whoever waits for it is told
  }
}

}  // namespace toroid::exec
