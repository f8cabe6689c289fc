#include "tune/region/choice.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "program/inline.h"
#include "program/ways.h"
#include "sched/rewrites.h"

namespace toroid::tune {
namespace {

int parse_node(std::string_view text, std::string_view whole) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TOROID_USER_CHECK(error == std::errc() && end == text.data() + text.size() && number >= 0,
                    "\"{}\" is no choice: \"{}\" is no number of a node", whole, text);
  return number;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> split(std::string_view s, std::string_view by) {
  std::vector<std::string_view> out;
  for (size_t at; (at = s.find(by)) != std::string_view::npos; s.remove_prefix(at + by.size())) out.push_back(trimmed(s.substr(0, at)));
  out.push_back(trimmed(s));
  return out;
}

// Of the node itself, where an earlier way has put loops around it that do a part of its work.
size_t position_of(const program::Program& p, int number) {
  std::optional<size_t> loop;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    if (p.nodes[i].parts != std::vector<int>{number}) continue;
    if (!p.nodes[i].is_loop()) return i;
    if (!loop) loop = i;
  }
  if (loop) return *loop;
  fail<UserError>("the choice is about node {}, which the program does not have: it was made for another one", number);
}

const program::Open& open_at(const program::Program& p, size_t node, const program::Config& way) {
  auto* open = std::get_if<program::Open>(&p.nodes[node].problem);
  TOROID_USER_CHECK(open, "{} has no alternatives, and \"{}\" names one", program::label(p.nodes[node]), way.form);
  return *open;
}

size_t alternative_named(const program::Open& open, const program::Config& way) {
  const std::string_view name = *program::alternative_of(way);
  std::vector<std::string_view> names;
  for (size_t i = 0; i < open.alternatives.size(); ++i) {
    if (open.alternatives[i].name == name) return i;
    names.push_back(open.alternatives[i].name);
  }
  fail<UserError>("{} has no alternative \"{}\"{}", open.name, name, did_you_mean(name, names));
}

bool is_for_range(const program::Config& way) { return program::alternative_of(way) && !way.fields.empty(); }

bool covers(const program::Config& way, const program::Range& range) {
  int64_t from = 1, to = sym::kInf;
  for (auto& [field, value] : way.fields) {
    TOROID_USER_CHECK(field == "from" || field == "to", "\"{}\" is no range of sizes: an alternative has from and to",
                      program::to_string(way));
    (field == "from" ? from : to) = value;
  }
  return from <= range.first && to >= range.last;
}

// Ways of one node, each for some sizes.
void take_ranges(program::Program& p, size_t node, const std::vector<program::Config>& ways) {
  const program::Open& open = open_at(p, node, ways.front());
  std::vector<size_t> winners;
  for (auto& range : program::ranges_of(open)) {
    const auto way = std::find_if(ways.begin(), ways.end(), [&](auto& w) { return covers(w, range); });
    TOROID_USER_CHECK(way != ways.end(), "the choice names no alternative of {} for sizes from {}: it was made for other ranges", open.name,
                      range.first);
    winners.push_back(alternative_named(open, *way));
  }
  p = program::decide_ranges(p, node, winners);
}

void take(program::Program& p, size_t node, const program::Config& way) {
  if (program::alternative_of(way))
    p = program::inline_alternative(p, node, alternative_named(open_at(p, node, way), way));
  else if (sched::rewrite_of(way))
    sched::rewrite(p, node, way);
  else
    p.nodes[node].config = way;
}

}  // namespace

std::string to_string(const Choice& d) {
  if (d == Choice{}) return "default";
  std::string out;
  for (auto& [node, way] : d.ways) out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", node, program::to_string(way));
  for (auto& [a, b] : d.apart)
    out += fmt::format("{}{}-{}", &d.apart.front().first != &a ? ", " : out.empty() ? "apart " : "; apart ", a, b);
  return out;
}

Choice parse_choice(std::string_view text) {
  Choice d;
  if (text == "default") return d;
  for (std::string_view part : split(text, ";")) {
    if (part.starts_with("apart ")) {
      for (std::string_view pair : split(part.substr(6), ",")) {
        const size_t dash = pair.find('-');
        TOROID_USER_CHECK(dash != std::string_view::npos, "\"{}\" is no choice: \"{}\" is no pair of nodes", text, pair);
        d.apart.emplace_back(parse_node(pair.substr(0, dash), text), parse_node(pair.substr(dash + 1), text));
      }
      continue;
    }
    const size_t colon = part.find(": ");
    TOROID_USER_CHECK(colon != std::string_view::npos, "\"{}\" is no choice: \"{}\" is no way to compute a node", text, part);
    d.ways.emplace_back(parse_node(part.substr(0, colon), text), program::parse_config(part.substr(colon + 2)));
  }
  return d;
}

program::Program apply(program::Program p, const Choice& d, const std::vector<int>& numbers) {
  const auto number = [&](int local) {
    TOROID_USER_CHECK(local >= 0 && static_cast<size_t>(local) < numbers.size(),
                      "the choice is about node {} of a region of {}: it was made for another one", local, numbers.size());
    return numbers[static_cast<size_t>(local)];
  };
  for (auto& [a, b] : d.apart) p.apart.emplace_back(number(a), number(b));
  std::map<int, std::vector<program::Config>> by_range;
  for (auto& [node, way] : d.ways) {
    if (is_for_range(way))
      by_range[node].push_back(way);
    else
      take(p, position_of(p, number(node)), way);
  }
  for (auto& [node, ways] : by_range) take_ranges(p, position_of(p, number(node)), ways);
  return p;
}

std::vector<int> own_numbers(const program::Program& region) {
  std::vector<int> numbers(region.nodes.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace toroid::tune
