#include "tune/measure/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"
#include "tune/measure/statistics.h"

namespace toroid::tune {
namespace {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
constexpr double kHopeless = 3;       // times the default's time, after which a candidate gets no third run
constexpr double kRunsOfASample = 4;  // of candidates that take long
constexpr double kGrowth = 1.5;       // of the rounds from look to look
constexpr double kSigmas = 3;         // of an interval, about
constexpr double kDropRisk = 0.02;
constexpr int kReplicates = 100;
constexpr size_t kDrawn = 24;  // rounds of a replicate
// Of a replicate: this verdict and the next are noisy, and this one has ended when it looked decided.
constexpr double kVariance = 3;

// Runs candidates and keeps what they took.
class Rounds {
 public:
  Rounds(size_t candidates, const Sample& sample, const MeasureOptions& options, const Clock& clock)
      : sample_(sample), options_(options), clock_(clock), began_(clock()), random_(options.seed), cost_(candidates, 0), logs_(candidates) {
    out.candidates.resize(candidates);
  }

  double spent() const { return clock_() - began_; }
  bool affordable(size_t i) const { return spent() + cost_[i] <= options_.budget_ms; }
  // With what it has been running.
  bool alive(size_t i) const { return out.candidates[i].status.empty(); }

  // NaN where it fails, with the reason in its status.
  double run(size_t i) {
    const double before = clock_();
    Measured& m = out.candidates[i];
    double ns = kAbsent;
    try {
      ns = sample_(i);
      if (!(ns > 0) || !std::isfinite(ns)) m.status = fmt::format("failed: a run took {} ns", ns), ns = kAbsent;
    } catch (const std::exception& e) {
      m.status = fmt::format("failed: {}", e.what());
    }
    m.failed = !m.status.empty();
    // The last run forecasts the next one; a part of the one before is kept, so that an outlier is not forgotten at once. The first one
    // compares and records, too: what it reports says more of the next.
    const double cost = clock_() - before;
    const bool is_first = cost_[i] == 0;
    cost_[i] = is_first ? (std::isnan(ns) ? cost : std::min(cost, kRunsOfASample * ns / 1e6)) : std::max(cost, (cost_[i] + cost) / 2);
    return ns;
  }

  // One run of each that is left, the reference twice. False where the budget does not allow all of them.
  bool round(size_t reference) {
    std::vector<size_t> order{reference};
    double cost = cost_[reference];
    for (size_t i = 0; i < logs_.size(); ++i)
      if (alive(i)) order.push_back(i), cost += cost_[i];
    if (spent() + cost > options_.budget_ms) return false;
    std::shuffle(order.begin(), order.end(), random_);
    for (auto& l : logs_) l.push_back(kAbsent);
    again_.push_back(kAbsent);
    bool whole = true;
    for (size_t i : order) {
      if (!alive(i)) continue;
      if (!affordable(i)) {
        whole = false;
        continue;
      }
      const double ns = run(i);
      (std::isnan(logs_[i].back()) ? logs_[i] : again_).back() = std::log(ns);
    }
    return whole;
  }

  // Differences of the logarithms, of the rounds in which both ran.
  std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) const {
    std::vector<double> d;
    for (size_t r = 0; r < a.size(); ++r)
      if (const double x = a[r] - b[r]; !std::isnan(x)) d.push_back(x);
    return d;
  }
  const std::vector<double>& logs(size_t i) const { return logs_[i]; }
  void forget_again() { std::fill(again_.begin(), again_.end(), kAbsent); }
  double cost(size_t i) const { return cost_[i]; }
  const std::vector<double>& again() const { return again_; }
  size_t rounds() const { return again_.size(); }

  Verdict out;

 private:
  const Sample& sample_;
  const MeasureOptions& options_;
  const Clock& clock_;
  const double began_;
  std::mt19937_64 random_;
  std::vector<double> cost_;               // milliseconds that a run of each will take
  std::vector<std::vector<double>> logs_;  // of nanoseconds: of each candidate and round; NaN: not run
  std::vector<double> again_;              // of the reference's second run
};

// What is known at a look: of all candidates that have run, against the reference.
struct Look {
  std::vector<size_t> of;                 // candidates; the reference is the first
  std::vector<Estimate> ratio;            // logarithms
  std::vector<std::vector<double>> half;  // of the interval of a pair
  std::vector<bool> eligible;             // as winners
  double margin = 0;                      // a winner is faster than the reference by this, as a logarithm
  double noise = 0;                       // and surely by this
  double band = 0;
  double between = 0;  // deviation of one program's centres from tuning to tuning, which rounds do not show

