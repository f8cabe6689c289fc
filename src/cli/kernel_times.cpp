#include "cli/kernel_times.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/bench_subject.h"
#include "cli/commands.h"
#include "device/runtime.h"
#include "exec/call_trace.h"
#include "exec/steps.h"
#include "toroid/error.h"

namespace toroid::cli {
namespace {

using compiler::CompiledModel;
using device::cuda::Activity;

constexpr int kProfiledRuns = 5;

// Sizes of a plan whose inputs have symbols.
int64_t value_of(const Expr& e, const exec::Plan& plan, const std::vector<Tensor>& inputs) {
  return sym::evaluate(e, [&](const sym::Node& s) {
    for (auto& in : plan.inputs)
      for (size_t d = 0; in.user >= 0 && d < in.type.sizes.size(); ++d)
        if (in.type.sizes[d].node() && in.type.sizes[d].node()->name == s.name) return inputs.at(static_cast<size_t>(in.user)).sizes()[d];
    return int64_t{0};  // known only while running: reported as nothing
  });
}

// Rows beside each other for what overlaps, in each of `lanes` the end of the latest.
int lane_of(const Activity& a, std::vector<int64_t>& lanes) {
  for (size_t i = 0; i < lanes.size(); ++i)
    if (lanes[i] <= a.start_ns) return lanes[i] = a.end_ns, static_cast<int>(i);
  lanes.push_back(a.end_ns);
  return static_cast<int>(lanes.size()) - 1;
}

std::string event_json(const std::string& name, const char* kind, int lane, double at_us, double us, const KernelRow& r) {
  return fmt::format(
      "{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"bytes\":{},\"flops\":{},"
      "\"gb_per_s\":{:.1f},\"gflop_per_s\":{:.1f}}}}}",
      json_string(name), kind, lane, at_us, us, r.bytes, r.flops, gb_per_s(r), gflop_per_s(r));
}

void add_call(TracedCalls& traced, std::vector<KernelRow>& steps, std::map<std::string, KernelRow>& others) {
  const std::vector<int64_t> added = exec::added_ns(traced.call);
  const auto last = std::max_element(traced.call.begin(), traced.call.end(), [](auto& a, auto& b) { return a.end_ns < b.end_ns; });
  traced.span_us += static_cast<double>(last->end_ns - traced.call.front().start_ns) / 1e3 / kProfiledRuns;
  for (size_t i = 0; i < traced.call.size(); ++i) {
    const Activity& a = traced.call[i];
    const double us = static_cast<double>(added[i]) / 1e3;
    traced.busy_us += us / kProfiledRuns;
    if (traced.steps[i] >= 0) {
      steps[static_cast<size_t>(traced.steps[i])].in_call_us += us;
      continue;
    }
    KernelRow& r = others[a.name];
    r.name = a.name, r.host = true;
    r.bytes += a.bytes;
    ++r.calls;
    r.in_call_us += us;
  }
}

}  // namespace

std::vector<KernelRow> profile(CompiledModel& model, const std::vector<Tensor>& inputs) {
  const exec::Plan& plan = model.executable().plan();
  std::vector<double> ns(plan.steps.size(), 0);
  size_t next = 0;
  bool in_order = true;
  model.executable().observe([&](const std::string& step, int64_t time) {
    const exec::StepPlan& s = plan.steps[next];
    in_order = in_order && step == std::visit([](auto& x) { return x.name; }, s);
    ns[next] += static_cast<double>(time);
    next = (next + 1) % plan.steps.size();
  });
  for (int i = 0; i < kProfiledRuns; ++i) model.run(inputs);
  model.executable().observe(nullptr);
  std::vector<KernelRow> steps;
  for (size_t i = 0; in_order && i < plan.steps.size(); ++i) {
    KernelRow r;
    r.name = exec::name_of(plan.steps[i]);
    if (const std::string& where = exec::where_of(plan.steps[i]); !where.empty()) r.places.push_back(where);
    if (auto* l = std::get_if<exec::Launch>(&plan.steps[i])) {
      r.bytes = value_of(l->bytes, plan, inputs);
      r.flops = value_of(l->flops, plan, inputs);
    } else {
      r.host = true;
    }
    r.calls = 1;
    r.us = ns[i] / kProfiledRuns / 1e3;
    steps.push_back(std::move(r));
  }
  return steps;
}

TracedCalls trace_calls(CompiledModel& model, const std::vector<Tensor>& inputs, std::vector<KernelRow>& steps) {
  TracedCalls traced;
  const exec::Plan& plan = model.executable().plan();
  if (!plan.device.is_cuda()) return traced;
  std::vector<KernelRow> timed = steps;
  for (auto& s : timed) s.in_call_us = 0;
  std::map<std::string, KernelRow> others;
  try {
    device::cuda::ActivityTrace trace;
    const auto call = [&] {
      model.run(inputs);
      synchronize(plan.device);
      return trace.take();
    };
    call();
    for (int i = 0; i < kProfiledRuns; ++i) {
      traced.call = call();
      traced.steps = exec::steps_of(plan, traced.call);
      if (traced.steps.empty() || timed.size() != plan.steps.size()) {
        const size_t seen = traced.call.size();
        traced = {};
        traced.method = fmt::format("not known: CUPTI saw {} activities, which are not the plan's {} steps", seen, plan.steps.size());
        return traced;
      }
      add_call(traced, timed, others);
    }
  } catch (const EnvironmentError& e) {
    traced = {};
    traced.method = fmt::format("not known: {}", e.what());
    return traced;
  }
  traced.method = fmt::format("by CUPTI {}, which slows a call down, in {} calls", device::cuda::cupti_version(), kProfiledRuns);
  for (size_t i = 0; i < steps.size(); ++i)
    if (std::holds_alternative<exec::Launch>(plan.steps[i])) steps[i].in_call_us = timed[i].in_call_us / kProfiledRuns;
  for (auto& [name, r] : others) {
    r.in_call_us /= static_cast<double>(r.calls);
    r.bytes /= r.calls;
    r.calls = std::max<int64_t>(1, r.calls / kProfiledRuns);
    traced.others.push_back(r);
  }
  std::sort(traced.others.begin(), traced.others.end(), [](auto& a, auto& b) { return a.in_call_us > b.in_call_us; });
  return traced;
}

std::vector<KernelRow> sum_up(const std::vector<KernelRow>& steps) {
  std::map<std::tuple<std::string, int64_t, int64_t>, KernelRow> rows;
  for (const KernelRow& s : steps) {
    auto [row, fresh] = rows.try_emplace({s.name, s.bytes, s.flops}, s);
    if (fresh) continue;
    for (auto& place : s.places)
      if (std::find(row->second.places.begin(), row->second.places.end(), place) == row->second.places.end())
        row->second.places.push_back(place);
    ++row->second.calls;
    row->second.us += s.us;
    row->second.in_call_us += s.in_call_us;
  }
  std::vector<KernelRow> out;
  for (auto& [key, r] : rows) out.push_back(r);
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.us > b.us; });
  for (auto& r : out) {
    r.us /= static_cast<double>(r.calls);
    r.in_call_us /= static_cast<double>(r.calls);
  }
  return out;
}

