// The forms of a node's template (texts that compute it), the tiles that they leave open, and both as program::Config.
//
// A tile is a struct with `template <class Visit> void fields(Tile& t, const Visit& visit)`, which calls visit(name, member, step) for each
// of its numbers, in order; step: what one step of a search adds to it, or kDoubles. A bool is 0 or 1, any other number is 1 or more.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <concepts>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_text.h"
#include "program/program.h"

namespace toroid::codegen {

constexpr int kDoubles = 0;  // halves and doubles instead

struct Form {
  std::string name;
  std::string refusal;     // why it does not take the node; empty when it does
  std::string reluctance;  // why it is taken only when asked for; empty when it is as good as any
  // An empty configuration: by the form's own rule. UserError for one that does not fit.
  std::function<KernelText(const program::Config&)> generate;
  std::function<std::vector<program::Config>()> configs;  // worth a trial, that of the rule first
  std::function<std::vector<program::Config>(const program::Config&)> neighbours;
  // Why a configuration, or for an empty one the rule's, should not leave sums of columns (loop::StoreMode::Sum). Without: none does.
  std::function<std::string(const program::Config&)> sums_refusal = {};
};

// How a form with tiles is made.
template <class Tile>
struct Tiling {
  std::function<Tile()> rule;
  std::function<std::vector<Tile>()> others;         // worth a trial, the most promising first; may hold tiles that do not fit
  std::function<std::string(const Tile&)> refusal;   // why a tile does not fit; empty when it does
  std::function<KernelText(const Tile&)> generate;   // of tiles that fit
  std::function<void(Tile&)> settle = [](Tile&) {};  // after a step: sets the numbers that follow from others
  std::string_view settled = "";                     // one of those, which is left alone when the step was its own
};

// Fails as a configuration that does not fit a node: `c` came from outside. expected: one that would.
[[noreturn]] void fail_config(const program::Config& c, const program::Config& expected, const std::string& why);

template <class Tile>
program::Config config_of(std::string form, Tile t) {
  program::Config c{.form = std::move(form), .fields = {}};
  fields(t, [&](const char* name, auto& value, int) { c.fields.emplace_back(name, static_cast<int64_t>(value)); });
  return c;
}

// `t` with its numbers replaced. UserError where the configuration's fields are others.
template <class Tile>
Tile tile_of(const program::Config& c, Tile t) {
  const program::Config expected = config_of(c.form, t);
  size_t i = 0;
  fields(t, [&]<class Number>(const char* name, Number& value, int) {
    if (i == c.fields.size() || c.fields[i].first != name) fail_config(c, expected, fmt::format("field {} is not \"{}\"", i + 1, name));
    constexpr bool flag = std::same_as<Number, bool>;
    const int64_t given = c.fields[i++].second, least = flag ? 0 : 1, most = flag ? 1 : std::numeric_limits<int>::max();
    if (given < least || given > most) fail_config(c, expected, fmt::format("{}={} is not from {} to {}", name, given, least, most));
    value = static_cast<Number>(given);
  });
  if (i != c.fields.size()) fail_config(c, expected, fmt::format("field \"{}\" is unknown", c.fields[i].first));
  return t;
}

template <class Tile>
bool is_positive(Tile t) {
  bool fits = true;
  fields(t, [&]<class Number>(const char*, Number& value, int) { fits = fits && (std::same_as<Number, bool> || value >= 1); });
  return fits;
}

// One step down and up in each number.
template <class Tile>
std::vector<Tile> steps_from(const Tile& t, const Tiling<Tile>& how) {
  std::vector<Tile> out;
  const size_t count = config_of("", t).fields.size();
  for (size_t field = 0; field < count; ++field)
    for (int sign : {-1, 1}) {
      Tile u = t;
      size_t at = 0;
      bool own = false, moved = true;
      fields(u, [&]<class Number>(const char* name, Number& value, int step) {
        if (at++ != field) return;
        own = how.settled == name;
        if constexpr (std::same_as<Number, bool>)
          moved = value == (sign < 0), value = sign > 0;
        else
          value = step == kDoubles ? (sign > 0 ? value * 2 : value / 2) : value + static_cast<Number>(sign * step);
      });
      if (!moved || !is_positive(u)) continue;
      if (!own) how.settle(u);
      out.push_back(std::move(u));
    }
  return out;
}

template <class Tile>
Form make_form(std::string name, std::string refusal, Tiling<Tile> how) {
  auto listed = [name, how](const std::vector<Tile>& tiles, std::vector<program::Config> out) {
    for (const Tile& t : tiles) {
      if (!how.refusal(t).empty()) continue;
      program::Config c = config_of(name, t);
      if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(std::move(c));
    }
    return out;
  };
  Form f{.name = name, .refusal = std::move(refusal), .reluctance = "", .generate = {}, .configs = {}, .neighbours = {}};
  auto read = [how](const program::Config& c) {
    const Tile rule = how.rule(), t = tile_of(c, rule);
    if (std::string why = how.refusal(t); !why.empty()) fail_config(c, config_of(c.form, rule), why);
    return t;
  };
  f.generate = [how, read](const program::Config& c) { return how.generate(c.empty() ? how.rule() : read(c)); };
  f.configs = [name, how, listed] { return listed(how.others(), {config_of(name, how.rule())}); };
  f.neighbours = [how, read, listed](const program::Config& c) {
    std::vector<program::Config> out = listed(steps_from(read(c), how), {c});
    out.erase(out.begin());
    return out;
  };
  return f;
}

// One that leaves nothing open.
Form make_form(std::string name, std::string refusal, std::function<KernelText()> generate);

// The form that takes the node by the rule: the first that is neither refused nor reluctant.
const Form& first_taker(const std::vector<Form>& forms);
// Why none of them takes it: that of the last, which takes most; empty where one does.
std::string refusal_by(const std::vector<Form>& forms);
// By Node::config, else by that form. UserError for a configuration that fits none.
KernelText generate_by(const std::vector<Form>& forms, const program::Node& node);
// What generate_by takes for an empty configuration, then what else is worth a trial, at most `most` of the form that takes the node and a
// quarter as many of each other one.
std::vector<program::Config> configs_of(const std::vector<Form>& forms, size_t most);
std::vector<program::Config> neighbours_of(const std::vector<Form>& forms, const program::Config& c);

}  // namespace toroid::codegen
