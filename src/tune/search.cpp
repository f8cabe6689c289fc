#include "tune/search.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "ops/custom.h"
#include "sched/mm_plus_mm.h"
#include "tune/check.h"
#include "tune/choices.h"
#include "tune/frontier.h"
#include "tune/precompile.h"
#include "tune/ranges.h"
#include "tune/recheck.h"
#include "tune/refine.h"
#include "tune/vet.h"
#include "tune/whole.h"

namespace toroid::tune {
namespace {

using Callers = std::vector<std::shared_ptr<ChoiceCaller>>;
using SteadyClock = std::chrono::steady_clock;
double ms_since(SteadyClock::time_point t) { return std::chrono::duration<double, std::milli>(SteadyClock::now() - t).count(); }

constexpr std::string_view kPassedOver = "passed over";

// A region with its choices, on its way to a decision.
struct Task {
  const Region* region = nullptr;
  std::vector<const Region*> equal;  // others that the decision is for
  RegionReport report;
  Callers callers;
  std::vector<std::string> texts;       // of the callers' choices
  std::vector<size_t> timed;            // positions of those that may be, the default first
  Frontier frontier;                    // of those but for the default
  std::vector<size_t> wave, near;       // positions: that are tried now; of earlier waves that may win yet
  std::map<size_t, Measured> left_out;  // others, by position: why they cannot
  Choice choice;
  bool cut_short = false;  // the budget ended its waves
  bool decided = false;
};

class Tuning {
 public:
  Tuning(std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, Memory* memory, TuneReport& report)
      : pipeline_(std::move(pipeline)), options_(options), memory_(memory), report_(report) {
    if (options.isolated) vet_ = std::make_unique<Vet>(pipeline_->isa, options.worker);
  }

  choice::Program run(choice::Program lowered) {
    lowered = with_sums(with_ranges(std::move(lowered)));
    const choice::Program scheduled = schedule_as_wanted(lowered);
    const std::vector<Region> regions = find_regions(lowered, scheduled, options_.fusion_depth);
    std::map<Hash128, Task> tasks;
    std::vector<Task*> order;
    for (auto& r : regions) add_task(tasks, r, order);
    decide_all(order, 0);
    if (options_.whole_ms > 0 && !(memory_ && memory_->locked())) check_whole(lowered, order);
    lowered = with_choices(std::move(lowered), order);
    for (Task* t : order) report_.regions.push_back(std::move(t->report));
    if (memory_) report_.decided = memory_->decided(), report_.problem = memory_->problem();
    report_.total_ms = ms_since(start_);
    return lowered;
  }

 private:
  // Without the kinds of fusion that are off.
  choice::Program schedule_as_wanted(choice::Program& lowered) const {
    for (;;) {
      choice::Program scheduled = pipeline_->schedule(apply(lowered, {}, {}));
      const auto pairs = unwanted_fusion(lowered, scheduled, options_.fusion);
      if (pairs.empty()) return scheduled;
      for (auto& pair : pairs) {  // what may not join one may join another then
        TOROID_CHECK(std::find(lowered.apart.begin(), lowered.apart.end(), pair) == lowered.apart.end(), "nodes {} and {} share a launch",
                     pair.first, pair.second);
        lowered.apart.push_back(pair);
      }
    }
  }

  // Calls whose implementation a size decides at run time become that: first, as a branch cuts what may be fused around it, and in turns,
  // as what takes a call's place may hold such calls.
  choice::Program with_ranges(choice::Program lowered) {
    for (std::vector<RangedCall> calls; !(calls = find_ranged_calls(lowered)).empty();) {
      std::map<Hash128, Task> tasks;
      std::vector<Task*> order;
      for (auto& call : calls)
        for (auto& r : call.regions)
          if (r) add_task(tasks, *r, order);
      decide_all(order, lowered.nodes.size() - calls.size());
      for (size_t c = calls.size(); c-- > 0;) {
        const auto& open = std::get<choice::Open>(lowered.nodes[calls[c].node].problem);
        std::vector<std::optional<size_t>> winners;
        for (auto& r : calls[c].regions) winners.push_back(r ? std::optional(alternative_of(open, tasks.at(r->key).choice)) : std::nullopt);
        const Choice by_size = choice_by_size(open, winners);
        log(Artifact::Choices, fmt::format("{}: {}", choice::label(lowered.nodes[calls[c].node]), to_string(by_size)));
        lowered = apply(std::move(lowered), by_size, {static_cast<int>(calls[c].node)});
      }
      for (size_t i = 0; i < lowered.nodes.size(); ++i) lowered.nodes[i].parts = {static_cast<int>(i)};
      for (Task* t : order) report_.regions.push_back(std::move(t->report));
    }
    return lowered;
  }

