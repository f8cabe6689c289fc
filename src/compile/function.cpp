// Compiled functions: guards, variants, recompiles, graph breaks.
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "compile/eager.h"
#include "compile/guards.h"
#include "compile/segment.h"
#include "compile/settings.h"
#include "device/errors.h"
#include "device/runtime.h"
#include "exec/shared_results.h"
#include "ops/autocast.h"
#include "trace/tracer.h"

namespace toroid {
namespace detail {
namespace {

using front::Guards;
using front::Surroundings;
using trace::SizePolicy;
using trace::Tracer;

using Scalar = std::variant<int64_t, double, bool, std::string>;
constexpr size_t kKeptReasons = 256;

// A call, with its tensors laid out in a row.
struct Call {
  std::vector<const Tensor*> tensors;
  std::span<const ArgumentView> arguments;
  Body body;
  void* function;

  std::vector<Tensor> run(std::span<const Tensor> in_place_of_tensors) const { return body(function, in_place_of_tensors, arguments); }
  std::vector<Tensor> run_eagerly() const {
    std::vector<Tensor> own;
    for (auto* t : tensors) own.push_back(*t);
    return run(own);
  }
};

Call call_of(std::span<const ArgumentView> arguments, Body body, void* function) {
  Call c{{}, arguments, body, function};
  c.tensors.reserve(arguments.size());
  for (auto& a : arguments) {
    if (auto* t = std::get_if<const Tensor*>(&a)) c.tensors.push_back(*t);
    if (auto* list = std::get_if<const std::vector<Tensor>*>(&a))
      for (auto& t : **list) c.tensors.push_back(&t);
  }
  return c;
}

// Values of the arguments that are not tensors; of a list of tensors its length.
std::vector<Scalar> scalars_of(std::span<const ArgumentView> arguments) {
  std::vector<Scalar> out;
  for (auto& a : arguments) {
    if (auto* list = std::get_if<const std::vector<Tensor>*>(&a))
      out.emplace_back(static_cast<int64_t>((*list)->size()));
    else if (auto* i = std::get_if<int64_t>(&a))
      out.emplace_back(*i);
    else if (auto* d = std::get_if<double>(&a))
      out.emplace_back(*d);
    else if (auto* b = std::get_if<bool>(&a))
      out.emplace_back(*b);
    else if (auto* s = std::get_if<std::string_view>(&a))
      out.emplace_back(std::string(*s));
  }
  return out;
}

bool equal(const ArgumentView& a, const Scalar& s) {
  if (auto* list = std::get_if<const std::vector<Tensor>*>(&a))
    return std::get_if<int64_t>(&s) && std::get<int64_t>(s) == static_cast<int64_t>((*list)->size());
  if (auto* i = std::get_if<int64_t>(&a)) return std::get_if<int64_t>(&s) && std::get<int64_t>(s) == *i;
  if (auto* d = std::get_if<double>(&a))
    return std::get_if<double>(&s) && (std::get<double>(s) == *d || (std::get<double>(s) != std::get<double>(s) && *d != *d));
  if (auto* b = std::get_if<bool>(&a)) return std::get_if<bool>(&s) && std::get<bool>(s) == *b;
  if (auto* t = std::get_if<std::string_view>(&a)) return std::get_if<std::string>(&s) && std::get<std::string>(s) == *t;
  return false;
}

std::string text_of(const Scalar& s) {
  if (auto* i = std::get_if<int64_t>(&s)) return std::to_string(*i);
  if (auto* d = std::get_if<double>(&s)) return fmt::format("{}", *d);
  if (auto* b = std::get_if<bool>(&s)) return *b ? "true" : "false";
  return "\"" + std::get<std::string>(s) + "\"";
}

// One compiled variant.
struct Entry {
  Surroundings surroundings;
  std::shared_ptr<const front::OptionsNow> options;  // that it was compiled with
  Guards guards;
  std::vector<Scalar> scalars;
  std::vector<int> inputs;  // argument tensor for each input of the program
  front::Program program;   // null: run eagerly, or still being compiled
  bool runs_eagerly = false;
  std::vector<Tensor> captured;
  bool writes = false;
  std::string text;  // of the traced graph
  std::vector<std::vector<SizePolicy>> policies;

