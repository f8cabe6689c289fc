#include "tune/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"

namespace toroid::tune {
namespace {

constexpr const char* kStyle =
    "body{font:14px sans-serif;margin:2em;max-width:75em;color:#222}table{border-collapse:collapse;width:100%;margin:.5em 0 1.5em}"
    "td,th{text-align:left;padding:.2em .6em;border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right;white-space:nowrap}"
    "tr.win{background:#e8f5e9;font-weight:bold}tr.out{color:#888}.bar{background:#90a4ae;height:.9em}tr.win .bar{background:#43a047}"
    "tr .bar.cut{background:repeating-linear-gradient(90deg,#90a4ae 0 1em,#fff 1em 1.2em)}"
    "td.b{width:22em}code{font-size:13px;overflow-wrap:anywhere}p.s{color:#555}ul{list-style:none;padding-left:1.5em}"
    "li.chosen>span{font-weight:bold;color:#2e7d32}li.left>span{color:#888}";

// As long as the ratio says; one that is slower than the scale shows is cut, which its look and its title say.
std::string bar(double ratio, double scale) {
  if (ratio <= scale) return fmt::format("<div class=\"bar\" style=\"width:{:.1f}%\"></div>", 100 * ratio / scale);
  return fmt::format("<div class=\"bar cut\" style=\"width:100%\" title=\"{:.3g} times as long as shown\"></div>", ratio / scale);
}

std::string row(const ReportNode& n, size_t i, double scale) {
  const ReportCandidate& c = n.candidates[i];
  const Measured& m = c.measured;
  const bool known = c.refusal.empty() && m.ratio > 0;
  const char* style = i == n.winner ? " class=\"win\"" : known ? "" : " class=\"out\"";
  std::string out = fmt::format("<tr{}><td class=\"n\">{}</td><td><code>{}</code>{}</td>", style, i + 1, html_escaped(c.name),
                                i == 0 ? " (default)" : "");
  if (known) {
    out += fmt::format("<td class=\"n\">{}</td><td class=\"n\">{:.3f}</td><td class=\"b\">{}</td>",
                       m.median_ns > 0 ? time_text(m.median_ns) : "", m.ratio, bar(m.ratio, scale));
    out += fmt::format("<td class=\"n\">{}</td>", m.rounds > 0 ? fmt::format("{} &plusmn; {:.1f}%", m.rounds, 100 * m.spread) : "");
  } else {
    out += "<td></td><td></td><td></td><td></td>";
  }
  return out + fmt::format("<td>{}</td></tr>\n", html_escaped(c.refusal.empty() ? remark(m) : c.refusal));
}

std::string regret_text(const ReportNode& n) {
  return std::isfinite(n.regret_bound) ? fmt::format("at most {:.2f}%", 100 * n.regret_bound) : "not known";
}

std::string table(const ReportNode& n) {
  std::vector<size_t> order(n.candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    const ReportCandidate& c = n.candidates[i];
    return c.refusal.empty() && c.measured.ratio > 0 ? c.measured.ratio : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  constexpr double kLongest = 4;  // times the default's time: far slower ones would leave nothing of the others
  double scale = 1;
  for (size_t i : order)
    if (std::isfinite(key(i))) scale = std::clamp(key(i), scale, kLongest);
  std::string out = fmt::format(
      "<h2>{}</h2>\n<p class=\"s\">{}; decided by: {}; noise {:.2f}%, flip probability {:.1f}%, regret {}, {:.1f} "
      "ms</p>\n",
      html_escaped(n.label), html_escaped(n.device), html_escaped(n.source), 100 * n.noise, 100 * n.flip, regret_text(n), n.spent_ms);
  out += "<table>\n<tr><th></th><th>candidate</th><th>time</th><th>ratio</th><th></th><th>rounds</th><th>remarks</th></tr>\n";
  for (size_t i : order) out += row(n, i, scale);
  return out + "</table>\n";
}

// Without recursion: a search may go as deep as it likes.
std::string tree(const ReportStep& root) {
  struct Open {
    const ReportStep* step;
    size_t next;
  };
  const auto head = [](const ReportStep& s) {
    return fmt::format("<li class=\"{}\"><span><code>{}</code>{}{}</span>",
                       s.chosen           ? "chosen"
                       : s.status.empty() ? "tried"
                                          : "left",
                       html_escaped(s.text), s.ratio > 0 ? fmt::format(" {:.3f}", s.ratio) : "",
                       s.status.empty() ? "" : ": " + html_escaped(s.status));
  };
  std::string out = "<ul>\n" + head(root);
  std::vector<Open> open{{&root, 0}};
  while (!open.empty()) {
    Open& top = open.back();
    if (top.next == top.step->next.size()) {
      if (top.next > 0) out += "</ul>";
      out += "</li>\n";
      open.pop_back();
      continue;
    }
    if (top.next == 0) out += "\n<ul>\n";
    const ReportStep& child = top.step->next[top.next++];
    out += head(child);
    open.push_back({&child, 0});
  }
  return out + "</ul>\n";
}

// One choice that was tried, with those that fuse one neighbour more.
ReportStep step_of(const RegionReport& region, size_t row) {
  const ChoiceRow& r = region.rows[row];
  ReportStep s{r.name, r.measured.ratio, r.measured.status, row == region.winner, {}};
  for (size_t i = 0; i < region.rows.size(); ++i) {
    const std::string& name = region.rows[i].name;
    if (i != row && name.starts_with(r.name + " + ") && name.find(" + ", r.name.size() + 3) == std::string::npos)
      s.next.push_back(step_of(region, i));
  }
  return s;
}

}  // namespace

ReportPage page_of(const std::string& title, const TuneReport& report, const std::string& device) {
  ReportPage page;
  page.title = title;
  for (auto& r : report.regions) {
    ReportNode n{r.label, device, {}, r.winner, r.noise, r.flip, r.regret, r.spent_ms, r.source};
    ReportStep search{r.label, 1, "", true, {}};
    for (size_t i = 0; i < r.rows.size(); ++i) {
      n.candidates.push_back({r.rows[i].name, r.rows[i].measured, r.rows[i].measured.failed ? r.rows[i].measured.status : ""});
      if (r.rows[i].name.find(" + ") == std::string::npos) search.next.push_back(step_of(r, i));
    }
    page.nodes.push_back(std::move(n));
    if (r.fused > 0) page.searches.push_back(std::move(search));
  }
  if (!report.whole.empty()) page.notes.push_back("the whole program: " + report.whole);
  if (report.out_of_budget) page.notes.push_back("the budget ended before all was decided");
  if (!report.problem.empty()) page.notes.push_back(report.problem);
  return page;
}

std::string to_html(const ReportPage& report) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      html_escaped(report.title), kStyle);
  for (const std::string& note : report.notes) out += fmt::format("<p>{}</p>\n", html_escaped(note));
  for (const ReportNode& n : report.nodes) out += table(n);
  if (!report.searches.empty()) out += "<h2>Search</h2>\n";
  for (const ReportStep& s : report.searches) out += tree(s);
  return out + "</body></html>\n";
}

}  // namespace toroid::tune