  // Where decisions turn: the other half of the band is for what cannot be seen, so that the true regret is within it.
  double tied() const { return band / 2; }
  double needed() const { return margin > band ? margin : tied(); }

  // The place in `of` of the winner, by these centres.
  size_t choose(const std::vector<double>& centre) const {
    size_t best = 0;
    std::vector<bool> faster(of.size(), false);
    for (size_t i = 1; i < of.size(); ++i) {
      faster[i] = eligible[i] && centre[i] < -needed() && centre[i] + (ratio[i].high - ratio[i].centre) < -noise;
      if (faster[i] && (best == 0 || centre[i] < centre[best])) best = i;
    }
    for (size_t i = 1; i < best; ++i)
      if (faster[i] && centre[i] - centre[best] <= tied()) return i;
    return best;
  }
  std::vector<double> centres() const {
    std::vector<double> c;
    for (auto& r : ratio) c.push_back(r.centre);
    return c;
  }
  size_t winner() const { return choose(centres()); }
};

class Measuring {
 public:
  Measuring(size_t candidates, const Sample& sample, const MeasureOptions& options, const Clock& clock)
      : options_(options), rounds_(candidates, sample, options, clock), random_(options.seed ^ 0x9e3779b97f4a7c15u) {}

  Verdict finish() {
    warm_up();
    if (!rounds_.out.problem.empty()) return std::move(rounds_.out);
    size_t next_look = options_.least_rounds, looks = 0;
    while (!decided_) {
      if (survivors() == 0 && has_run(reference_)) break;
      if (!rounds_.round(reference_)) {
        rounds_.out.out_of_budget = true;
        break;
      }
      if (!rounds_.alive(reference_)) {  // the next takes its place
        if (survivors() == 0) {
          give_up();
          return std::move(rounds_.out);
        }
        while (!rounds_.alive(reference_)) reference_ = (reference_ + 1) % all().size();
        rounds_.forget_again();
      }
      revive();
      if (rounds_.rounds() < next_look) continue;
      look();
      if (decided_ || rounds_.rounds() >= options_.most_rounds) break;
      next_look = std::min(options_.most_rounds, static_cast<size_t>(std::ceil(static_cast<double>(next_look) * kGrowth)));
      drop(looks++, next_look - rounds_.rounds());
    }
    look();
    report();
    return std::move(rounds_.out);
  }

 private:
  std::vector<Measured>& all() { return rounds_.out.candidates; }

  // Whether it ran in a round that counts: what is left alone has a time, too, and others' ratios are to it.
  bool has_run(size_t i) const {
    const auto& logs = rounds_.logs(i);
    return std::any_of(logs.begin(), logs.end(), [](double l) { return !std::isnan(l); });
  }

  size_t survivors() const {
    size_t n = 0;
    for (size_t i = 0; i < rounds_.out.candidates.size(); ++i) n += i != reference_ && rounds_.alive(i);
    return n;
  }

  // What was dropped for being slower than one that cannot be run any more comes back.
  void revive() {
    const auto failures = std::count_if(all().begin(), all().end(), [](const Measured& m) { return m.failed; });
    if (std::exchange(failures_, failures) == failures) return;
    for (size_t i = 0; i < all().size(); ++i)
      if (!all()[i].failed && entered_[i]) all()[i].status.clear();
  }

  // One run of each that does not count; a second one for what looks hopeless.
  void warm_up() {
    double default_ns = kAbsent;
    bool found = false;
    for (size_t i = 0; i < all().size(); ++i) {
      if (i > 0 && rounds_.spent() > options_.budget_ms) {
        all()[i].status = "not run: the budget was used before";
        rounds_.out.out_of_budget = true;
        continue;
      }
      double ns = rounds_.run(i);
      if (std::isnan(ns)) continue;
      if (!found) {
        found = true, reference_ = i, default_ns = ns;
        continue;
      }
      if (ns > kHopeless * default_ns && rounds_.affordable(i)) ns = std::fmin(ns, rounds_.run(i));
      if (!(ns > kHopeless * default_ns) || !rounds_.alive(i)) continue;
      all()[i].status = fmt::format("dropped at once: it took {:.1f} times as long as the default", ns / default_ns);
      all()[i].median_ns = ns;
      all()[i].ratio = ns / default_ns;
      all()[i].ratio_high = std::numeric_limits<double>::infinity();
    }
    if (!found) give_up();
    for (const Measured& m : all()) entered_.push_back(m.status.empty()), failures_ += m.failed;
  }