  // Sums of two products that are one product where that is faster; what takes their place is tuned like the rest.
  choice::Program with_sums(choice::Program lowered) {
    if (sched::sums_of_products(lowered).empty()) return lowered;
    choice::Program wanted = lowered;  // with pairs that stay apart, by numbers that change below
    const choice::Program scheduled = schedule_as_wanted(wanted);
    const std::vector<Region> sums = find_sums_of_products(wanted, scheduled);
    std::map<Hash128, Task> tasks;
    std::vector<Task*> order;
    for (auto& r : sums) add_task(tasks, r, order);
    decide_all(order, lowered.nodes.size() - sums.size());
    lowered = with_choices(std::move(lowered), order);
    for (size_t i = 0; i < lowered.nodes.size(); ++i) lowered.nodes[i].parts = {static_cast<int>(i)};
    for (Task* t : order) report_.regions.push_back(std::move(t->report));
    return lowered;
  }

  // Equal regions are one task.
  static void add_task(std::map<Hash128, Task>& tasks, const Region& r, std::vector<Task*>& order) {
    Task& t = tasks[r.key];
    t.equal.push_back(&r);
    if (t.region) return;
    t.region = &r;
    t.report.label = r.label, t.report.key = r.key;
    order.push_back(&t);
  }

  // later: how many regions share what is left of the budget besides.
  void decide_all(const std::vector<Task*>& order, size_t later) {
    for (Task* t : order) prepare(*t);
    if (options_.check_lock && memory_ && memory_->locked()) compile_locked(order);
    compile_and_decide(order, later);
    for (Task* t : order) t->report.places = t->equal.size();
  }

  double left_ms() const { return options_.budget_ms > 0 ? options_.budget_ms - ms_since(start_) : 1e12; }

  static choice::Program with_choices(choice::Program lowered, const std::vector<Task*>& order) {
    for (Task* t : order)
      for (const Region* r : t->equal) lowered = apply(std::move(lowered), t->choice, r->numbers);
    return lowered;
  }

  // Puts choices back, those of most places first, while the whole program is slower with them than without any.
  void check_whole(const choice::Program& lowered, const std::vector<Task*>& order) {
    constexpr double kSlower = 1.01;
    constexpr size_t kMostTrials = 4;
    std::vector<Task*> changed;
    for (Task* t : order)
      if (!(t->choice == Choice{})) changed.push_back(t);
    if (changed.empty()) return;
    std::stable_sort(changed.begin(), changed.end(), [](Task* a, Task* b) { return a->equal.size() > b->equal.size(); });
    Hasher all;
    for (Task* t : changed) all.add(t->region->key).add(to_string(t->choice)).add(t->equal.size());
    const std::string key = "whole " + all.finish().hex();
    const std::vector<std::string> any = {"tuned"};
    if (memory_)
      if (const Recalled known = memory_->recall(key, any, [](auto&) { return true; }); !known.winner.empty()) {
        size_t count = changed.size();  // what is no number puts all of them back
        std::from_chars(known.winner.data(), known.winner.data() + known.winner.size(), count);
        put_back(changed, count);
        report_.whole = fmt::format("{}: {} choices stay", known.source, changed.size());
        return;
      }
    WholeTime w;
    const size_t count = changed.size(), step = (count + kMostTrials - 1) / kMostTrials;
    for (; !changed.empty(); put_back(changed, step)) {
      const choice::Program with = with_choices(lowered, order);
      const auto compared = [&] { return compare_whole(lowered, with, *pipeline_, std::min(options_.whole_ms, left_ms())); };
      w = compared();
      // Once more before something is put back: memory lies elsewhere then.
      if (const WholeTime again = w.ratio > kSlower ? compared() : WholeTime{}; again.ratio > 0)
        w.ratio = std::sqrt(w.ratio * again.ratio), w.spread = std::max(w.spread, again.spread);
      if (w.ratio <= kSlower) break;
    }
    if (changed.empty()) w.ratio = 1, w.spread = 0;
    if (w.ratio == 0) {
      report_.whole = "not compared: " + w.refusal;
      return;
    }
    report_.whole = fmt::format("{:.3f} of the time without tuning (+- {:.3f}); {} choices stay, {} were put back", w.ratio, w.spread,
                                changed.size(), count - changed.size());
    DecisionRecord d;
    d.label = "the whole program";
    d.winner = std::to_string(count - changed.size());
    if (memory_) memory_->remember(key, any, {Measured{}}, d, true);
  }

