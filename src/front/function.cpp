// Compiled functions: guards, variants, recompiles.
#include <algorithm>
#include <exception>

#include "base/check.h"
#include "device/errors.h"
#include "device/runtime.h"
#include "dist/group.h"
#include "exec/record/shared_results.h"
#include "front/eager.h"
#include "front/function_state.h"
#include "front/hints.h"
#include "graph/recorder.h"

namespace toroid {
namespace detail {

using front::keep;
using front::kKeptReasons;
using front::Surroundings;
using trace::Tracer;

namespace {

// Whether this thread records a graph that no trace takes apart: its tensors have no elements.
bool is_recorded() { return dynamic_cast<const graph::Recorder*>(innermost_dispatcher()) != nullptr; }

}  // namespace

std::string Function::State::name_of_tensor(const Call& c, size_t index) const {
  size_t next = 0;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    std::string label = i < config.input_names.size() ? fmt::format("input {} ({})", i, config.input_names[i]) : fmt::format("input {}", i);
    if (std::holds_alternative<const Tensor*>(c.arguments[i]) && next++ == index) return label;
    if (auto* list = std::get_if<const std::vector<Tensor>*>(&c.arguments[i])) {
      if (index < next + (*list)->size()) return fmt::format("{}[{}]", label, index - next);
      next += (*list)->size();
    }
  }
  return fmt::format("tensor {}", index);
}

// Sizes that differed between calls of earlier processes are open from the first call on.
void Function::State::recall(const Call& c) {
  if (config.dynamic) return;
  Messages messages;
  {
    std::lock_guard lock(mutex);
    if (!history.empty() || !(remembered_as = front::sizes_key(config.name, c))) return;
    remembered = front::recall_sizes(*remembered_as, c);
    for (size_t i = 0; i < c.tensors.size(); ++i) {
      history.push_back({c.tensors[i]->defined() ? c.tensors[i]->sizes() : std::vector<int64_t>{}, remembered[i]});
      for (size_t d = 0; d < remembered[i].size(); ++d)
        if (remembered[i][d])
          messages.emplace_back(Artifact::Cache,
                                fmt::format("{}: dimension {} of {} is open from the first call on, as it differed in an earlier process",
                                            config.name, d, name_of_tensor(c, i)));
    }
  }
  front::log_all(messages);
}

// Keeps which sizes differ, when a program for them is there.
void Function::State::remember() {
  std::unique_lock lock(mutex);
  if (!remembered_as) return;
  front::OpenSizes now;
  for (auto& h : history) now.push_back(h.changed);
  now.resize(remembered.size());
  if (now == remembered) return;
  remembered = now;
  const Hash128 key = *remembered_as;
  lock.unlock();
  front::remember_sizes(key, now);
}

// Which sizes are symbols in the trace of this call.
std::vector<std::vector<SizePolicy>> Function::State::policies_of(const Call& c) {
  std::lock_guard lock(mutex);
  history.resize(std::max(history.size(), c.tensors.size()));
  std::vector<std::vector<SizePolicy>> out(c.tensors.size());
  for (size_t i = 0; i < c.tensors.size(); ++i) {
    if (!c.tensors[i]->defined()) continue;
    const auto& sizes = c.tensors[i]->sizes();
    History& h = history[i];
    if (h.sizes.size() != sizes.size()) h = {sizes, std::vector<bool>(sizes.size(), false)};
    auto marks = front::marks_of(*c.tensors[i]);
    out[i].resize(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      h.changed[d] = h.changed[d] || h.sizes[d] != sizes[d];
      SizePolicy& p = out[i][d];
      p.dynamic = config.dynamic.value_or(h.changed[d]);
      front::Mark m = d < marks.size() ? marks[d] : front::Mark{};
      if (m.kind == front::Mark::kStatic) p.dynamic = false;
      if (m.kind == front::Mark::kDynamic) p = {true, true, m.min, m.max};
    }
    h.sizes = sizes;
  }
  return out;
}

trace::Segment Function::State::trace(const Call& c, const std::vector<std::vector<SizePolicy>>& policies,
                                      const trace::SegmentRunner& on_break, bool* broken) {
  Tracer tracer(config.name, on_break);
  tracer.break_at_reads(on_break && breaks_at_reads.load(std::memory_order_relaxed));
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < c.tensors.size(); ++i) stand_ins.push_back(tracer.argument(*c.tensors[i], name_of_tensor(c, i), policies[i]));
    Tracer::Scope scope(&tracer);
    const GradModeScope only_scopes_within(true);
    results = c.run(stand_ins);
  }
  trace::Segment s = tracer.finish(std::move(results));
  *broken = tracer.broken();
  return s;
}

