#include "tune/search/search.h"

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
#include "base/thread_pool.h"
#include "dist/agree.h"
#include "dist/gpus.h"
#include "program/region.h"
#include "sched/mm_plus_mm.h"
#include "tune/check/together.h"
#include "tune/region/precompile.h"
#include "tune/region/ranges.h"
#include "tune/region/time_limit.h"
#include "tune/report/feedback.h"
#include "tune/search/region_search.h"

namespace toroid::tune {
namespace {

// The regions of a program. Equal ones are one search.
class Searches {
 public:
  explicit Searches(SharedSearch& shared) : shared_(&shared) {}

  void add(const Region& r) {
    const auto [at, is_new] = of_.try_emplace(r.key, r, *shared_);
    if (is_new)
      order.push_back(&at->second);
    else
      at->second.add_equal(r);
  }
  const RegionSearch& at(const Hash128& key) const { return of_.at(key); }

  std::vector<RegionSearch*> order;

 private:
  SharedSearch* shared_;
  std::map<Hash128, RegionSearch> of_;
};

class Tuning {
 public:
  Tuning(std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, Memory* memory, TuneReport& report)
      : pipeline_(*pipeline), options_(options), memory_(memory), report_(report), shared_{pipeline, options, memory, report, nullptr} {
    if (options.isolated) shared_.vet = std::make_unique<Vet>(pipeline_.target->facts().isa, options.worker);
  }

  program::Program run(program::Program lowered) {
    lowered = with_sums(with_ranges(std::move(lowered)));
    const program::Program scheduled = schedule_as_wanted(lowered);
    const std::vector<Region> regions = find_regions(lowered, scheduled, options_.fusion_depth);
    Searches searches(shared_);
    for (auto& r : regions) searches.add(r);
    decide_all(searches.order, 0);
    if (options_.whole_ms > 0 && (group_ || !(memory_ && memory_->locked()))) check_whole(lowered, searches.order);
    lowered = with_choices(std::move(lowered), searches.order);
    report_all(searches);
    if (memory_) report_.decided = memory_->decided(), report_.problem = memory_->problem();
    report_.total_ms = shared_.since_start.ms();
    if (const size_t late = late_works(); late > 0) log(Artifact::Choices, fmt::format("{} compiles that were given up go on", late));
    give_feedback(report_);
    return lowered;
  }