  // The first `count` of them become the default again.
  void put_back(std::vector<Task*>& changed, size_t count) {
    count = std::min(count, changed.size());
    for (size_t i = 0; i < count; ++i) {
      Task& t = *changed[i];
      t.choice = {};
      t.report.source += "; put back, as the whole program was slower with it";
      t.report.winner = 0;
      t.report.ratio = 1;
      t.report.kernels = t.callers.front()->kernels();
      if (memory_) memory_->note(t.region->key.hex(), decision_of(t));
    }
    changed.erase(changed.begin(), changed.begin() + static_cast<long>(count));
  }

  void prepare(Task& t) {
    if (!t.region->refusal.empty()) {
      t.report.source = "not tuned: " + t.region->refusal;
      t.decided = true;
    } else {
      t.callers = choices_of(*t.region, pipeline_, options_, t.report);
      for (auto& c : t.callers) t.texts.push_back(to_string(c->choice()));
      if (t.callers.size() < 2) {
        t.decided = true;
        t.report.source = "not tuned: there is one way to compute it";
      } else if (memory_) {
        recall(t);
      } else {
        for (size_t i = 0; i < t.callers.size(); ++i) t.timed.push_back(i);
      }
    }
  }

  // What refine() found once is made a choice again, if it compiles here.
  bool has_choice(Task& t, const std::string& text) const {
    if (std::find(t.texts.begin(), t.texts.end(), text) != t.texts.end()) return true;
    try {
      auto caller = std::make_shared<ChoiceCaller>(text, CallerKind::Template, parse_choice(text),
                                                   std::make_shared<choice::Program>(t.region->program), pipeline_);
      caller->precompile();
      if (!caller->failure().empty()) return false;
      t.callers.push_back(std::move(caller));
    } catch (const UserError&) {
      return false;
    }
    t.texts.push_back(text);
    return true;
  }

  void recall(Task& t) {
    Recalled known = memory_->recall(t.region->key.hex(), t.texts, [&](const std::string& text) { return has_choice(t, text); });
    t.timed = std::move(known.time);
    for (size_t i = 0; i < known.refusals.size(); ++i)
      if (!known.refusals[i].empty()) t.callers[i]->mark_failed(known.refusals[i]);
    const auto at = std::find(t.texts.begin(), t.texts.end(), known.winner);
    if (at == t.texts.end()) {
      for (size_t i = 0; t.timed.empty() && i < t.callers.size(); ++i) t.timed.push_back(i);
      return;
    }
    if (!known.drift.empty()) log(Artifact::Choices, t.region->label + ": " + known.drift + ": the default");
    t.decided = true;
    t.report.source = known.source;
    t.report.drift = known.drift;
    t.report.kernels = known.kernels, t.report.ratio = known.ratio;
    if (!known.records.empty()) {
      add_rows(t, measured_once(t.texts, known.records));
      t.report.winner = static_cast<size_t>(at - t.texts.begin());
    }
    t.choice = t.callers[static_cast<size_t>(at - t.texts.begin())]->choice();
    memory_->note(t.region->key.hex(), decision_of(t));
  }

