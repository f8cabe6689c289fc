// Where the buffers of a run are, and how its results come to the caller.
#include <algorithm>

#include "base/check.h"
#include "base/mutants.h"
#include "exec/record/manual_capture.h"
#include "exec/run/executable.h"
#include "exec/run/run.h"
#include "tensor/layout.h"
#include "tensor/random_state.h"

namespace toroid::exec {
namespace {

// Kernels of a GPU move 16 bytes at once.
bool is_aligned(const Tensor& t) {
  constexpr uintptr_t kBytes = 16;
  return !t.device().is_cuda() || reinterpret_cast<uintptr_t>(t.raw_data()) % kBytes == 0;
}

// Whether dimensions with more than one element have these strides.
bool has_strides(const Tensor& t, const std::vector<int64_t>& want) {
  for (size_t d = 0; d < want.size(); ++d)
    if (t.sizes()[d] > 1 && t.strides()[d] != want[d]) return false;
  return true;
}

// Whether kernels can take t where it is. want: strides, where the plan names some.
bool lies_as_taken(const Tensor& t, const InputPlan& in, const std::vector<int64_t>& want) {
  return is_aligned(t) && (in.type.strides.empty() ? t.is_contiguous() : has_strides(t, want));
}

// t, or its elements in other memory, with the strides that kernels take the input for: `want`, where the plan names some.
Tensor laid_out(const Tensor& t, const InputPlan& in, const std::vector<int64_t>& want) {
  if (lies_as_taken(t, in, want)) return t;
  if (in.type.strides.empty()) {
    if (is_aligned(t)) return mutant(Mutant::IgnoredStrides) ? t : made_dense(t);
    return copy_of(t);
  }
  if (t.numel() == 0) return t;
  bool repeats = false;
  int64_t extent = 1;
  for (size_t d = 0; d < want.size(); ++d) {
    if (t.sizes()[d] <= 1) continue;
    repeats = repeats || want[d] == 0;
    extent += (t.sizes()[d] - 1) * want[d];
  }
  const bool same = has_strides(t, want);
  TOROID_USER_CHECK(same || !repeats, "input {} (\"{}\") must have strides {}, it has {}", in.user, in.name, sizes_text(want),
                    sizes_text(t.strides()));
  Tensor row = Tensor::empty(std::vector<int64_t>{extent}, t.dtype(), t.device());
  Tensor out = seen_as(row, t.sizes(), want);
  if (same)
    copy_elements(seen_as(t, row.sizes(), row.strides()), row);  // as it lies; copies between strides are programs, and end here
  else
    copy_elements(t, out);
  return out;
}

// The bytes from the first element of t to the last one.
struct Extent {
  const std::byte *begin, *end;
  size_t tensor;
};

Extent extent_of(const Tensor& t, size_t number) {
  int64_t lo = 0, hi = 0;
  for (size_t d = 0; d < t.sizes().size(); ++d) (t.strides()[d] < 0 ? lo : hi) += (t.sizes()[d] - 1) * t.strides()[d];
  const auto width = static_cast<int64_t>(size_of(t.dtype()));
  return {t.raw_data() + lo * width, t.raw_data() + (hi + 1) * width, number};
}

// Where all elements lie, in order.
std::vector<const std::byte*> places_of(const Tensor& t) {
  std::vector<const std::byte*> out{t.raw_data()};
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    const auto step = t.strides()[d] * static_cast<int64_t>(size_of(t.dtype()));
    const size_t one = out.size();
    for (int64_t i = 1; i < t.sizes()[d]; ++i)
      for (size_t k = 0; k < one; ++k) out.push_back(out[k] + i * step);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Columns of one matrix lie among each other, and share none.
bool share_elements(const Tensor& a, const Tensor& b) {
  const Extent x = extent_of(a, 0), y = extent_of(b, 1);
  if (x.end <= y.begin || y.end <= x.begin) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  const auto of_a = places_of(a), of_b = places_of(b);
  const auto width_a = static_cast<std::ptrdiff_t>(size_of(a.dtype())), width_b = static_cast<std::ptrdiff_t>(size_of(b.dtype()));
  for (size_t i = 0, k = 0; i < of_a.size() && k < of_b.size();) {
    if (of_a[i] + width_a <= of_b[k])
      ++i;
    else if (of_b[k] + width_b <= of_a[i])
      ++k;
    else
      return true;
  }
  return false;
}

// The program has one order of reads and writes, in which other arguments are as they came: who gives the same elements twice expects
// writes to be seen.
void refuse_shared(std::span<const Tensor> arguments, size_t written, const std::string& name) {
  const Tensor& t = arguments[written];
  for (size_t i = 0; i < arguments.size(); ++i)
    TOROID_USER_CHECK(i == written || !arguments[i].defined() || arguments[i].numel() == 0 || !share_elements(t, arguments[i]),
                      "input {} (\"{}\"), which the program writes, shares memory with input {}, which the program would read as it was "
                      "before the call; give it a tensor of its own: clone()",
                      written, name, i);
}

// Of each tensor, whether bytes of it are another's, too.
std::vector<bool> overlaps_among(std::span<const Tensor> tensors) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined() && tensors[i].numel() > 0) extents.push_back(extent_of(tensors[i], i));
  std::sort(extents.begin(), extents.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  std::vector<bool> out(tensors.size(), false);
  const std::byte* end = nullptr;  // of all before
  for (size_t k = 0; k < extents.size(); ++k) {
    const bool next = k + 1 < extents.size() && extents[k + 1].begin < extents[k].end;
    out[extents[k].tensor] = next || (end && extents[k].begin < end);
    end = std::max(end, extents[k].end);
  }
  return out;
}

}  // namespace

Tensor copy_of(const Tensor& t) {
  Tensor out = Tensor::empty(t.sizes(), t.dtype(), t.device());
  copy_elements(t, out);
  return out;
}

void Executable::fix() {
  std::vector<bool> in_place(plan_.inputs.size(), false);
  fixed_.at.assign(plan_.buffers.size(), nullptr);
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (is_loaded(plan_.buffers[i].role)) fixed_.at[i] = loaded_.constants[i].raw_data();
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& in = plan_.inputs[i];
    const auto buffer = static_cast<size_t>(in.buffer);
    if (is_loaded(plan_.buffers[buffer].role)) continue;
    const bool known = std::all_of(in.type.strides.begin(), in.type.strides.end(), [](const Expr& e) { return e.is_const(); });
    in_place[i] = in.user < 0 && !in.draws && known && lies_as_taken(loaded_.inputs[i], in, evaluate(in.type.strides, {}));
    if (in_place[i])
      fixed_.at[buffer] = loaded_.inputs[i].raw_data();
    else
      fixed_.inputs.push_back(i);
  }
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& o = plan_.outputs[i];
    if (o.buffer >= 0 || o.mutates < 0 || !in_place[static_cast<size_t>(o.mutates)]) fixed_.outputs.push_back(i);
  }
}

