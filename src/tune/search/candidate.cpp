#include "tune/search/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace toroid::tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Measured measured_once(const CandidateRecord& r) {
  Measured m;
  m.rounds = static_cast<size_t>(r.rounds), m.median_ns = r.median_ns, m.spread = r.spread;
  m.ratio = r.ratio, m.ratio_low = r.ratio_low, m.ratio_high = r.ratio_high;
  m.failed = r.outcome != Outcome::Timed, m.outcome = r.outcome;
  if (m.failed) m.status = fmt::format("{}: {}", name_of(r.outcome), r.reason);
  return m;
}

}  // namespace

Measured Candidate::result() const {
  if (now) return *now;
  Measured m;
  m.status = caller->failure();
  return m;
}

Candidate candidate_of(std::shared_ptr<ChoiceCaller> caller) {
  std::string text = to_string(caller->choice());
  return {std::move(caller), std::move(text)};
}

std::string row_name(size_t position) { return position == 0 ? "the default" : fmt::format("row {}", position + 1); }

std::vector<size_t> in_state(const Candidates& all, Candidate::State state) {
  std::vector<size_t> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].state == state) out.push_back(i);
  return out;
}

std::optional<size_t> find(const Candidates& all, const std::string& text) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.text == text; });
  return at == all.end() ? std::nullopt : std::optional(static_cast<size_t>(at - all.begin()));
}

std::vector<std::string> texts_of(const Candidates& all) {
  std::vector<std::string> out;
  for (auto& c : all) out.push_back(c.text);
  return out;
}

std::vector<Measured> results_of(const Candidates& all) {
  std::vector<Measured> out;
  for (auto& c : all) out.push_back(c.result());
  return out;
}

void take_records(Candidates& all, const std::vector<CandidateRecord>& records) {
  for (Candidate& c : all) {
    const auto r = std::find_if(records.begin(), records.end(), [&](auto& known) { return known.candidate == c.text; });
    c.before = r == records.end() ? Measured() : measured_once(*r);
  }
}

Measured measured(const Candidate& c, When when) { return when == When::Before ? c.before : c.result(); }

size_t best_unfused(const Candidates& all, When when, double least) {
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    const Measured m = measured(all[i], when);
    if (m.failed || m.ratio <= 0 || m.ratio >= least || all[i].is_fused()) continue;
    best = i, least = m.ratio;
  }
  return best;
}

double Terms::least_ratio() const { return std::min(1 / speedup, 1 - MeasureOptions{}.tie_band / 2); }

std::string Terms::text() const {
  std::string out;
  if (speedup > 1) out += fmt::format(", {:.3f} times as fast as the default", speedup);
  if (fusion_speedup > 1) out += fmt::format(", fused {:.3f} times as fast as not", fusion_speedup);
  return out;
}

size_t fused_enough(const Candidates& all, When when, size_t winner, const Terms& terms) {
  if (!all[winner].is_fused() || terms.fusion_speedup <= 1) return winner;
  const Measured usual = measured(all.front(), when);
  const bool has_default = !usual.failed && usual.ratio > 0;  // else the first that runs is what ratios are to
  const size_t best = best_unfused(all, when, has_default ? 1 : kInfinity);
  if (best == 0 && !has_default) return winner;
  const double of_best = best > 0 ? measured(all[best], when).ratio : 1;
  if (of_best >= terms.fusion_speedup * measured(all[winner], when).ratio) return winner;
  return has_default ? best_unfused(all, when, terms.least_ratio()) : best;
}

}  // namespace toroid::tune