  // What was measured of the choices when it was.
  static std::vector<Measured> measured_once(const std::vector<std::string>& texts, const std::vector<CandidateRecord>& records) {
    std::vector<Measured> out(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto r = std::find_if(records.begin(), records.end(), [&](auto& known) { return known.candidate == texts[i]; });
      if (r == records.end()) continue;
      Measured& m = out[i];
      m.rounds = static_cast<size_t>(r->rounds), m.median_ns = r->median_ns, m.spread = r->spread;
      m.ratio = r->ratio, m.ratio_low = r->ratio_low, m.ratio_high = r->ratio_high;
      m.failed = r->outcome != Outcome::Timed, m.outcome = r->outcome;
      if (m.failed) m.status = fmt::format("{}: {}", name_of(r->outcome), r->reason);
    }
    return out;
  }

  // Compiles what the lock file chose.
  void compile_locked(const std::vector<Task*>& order) {
    auto& now = report_.now;
    const size_t before = now.size();
    Callers winners;
    for (Task* t : order) {
      if (t->callers.size() < 2) continue;
      const auto at = std::find(t->texts.begin(), t->texts.end(), to_string(t->choice));
      winners.push_back(t->callers[static_cast<size_t>(at - t->texts.begin())]);
      now.push_back({pipeline_->device_key, t->region->key.hex(), t->texts, ""});
    }
    precompile(winners, options_.workers);
    for (size_t i = 0; i < winners.size(); ++i) {
      now[before + i].kernels = winners[i]->kernels();
      winners[i]->release();
    }
  }

  DecisionRecord decision_of(const Task& t) const {
    DecisionRecord d;
    d.label = t.region->label;
    d.winner = to_string(t.choice);
    d.kernels = t.report.kernels;
    d.ratio = t.report.ratio;
    d.flip = t.report.flip, d.regret = t.report.regret;
    return d;
  }

  // What is tried now; equal choices once.
  static Callers to_compile(const std::vector<Task*>& open) {
    Callers all;
    std::set<Hash128> keys;
    for (Task* t : open)
      for (auto& c : of(*t, with_default(*t, t->wave)))
        if (keys.insert(c->key()).second) all.push_back(c);
    return all;
  }

  // In waves: what the choices of one have shown decides about the next.
  void compile_and_decide(std::vector<Task*> open, size_t later) {
    size_t regions = open.size();
    std::erase_if(open, [](Task* t) { return t->decided; });
    size_t choices = 0;
    for (Task* t : open) choices += t->timed.size();
    const bool all = choices <= options_.all_tried * static_cast<size_t>(compile_workers(options_.workers));
    for (Task* t : open) t->frontier = Frontier(forms_of(*t), all);
    do {
      for (Task* t : open) {
        t->wave.clear();
        for (size_t k : t->frontier.next()) t->wave.push_back(t->timed[1 + k]);
      }
      const Callers callers = to_compile(open);
      tell([&](TuneProgress& p) {
        p.regions += regions, p.decided += regions - std::min(regions, open.size()), p.choices += callers.size();
        p.budget_ms = options_.budget_ms;
      });
      regions = 0;
      open = compile_and_look(open, callers, later);
    } while (!open.empty());
  }

  // Those that go on.
  std::vector<Task*> compile_and_look(const std::vector<Task*>& open, const Callers& callers, size_t later) {
    const int workers = compile_workers(options_.workers);
    const auto compiled = [this] { tell([](TuneProgress& p) { ++p.compiled; }); };
    Precompiling compiling(options_.precompile ? callers : Callers{}, options_.pipelined ? workers : workers - 1, compiled);
    if (!options_.pipelined) compiling.wait_for_all();
    std::vector<Task*> rest;
    for (size_t i = 0; i < open.size(); ++i) {
      compiling.wait_for(of(*open[i], with_default(*open[i], open[i]->wave)), left_ms());
      if (!step(*open[i], open.size() - i + rest.size() + later)) rest.push_back(open[i]);
    }
    report_.precompile_ms += compiling.spent_ms();
    return rest;
  }

  // The form of each choice but for the default; empty where there is no order among its like.
  static std::vector<std::string> forms_of(const Task& t) {
    std::vector<std::string> out;
    for (size_t k = 1; k < t.timed.size(); ++k) {
      const ChoiceCaller& c = *t.callers[t.timed[k]];
      std::string form;
      if (c.kind() == CallerKind::Template)
        for (auto& [node, way] : c.choice().ways) form += fmt::format("{}: {} ", node, way.form);
      out.push_back(std::move(form));
    }
    return out;
  }