 private:
  // Without the kinds of fusion that are off.
  program::Program schedule_as_wanted(program::Program& lowered) const {
    for (;;) {
      program::Program scheduled = pipeline_.schedule(apply(lowered, {}, {}));
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
  program::Program with_ranges(program::Program lowered) {
    for (std::vector<RangedCall> calls; !(calls = find_ranged_calls(lowered)).empty();) {
      Searches searches(shared_);
      for (auto& call : calls)
        for (auto& r : call.regions)
          if (r) searches.add(*r);
      decide_all(searches.order, lowered.nodes.size() - calls.size());
      for (size_t c = calls.size(); c-- > 0;) {
        const auto& open = std::get<program::Open>(lowered.nodes[calls[c].node].problem);
        std::vector<std::optional<size_t>> winners;
        for (auto& r : calls[c].regions)
          winners.push_back(r ? std::optional(alternative_of(open, searches.at(r->key).choice())) : std::nullopt);
        const Choice by_size = choice_by_size(open, winners);
        log(Artifact::Choices, fmt::format("{}: {}", program::label(lowered.nodes[calls[c].node]), to_string(by_size)));
        lowered = apply(std::move(lowered), by_size, {static_cast<int>(calls[c].node)});
      }
      for (size_t i = 0; i < lowered.nodes.size(); ++i) lowered.nodes[i].parts = {static_cast<int>(i)};
      report_all(searches);
    }
    return lowered;
  }

  // Sums of two products that are one product where that is faster; what takes their place is tuned like the rest.
  program::Program with_sums(program::Program lowered) {
    if (sched::sums_of_products(lowered).empty()) return lowered;
    program::Program wanted = lowered;  // with pairs that stay apart, by numbers that change below
    const program::Program scheduled = schedule_as_wanted(wanted);
    const std::vector<Region> sums = find_sums_of_products(wanted, scheduled);
    Searches searches(shared_);
    for (auto& r : sums) searches.add(r);
    decide_all(searches.order, lowered.nodes.size() - sums.size());
    lowered = with_choices(std::move(lowered), searches.order);
    for (size_t i = 0; i < lowered.nodes.size(); ++i) lowered.nodes[i].parts = {static_cast<int>(i)};
    report_all(searches);
    return lowered;
  }

  void report_all(const Searches& searches) {
    for (RegionSearch* s : searches.order) report_.regions.push_back(s->take_report());
  }

  // later: how many regions share what is left of the budget besides.
  void decide_all(const std::vector<RegionSearch*>& order, size_t later) {
    for (RegionSearch* s : order) s->prepare();
    if (options_.check_lock && memory_ && memory_->locked()) compile_locked(order);
    compile_and_decide(order, later);
    for (RegionSearch* s : order)
      if (s->group()) group_ = s->group();
    if (group_) follow_first(*group_, order);
  }

  static program::Program with_choices(program::Program lowered, const std::vector<RegionSearch*>& order) {
    for (RegionSearch* s : order)
      for (const Region* r : s->equal()) lowered = apply(std::move(lowered), s->choice(), r->numbers);
    return lowered;
  }

  // Puts choices back, those of most places first, while the whole program is slower with them than without any.
  void check_whole(const program::Program& lowered, const std::vector<RegionSearch*>& order) {
    constexpr double kSlower = 1.01;
    constexpr size_t kMostTrials = 4;
    std::vector<RegionSearch*> changed;
    for (RegionSearch* s : order)
      if (!(s->choice() == Choice{}) && !s->is_shared()) changed.push_back(s);
    if (changed.empty() && !group_) return;
    std::string refusal;
    for (RegionSearch* s : order)
      if (refusal.empty()) refusal = s->default_refusal();
    std::stable_sort(changed.begin(), changed.end(), [](auto* a, auto* b) { return a->equal().size() > b->equal().size(); });
    Hasher all;
    all.add(program::region_key(lowered));
    for (RegionSearch* s : changed) all.add(s->region().key).add(to_string(s->choice())).add(s->kernels()).add(s->equal().size());
    const std::string key = "whole " + all.finish().hex();
    const std::vector<std::string> any = {"tuned"};
    Recalled known;
    if (memory_ && refusal.empty()) known = memory_->recall(key, any, [](auto&) { return true; }, {});
    if (group_) agree_on_whole(lowered, changed, refusal, known);
    if (changed.empty()) return;
    if (!refusal.empty()) {
      report_.whole = "not compared: " + refusal;
      return;
    }
    if (!known.winner.empty()) {
      size_t count = changed.size();  // what is no number puts all of them back
      std::from_chars(known.winner.data(), known.winner.data() + known.winner.size(), count);
      put_back(changed, count);
      report_.whole = fmt::format("{}: {} choices stay", known.source, changed.size());
      return;
    }
    WholeTime w;
    const size_t count = changed.size(), step = (count + kMostTrials - 1) / kMostTrials;
    for (; !changed.empty(); put_back(changed, step)) {
      const program::Program with = with_choices(lowered, order);
      const auto compared = [&] {
        if (options_.whole_clock) return options_.whole_clock(lowered, with);
        if (group_) return compare_whole_together(lowered, with, pipeline_, *group_);
        return compare_whole(lowered, with, pipeline_, options_.whole_ms, shared_.left_ms());
      };
      w = compared();
      // Once more before something is put back: memory lies elsewhere then.
      if (const WholeTime again = w.ratio > kSlower ? compared() : WholeTime{}; again.ratio > 0)
        w.ratio = std::sqrt(w.ratio * again.ratio), w.spread = std::max(w.spread, again.spread);
      if (w.ratio <= kSlower) break;
    }
    if (changed.empty()) w.ratio = 1, w.spread = 0;
    if (w.ratio == 0) {
      const size_t back = count - changed.size();
      report_.whole =
          (back == 0 ? "not compared: " : fmt::format("{} choices were put back, and the rest not compared: ", back)) + w.refusal;
      return;
    }
    const std::string sure = changed.empty()      ? ""
                             : w.spread >= 0.0005 ? fmt::format(" (+- {:.3f})", w.spread)
                             : w.spread > 0       ? " (+- less than 0.001)"
                                                  : " (with too few rounds to say how sure that is)";
    report_.whole = fmt::format("{:.3f} of the time without tuning{}; {} choices stay, {} were put back", w.ratio, sure, changed.size(),
                                count - changed.size());
    DecisionRecord d;
    d.label = "the whole program";
    d.winner = std::to_string(count - changed.size());
    if (memory_) memory_->remember(key, any, {Measured{}}, {}, d, true);
  }

  // Ranks that tune together compare the whole program all, or none: what one knows counts where all know it.
  void agree_on_whole(const program::Program& lowered, const std::vector<RegionSearch*>& changed, std::string& refusal, Recalled& known) {
    if (refusal.empty() && memory_ && memory_->locked()) refusal = "a lock file decides";
    if (refusal.empty() && shared_.left_ms() <= 0) refusal = "the budget was used";
    if (refusal.empty()) meeting_group(lowered, refusal);
    std::string choices;
    for (RegionSearch* s : changed) choices += fmt::format("{} {}\n", s->region().key.hex(), to_string(s->choice()));
    constexpr const char* kThing = "whether the whole program is timed";
    refusal = distributed::first_refusal(*group_, refusal, kThing);
    const auto all = distributed::all_gather_object(*group_, choices + "known: " + known.winner, kThing);
    const auto of = [](const std::string& text) { return text.substr(0, text.rfind("known: ")); };
    if (std::any_of(all.begin(), all.end(), [&](auto& other) { return of(other) != of(all[0]); }) && refusal.empty())
      refusal = "the ranks have made different choices";
    if (std::any_of(all.begin(), all.end(), [&](auto& other) { return other != all[0]; })) known = {};
  }

  // The first `count` of them become the default again.
  static void put_back(std::vector<RegionSearch*>& changed, size_t count) {
    count = std::min(count, changed.size());
    for (size_t i = 0; i < count; ++i) changed[i]->put_back();
    changed.erase(changed.begin(), changed.begin() + static_cast<long>(count));
  }

  // Compiles what the lock file chose.
  void compile_locked(const std::vector<RegionSearch*>& order) {
    auto& now = report_.now;
    const size_t before = now.size();
    Callers winners;
    for (RegionSearch* s : order)
      if (auto winner = s->known_winner()) {
        winners.push_back(std::move(winner));
        now.push_back({pipeline_.target->facts().key, s->problem(), s->texts(), "", s->region().label});
      }
    precompile(winners, options_.workers);
    for (size_t i = 0; i < winners.size(); ++i) {
      now[before + i].kernels = winners[i]->kernels();
      winners[i]->release();
    }
  }

  // What is tried now; equal choices once.
  static Callers to_compile(const std::vector<RegionSearch*>& open) {
    Callers all;
    std::set<Hash128> keys;
    for (RegionSearch* s : open)
      for (auto& c : s->wave())
        if (keys.insert(c->key()).second) all.push_back(c);
    return all;
  }

  // In waves: what the choices of one have shown decides about the next.
  void compile_and_decide(std::vector<RegionSearch*> open, size_t later) {
    size_t regions = open.size();
    std::erase_if(open, [](RegionSearch* s) { return s->is_decided(); });
    size_t choices = 0;
    for (RegionSearch* s : open) choices += s->to_time();
    const bool all = choices <= options_.all_tried * static_cast<size_t>(compile_threads(options_.workers));
    do {
      for (RegionSearch* s : open) s->next_wave(all);
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
  std::vector<RegionSearch*> compile_and_look(const std::vector<RegionSearch*>& open, const Callers& callers, size_t later) {
    const int workers = compile_threads(options_.workers);
    const auto compiled = [this] { tell([](TuneProgress& p) { ++p.compiled; }); };
    // Where nothing is timed meanwhile half of the time is left for that; what was not begun is compiled when its turn comes.
    const double most_ms = options_.pipelined ? shared_.left_ms() : shared_.left_ms() / 2;
    Precompiling compiling(options_.precompile ? callers : Callers{}, options_.pipelined ? workers : workers - 1, most_ms, compiled);
    if (!options_.pipelined) compiling.wait_for_all();
    std::vector<RegionSearch*> rest;
    for (size_t i = 0; i < open.size(); ++i) {
      compiling.wait_for(open[i]->wave(), shared_.left_ms());
      if (!step(*open[i], open.size() - i + rest.size() + later)) rest.push_back(open[i]);
    }
    report_.precompile_ms += compiling.spent_ms();
    return rest;
  }

  // From any thread.
  void tell(const std::function<void(TuneProgress&)>& change) {
    if (!options_.progress) return;
    std::lock_guard lock(telling_);
    change(progress_);
    progress_.spent_ms = shared_.since_start.ms();
    options_.progress(progress_);
  }

  // False: more of its choices are to be tried.
  bool step(RegionSearch& s, size_t regions_left) {
    const double share = shared_.left_ms() / static_cast<double>(regions_left);
    if (!s.step([&, watch = Stopwatch()] { return share - watch.ms(); })) return false;
    tell([&](TuneProgress& p) {
      ++p.decided;
      p.compiled = std::min(p.choices, std::max(p.compiled, report_.compiled));  // where each is compiled when its turn comes
    });
    return true;
  }

  const Pipeline& pipeline_;
  const SearchOptions& options_;
  Memory* const memory_;
  TuneReport& report_;
  SharedSearch shared_;
  distributed::Group* group_ = nullptr;  // whose ranks tune this program together
  std::mutex telling_;
  TuneProgress progress_;
};

}  // namespace

program::Program tune(program::Program lowered, std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, Memory* memory,
                      TuneReport& report) {
  return Tuning(std::move(pipeline), options, memory, report).run(std::move(lowered));
}

}  // namespace toroid::tune