double gb_per_s(const KernelRow& r) { return r.us > 0 ? static_cast<double>(r.bytes) / r.us / 1e3 : 0; }
double gflop_per_s(const KernelRow& r) { return r.us > 0 ? static_cast<double>(r.flops) / r.us / 1e3 : 0; }

std::string timeline_json(const std::vector<KernelRow>& steps, const TracedCalls& traced) {
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  double at = 0;
  std::vector<int64_t> lanes;
  for (size_t i = 0; i < traced.call.size(); ++i) {
    const Activity& a = traced.call[i];
    KernelRow row;
    if (traced.steps[i] >= 0) row = steps[static_cast<size_t>(traced.steps[i])];
    row.us = static_cast<double>(a.end_ns - a.start_ns) / 1e3;
    const char* kind = a.kind != Activity::Kind::Kernel ? "copy" : traced.steps[i] < 0 ? "library" : "kernel";
    add(event_json(a.name, kind, lane_of(a, lanes), static_cast<double>(a.start_ns - traced.call.front().start_ns) / 1e3, row.us, row));
  }
  for (const KernelRow& s : traced.call.empty() ? steps : std::vector<KernelRow>()) {
    add(event_json(s.name, s.host ? "library" : "kernel", 0, at, s.us, s));
    at += s.us;
  }
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace toroid::cli
