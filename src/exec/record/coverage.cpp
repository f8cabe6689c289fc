#include "exec/record/coverage.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/text.h"
#include "exec/run/overlap.h"
#include "exec/steps.h"
#include "ops/cuda_kernels.h"
#include "ops/opaque.h"

namespace toroid::exec {
namespace {

bool works_on_handed(const Plan& plan, const std::vector<HostCall::View>& views) {
  return std::any_of(views.begin(), views.end(),
                     [&](auto& v) { return plan.buffers[static_cast<size_t>(v.buffer)].role == BufferRole::Handed; });
}

// Why a function of the user's on a GPU cannot be recorded, if so.
void skip_function(const Plan& plan, const HostCall& h, CaptureSkip& s) {
  if (!ops::is_capturable(*h.op)) {
    s.reason = "its function for GPUs was registered as not capturable, or it has an effect";
    s.fix = "CudaFunctionOptions::capturable, where it only starts work on the stream";
  } else if (works_on_handed(plan, h.inputs) || works_on_handed(plan, h.outputs)) {
    s.reason = "it works on what control flow hands on, whose address a recorded function cannot follow";
    s.fix = "the call within the block, or outside of the compiled function";
  }
}

// Why a step cannot be recorded; an empty reason when it can.
CaptureSkip skip_of(const Plan& plan, const StepPlan& step, const std::string& on_host) {
  CaptureSkip s{plan.name, name_of(step), "", where_of(step), ""};
  if (auto* h = std::get_if<HostCall>(&step); h && h->on_gpu) {
    skip_function(plan, *h, s);
  } else if (h && ops::is_opaque(*h->op)) {
    s.reason = "it is a function on the host";
  } else if (h) {
    s.reason = "it runs as reference code on the host";
    s.fix = "an operation that has a kernel, or call it outside of the compiled function";
  } else if (std::holds_alternative<LibraryCall>(step) && !plan.device.is_cuda()) {
    s.reason = "a library runs it on threads of its own";
    s.fix = "gemm_backends and conv_backends without the library";
  } else if (auto* c = std::get_if<LibraryCall>(&step); c && std::any_of(c->buffers.begin(), c->buffers.end(), [&](int b) {
                                                          return plan.buffers[static_cast<size_t>(b)].role == BufferRole::Handed;
                                                        })) {
    s.reason = "it works on what control flow hands on, whose address a recorded library call cannot follow";
    s.fix = "gemm_backends and conv_backends without the library";
  } else if (auto* m = std::get_if<CollectiveCall>(&step); m && !plan.device.is_cuda()) {
    s.reason = "its ranks meet on the host";
  } else if (m && !on_host.empty()) {
    s.reason = "its ranks meet on the host: " + on_host;
    s.fix = "NCCL, and a GPU for each rank";
  } else if (m && works_on_handed(plan, {m->input, m->output})) {
    s.reason = "it works on what control flow hands on, whose address a recorded collective cannot follow";
    s.fix = "the collective within the block, or outside of the compiled function";
  } else if (auto* b = std::get_if<Branch>(&step); b && !b->conditions.empty()) {
    s.reason = "its size chooses a block";
    s.fix = "nothing is lost but a launch: the kernels of its blocks are recorded by themselves";
  } else if (std::holds_alternative<Branch>(step)) {
    s.reason = "the host reads its predicate to choose a block";
    s.fix = "where() of both results, if both are cheap; the kernels of its blocks are recorded by themselves";
  } else if (std::holds_alternative<Loop>(step)) {
    s.reason = "the host runs its blocks over and over";
    s.fix = "a loop of a fixed length in the function, which is unrolled; the kernels of its blocks are recorded by themselves";
  }
  return s;
}

std::vector<std::vector<int64_t>> parse_sizes(const std::string& text) {
  std::vector<std::vector<int64_t>> out;
  for (std::string_view tuple : split_list(text)) {
    auto& sizes = out.emplace_back();
    for (size_t at = 0; at <= tuple.size();) {
      const size_t end = std::min(tuple.find('x', at), tuple.size());
      int64_t n = 0;
      const auto [rest, error] = std::from_chars(tuple.data() + at, tuple.data() + end, n);
      TOROID_USER_CHECK(error == std::errc() && rest == tuple.data() + end,
                        "capture_sizes: \"{}\" is no list of sizes; expected numbers like 16, or 2x16 for several symbols", tuple);
      sizes.push_back(n);
      at = end + 1;
    }
  }
  return out;
}

}  // namespace

CaptureOptions read_capture_options(const CompileOptions& options) {
  CaptureOptions o;
  o.require = options.get(options::kCaptureRequire);
  const std::string results = options.get(options::kCaptureResults);
  o.results = results == "own"    ? CaptureOptions::Results::Own
              : results == "pool" ? CaptureOptions::Results::Pool
                                  : CaptureOptions::Results::PoolClone;
  o.skip_dynamic = options.get(options::kCaptureSkipDynamic);
  o.evict = options.get(options::kCaptureOverBudget) == "evict";
  o.warmups = options.get(options::kCaptureWarmups);
  o.min_launches = options.get(options::kCaptureMinLaunches);
  o.sizes_warn_limit = options.get(options::kCaptureSizesWarnLimit);
  o.rerecord_limit = options.get(options::kCaptureRerecordLimit);
  o.budget = options.get(options::kCaptureMemoryKb) << 10;
  o.sizes = parse_sizes(options.get(options::kCaptureSizes));
  return o;
}

Coverage cover(const Plan& plan, int64_t min_launches, std::span<const std::string> on_host) {
  const auto skip = [&](size_t i) { return skip_of(plan, plan.steps[i], i < on_host.size() ? on_host[i] : std::string()); };
  Coverage c;
  std::string fresh;
  for (auto& [e, unbacked] : plan.symbols)
    if (unbacked && fresh.empty()) fresh = sym::to_string(e);
  c.steps = static_cast<int64_t>(plan.steps.size());
  if (!fresh.empty()) {
    c.segments.push_back({0, plan.steps.size(), false});
    c.skips.push_back({plan.name, "the whole program", "a size is known only while it runs: " + fresh, "",
                       "a fixed bound for that size, or call the operation that determines it outside of the compiled function"});
    return c;
  }
  std::vector<bool> begins(plan.steps.size() + 1, false);  // where a collective has ended that runs beside what is recorded
  if (!plan.device.is_cuda())                              // whose recordings have their collectives
    for (const size_t end : ends_of(plan)) begins[end] = true;
  for (size_t i = 0; i < plan.steps.size();) {
    Segment s{i, i, skip(i).reason.empty()};
    for (; s.last < plan.steps.size(); ++s.last) {
      CaptureSkip why = skip(s.last);
      if (why.reason.empty() != s.recorded || (s.recorded && s.last > i && begins[s.last])) break;
      if (!s.recorded) c.skips.push_back(std::move(why));
    }
    const auto launches = static_cast<int64_t>(s.last - s.first);
    if (s.recorded && launches < std::max<int64_t>(min_launches, 1)) {
      s.recorded = false;
      c.skips.push_back({plan.name, name_of(plan.steps[s.first]),
                         fmt::format("a part of {} kernels, fewer than capture_min_launches", launches), where_of(plan.steps[s.first]),
                         "a lower capture_min_launches"});
    }
    if (s.recorded) c.steps_recorded += launches;
    c.parts += s.recorded;
    i = s.last;
    c.segments.push_back(s);
  }
  return c;
}

std::string to_string(const CaptureSkip& s) {
  return fmt::format("{}{}{}: {}{}{}", s.what, s.where.empty() ? "" : fmt::format(" ({})", s.where),
                     s.function.empty() ? "" : " of " + s.function, s.reason, s.fix.empty() ? "" : "; what would help: ", s.fix);
}

}  // namespace toroid::exec