void Executable::place_buffers(std::span<const Tensor> arguments, std::span<const Tensor> into, const Captured* recorded, Run& run) {
  prepare_workspace(run);
  place_inputs(arguments, run);
  place_in_donated(run);
  if (!run.late) place_results(into, recorded, run);
}

void Executable::prepare_workspace(Run& run) const {
  Workspace& memory = run.memory;
  memory.let_go();  // of a run that an error ended
  const std::byte* arena = run.lane.arena ? run.lane.arena->data : nullptr;
  if (memory.at.empty() || memory.arena != arena) {
    memory.at = fixed_.at;
    memory.held.resize(plan_.buffers.size());
    memory.holding.reserve(fixed_.inputs.size() + fixed_.outputs.size());
    for (size_t i = 0; i < memory.at.size(); ++i)
      if (run.bound.offsets[i] >= 0) memory.at[i] = run.lane.arena->data + run.bound.offsets[i];
    memory.arena = arena;
  }
  if (faults_ >= 0) memory.at[static_cast<size_t>(faults_)] = memory.faults->at();
}

// Inputs that steps write are copies where they lie among the elements of others.
void Executable::place_inputs(std::span<const Tensor> arguments, Run& run) {
  const std::vector<bool> overlaps = writes_users_ ? overlaps_among(arguments) : std::vector<bool>();
  for (size_t i : fixed_.inputs) {
    const InputPlan& in = plan_.inputs[i];
    Tensor placed;
    if (in.draws) {
      const int64_t count = evaluate(*in.draws, run.bound.symbols);
      placed = run.capture ? captured_random_state(*run.capture, count, plan_.device) : moved(take_random_state(count), plan_.device);
    } else {
      const Tensor& given = input_tensor(i, arguments);
      placed = laid_out(given, in, run.bound.input_strides[i]);
      if (in.mutated && in.user >= 0 && overlaps[static_cast<size_t>(in.user)]) {
        refuse_shared(arguments, static_cast<size_t>(in.user), in.name);
        if (in.type.strides.empty() && placed.impl() == given.impl()) placed = copy_of(given);
      }
      if (recorder_ && placed.impl() != given.impl()) recorder_->count(Count::InputCopies);
    }
    run.memory.hold(static_cast<size_t>(in.buffer), std::move(placed));
  }
}