  void give_up() {
    Verdict& v = rounds_.out;
    v.problem = "no candidate could be run:";
    for (size_t i = 0; i < v.candidates.size(); ++i) v.problem += fmt::format("\n  {}: {}", i, v.candidates[i].status);
    v.spent_ms = rounds_.spent();
  }

  // Estimates of all that have run at least once in a round.
  void look() {
    Look l;
    l.of = {reference_};
    for (size_t i = 0; i < all().size(); ++i)
      if (i != reference_ && !all()[i].failed && !rounds_.differences(rounds_.logs(i), rounds_.logs(reference_)).empty()) l.of.push_back(i);
    const size_t n = l.of.size();
    // Each look has its share of the risk, and so has each pair with the best or the default in it.
    const double looks =
        std::ceil(std::log(static_cast<double>(options_.most_rounds) / static_cast<double>(options_.least_rounds)) / std::log(kGrowth)) + 1;
    const double risk = options_.risk / (2 * looks * static_cast<double>(std::max<size_t>(survivors(), 1)));
    l.ratio.assign(n, {});
    for (size_t i : l.of) l.eligible.push_back(rounds_.alive(i));
    l.half.assign(n, std::vector<double>(n, 0));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < i; ++j) {
        const auto d = rounds_.differences(rounds_.logs(l.of[i]), rounds_.logs(l.of[j]));
        // Pairs of which both were dropped early decide nothing.
        if (j > 0 && (d.empty() || (!rounds_.alive(l.of[i]) && !rounds_.alive(l.of[j])))) {
          l.half[i][j] = l.half[j][i] = std::numeric_limits<double>::infinity();
          continue;
        }
        const Estimate e = estimate(d, risk);
        l.half[i][j] = l.half[j][i] = e.half();
        if (j == 0) l.ratio[i] = e;
      }
    // The reference against itself: what remains of it is no speed.
    const auto itself = rounds_.differences(rounds_.again(), rounds_.logs(reference_));
    const double off = itself.empty() ? 0 : std::fabs(hodges_lehmann(itself));
    rounds_.out.noise = std::expm1(off);
    std::vector<double> usual = rounds_.logs(reference_);
    std::erase_if(usual, [](double v) { return std::isnan(v); });
    l.band = std::log1p(std::max(options_.tie_band, usual.empty() ? 0 : options_.grain_ns / std::exp(median(usual))));
    l.between = usual.empty() ? 0 : std::max(options_.between, options_.grain_ns / kSigmas / std::exp(median(usual)));
    l.noise = off;
    l.margin = std::max(l.band, std::log(options_.speedup));
    look_ = std::move(l);
    flips();
    regrets();
    decided_ = settled();
  }

  // Whether more rounds would tell more.
  bool settled() const {
    if (rounds_.rounds() < 2 * options_.least_rounds) return false;  // few runs may all be of one mode of several
    if (flip_of_survivors_ > options_.flip) return false;
    if (rounds_.out.regret_bound <= options_.tie_band) return true;
    for (size_t i = 1; i < look_.of.size(); ++i)
      if (rounds_.alive(look_.of[i]) && look_.ratio[i].half() > look_.band / 2) return false;
    return true;
  }

  // The look as it might be in a repeat, where nothing may have been dropped: such candidates are as well known as the others.
  Look repeated() const {
    Look l = look_;
    double usual = look_.band / 2;
    for (size_t i = 1; i < l.of.size(); ++i)
      if (l.eligible[i]) usual = std::min(usual, l.ratio[i].half());
    for (size_t i = 1; i < l.of.size(); ++i) {
      if (l.eligible[i]) continue;
      l.eligible[i] = true;
      l.ratio[i].high = std::min(l.ratio[i].high, l.ratio[i].centre + usual);
      for (size_t j = 1; j < l.of.size(); ++j) l.half[i][j] = l.half[j][i] = std::min(l.half[i][j], usual);
    }
    return l;
  }

