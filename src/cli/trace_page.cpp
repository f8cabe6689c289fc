#include "cli/trace_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.h"

namespace toroid::cli {
namespace {

constexpr const char* kStyle =
    "body{font:14px sans-serif;margin:2em;max-width:90em;color:#222}table{border-collapse:collapse;margin:.5em 0 1.5em}"
    "td,th{text-align:left;padding:.2em .8em;border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right;white-space:nowrap}"
    "pre{font:12px monospace;background:#f6f8fa;padding:.6em;overflow-x:auto;margin:.3em 0}pre span:target,section:target,tr:target"
    "{background:#fff3bf}section{border-left:3px solid #ddd;padding:.1em 1em;margin:1em 0}h3{margin-top:2em}h4{margin:.4em 0}"
    "code{font-size:13px}a{color:#0b57d0;text-decoration:none}.bar{display:flex;height:1.4em;margin:.5em 0}"
    ".bar div{overflow:hidden;font-size:11px;padding:.2em;color:#fff;background:#43a047;border-right:1px solid #fff;box-sizing:border-box}"
    ".gone{color:#b3261e}.come{color:#1b7a3d}.s{color:#555}summary{cursor:pointer}";

std::string link(const std::string& id, std::string_view text) { return fmt::format("<a href=\"#{}\">{}</a>", id, html_escaped(text)); }

std::string folded(std::string_view title, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", html_escaped(title), body);
}

std::string pre(std::string_view text) { return "<pre>" + html_escaped(text) + "</pre>\n"; }

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (auto& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

// "model.cpp:7" before "model.cpp:10".
struct ByLine {
  static std::pair<std::string_view, int> parts(std::string_view place) {
    const size_t at = std::min(place.rfind(':'), place.size());
    int line = 0;
    if (at < place.size()) std::from_chars(place.data() + at + 1, place.data() + place.size(), line);
    return {place.substr(0, at), line};
  }
  bool operator()(const std::string& a, const std::string& b) const { return std::pair(parts(a), a) < std::pair(parts(b), b); }
};

// A compile with the ids of what links lead to.
class Section {
 public:
  Section(const TracedCompile& compile, size_t number) : c_(compile), id_(fmt::format("c{}", number)), steps_of_line_(c_.graph.size()) {
    for (size_t i = 0; i < c_.graph.size(); ++i)
      for (auto& value : c_.graph[i].values) line_of_.try_emplace(value, i);
    for (size_t s = 0; s < c_.steps.size(); ++s)
      for (auto& value : c_.steps[s].origins) {
        steps_of_[value].insert(s);
        if (const auto line = line_of_.find(value); line != line_of_.end()) steps_of_line_[line->second].insert(s);
      }
    follow_users();
    for (size_t i = 0; i < c_.graph.size(); ++i) {
      const GraphLine& line = c_.graph[i];
      if (line.where.empty() || line.values.empty()) continue;
      Place& place = places_[line.where];
      place.values.insert(place.values.end(), line.values.begin(), line.values.end());
      place.steps.insert(steps_of_line_[i].begin(), steps_of_line_[i].end());
    }
    // Of steps whose values have no line here, as those of blocks of control flow.
    for (size_t s = 0; s < c_.steps.size(); ++s)
      if (const std::string& where = c_.steps[s].where; !where.empty()) places_[where].steps.insert(s);
  }

  std::string text() const {
    return fmt::format("<h2 id=\"{}\">{}</h2>\n", id_, html_escaped(c_.name)) + summary() + times() + places() + steps() + decisions() +
           graph() + changes() + texts();
  }
  // A row of the table of compiles.
  std::string row() const {
    return fmt::format("<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n", link(id_, c_.name),
                       html_escaped(c_.device), c_.steps.size(), c_.ended ? fmt::format("{:.1f}", c_.ms) : "",
                       html_escaped(!c_.ended          ? "has not ended"
                                    : c_.notes.empty() ? ""
                                                       : c_.notes.front()));
  }

 private:
  struct Place {
    std::vector<std::string> values;
    std::set<size_t> steps;
  };

  // What no step is named after is computed within the steps that read it.
  void follow_users() {
    std::vector<std::set<size_t>> read(c_.graph.size());
    for (size_t i = c_.graph.size(); i-- > 0;) {
      if (steps_of_line_[i].empty()) steps_of_line_[i] = read[i];
      for (auto& operand : c_.graph[i].operands)
        if (const auto line = line_of_.find(operand); line != line_of_.end())
          read[line->second].insert(steps_of_line_[i].begin(), steps_of_line_[i].end());
    }
  }

  std::string step_id(size_t s) const { return fmt::format("{}-step{}", id_, s); }
  std::string line_id(size_t i) const { return fmt::format("{}-graph{}", id_, i); }
  std::string place_id(const std::string& place) const {
    return fmt::format("{}-line{}", id_, std::distance(places_.begin(), places_.find(place)));
  }
  // Of blocks of control flow no graph is here: their values have no line to lead to.
  std::string value_link(const std::string& value) const {
    const auto line = line_of_.find(value);
    return line == line_of_.end() ? html_escaped("%" + value) : link(line_id(line->second), "%" + value);
  }
  std::string step_link(size_t s) const { return link(step_id(s), c_.steps[s].name); }
  std::string step_links(const std::set<size_t>& steps) const {
    std::vector<std::string> out;
    for (const size_t s : steps) out.push_back(step_link(s));
    return joined(out);
  }
  std::string value_links(const std::vector<std::string>& values) const {
    std::vector<std::string> out;
    for (auto& value : values) out.push_back(value_link(value));
    return joined(out);
  }

  std::string summary() const {
    if (!c_.ended)
      return "<p><b>This compile has no report: it failed, or has not ended.</b> What its stages wrote until then is below.</p>\n";
    std::string out = fmt::format("<p class=\"s\">Toroid {}, {}; {} steps; {:.1f} ms</p>\n", html_escaped(c_.version),
                                  html_escaped(c_.device), c_.steps.size(), c_.ms);
    if (!c_.options.empty()) out += fmt::format("<p>Options: <code>{}</code></p>\n", html_escaped(c_.options));
    if (c_.notes.empty()) return out;
    out += "<ul>\n";
    for (auto& note : c_.notes) out += "<li>" + html_escaped(note) + "</li>\n";
    return out + "</ul>\n";
  }

  std::string times() const {
    if (c_.stages.empty()) return "";
    double all = 0;
    for (auto& [stage, ms] : c_.stages) all += ms;
    std::string out = "<h3>Times</h3>\n<div class=\"bar\">";
    for (auto& [stage, ms] : c_.stages)
      out +=
          fmt::format("<div style=\"width:{:.2f}%\" title=\"{:.2f} ms\">{}</div>", all > 0 ? 100 * ms / all : 0, ms, html_escaped(stage));
    out += "</div>\n<table><tr><th>stage</th><th>ms</th></tr>\n";
    for (auto& [stage, ms] : c_.stages) out += fmt::format("<tr><td>{}</td><td class=\"n\">{:.2f}</td></tr>\n", html_escaped(stage), ms);
    out += "</table>\n";
    std::string passes = "<table>\n";
    for (auto& [pass, ms] : c_.passes) passes += fmt::format("<tr><td>{}</td><td class=\"n\">{:.3f}</td></tr>\n", html_escaped(pass), ms);
    return out + folded(fmt::format("{} passes", c_.passes.size()), passes + "</table>\n");
  }

  std::string places() const {
    if (places_.empty()) return "";
    std::string out = "<h3>Source lines</h3>\n<table><tr><th>line</th><th>values</th><th>steps</th></tr>\n";
    for (auto& [where, place] : places_)
      out += fmt::format("<tr id=\"{}\"><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n", place_id(where), html_escaped(where),
                         value_links(place.values), step_links(place.steps));
    return out + "</table>\n";
  }

  std::string steps() const {
    if (c_.steps.empty()) return "";
    std::string out = "<h3>Steps</h3>\n";
    for (size_t s = 0; s < c_.steps.size(); ++s) out += step(s);
    return out;
  }

  std::string step(size_t s) const {
    const TracedStep& step = c_.steps[s];
    std::string out =
        fmt::format("<section id=\"{}\"><h4>{} <code>{}</code> <span class=\"s\">{}{}</span></h4>\n", step_id(s), s,
                    html_escaped(step.name), html_escaped(step.by), step.block.empty() ? "" : html_escaped(", of the block " + step.block));
    std::vector<std::string> lines;
    for (auto& [where, place] : places_)
      if (place.steps.count(s)) lines.push_back(link(place_id(where), where));
    if (!lines.empty()) out += "<div>Lines: " + joined(lines) + "</div>\n";
    if (!step.origins.empty()) out += "<div>Values: " + value_links(step.origins) + "</div>\n";
    const std::set<std::string> origins(step.origins.begin(), step.origins.end());
    for (auto& d : c_.decisions)
      if (std::any_of(d.values.begin(), d.values.end(), [&](auto& v) { return origins.count(v) > 0; }))
        out += "<div class=\"s\">" + html_escaped(d.text) + "</div>\n";
    if (!step.plan.empty()) out += folded("Schedule and loop", pre(step.plan));
    if (!step.source.empty()) out += folded(step.file, pre(step.source));
    return out + "</section>\n";
  }

  std::string decisions() const {
    if (c_.decisions.empty()) return "";
    std::string out = "<h3>Decisions</h3>\n<table><tr><th>decision</th><th>steps</th></tr>\n";
    for (auto& d : c_.decisions) {
      std::set<size_t> about;
      for (auto& value : d.values)
        if (const auto steps = steps_of_.find(value); steps != steps_of_.end()) about.insert(steps->second.begin(), steps->second.end());
      out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", html_escaped(d.text), step_links(about));
    }
    return out + "</table>\n";
  }

  std::string graph() const {
    if (c_.graph.empty()) return "";
    std::string out = "<h3>Graph after the passes</h3>\n<pre>";
    for (size_t i = 0; i < c_.graph.size(); ++i) {
      const std::set<size_t>& steps = steps_of_line_[i];
      out += fmt::format("<span id=\"{}\">{}</span>{}{}\n", line_id(i), html_escaped(c_.graph[i].text), steps.empty() ? "" : "  &rarr; ",
                         step_links(steps));
    }
    return out + "</pre>\n";
  }

  std::string changes() const {
    if (c_.changes.empty()) return "";
    std::string out = "<h3>What passes changed</h3>\n";
    for (auto& pass : c_.changes) {
      std::string body = "<pre>";
      for (auto& line : pass.gone) body += "<span class=\"gone\">- " + html_escaped(line) + "</span>\n";
      for (auto& line : pass.come) body += "<span class=\"come\">+ " + html_escaped(line) + "</span>\n";
      out += folded(fmt::format("{}: {} lines gone, {} have come", pass.name, pass.gone.size(), pass.come.size()), body + "</pre>\n");
    }
    return out;
  }

  std::string texts() const {
    if (c_.texts.empty()) return "";
    std::string out = "<h3>Texts of the stages</h3>\n";
    for (auto& [title, text] : c_.texts) out += folded(title, pre(text));
    return out;
  }

  const TracedCompile& c_;
  const std::string id_;
  std::map<std::string, size_t> line_of_;             // of the graph, by value
  std::map<std::string, std::set<size_t>> steps_of_;  // by value
  std::vector<std::set<size_t>> steps_of_line_;       // of the graph
  std::map<std::string, Place, ByLine> places_;       // source lines
};

}  // namespace

std::string trace_page(const std::string& title, const std::vector<TracedCompile>& compiles) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      html_escaped(title), kStyle);
  std::vector<Section> sections;
  for (size_t i = 0; i < compiles.size(); ++i) sections.emplace_back(compiles[i], i);
  if (sections.size() > 1) {
    out += "<table><tr><th>compile</th><th>device</th><th>steps</th><th>ms</th><th>why</th></tr>\n";
    for (auto& s : sections) out += s.row();
    out += "</table>\n";
  }
  for (auto& s : sections) out += s.text();
  return out + "</body></html>\n";
}

}  // namespace toroid::cli