std::vector<Tensor> Function::State::eager(const Call& c, const std::string& reason) {
  eager_calls.fetch_add(1, std::memory_order_relaxed);
  if (!reason.empty()) {
    std::lock_guard lock(mutex);
    keep(kept.fallbacks, reason);
  }
  return c.run_eagerly();
}

Function::State::Now Function::State::state_now() {
  const uint64_t version = options_version();
  {
    std::lock_guard lock(entries_mutex);
    if (latest_options && latest_options->version == version) return {entries, latest_options};
  }
  auto options = front::options_now(settings);
  std::lock_guard lock(entries_mutex);
  latest_options = std::move(options);
  return {entries, latest_options};
}

// Of the variants that fit the call one that is current, if there is one.
std::shared_ptr<const Entry> Function::State::find(const Call& c, const Entries& list, const front::OptionsNow& now) {
  const size_t first = recent.load(std::memory_order_relaxed);
  std::shared_ptr<const Entry> stale;
  for (size_t n = 0; n <= list.size(); ++n) {
    const size_t i = n == 0 ? first : list.size() - n;
    if (i >= list.size() || (n > 0 && i == first) || !list[i]->matches(c, now)) continue;
    if (list[i]->is_current()) {
      if (n > 0) recent.store(i, std::memory_order_relaxed);
      return list[i];
    }
    if (!stale) stale = list[i];
  }
  return stale;
}

std::vector<Tensor> Function::State::run(const Entry& e, const Call& c) {
  if (!e.program) return eager(c, "");
  std::vector<Tensor> inputs;
  inputs.reserve(e.inputs.size());
  for (int i : e.inputs) inputs.push_back(*c.tensors[static_cast<size_t>(i)]);
  if (!front::is_remembered(inputs) && !front::is_remembered(e.captures->tensors())) {
    auto results = e.program(inputs);
    if (e.writes) front::note_writes(e.operands(inputs), e.written);
    return results;
  }
  const auto operands = e.operands(inputs);
  return e.taped->call(operands, [&] {
    auto results = e.program(inputs);
    front::note_writes(operands, e.written);
    return results;
  });
}

std::vector<std::string> Function::State::notes_of(const Messages& messages) const {
  std::vector<std::string> out;
  for (auto& [artifact, text] : messages)
    if (artifact == Artifact::Recompiles) out.push_back("compiled again: " + text);
  for (auto& guard : kept.guards) out.push_back("guard: " + guard);
  return out;
}

front::Program Function::State::compile(trace::Segment& s, const front::OptionsNow& now, std::vector<std::string> notes,
                                        bool when_used) const {
  const front::BackendOptions options{now.options, s.device, s.output_devices, {}, false, std::move(notes)};
  if (when_used) return front::compiled_when_used(settings.backend, std::move(s.graph), options);
  return settings.backend(std::move(s.graph), options);
}

// What a trace of the whole function becomes, all but its program.
std::shared_ptr<Entry> Function::State::entry_of(const Call& c, trace::Segment& s, std::shared_ptr<const Captures> captures,
                                                 std::vector<std::vector<SizePolicy>> policies) {
  auto e = std::make_shared<Entry>();
  std::vector<int> positions(c.tensors.size(), -1);
  std::vector<std::string> names;
  for (size_t i = 0; i < c.tensors.size(); ++i) {
    names.push_back(name_of_tensor(c, i));
    for (size_t k = 0; k < s.inputs.size() && positions[i] < 0; ++k)
      if (c.tensors[i]->defined() && s.inputs[k].impl() == c.tensors[i]->impl()) positions[i] = static_cast<int>(k);
  }
  for (size_t k = 0; k < s.inputs.size(); ++k)
    e->inputs.push_back(static_cast<int>(std::find(positions.begin(), positions.end(), static_cast<int>(k)) - positions.begin()));
  e->scalars = front::scalars_of(c.arguments);
  e->writes = s.writes_inputs;
  for (auto& in : s.graph->inputs) e->from_call.push_back(in.kind == graph::InputKind::User);
  if (e->writes) e->written = front::written_inputs(*s.graph);
  e->text = graph::to_string(*s.graph);
  e->policies = std::move(policies);
  e->surroundings = Surroundings::now();
  e->captures = std::move(captures);
  e->runs_eagerly = s.writes_inputs && e->memory_is_shared(c);
  e->guards = Guards(*s.graph, c.tensors, positions, std::move(names), s.writes_inputs && !e->runs_eagerly);
  e->guards.note_fixed(s.fixed);
  return e;
}