  // The share of drawn sets of rounds, spread out to twice their variance, that give another winner.
  void flips() {
    const size_t n = look_.of.size(), rounds = rounds_.rounds(), winner = look_.winner();
    const Look again = repeated();
    const std::vector<double> centre = look_.centres();
    const double best = *std::min_element(centre.begin(), centre.end());
    std::vector<size_t> drawn;  // the others are far behind whatever is drawn
    for (size_t i = 1; i < n; ++i)
      if (look_.ratio[i].low < std::max(best + 2 * look_.band, -look_.margin)) drawn.push_back(i);
    std::uniform_int_distribution<size_t> pick(0, std::max<size_t>(rounds, 1) - 1);
    // Fewer draws than rounds, and their deviation scaled down: m out of n (Bickel, Goetze, van Zwet, Statistica Sinica 1997), which is
    // as good and quicker.
    std::vector<size_t> at(std::min(rounds, kDrawn));
    std::vector<double> d;
    std::normal_distribution<double> normal;
    int all = 0, survivors = 0;
    for (int k = 0; k < kReplicates && !drawn.empty(); ++k) {
      for (size_t& r : at) r = pick(random_);
      std::vector<double> c = centre;
      for (size_t i : drawn) {
        const auto &mine = rounds_.logs(look_.of[i]), &theirs = rounds_.logs(reference_);
        d.clear();
        for (size_t r : at)
          if (const double x = mine[r] - theirs[r]; !std::isnan(x)) d.push_back(x);
        if (d.empty()) continue;
        const double fewer = static_cast<double>(at.size()) / static_cast<double>(rounds);
        c[i] = centre[i] + std::sqrt(kVariance * fewer) * (hodges_lehmann(d) - centre[i]);
      }
      survivors += look_.choose(c) != winner;
      for (size_t i : drawn) c[i] += again.between * normal(random_);
      all += again.choose(c) != winner;
    }
    // With the risk that what was drawn from says nothing (few runs of several modes), where anything is near at all.
    rounds_.out.flip = drawn.empty() ? 0 : std::min(static_cast<double>(all) / kReplicates + options_.risk, 1.0);
    flip_of_survivors_ = static_cast<double>(survivors) / kReplicates;
  }

  void regrets() {
    const size_t w = look_.winner();
    double most = 0, bound = 0;
    for (size_t i = 0; i < look_.of.size(); ++i) {
      if (i == w) continue;
      const double behind = look_.ratio[w].centre - look_.ratio[i].centre;
      most = std::max(most, behind);
      const double half = look_.half[w][i];
      if (!rounds_.alive(look_.of[i]) && !std::isfinite(half)) continue;  // dropped with too few rounds for an interval
      bound = std::max(bound, behind + half);
    }
    rounds_.out.regret = std::expm1(most);
    rounds_.out.regret_bound = std::expm1(bound);
  }

  // Those that are clearly slower than the best go, and where half of what is left of the budget does not do for the
  // others until the next look, all but the best few.
  void drop(size_t looks, size_t rounds_to_next) {
    size_t best = 0;
    for (size_t i = 1; i < look_.of.size(); ++i)
      if (rounds_.alive(look_.of[i]) && look_.ratio[i].centre < look_.ratio[best].centre) best = i;
    std::vector<size_t> left;
    double cost = 2 * rounds_.cost(reference_);
    for (size_t i = 1; i < look_.of.size(); ++i) {
      if (!rounds_.alive(look_.of[i])) continue;
      const auto behind = rounds_.differences(rounds_.logs(look_.of[i]), rounds_.logs(look_.of[best]));
      if (i != best && estimate(behind, kDropRisk).low > look_.band)
        mark(i, best);
      else if (look_.ratio[i].low > -look_.needed())  // it cannot win
        mark(i, 0);
      else
        left.push_back(i), cost += rounds_.cost(look_.of[i]);
    }
    const size_t keep = options_.keep.empty() ? left.size() : options_.keep[std::min(looks, options_.keep.size() - 1)];
    if (left.size() <= keep || static_cast<double>(rounds_to_next) * cost < (options_.budget_ms - rounds_.spent()) / 2) return;
    std::stable_sort(left.begin(), left.end(), [&](size_t a, size_t b) { return look_.ratio[a].centre < look_.ratio[b].centre; });
    for (size_t k = keep; k < left.size(); ++k) mark(left[k], best);
  }

  void mark(size_t i, size_t than) {
    const size_t behind = look_.of[than];
    const std::string other = options_.name ? options_.name(behind) : behind == 0 ? "the default" : fmt::format("candidate {}", behind);
    all()[look_.of[i]].status = fmt::format("dropped after {} rounds: its time is {:.3f} of that of {}", rounds_.rounds(),
                                            std::exp(look_.ratio[i].centre - look_.ratio[than].centre), other);
  }