  MeasureOptions measure_options(const Region& r, double most_ms) const {
    MeasureOptions how;
    how.budget_ms = std::min(options_.region_ms, most_ms);
    how.grain_ns = grain_ns(r, pipeline_->device);
    how.speedup = least_speedup(r);
    constexpr double kBetween = 0.01;  // H200: 105 ns of 9.4 us
    how.between = pipeline_->device.is_cuda() ? kBetween : 0;
    return how;
  }

  // From any thread.
  void tell(const std::function<void(TuneProgress&)>& change) {
    if (!options_.progress) return;
    std::lock_guard lock(telling_);
    change(progress_);
    progress_.spent_ms = ms_since(start_);
    options_.progress(progress_);
  }

  // False: more of its choices are to be tried.
  bool step(Task& t, size_t regions_left) {
    const auto begun = SteadyClock::now();
    const double share = left_ms() / static_cast<double>(regions_left);
    const auto left = [&] { return share - ms_since(begun); };
    if (vet_ && left() > 0) vet(t, left);
    bool decided = true;
    if (t.report.source.empty() && left() > 0) {
      decided = look(t, left);
      if (decided) time(t, left);
    } else if (t.report.source.empty()) {
      t.report.source = "not tuned: the budget was used";
      report_.out_of_budget = true;
    }
    const double spent = ms_since(begun);
    t.report.spent_ms += spent, report_.time_ms += spent;
    if (decided) end(t);
    return decided;
  }

  void end(Task& t) {
    for (auto& c : t.callers) {
      report_.compiled += static_cast<size_t>(c->compiles());
      c->release();
    }
    t.decided = true;
    tell([&](TuneProgress& p) {
      ++p.decided;
      p.compiled = std::max(p.compiled, report_.compiled);  // where each is compiled when its turn comes
    });
  }

  // A first look at the wave: leaves those in t.near that may win yet. False: there is to be another wave.
  bool look(Task& t, const std::function<double()>& left) {
    constexpr size_t kRoundsOfALook = 3;           // enough for what differs by so much
    constexpr double kShareOfLooks = 0.25;         // of the time for a region
    constexpr double kNear = 1.1;                  // times the best one's time
    if (t.near.empty() && t.frontier.is_done()) {  // no order among them to learn from
      t.near = t.wave;
      return true;
    }
    MeasureOptions how = measure_options(*t.region, left() / 2);
    how.budget_ms = std::min(how.budget_ms, kShareOfLooks * options_.region_ms);
    how.least_rounds = how.most_rounds = kRoundsOfALook;
    const std::vector<size_t> seen = with_default(t, t.wave);
    const Verdict v = measured(t, seen, how);
    if (!v.problem.empty()) {  // time() says so
      t.near = t.wave;
      return true;
    }
    for (size_t k = 1; k < seen.size(); ++k) {
      t.left_out[seen[k]] = v.candidates[k];
      t.near.push_back(seen[k]);
      const auto at = std::find(t.timed.begin() + 1, t.timed.end(), seen[k]);
      t.frontier.report(static_cast<size_t>(at - t.timed.begin() - 1), v.candidates[k].failed ? 0 : v.candidates[k].ratio);
    }
    std::erase_if(t.near, [&](size_t i) {
      Measured& m = t.left_out.at(i);
      const bool is_near = m.status.empty() && m.ratio <= kNear * t.frontier.best();
      if (!is_near && m.status.empty())
        m.status = fmt::format("dropped after a first look: its time is {:.3f} of that of the best", m.ratio / t.frontier.best());
      if (!is_near) t.callers[i]->release();
      return !is_near;
    });
    if (!t.frontier.is_done() && options_.budget_ms > 0 && left_ms() < options_.budget_ms / 2) t.frontier.stop(), t.cut_short = true;
    return t.frontier.is_done();
  }