// The variant for this call, waiting for another thread that compiles it. Null: none does.
std::shared_ptr<const Entry> Function::State::await_other(std::unique_lock<std::mutex>& lock, const Call& c, const front::OptionsNow& now) {
  while (true) {
    if (auto known = find(c, *variants(), now); known && known->is_current()) return known;
    const auto serves = [&](auto& p) { return p->captures->stand() && p->fits(c, now); };
    if (compiles_here > 0 || std::none_of(pending.begin(), pending.end(), serves)) return nullptr;
    made.wait(lock);
  }
}

// Under the mutex.
Messages Function::State::report_new(const Call& c, const Entry& e, std::string why, std::string hint) {
  Messages messages;
  if (!hint.empty()) {
    messages.emplace_back(Artifact::Perf, fmt::format("{}: {}", config.name, hint));
    keep(kept.hints, std::move(hint));
  }
  auto list = variants();
  if (why.empty()) why = front::failure_of_nearest(*list, c, *e.options);
  if (!why.empty()) {
    messages.emplace_back(Artifact::Recompiles, fmt::format("{}: {}", config.name, why));
    if (kept.recompile_reasons.size() < kKeptReasons) kept.recompile_reasons.push_back(why);
  }
  kept.guards = e.guards.describe();
  kept.graphs = {e.text};
  if (log_enabled(Artifact::Guards))
    for (auto& g : kept.guards) messages.emplace_back(Artifact::Guards, fmt::format("{}: {}", config.name, g));
  if (log_enabled(Artifact::Graph)) messages.emplace_back(Artifact::Graph, e.text);
  if (e.runs_eagerly) keep(kept.fallbacks, "the function writes to its inputs, and two different ones share memory");
  return messages;
}

// Under the mutex. What was begun before a reset serves its call alone.
void Function::State::keep_entry(const std::shared_ptr<const Entry>& e, uint64_t generation) {
  if (resets.load() != generation) return;
  auto longer = std::make_shared<Entries>(*variants());
  longer->push_back(e);
  recent.store(longer->size() - 1, std::memory_order_relaxed);
  replace_variants(std::move(longer));
}

