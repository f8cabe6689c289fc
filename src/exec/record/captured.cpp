#include "exec/record/captured.h"

#include <algorithm>

#include "base/check.h"
#include "exec/record/touched.h"

namespace toroid::exec {
namespace {

// Inputs, results, and what control flow makes are in other memory at each call.
bool moves(const Plan& plan, int buffer) {
  const BufferRole role = plan.buffers[static_cast<size_t>(buffer)].role;
  return role == BufferRole::Input || role == BufferRole::Output || role == BufferRole::Handed;
}

// What a recorded step that is no launch works on.
std::vector<int> opaque_buffers(const StepPlan& step) {
  if (auto* c = std::get_if<CollectiveCall>(&step)) return {c->input.buffer, c->output.buffer};
  if (auto* h = std::get_if<HostCall>(&step)) {
    std::vector<int> out;
    for (auto* views : {&h->inputs, &h->outputs})
      for (auto& v : *views) out.push_back(v.buffer);
    return out;
  }
  return std::get<LibraryCall>(step).buffers;
}

}  // namespace

Captured::Captured(const Plan& plan, const Coverage& coverage, std::shared_ptr<const Bound> bound, const Lane& lane, Placement placement)
    : plan_(plan),
      coverage_(coverage),
      bound_(std::move(bound)),
      lane_(&lane),
      placement_(std::move(placement)),
      base_(base_of(lane)),
      parts_(coverage.segments.size()),
      calls_(coverage.segments.size()),
      steps_(coverage.segments.size()) {}

Captured::Base Captured::base_of(const Lane& lane) const {
  Base b;
  if (bound_->arena > 0) b.arena = lane.arena->data;
  if (bound_->zeros > 0) b.zeros = lane.zeros->data;
  if (!placement_.places.empty()) b.results = lane.results.data();
  return b;
}

void Captured::record(size_t segment, const Memory& memory, const std::vector<Stays>& stays, const Steps& run) {
  const Segment& part = coverage_.segments[segment];
  auto is_placed = [&](int buffer) {  // its address is the lane's
    return std::any_of(placement_.places.begin(), placement_.places.end(), [&](auto& p) { return p.buffer == buffer; });
  };
  auto travels = [&](int buffer) { return moves(plan_, buffer) && !is_placed(buffer); };
  auto moves_on = [&](int buffer) { return travels(buffer) && stays[static_cast<size_t>(buffer)] == Stays::No; };
  auto settle = [&](int buffer) {
    const std::pair<int, void*> place(buffer, memory.at[static_cast<size_t>(buffer)]);
    if (travels(buffer) && stays[static_cast<size_t>(buffer)] != Stays::Always &&
        std::find(settled_.begin(), settled_.end(), place) == settled_.end())
      settled_.push_back(place);
  };
  const auto record = std::find_if(plan_.buffers.begin(), plan_.buffers.end(), [](auto& b) { return b.role == BufferRole::Faults; });
  auto recording = make_recording(plan_.device, record == plan_.buffers.end() ? -1 : static_cast<int>(record - plan_.buffers.begin()));
  std::vector<size_t>& steps = steps_[segment];
  bool calls_others = false;
  recording->record([&] {
    for (size_t s = part.first; s < part.last; ++s) {
      const auto* l = std::get_if<Launch>(&plan_.steps[s]);
      run.begin(s);
      if (!l) {
        run.run(s);
        opaque_ = calls_others = true;
        for (int i : opaque_buffers(plan_.steps[s])) settle(i);
      } else if (bound_->steps[s].tasks > 0) {
        std::vector<int> slots;
        for (int i : l->buffers) {
          if (stays[static_cast<size_t>(i)] != Stays::No) settle(i);
          slots.push_back(moves_on(i) ? i : -1);
        }
        run.launch(s,
                   [&] { recording->add(*l, bound_->symbols, bound_->steps[s], pointers_of(plan_, *l, bound_->steps[s], memory), slots); });
        steps.push_back(s);
      }
    }
    run.end();
  });
  if (plan_.device.is_cuda() && !calls_others) recording->spread(order_of(touched_by(plan_, *bound_, steps, memory, moves_on)));
  if (recording->launches() > 0 || opaque_) parts_[segment] = std::move(recording);
}

void Captured::clear(const Lane& lane) {
  for (auto& p : parts_) p = nullptr;
  for (auto& s : steps_) s.clear();
  for (auto& c : calls_) c.clear();
  settled_.clear();
  opaque_ = false;
  base_ = base_of(lane);
}

bool Captured::serves(const Memory& memory) const {
  if (opaque_ && base_of(memory.lane) != base_) return false;
  return std::all_of(settled_.begin(), settled_.end(), [&](auto& s) { return memory.at[static_cast<size_t>(s.first)] == s.second; });
}

int64_t Captured::rebase(const Memory& memory) {
  int64_t changed = 0;
  for (size_t i = 0; i < parts_.size(); ++i)
    for (size_t n = 0; parts_[i] && n < steps_[i].size(); ++n, ++changed) {
      const size_t s = steps_[i][n];
      parts_[i]->set_pointers(n, pointers_of(plan_, std::get<Launch>(plan_.steps[s]), bound_->steps[s], memory));
    }
  return changed;
}

int64_t Captured::replay(size_t segment, const Memory& memory) {
  int64_t changed = 0;
  if (const Base now = base_of(memory.lane); now != base_) {
    changed += rebase(memory);
    base_ = now;
  }
  return changed + parts_[segment]->replay(memory.at);
}

int64_t Captured::launches() const {
  int64_t n = 0;
  for (auto& p : parts_) n += p ? static_cast<int64_t>(p->launches()) : 0;
  return n;
}

int64_t Captured::width() const {
  int64_t n = 1;
  for (auto& p : parts_) n = std::max(n, p ? p->width() : 1);
  return n;
}

int64_t Captured::bytes() const {
  int64_t n = static_cast<int64_t>(sizeof(Captured));
  for (auto& p : parts_) n += p ? p->bytes() : 0;
  return n;
}

int64_t Captured::forecast(const Plan& plan, const Coverage& coverage, const Bound& bound) {
  int64_t n = static_cast<int64_t>(sizeof(Captured));
  for (auto& part : coverage.segments) {
    if (!part.recorded) continue;
    size_t launches = 0, pointers = 0, moving = 0;
    for (size_t s = part.first; s < part.last; ++s) {
      const auto* l = std::get_if<Launch>(&plan.steps[s]);
      if (!l || bound.steps[s].tasks <= 0) continue;
      ++launches;
      pointers += l->buffers.size() + 1;
      for (int i : l->buffers) moving += moves(plan, i);
    }
    n += forecast_recording(plan.device, launches, pointers, moving);
  }
  return n;
}

}  // namespace toroid::exec