  // Among those that may win.
  void time(Task& t, const std::function<double()>& left) {
    const std::vector<size_t> asked = std::exchange(t.timed, {});
    for (size_t k : t.frontier.passed_over()) {
      t.left_out[asked[1 + k]].status = t.cut_short
                                            ? "not run: half of the budget was used before"
                                            : fmt::format("{}: those before it in its template's order are far behind", kPassedOver);
      t.report.passed_over += !t.cut_short;
    }
    for (size_t i : t.near) t.left_out.erase(i);
    t.timed = with_default(asked.front(), t.near);
    MeasureOptions how = measure_options(*t.region, left());
    how.budget_ms = std::min(how.budget_ms, std::max(0.0, options_.region_ms - t.report.spent_ms));
    Verdict v = measured(t, t.timed, how);
    std::vector<std::shared_ptr<exec::Executable>> kept;  // so that code and memory lie elsewhere in the next measurement
    recheck(
        v,
        [&](size_t best) {
          const std::vector<size_t> both = {t.timed.front(), t.timed[best]};
          for (size_t i : both) kept.push_back(t.callers[i]->executable()), t.callers[i]->release();
          return measured(t, both, measure_options(*t.region, left()));
        },
        how);
    take(t, v, left);
  }

  Verdict measured(const Task& t, const std::vector<size_t>& positions, const MeasureOptions& how) const {
    const Callers callers = of(t, positions);
    return measure(callers.size(), options_.clock ? options_.clock(callers) : time_checked(callers, *t.region, pipeline_->device), how);
  }

  static std::vector<size_t> with_default(size_t first, const std::vector<size_t>& others) {
    std::vector<size_t> out = {first};
    out.insert(out.end(), others.begin(), others.end());
    std::sort(out.begin() + 1, out.end());
    return out;
  }
  static std::vector<size_t> with_default(const Task& t, const std::vector<size_t>& others) {
    return with_default(t.timed.front(), others);
  }

  static Callers of(const Task& t, const std::vector<size_t>& positions) {
    Callers out;
    for (size_t i : positions) out.push_back(t.callers[i]);
    return out;
  }

  // Leaves in t.wave what may run in this process. What the default did may be the end of tuning the region.
  void vet(Task& t, const std::function<double()>& left) {
    const std::vector<size_t> asked = with_default(t, std::exchange(t.wave, {}));
    const std::vector<Measured> seen = (*vet_)(of(t, asked), *t.region, left);
    for (size_t k = 0; k < seen.size(); ++k) {
      if (seen[k].status.empty()) {
        if (k > 0) t.wave.push_back(asked[k]);
        continue;
      }
      t.left_out[asked[k]] = seen[k];
      log(Artifact::Choices,
          fmt::format("{}: {}, in a process of its own: {}", t.region->label, t.callers[asked[k]]->name(), seen[k].status));
    }
    if (seen[0].failed) {
      t.report.source = fmt::format("not tuned: in a process of its own, {} {}", t.callers[asked[0]]->name(), seen[0].status);
      add_rows(t, known_of(t));
    } else if (memory_) {  // now: the budget may end before the others are timed
      memory_->remember(t.region->key.hex(), t.texts, known_of(t), decision_of(t), false);
    }
  }

  // What is known of each choice but for those that are timed.
  static std::vector<Measured> known_of(const Task& t) {
    std::vector<Measured> out(t.callers.size());
    for (size_t i = 0; i < t.callers.size(); ++i) out[i].status = t.callers[i]->failure();
    for (auto& [i, m] : t.left_out) out[i] = m;
    return out;
  }

  static void add_rows(Task& t, const std::vector<Measured>& measured) {
    for (size_t i = 0; i < t.callers.size(); ++i)
      t.report.rows.push_back({t.callers[i]->name(), t.callers[i]->kind(), t.texts[i], measured[i]});
  }

  // How many times as fast as the default a choice must be: what the custom operations of the region ask for.
  static double least_speedup(const Region& r) {
    double out = 1;
    for (size_t c : r.choice_nodes)
      if (auto* open = std::get_if<choice::Open>(&r.program.nodes[c].problem); open && open->op && ops::is_tuned(*open->op))
        out = std::max(out, ops::tuning_of(*open->op).min_speedup_threshold);
    return out;
  }