// Of a result the tensor of the input becomes another one on the same memory, which belongs to nobody else.
void Executable::place_in_donated(Run& run) {
  Workspace& memory = run.memory;
  for (auto& d : run.bound.donated) {
    const auto buffer = static_cast<size_t>(d.buffer), input = static_cast<size_t>(d.input);
    memory.at[buffer] = static_cast<std::byte*>(memory.at[input]) + d.offset;
    if (plan_.buffers[buffer].role != BufferRole::Output) continue;
    const Tensor& given = memory.held[input];
    auto impl = std::make_shared<TensorImpl>();
    impl->dtype = plan_.buffers[buffer].dtype;
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (plan_.outputs[i].buffer == d.buffer) impl->sizes = run.bound.output_sizes[i];
    impl->strides = contiguous_strides(impl->sizes);
    impl->storage = given.impl()->storage;
    impl->storage->donated = false;
    TOROID_CHECK(memory.at[buffer] == impl->storage->data, "a result lies within donated memory");
    memory.hold(buffer, Tensor(std::move(impl)));
  }
}

void Executable::place_results(std::span<const Tensor> into, const Captured* recorded, Run& run) {
  Workspace& memory = run.memory;
  size_t returned = 0;
  for (size_t i : fixed_.outputs) {
    const OutputPlan& o = plan_.outputs[i];
    size_t place = o.mutates < 0 ? returned++ : into.size();
    if (o.buffer < 0 || plan_.buffers[static_cast<size_t>(o.buffer)].role != BufferRole::Output) continue;
    Tensor t = memory.held[static_cast<size_t>(o.buffer)];  // of another output, where that is the same
    if (t.defined()) continue;
    if (recorded)
      for (auto& p : recorded->placement().places)
        if (p.buffer == o.buffer && !t.defined()) t = recorder_->result(run.lane, p, run.bound.output_sizes[i], i);
    const bool given = place < into.size() && into[place].defined() && is_aligned(into[place]);
    if (!t.defined()) t = given ? into[place] : Tensor::empty(run.bound.output_sizes[i], o.type.dtype, plan_.device);
    memory.hold(static_cast<size_t>(o.buffer), std::move(t));
  }
}

// As it is, where it is a tensor of these sizes; else a copy: temporaries are the lane's, constants and state the program's own.
Tensor Executable::result(size_t i, const Run& run) const {
  const OutputPlan& o = plan_.outputs[i];
  const auto buffer = static_cast<size_t>(o.buffer);
  const auto& sizes = run.bound.output_sizes[i];
  const Tensor& t = run.memory.held[buffer];
  if (t.defined() && t.sizes() == sizes) return t;
  const Tensor view = Tensor::from_blob(run.memory.at[buffer], sizes, o.type.dtype, {}, nullptr, plan_.device);
  Tensor copy = Tensor::empty(view.sizes(), view.dtype(), plan_.device);
  copy_elements(view, copy);
  return copy;
}

std::vector<Tensor> Executable::collect(std::span<const Tensor> arguments, const Run& run) {
  std::vector<Tensor> out;
  for (size_t i : fixed_.outputs) {
    const OutputPlan& o = plan_.outputs[i];
    Tensor t = o.buffer >= 0 ? result(i, run) : Tensor();
    if (o.mutates >= 0) {
      auto input = static_cast<size_t>(o.mutates);
      Tensor target = input_tensor(input, arguments);
      if (o.buffer < 0 && !mutant(Mutant::SkippedWriteBack))
        t = run.memory.held[static_cast<size_t>(plan_.inputs[input].buffer)];  // written in place, or in the input's copy
      if (t.defined() && t.raw_data() != target.raw_data()) copy_elements(t, target);
    } else {
      out.push_back(std::move(t));
    }
  }
  return out;
}

}  // namespace toroid::exec
