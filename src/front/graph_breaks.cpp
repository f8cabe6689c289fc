// Functions that read values while they run: the part up to each read is a program of its own.
#include <exception>

#include "base/check.h"
#include "front/eager.h"
#include "front/function_state.h"
#include "front/segment.h"

namespace toroid::detail {

using front::kKeptReasons;

std::vector<Tensor> Function::State::run_segment(trace::Segment s) {
  s.fixed = trace::settle_guards(*s.graph, s.origins, s.guard_places);
  if (s.graph->nodes.empty()) {
    std::lock_guard lock(mutex);
    if (!s.break_reason.empty()) front::keep(kept.graph_breaks, s.break_reason);
    return front::outputs_without_nodes(s);
  }
  const bool remembered = front::is_remembered(s.inputs);
  const auto written = s.writes_inputs ? front::written_inputs(*s.graph) : std::vector<size_t>();
  if (remembered) {
    std::lock_guard lock(mutex);
    segmented = true;
    front::keep(kept.fallbacks,
                fmt::format("gradients of the part up to {} may be wanted: it runs operation by operation", front::end_of(s)));
    eager_calls.fetch_add(1);
  }
  const front::Program program = remembered ? front::Program() : segment_program(s);
  if (!program) return front::run_one_by_one(s, config.name);
  trace::Tracer::Scope none(nullptr);
  DispatchScope eager(front::EagerDispatcher::instance());
  auto results = program(s.inputs);
  front::note_writes(s.inputs, written);
  return results;
}

// One that was compiled before or is now, which takes the segment's graph; empty where it is to run operation by operation.
front::Program Function::State::segment_program(trace::Segment& s) {
  const auto now = options();
  const std::string text = fmt::format("{}\n{}", now->options.key(), front::text_of(s));
  const std::string site = s.break_reason;
  const bool overlap = front::writes_shared_memory(s);
  if (!site.empty()) log(Artifact::GraphBreaks, fmt::format("{}: {}", config.name, site));
  std::unique_lock lock(mutex);
  segmented = true;
  if (!site.empty()) front::keep(kept.graph_breaks, site);
  if (overlap) {
    eager_calls.fetch_add(1);
    front::keep(kept.fallbacks, fmt::format("the part up to {} writes to tensors that share memory", front::end_of(s)));
    return {};
  }
  made.wait(lock, [&] { return compiles_here > 0 || segments[site].programs.count(text) || !pending_segments.count({site, text}); });
  if (const auto known = segments[site].programs.find(text); known != segments[site].programs.end()) return known->second;
  Messages messages;
  if (!takes_another(s, segments[site], *now, messages)) return {};
  const uint64_t generation = resets.load();
  std::vector<std::string> notes = notes_of(messages);
  if (!site.empty()) notes.push_back("graph break behind it: " + site);
  const auto mine = pending_segments.emplace(site, text);
  lock.unlock();
  front::Program program;
  std::exception_ptr error;
  try {
    const CompileScope compiling;
    front::log_all(messages);
    program = compile(s, *now, std::move(notes));
    compiles.fetch_add(1);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  pending_segments.erase(mine);
  made.notify_all();
  if (error) std::rethrow_exception(error);
  if (resets.load() == generation) segments[site].programs[text] = program;
  return program;
}

// Under the mutex: whether one more program may be compiled at this site, of which the report is told.
bool Function::State::takes_another(trace::Segment& s, SegmentSite& here, const front::OptionsNow& now, Messages& messages) {
  std::vector<const Tensor*> tensors;
  std::vector<int> positions;
  std::vector<std::string> names;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    tensors.push_back(&s.inputs[i]);
    positions.push_back(static_cast<int>(i));
    names.push_back(fmt::format("input {} of the part up to {}", i, front::end_of(s)));
  }
  const bool again = !here.programs.empty();
  std::string reason;
  if (again) {
    if (const auto failures = here.latest.failures(tensors); !failures.empty()) reason = failures[0];
    if (reason.empty()) reason = difference(here.options, now.options);
    if (reason.empty()) reason = "the operations recorded are others";
  }
  const Stance stance = front::current_stance();
  const auto begun = std::count_if(pending_segments.begin(), pending_segments.end(), [&](auto& p) { return p.first == s.break_reason; });
  const bool over = limit_reached(here.programs.size() + static_cast<size_t>(begun), now);
  if (stance == Stance::FailOnRecompile || (over && settings.fail_on_recompile_limit))
    fail<UserError>("{}: {} ({})", config.name, over ? "recompile_limit is reached" : "the stance forbids a recompile",
                    again ? reason : "first use");
  if (over || stance == Stance::EagerOnRecompile) {
    limit_calls.fetch_add(over);
    eager_calls.fetch_add(1);
    front::keep(kept.fallbacks, over ? fmt::format("recompile_limit {} is reached: {}", now.options.get(options::kRecompileLimit), reason)
                                     : "stance EagerOnRecompile");
    return false;
  }
  if (again && kept.recompile_reasons.size() < kKeptReasons) kept.recompile_reasons.push_back(reason);
  if (again) messages.emplace_back(Artifact::Recompiles, fmt::format("{}: {}", config.name, reason));
  here.latest = Guards(*s.graph, tensors, positions, names, false);
  here.latest.note_fixed(s.fixed);
  here.options = now.options;
  kept.guards = here.latest.describe();
  front::keep(kept.graphs, graph::to_string(*s.graph));
  return true;
}

}  // namespace toroid::detail