// Compiles a trace of the whole function, unless another thread has made or makes a fitting variant. Null when the recompile limit is
// reached, with those that other threads compile now.
std::shared_ptr<const Entry> Function::State::add(const Call& c, trace::Segment s, std::shared_ptr<const Captures> captures,
                                                  std::vector<std::vector<SizePolicy>> policies,
                                                  const std::shared_ptr<const front::OptionsNow>& now, const std::string& why) {
  auto e = entry_of(c, s, std::move(captures), std::move(policies));
  e->options = now;
  e->taped = std::make_shared<front::TapedFunction>(config.name, e->text, s.graph->symbols, settings.backend,
                                                    front::BackendOptions{now->options, s.device, s.output_devices});
  // Such calls take other programs, and perhaps all do.
  const bool remembered = front::is_remembered(s.inputs) || front::is_remembered(e->captures->tensors());
  const bool together = front::is_tuned_together(*s.graph, now->options);
  std::unique_lock lock(mutex);
  if (!together)
    if (auto known = await_other(lock, c, *now)) return known;
  if (limit_reached(variants_made() + (together ? 0 : pending.size()), *now)) return nullptr;
  const uint64_t generation = resets.load();
  const Messages messages =
      report_new(c, *e, why, remembered || e->runs_eagerly ? "" : front::freezing_hint(*s.graph, now->options, s.device));
  std::vector<std::string> notes = notes_of(messages);
  pending.push_back(e);
  lock.unlock();
  std::exception_ptr error;
  try {
    const CompileScope compiling;
    front::log_all(messages);
    if (!e->runs_eagerly) e->program = compile(s, *now, std::move(notes), remembered && !together), compiles.fetch_add(1);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  std::erase(pending, e);
  made.notify_all();
  if (error) std::rethrow_exception(error);
  if (together)
    if (auto known = find(c, *variants(), *now); known && known->is_current()) return known;
  keep_entry(e, generation);
  return e;
}

// The limit is reached, by variants that there are or by those that other threads compile.
std::vector<Tensor> Function::State::past_limit(const Call& c, const front::OptionsNow& now, const std::string& why) {
  const int64_t limit = now.options.get(options::kRecompileLimit);
  std::string reason = fmt::format("recompile_limit {} is reached: {}", limit, limit == 0 ? "no variant may be compiled" : why);
  TOROID_USER_CHECK(
      !settings.fail_on_recompile_limit,
      "the function \"{}\": {}. Mark sizes that vary with mark_dynamic, pass numbers that vary in tensors, or raise the option "
      "recompile_limit",
      config.name, reason);
  limit_calls.fetch_add(1, std::memory_order_relaxed);
  log(Artifact::Recompiles, fmt::format("{}: {}; running eagerly", config.name, reason));
  return eager(c, reason);
}

// The result of a call for which no variant may be compiled, though it would be (why); nothing where it may. UserError where the caller has
// asked for that.
std::optional<std::vector<Tensor>> Function::State::refused(const Call& c, const front::OptionsNow& now, const std::string& why) {
  const Stance stance = front::current_stance();
  bool in_segments = false;
  {
    std::lock_guard lock(mutex);
    in_segments = segmented;
  }
  const bool is_forbidden = !in_segments && (stance == Stance::EagerOnRecompile || stance == Stance::FailOnRecompile);
  if (!is_forbidden && !limit_reached(variants_made(), now)) return std::nullopt;
  // Looked for after the variants were counted: another thread may have made it since this call found none.
  if (auto made = find(c, *variants(), now); made && made->is_current()) return run(*made, c);
  if (!is_forbidden) return past_limit(c, now, why);
  if (stance == Stance::EagerOnRecompile) return eager(c, "stance EagerOnRecompile");
  fail<UserError>("the function \"{}\" would be compiled, which the stance FailOnRecompile forbids: {}", config.name, why);
}

// Traces a call to its end; at graph breaks (then *broken) what was recorded runs.
trace::Segment Function::State::retrace(const Call& c, const std::vector<std::vector<SizePolicy>>& policies, bool* broken) {
  trace::SegmentRunner on_break;
  if (!config.fullgraph)
    on_break = [this, remembers = grad_mode](trace::Segment s) {
      const GradModeScope of_the_caller(remembers);
      return run_segment(std::move(s));
    };
  const device::CaptureSuspension not_captured;
  if (not_captured.any())
    on_break = [this](trace::Segment s) -> std::vector<Tensor> {
      device::fail_on_device(DeviceErrorCode::CaptureUnsupported,
                             fmt::format("the function \"{}\" within a capture, which reads results ({}),", config.name, s.break_reason));
    };
  trace::Segment s = trace(c, policies, on_break, broken);
  if (!*broken) s.fixed = trace::settle_guards(*s.graph, s.origins, s.guard_places);
  return s;
}

std::vector<Tensor> Function::State::miss(const Call& c) {
  const auto now = options();
  auto list = variants();
  const std::string why = list->empty() ? "it has no compiled code yet" : front::failure_of_nearest(*list, c, *now);
  if (auto done = refused(c, *now, why)) return std::move(*done);
  recall(c);
  auto policies = policies_of(c);
  bool broken = false;
  trace::Segment s = retrace(c, policies, &broken);
  if (broken) return run_segment(std::move(s));
  auto captures = std::make_shared<const Captures>(s, now->options.get(options::kFreezing));
  if (auto e = add(c, std::move(s), std::move(captures), std::move(policies), now)) {
    remember();
    return run(*e, c);
  }
  return past_limit(c, *now, why);
}

// Puts another variant in the place of one, or none.
void Function::State::exchange(const std::shared_ptr<const Entry>& old, std::shared_ptr<const Entry> by) {
  std::lock_guard lock(mutex);
  auto next = std::make_shared<Entries>(*variants());
  auto at = std::find(next->begin(), next->end(), old);
  if (at == next->end()) return;  // another thread was first, or a reset
  constexpr size_t kReplaced = 4;
  if (!by || by->text != old->text) {
    replaced.push_back(old);
    if (replaced.size() > kReplaced) replaced.erase(replaced.begin());
  }
  if (by) {
    *at = std::move(by);
  } else {
    next->erase(at);
    given_up.fetch_add(1);
  }
  replace_variants(std::move(next));
}

std::shared_ptr<const Entry> Function::State::returned(const std::string& text, const Captures& captures, const Call& c,
                                                       const front::OptionsNow& now) {
  std::lock_guard lock(mutex);
  const auto fits = [&](auto& e) {
    return e->program && e->text == text && e->captures->frozen_stand() && e->captures->difference(captures).empty() &&
           e->matches(c, now) && !(e->writes && e->memory_is_shared(c));
  };
  const auto at = std::find_if(replaced.rbegin(), replaced.rend(), fits);
  if (at == replaced.rend()) return nullptr;
  auto out = *at;
  replaced.erase(std::next(at).base());
  return out;
}

// A call that a variant fits, whose captured variables have been assigned since: another trace finds the tensors that they hold now. The
// compiled code runs on those where that is all that has changed, or that of a variant before, where the graph is that one's again (a
// module that trains and evaluates by turns).
std::vector<Tensor> Function::State::refresh(const std::shared_ptr<const Entry>& stale, const Call& c,
                                             const std::shared_ptr<const front::OptionsNow>& now) {
  bool broken = false;
  const bool reads_others = !stale->captures->elements_stand();
  if (reads_others) breaks_at_reads.store(true, std::memory_order_relaxed);
  trace::Segment s = retrace(c, stale->policies, &broken);
  if (broken) {
    exchange(stale, nullptr);
    return run_segment(std::move(s));
  }
  const std::string text = graph::to_string(*s.graph);
  const auto captured = std::make_shared<const Captures>(s, now->options.get(options::kFreezing));
  if (const auto before = text == stale->text ? nullptr : returned(text, *captured, c, *now)) {
    auto again = std::make_shared<Entry>(*before);
    again->captures = captured;
    if (const auto others = before->captures->exchanged(*captured); !others.empty())
      again->program = front::rebound(before->program, others);
    if (again->program) {
      rebinds.fetch_add(1, std::memory_order_relaxed);
      exchange(stale, again);
      return run(*again, c);
    }
  }
  auto e = std::make_shared<Entry>(*stale);
  e->captures = captured;
  std::string why = stale->captures->difference(*e->captures);
  if (why.empty() && text != stale->text)
    why = fmt::format("{} have changed: {}", reads_others ? "numbers that the function reads from captured tensors" : "captured variables",
                      front::first_difference(stale->text, text));
  if (why.empty() && !stale->captures->frozen_stand())
    why = "tensors that the compiled code holds as they were (option freezing) have been written, as by load_state() or an optimizer";
  if (why.empty() && e->writes && e->memory_is_shared(c)) why = "an argument shares memory with a captured tensor that the function writes";
  if (why.empty()) {
    const auto others = stale->captures->exchanged(*e->captures);
    if (!others.empty()) e->program = front::rebound(stale->program, others);
    if (e->program) {
      rebinds.fetch_add(!others.empty(), std::memory_order_relaxed);
      exchange(stale, e);
      return run(*e, c);
    }
    why =
        "captured variables were assigned, and the compiled code cannot take other tensors (option freezing, control flow that holds one, or a backend without)";
  }
  if (auto done = refused(c, *now, why)) return std::move(*done);  // the variant stays: the variables may be assigned back
  exchange(stale, nullptr);
  auto captures = e->captures;
  if (auto added = add(c, std::move(s), std::move(captures), stale->policies, now, why)) return run(*added, c);
  return past_limit(c, *now, why);
}

void Function::State::verify(const Entry& e, const Call& c) {
  bool broken = false;
  trace::Segment s = trace(c, e.policies, nullptr, &broken);
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
  const std::string now = graph::to_string(*s.graph);
  const std::string what = now == e.text ? e.captures->untold(Captures(s)) : front::first_difference(e.text, now);
  if (what.empty()) return;
  fail<UserError>(
      "verify_trace: the function \"{}\" takes another path than its compiled form: {}. It reads something that changes and is no "
      "argument; pass that as an argument",
      config.name, what);
}

std::vector<Tensor> Function::State::call(std::span<const ArgumentView> arguments, Body body, void* function) {
  const Call c = front::call_of(arguments, body, function);
  if (Tracer::current() || is_recorded()) return c.run_eagerly();  // a part of the function that is being traced, or differentiated
  const exec::CallScope one_call;                                  // however many graphs it has
  calls.fetch_add(1, std::memory_order_relaxed);
  if (resets.load(std::memory_order_relaxed) != front::reset_count()) follow_reset();
  if (front::current_stance() == Stance::ForceEager) return eager(c, "stance ForceEager");
  const Now now = state_now();
  auto e = find(c, *now.entries, *now.options);
  if (!e) return miss(c);
  hits.fetch_add(1, std::memory_order_relaxed);
  if (!e->is_current()) return refresh(e, c, now.options);
  if (settings.verify_trace && e->program) verify(*e, c);
  return run(*e, c);
}

// Of several threads that see the reset of the process one clears; what it compiles next stays.
void Function::State::follow_reset() {
  std::lock_guard lock(mutex);
  if (resets.load() != front::reset_count()) clear_locked();
}

void Function::State::clear() {
  std::lock_guard lock(mutex);
  clear_locked();
}

void Function::State::clear_locked() {
  resets.store(front::reset_count());
  replace_variants(std::make_shared<const Entries>());
  recent.store(0);
  for (auto* n : {&calls, &hits, &eager_calls, &limit_calls, &compiles, &rebinds}) n->store(0);
  given_up.store(0);
  breaks_at_reads.store(false);
  history.clear();
  kept = {};
  segments.clear();
  replaced.clear();
  segmented = false;
}

Function::Function(CompileConfig config) : state_(std::make_shared<State>(std::move(config))) {}
Function::~Function() = default;
std::vector<Tensor> Function::call(std::span<const ArgumentView> arguments, Body body, void* function) {
  return state_->call(arguments, body, function);
}
void Function::reset() { state_->clear(); }

Function& require_function(const std::shared_ptr<Function>& f) {
  TOROID_USER_CHECK(f, "a compiled function was moved from; it cannot be used until another is assigned to it");
  return *f;
}

CompileReport Function::report() const {
  std::lock_guard lock(state_->mutex);
  CompileReport r = state_->kept;
  r.calls = state_->calls;
  r.compiles = state_->compiles;
  r.cache_hits = state_->hits;
  r.eager_calls = state_->eager_calls;
  r.limit_calls = state_->limit_calls;
  r.rebinds = state_->rebinds;
  r.entries = state_->variants()->size();
  const auto note_tuning = [&](const front::Program& p) {
    if (std::string text = front::background_tuning(p); !text.empty()) r.tuning.push_back(std::move(text));
  };
  for (auto& e : *state_->variants()) {
    for (auto& text : e->taped->reports()) r.saved.push_back(text);
    note_tuning(e->program);
  }
  for (auto& [site, s] : state_->segments) {
    r.entries += s.programs.size();
    for (auto& [graph, program] : s.programs) note_tuning(program);
  }
  return r;
}

std::vector<Tensor> run_untraced(std::span<const ArgumentView> arguments, Body body, void* function) {
  const Call c = front::call_of(arguments, body, function);
  Tracer* tracer = Tracer::current();
  if (!tracer) return c.run_eagerly();
  TOROID_USER_CHECK(
      !is_recorded(),
      "a function that compile_disable() excludes is called within one that is recorded as a whole: one that is differentiated, "
      "or given to cond, while_loop, scan or map. Call it before");
  tracer->break_graph("call of a function that compile_disable() excludes");
  Tracer::Scope none(nullptr);
  DispatchScope eager(front::EagerDispatcher::instance());
  return c.run_eagerly();
}

Explanation explain(std::span<const ArgumentView> arguments, Body body, void* function, CompileConfig config) {
  config.options["backend"] = "reference";
  Function f(std::move(config));
  f.call(arguments, body, function);
  CompileReport r = f.report();
  Explanation e;
  e.graph_count = r.graphs.size();
  e.breaks = r.graph_breaks;
  e.guards = r.guards;
  e.saved = r.saved;
  e.graphs = r.graphs;
  for (auto& g : e.graphs) {
    auto parsed = graph::parse(g);
    e.operation_count += parsed->nodes.size();
  }
  return e;
}

}  // namespace detail

bool is_compiling() { return trace::Tracer::current() != nullptr; }

}  // namespace toroid
