#include "tune/report/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tune/region/sizes.h"

namespace toroid::tune {

void add(TuneReport& to, TuneReport block) {
  std::move(block.regions.begin(), block.regions.end(), std::back_inserter(to.regions));
  to.compiled += block.compiled;
  to.precompile_ms += block.precompile_ms, to.time_ms += block.time_ms, to.total_ms += block.total_ms;
  to.out_of_budget = to.out_of_budget || block.out_of_budget;
  to.decided.add(block.decided);
  std::move(block.now.begin(), block.now.end(), std::back_inserter(to.now));
  if (to.problem.empty()) to.problem = std::move(block.problem);
}

UnseenSizes unseen_sizes(const TuneReport& r) {
  constexpr std::string_view kNotTuned = "not tuned: ";
  UnseenSizes out;
  bool tuned = false;
  for (auto& region : r.regions) {
    if (!region.source.starts_with(kNotTuned)) tuned = true;
    const std::string_view why = std::string_view(region.source).substr(std::min(kNotTuned.size(), region.source.size()));
    if (!region.source.starts_with(kNotTuned) || !why.starts_with(kUnseenSize)) continue;
    if (out.parts++ == 0) out.why = why;
  }
  out.nothing_tuned = out.parts > 0 && !tuned;
  return out;
}

std::string to_string(const TuneReport& r, const std::string& part, size_t most) {
  std::string out;
  for (auto& region : r.regions) {
    if (region.label.find(part) == std::string::npos) continue;
    out += fmt::format("{} ({} place{}): {}{}\n", region.label, region.places, region.places == 1 ? "" : "s", region.source,
                       region.drift.empty() ? "" : "; " + region.drift);
    if (!region.rows.empty())
      out += fmt::format("  {} original choices, {} fused, {} total; {} passed over, {} left out, {} unwanted", region.originals,
                         region.fused, region.originals + region.fused, region.passed_over, region.untried, region.unwanted);
    if (const size_t listed = region.originals + region.fused; region.rows.size() > listed)
      out += fmt::format("; {} more by steps", region.rows.size() - listed);
    if (!region.rows.empty() && region.source.starts_with("timed"))
      out += fmt::format("; noise {:.1f} %, flip probability {:.1f} %, regret {}", 100 * region.noise, 100 * region.flip,
                         std::isfinite(region.regret) ? fmt::format("at most {:.1f} %", 100 * region.regret) : "not known");
    if (!region.rows.empty()) out += "\n";
    std::vector<size_t> order(region.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto rank = [&](size_t i) { return region.rows[i].measured.ratio > 0 ? region.rows[i].measured.ratio : 1e30; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    if (const auto w = std::find(order.begin(), order.end(), region.winner); most > 0 && w - order.begin() >= static_cast<long>(most))
      std::rotate(order.begin() + static_cast<long>(most) - 1, w, w + 1);
    const size_t hidden = most > 0 && order.size() > most ? order.size() - most : 0;
    order.resize(order.size() - hidden);
    for (size_t i : order) {
      const ChoiceRow& row = region.rows[i];
      const std::string time = row.measured.median_ns > 0 ? fmt::format("{:10.2f} us", row.measured.median_ns / 1e3) : "            -";
      const std::string ratio = row.measured.ratio > 0 ? fmt::format("{:6.3f}", row.measured.ratio) : "     -";
      const std::string says = remark(row.measured);
      out += fmt::format("  {}{:>3} {} {}  {:9} {}{}\n", i == region.winner ? "*" : " ", i + 1, time, ratio, name_of(row.kind), row.name,
                         says.empty() ? "" : ": " + says);
    }
    if (hidden > 0) out += fmt::format("  and {} more, slower or without a time\n", hidden);
  }
  if (!r.whole.empty()) out += "the whole program: " + r.whole + "\n";
  return out + fmt::format("tuning took {:.0f} ms: compiling {} choices {:.0f} ms, timing {:.0f} ms{}\n", r.total_ms, r.compiled,
                           r.precompile_ms, r.time_ms, r.out_of_budget ? "; the budget ended it before all was decided" : "");
}

}  // namespace toroid::tune