  // options: of the function now.
  bool matches(const Call& c, const front::OptionsNow& now) const {
    if (!fits(c, now)) return false;
    if (!program) return memory_is_shared(c);  // else there can be compiled code
    if (!writes) return true;
    for (auto* t : c.tensors)
      for (auto& w : captured)
        if (t->defined() && front::share_memory(*t, w)) return false;
    return true;
  }
  bool fits(const Call& c, const front::OptionsNow& now) const {
    size_t next = 0;
    for (auto& a : c.arguments)
      if (!std::holds_alternative<const Tensor*>(a) && (next >= scalars.size() || !equal(a, scalars[next++]))) return false;
    if (next != scalars.size() || options->key != now.key || surroundings != Surroundings::now()) return false;
    return guards.hold(c.tensors);
  }
  // Whether two different tensors among those of the call and those captured share memory.
  bool memory_is_shared(const Call& c) const {
    std::vector<const Tensor*> all;
    for (auto* t : c.tensors)
      if (t->defined() && std::none_of(all.begin(), all.end(), [&](auto* o) { return o->impl() == t->impl(); })) all.push_back(t);
    for (auto& w : captured) all.push_back(&w);
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t k = i + 1; k < all.size(); ++k)
        if (front::share_memory(*all[i], *all[k])) return true;
    return false;
  }
  std::string failure(const Call& c, const front::OptionsNow& now) const {
    size_t next = 0;
    for (size_t i = 0; i < c.arguments.size(); ++i) {
      if (std::holds_alternative<const Tensor*>(c.arguments[i])) continue;
      if (next >= scalars.size()) return "the number of arguments changed";
      const Scalar& s = scalars[next++];
      if (equal(c.arguments[i], s)) continue;
      auto values = scalars_of(c.arguments.subspan(i, 1));
      if (std::holds_alternative<const std::vector<Tensor>*>(c.arguments[i]))
        return fmt::format("argument {}: had {} tensors, has {}", i, text_of(s), text_of(values[0]));
      return fmt::format("argument {}: was {}, is {}", i, text_of(s), text_of(values[0]));
    }
    if (const Surroundings here = Surroundings::now(); surroundings != here) return surroundings.change(here);
    if (options->key != now.key) return difference(options->options, now.options);
    std::string reason = guards.failure(c.tensors);
    if (reason.empty() && !program) return "tensors shared memory and the function writes to them, now they do not";
    return reason.empty() ? "an argument shares memory with a captured tensor that the function writes" : reason;
  }
};
using Entries = std::vector<std::shared_ptr<const Entry>>;

// Compiles of functions that this thread is in the middle of. What runs within them may call functions, and waits for nobody: who compiles
// may be waiting for this thread.
thread_local int compiles_here = 0;
struct CompileScope {
  CompileScope() { ++compiles_here; }
  ~CompileScope() { --compiles_here; }
  CompileScope(const CompileScope&) = delete;
};

// Messages that are logged when no lock is held.
using Messages = std::vector<std::pair<Artifact, std::string>>;
void log_all(const Messages& messages) {
  for (auto& [artifact, text] : messages) log(artifact, text);
}

// What was seen of one argument tensor: sizes that differ between calls become symbolic.
struct History {
  std::vector<int64_t> sizes;
  std::vector<bool> changed;
};

void keep(std::vector<std::string>& list, std::string text) {
  if (list.size() < kKeptReasons && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

}  // namespace

struct Function::State {
  explicit State(CompileConfig c) : config(std::move(c)), settings(front::read_settings(config)) {}

  std::vector<Tensor> call(std::span<const ArgumentView> arguments, Body body, void* function);
  std::vector<Tensor> miss(const Call& c);
  std::vector<Tensor> run(const Entry& e, const Call& c);
  std::vector<Tensor> eager(const Call& c, const std::string& reason);
  std::vector<Tensor> run_segment(trace::Segment s);
  trace::Segment trace(const Call& c, const std::vector<std::vector<SizePolicy>>& policies, const trace::SegmentRunner& on_break,
                       bool* broken);
  std::vector<std::vector<SizePolicy>> policies_of(const Call& c);
  std::string name_of_tensor(const Call& c, size_t index) const;
  // What a call looks at, by one lock.
  struct Now {
    std::shared_ptr<const Entries> entries;
    std::shared_ptr<const front::OptionsNow> options;
  };
  Now state_now();
  std::shared_ptr<const front::OptionsNow> options() { return state_now().options; }
  std::shared_ptr<const Entry> find(const Call& c, const Entries& list, const front::OptionsNow& now);
  std::shared_ptr<Entry> entry_of(const Call& c, trace::Segment& s, std::vector<std::vector<SizePolicy>> policies);
  std::shared_ptr<const Entry> add(const Call& c, trace::Segment s, std::vector<std::vector<SizePolicy>> policies,
                                   const std::shared_ptr<const front::OptionsNow>& now);
  std::shared_ptr<const Entry> await_other(std::unique_lock<std::mutex>& lock, const Call& c, const front::OptionsNow& now);
  Messages report_new(const Call& c, const Entry& e);
  void keep_entry(const std::shared_ptr<const Entry>& e, uint64_t generation);
  static bool limit_reached(size_t variants, const front::OptionsNow& now) {
    return static_cast<int64_t>(variants) >= now.options.get(options::kRecompileLimit);
  }
  std::vector<Tensor> past_limit(const Call& c, const front::OptionsNow& now);
  void verify(const Entry& e, const Call& c);
  front::Program compile(trace::Segment& s, const front::OptionsNow& now) const;  // takes its graph
  struct SegmentSite {
    std::unordered_map<std::string, front::Program> programs;  // by the graph's text
    Guards latest;
    CompileOptions options;  // of the latest
  };
  front::Program segment_program(trace::Segment& s);
  bool takes_another(trace::Segment& s, SegmentSite& here, const front::OptionsNow& now, Messages& messages);
  void follow_reset();
  void clear();
  void clear_locked();

  const CompileConfig config;
  const front::Settings settings;
  std::atomic<size_t> recent{0};
  std::atomic<int64_t> calls{0}, hits{0}, eager_calls{0}, limit_calls{0}, compiles{0};
  std::atomic<uint64_t> resets{front::reset_count()};

  // The list of variants is replaced as a whole: a call holds the one it found, and never waits for a compile.
  std::shared_ptr<const Entries> variants() const {
    std::lock_guard lock(entries_mutex);
    return entries;
  }
  void replace_variants(std::shared_ptr<const Entries> next) {
    std::lock_guard lock(entries_mutex);
    entries.swap(next);
  }
  mutable std::mutex entries_mutex;  // held for a copy of the pointer only
  std::shared_ptr<const Entries> entries = std::make_shared<const Entries>();
  std::shared_ptr<const front::OptionsNow> latest_options;  // with entries_mutex

  // Of what follows. Not held while compiling: the code of custom operations and what listens to logs and tuning may call the function.
  std::mutex mutex;
  std::condition_variable made;                                         // a compile has ended
  std::vector<std::shared_ptr<const Entry>> pending;                    // that are being compiled
  std::multiset<std::pair<std::string, std::string>> pending_segments;  // by site and text
  std::vector<History> history;
  CompileReport kept;                                     // the lists of the report
  std::unordered_map<std::string, SegmentSite> segments;  // by the reason of the break at their end
  bool segmented = false;
};

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
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < c.tensors.size(); ++i) stand_ins.push_back(tracer.argument(*c.tensors[i], name_of_tensor(c, i), policies[i]));
    Tracer::Scope scope(&tracer);
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

std::shared_ptr<const Entry> Function::State::find(const Call& c, const Entries& list, const front::OptionsNow& now) {
  size_t first = recent.load(std::memory_order_relaxed);
  if (first < list.size() && list[first]->matches(c, now)) return list[first];
  for (size_t i = list.size(); i-- > 0;) {
    if (i == first || !list[i]->matches(c, now)) continue;
    recent.store(i, std::memory_order_relaxed);
    return list[i];
  }
  return nullptr;
}

std::vector<Tensor> Function::State::run(const Entry& e, const Call& c) {
  if (!e.program) return eager(c, "");
  std::vector<Tensor> inputs;
  inputs.reserve(e.inputs.size());
  for (int i : e.inputs) inputs.push_back(*c.tensors[static_cast<size_t>(i)]);
  return e.program(inputs);
}

front::Program Function::State::compile(trace::Segment& s, const front::OptionsNow& now) const {
  return settings.backend(std::move(s.graph), {now.options, s.device, s.output_devices});
}

// What a trace of the whole function becomes, all but its program.
std::shared_ptr<Entry> Function::State::entry_of(const Call& c, trace::Segment& s, std::vector<std::vector<SizePolicy>> policies) {
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
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
  e->scalars = scalars_of(c.arguments);
  e->writes = s.writes_inputs;
  e->text = graph::to_string(*s.graph);
  e->policies = std::move(policies);
  e->surroundings = Surroundings::now();
  for (auto& in : s.graph->inputs)
    if (in.data.defined()) e->captured.push_back(in.data);
  e->runs_eagerly = s.writes_inputs && e->memory_is_shared(c);
  e->guards = Guards(*s.graph, c.tensors, positions, std::move(names), s.writes_inputs && !e->runs_eagerly);
  return e;
}

// The variant for this call, waiting for another thread that compiles it. Null: none does.
std::shared_ptr<const Entry> Function::State::await_other(std::unique_lock<std::mutex>& lock, const Call& c, const front::OptionsNow& now) {
  while (true) {
    if (auto known = find(c, *variants(), now)) return known;
    if (compiles_here > 0 || std::none_of(pending.begin(), pending.end(), [&](auto& p) { return p->fits(c, now); })) return nullptr;
    made.wait(lock);
  }
}

// Under the mutex.
Messages Function::State::report_new(const Call& c, const Entry& e) {
  Messages messages;
  auto list = variants();
  if (!list->empty()) {
    std::string reason = list->back()->failure(c, *e.options);
    messages.emplace_back(Artifact::Recompiles, fmt::format("{}: {}", config.name, reason));
    if (kept.recompile_reasons.size() < kKeptReasons) kept.recompile_reasons.push_back(reason);
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
std::shared_ptr<const Entry> Function::State::add(const Call& c, trace::Segment s, std::vector<std::vector<SizePolicy>> policies,
                                                  const std::shared_ptr<const front::OptionsNow>& now) {
  auto e = entry_of(c, s, std::move(policies));
  e->options = now;
  std::unique_lock lock(mutex);
  if (auto known = await_other(lock, c, *now)) return known;
  if (limit_reached(variants()->size() + pending.size(), *now)) return nullptr;
  const uint64_t generation = resets.load();
  const Messages messages = report_new(c, *e);
  pending.push_back(e);
  lock.unlock();
  std::exception_ptr error;
  try {
    const CompileScope compiling;
    log_all(messages);
    if (!e->runs_eagerly) e->program = compile(s, *now), compiles.fetch_add(1);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  std::erase(pending, e);
  made.notify_all();
  if (error) std::rethrow_exception(error);
  keep_entry(e, generation);
  return e;
}

std::vector<Tensor> Function::State::run_segment(trace::Segment s) {
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
  if (s.graph->nodes.empty()) return front::outputs_without_nodes(s);
  const front::Program program = segment_program(s);
  if (!program) return front::run_one_by_one(s, config.name);
  trace::Tracer::Scope none(nullptr);
  DispatchScope eager(front::EagerDispatcher::instance());
  return program(s.inputs);
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
  if (!site.empty()) keep(kept.graph_breaks, site);
  if (overlap) {
    eager_calls.fetch_add(1);
    keep(kept.fallbacks, fmt::format("the part up to {} writes to tensors that share memory", front::end_of(s)));
    return {};
  }
  made.wait(lock, [&] { return compiles_here > 0 || segments[site].programs.count(text) || !pending_segments.count({site, text}); });
  if (const auto known = segments[site].programs.find(text); known != segments[site].programs.end()) return known->second;
  Messages messages;
  if (!takes_another(s, segments[site], *now, messages)) return {};
  const uint64_t generation = resets.load();
  const auto mine = pending_segments.emplace(site, text);
  lock.unlock();
  front::Program program;
  std::exception_ptr error;
  try {
    const CompileScope compiling;
    log_all(messages);
    program = compile(s, *now);
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
    reason = here.latest.failure(tensors);
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
    keep(kept.fallbacks, over ? fmt::format("recompile_limit {} is reached: {}", now.options.get(options::kRecompileLimit), reason)
                              : "stance EagerOnRecompile");
    return false;
  }
  if (again && kept.recompile_reasons.size() < kKeptReasons) kept.recompile_reasons.push_back(reason);
  if (again) messages.emplace_back(Artifact::Recompiles, fmt::format("{}: {}", config.name, reason));
  here.latest = Guards(*s.graph, tensors, positions, names, false);
  here.options = now.options;
  kept.guards = here.latest.describe();
  keep(kept.graphs, graph::to_string(*s.graph));
  return true;
}

// The limit is reached, by variants that there are or by those that other threads compile.
std::vector<Tensor> Function::State::past_limit(const Call& c, const front::OptionsNow& now) {
  auto list = variants();
  std::string reason = fmt::format("recompile_limit {} is reached: {}", now.options.get(options::kRecompileLimit),
                                   list->empty() ? "no variant is ready" : list->back()->failure(c, now));
  TOROID_USER_CHECK(
      !settings.fail_on_recompile_limit,
      "the function \"{}\": {}. Mark sizes that vary with mark_dynamic, pass numbers that vary in tensors, or raise the option "
      "recompile_limit",
      config.name, reason);
  limit_calls.fetch_add(1, std::memory_order_relaxed);
  log(Artifact::Recompiles, fmt::format("{}: {}; running eagerly", config.name, reason));
  return eager(c, reason);
}

std::vector<Tensor> Function::State::miss(const Call& c) {
  Stance stance = front::current_stance();
  auto list = variants();
  bool in_segments = false;
  {
    std::lock_guard lock(mutex);
    in_segments = segmented;
  }
  if (!in_segments && stance == Stance::EagerOnRecompile) return eager(c, "stance EagerOnRecompile");
  if (!in_segments && stance == Stance::FailOnRecompile)
    fail<UserError>("the function \"{}\" would be compiled, which the stance FailOnRecompile forbids: {}", config.name,
                    list->empty() ? "it has no compiled code yet" : list->back()->failure(c, *options()));
  const auto now = options();
  if (limit_reached(list->size(), *now)) return past_limit(c, *now);
  auto policies = policies_of(c);
  trace::SegmentRunner on_break;
  if (!config.fullgraph) on_break = [this](trace::Segment s) { return run_segment(std::move(s)); };
  bool broken = false;
  std::optional<device::CaptureSuspension> not_captured(std::in_place);
  if (not_captured->any())
    on_break = [this](trace::Segment s) -> std::vector<Tensor> {
      device::fail_on_device(DeviceErrorCode::CaptureUnsupported,
                             fmt::format("the function \"{}\" within a capture, which reads results ({}),", config.name, s.break_reason));
    };
  trace::Segment s = trace(c, policies, on_break, &broken);
  not_captured.reset();
  if (broken) return run_segment(std::move(s));
  if (auto e = add(c, std::move(s), std::move(policies), now)) return run(*e, c);
  return past_limit(c, *now);
}

void Function::State::verify(const Entry& e, const Call& c) {
  bool broken = false;
  trace::Segment s = trace(c, e.policies, nullptr, &broken);
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
  std::string now = graph::to_string(*s.graph);
  if (now == e.text) return;
  size_t at = 0;
  while (at < now.size() && at < e.text.size() && now[at] == e.text[at]) ++at;
  auto line = [at](const std::string& text) {
    size_t begin = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    begin = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  fail<UserError>(
      "verify_trace: the function \"{}\" takes another path than its compiled form: \"{}\" was recorded, now it is \"{}\". It reads "
      "something that changes and is no "
      "argument; pass that as an argument",
      config.name, line(e.text), line(now));
}

std::vector<Tensor> Function::State::call(std::span<const ArgumentView> arguments, Body body, void* function) {
  Call c = call_of(arguments, body, function);
  if (Tracer::current()) return c.run_eagerly();  // a part of the function that is being traced
  const exec::CallScope one_call;                 // however many graphs it has
  calls.fetch_add(1, std::memory_order_relaxed);
  if (resets.load(std::memory_order_relaxed) != front::reset_count()) follow_reset();
  if (front::current_stance() == Stance::ForceEager) return eager(c, "stance ForceEager");
  const Now now = state_now();
  auto e = find(c, *now.entries, *now.options);
  if (!e) return miss(c);
  hits.fetch_add(1, std::memory_order_relaxed);
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
  for (auto* n : {&calls, &hits, &eager_calls, &limit_calls, &compiles}) n->store(0);
  history.clear();
  kept = {};
  segments.clear();
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
  r.entries = state_->variants()->size();
  for (auto& [site, s] : state_->segments) r.entries += s.programs.size();
  return r;
}

std::vector<Tensor> run_untraced(std::span<const ArgumentView> arguments, Body body, void* function) {
  Call c = call_of(arguments, body, function);
  Tracer* tracer = Tracer::current();
  if (!tracer) return c.run_eagerly();
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