  // v: of the callers that were timed.
  void take(Task& t, const Verdict& v, const std::function<double()>& left) {
    if (!v.problem.empty()) {
      if (t.region->sizes_seen) fail<EnvironmentError>("nothing computes {} here: {}", t.region->label, v.problem);
      t.report.source = fmt::format("not tuned: at {}: {}", exec::to_string(t.region->sizes), v.candidates.front().status);
      return;
    }
    const size_t winner = t.timed[fused_enough(t, v)];
    std::vector<Measured> measured = known_of(t);
    for (size_t k = 0; k < t.timed.size(); ++k) measured[t.timed[k]] = v.candidates[k];
    add_rows(t, measured);
    const bool left_open = v.out_of_budget || std::any_of(t.left_out.begin(), t.left_out.end(), [](auto& out) {
                             const Measured& m = out.second;  // of a worker that had no time for it: neither failed nor timed
                             return !m.failed && m.ratio == 0 && !m.status.starts_with(kPassedOver);
                           });
    t.report.winner = winner;
    t.report.source = t.region->sizes.empty() ? "timed" : "timed at " + exec::to_string(t.region->sizes);
    t.report.noise = v.noise, t.report.flip = v.flip, t.report.regret = v.regret_bound;
    t.report.kernels = t.callers[winner]->kernels();
    t.report.ratio = measured[winner].ratio;
    report_.out_of_budget = report_.out_of_budget || left_open;
    t.choice = t.callers[winner]->choice();
    if (options_.descent) improve(t, left());
    log(Artifact::Choices, fmt::format("{}: {}; {} original choices, {} fused, {} total", t.region->label,
                                       t.report.rows[t.report.winner].name, t.report.originals, t.report.fused, t.callers.size()));
    if (!memory_) return;
    memory_->remember(t.region->key.hex(), t.texts, measured, decision_of(t), !left_open);
    memory_->note(t.region->key.hex(), decision_of(t));
  }

  // Steps from the winner.
  void improve(Task& t, double left_ms) {
    const MeasureOptions how = measure_options(*t.region, left_ms);
    if (how.budget_ms <= 0) return;
    double ratio = 1;
    const auto better =
        refine(*t.region, t.callers.front(), t.callers[t.report.winner], pipeline_, options_, how, vet_.get(), t.report, ratio);
    if (!better) return;
    const std::string text = to_string(better->choice());
    const auto row = std::find_if(t.report.rows.begin(), t.report.rows.end(), [&](auto& r) { return r.text == text; });
    TOROID_CHECK(row != t.report.rows.end());
    t.report.winner = static_cast<size_t>(row - t.report.rows.begin());
    t.report.ratio *= ratio;
    t.report.kernels = better->kernels();
    t.choice = better->choice();
  }

  // Position among those that were timed: the winner or, where that is fused and not as much faster than the best unfused choice as is
  // asked for, the latter.
  size_t fused_enough(const Task& t, const Verdict& v) const {
    const auto is_fused = [&](size_t k) { return t.callers[t.timed[k]]->kind() == CallerKind::Fused; };
    if (!is_fused(v.winner) || options_.fusion_speedup <= 1) return v.winner;
    size_t best = v.candidates.size();
    for (size_t k = 0; k < v.candidates.size(); ++k) {
      const Measured& m = v.candidates[k];
      if (is_fused(k) || m.failed || m.median_ns <= 0) continue;
      if (best == v.candidates.size() || m.median_ns < v.candidates[best].median_ns) best = k;
    }
    const bool enough =
        best == v.candidates.size() || v.candidates[best].median_ns >= options_.fusion_speedup * v.candidates[v.winner].median_ns;
    return enough ? v.winner : best;
  }

  const std::shared_ptr<const Pipeline> pipeline_;
  const SearchOptions& options_;
  Memory* const memory_;
  TuneReport& report_;
  std::mutex telling_;
  TuneProgress progress_;
  std::unique_ptr<Vet> vet_;  // null: nothing is run elsewhere first
  const SteadyClock::time_point start_ = SteadyClock::now();
};

}  // namespace

choice::Program tune(choice::Program lowered, std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, Memory* memory,
                     TuneReport& report) {
  return Tuning(std::move(pipeline), options, memory, report).run(std::move(lowered));
}

}  // namespace toroid::tune