  void report() {
    Verdict& v = rounds_.out;
    const size_t w = look_.winner();
    v.winner = look_.of[w];
    for (size_t i = 0; i < look_.of.size(); ++i) {
      Measured& m = v.candidates[look_.of[i]];
      std::vector<double> ns;
      for (double l : rounds_.logs(look_.of[i]))
        if (!std::isnan(l)) ns.push_back(std::exp(l));
      m.rounds = ns.size();
      if (ns.empty() || m.failed) continue;  // the budget ended the first round; what ran for a while before it failed has no time
      m.median_ns = median(ns);
      m.spread = median_deviation(ns) / m.median_ns;
      m.ratio = std::exp(look_.ratio[i].centre);
      m.ratio_low = std::exp(look_.ratio[i].low);
      m.ratio_high = std::exp(look_.ratio[i].high);
      if (i != w && std::fabs(look_.ratio[i].centre - look_.ratio[w].centre) <= look_.band) v.tied.push_back(look_.of[i]);
    }
    align_times(v.candidates);
    v.spent_ms = rounds_.spent();
  }

  const MeasureOptions& options_;
  Rounds rounds_;
  std::mt19937_64 random_;
  size_t reference_ = 0;
  long failures_ = 0;
  std::vector<bool> entered_;  // the rounds
  bool decided_ = false;
  double flip_of_survivors_ = 0;
  Look look_;
};

}  // namespace

Clock steady_clock() {
  return [watch = Stopwatch()] { return watch.ms(); };
}

std::string time_text(double ns) {
  return ns < 1e4 ? fmt::format("{:.0f} ns", ns) : ns < 1e7 ? fmt::format("{:.2f} us", ns / 1e3) : fmt::format("{:.3f} ms", ns / 1e6);
}

bool has_interval(const Measured& m) { return m.ratio > 0 && m.ratio_low > 0 && std::isfinite(m.ratio_high); }

std::string interval_text(const Measured& m) {
  if (!has_interval(m)) return m.rounds > 0 ? fmt::format("{} rounds are too few to say between what", m.rounds) : "single runs";
  return fmt::format("between {:.3f} and {:.3f}", m.ratio_low, m.ratio_high);
}

std::string remark(const Measured& m) {
  if (m.failed || !(m.ratio > 0) || has_interval(m)) return m.status;
  return m.status + (m.status.empty() ? "" : "; ") + interval_text(m);
}

void align_times(std::vector<Measured>& candidates) {
  const auto ran = [](const Measured& m) { return !m.failed && m.ratio > 0 && m.median_ns > 0; };
  const auto first = std::find_if(candidates.begin(), candidates.end(), ran);
  if (first == candidates.end()) return;
  const double of_one = first->median_ns / first->ratio;
  for (Measured& m : candidates) m.median_ns = !m.failed && m.ratio > 0 ? of_one * m.ratio : 0;
}

Verdict measure(size_t candidates, const Sample& sample, const MeasureOptions& options, const Clock& clock) {
  TOROID_CHECK(candidates > 0 && options.least_rounds > 0 && options.least_rounds <= options.most_rounds && options.speedup > 0);
  return Measuring(candidates, sample, options, clock).finish();
}

std::string to_string(const Verdict& v, const std::vector<std::string>& names) {
  TOROID_CHECK(names.size() == v.candidates.size());
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) { return v.candidates[i].ratio > 0 ? v.candidates[i].ratio : std::numeric_limits<double>::infinity(); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::string out = v.problem.empty() ? std::string() : v.problem + "\n";
  for (size_t i : order) {
    const Measured& m = v.candidates[i];
    out += fmt::format("{} {:<40}", i == v.winner && v.problem.empty() ? '*' : ' ', names[i]);
    if (m.ratio > 0)
      out += fmt::format(" {:>10} {:6.3f} ({} rounds, +-{:.1f} %)", time_text(m.median_ns), m.ratio, m.rounds, 100 * m.spread);
    if (const std::string says = remark(m); !says.empty()) out += " " + says;
    out += "\n";
  }
  return out + fmt::format("noise {:.2f} %, flip probability {:.1f} %, regret {:.2f} % (at most {:.2f} %), {:.1f} ms{}\n", 100 * v.noise,
                           100 * v.flip, 100 * v.regret, 100 * v.regret_bound, v.spent_ms, v.out_of_budget ? ", budget used" : "");
}

}  // namespace toroid::tune
