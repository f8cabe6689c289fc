#include "trace/sizes.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace toroid::trace {
namespace {

using graph::Graph;
using Replacements = std::map<std::string, Expr>;

Expr replaced(const Expr& e, const Replacements& with) {
  if (e.is_const()) return e;
  return sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
    auto it = with.find(s.name);
    return it == with.end() ? std::nullopt : std::optional(it->second);
  });
}

void replace_in_list(std::vector<Expr>& list, const Replacements& with) {
  for (auto& e : list) e = replaced(e, with);
}

void replace_in(Graph& g, const Replacements& with) {
  for (auto& v : g.values) {
    replace_in_list(v->type.sizes, with);
    replace_in_list(v->type.strides, with);
  }
  for (auto& n : g.nodes) {
    for (auto& a : n->args) {
      if (auto* e = std::get_if<Expr>(&a)) *e = replaced(*e, with);
      if (auto* list = std::get_if<std::vector<Expr>>(&a)) replace_in_list(*list, with);
    }
    for (auto& r : n->regions) replace_in(*r, with);
  }
  for (auto& r : g.guards) r = sym::with_sides(r, replaced(r.a, with), replaced(r.b, with));
  std::erase_if(g.symbols, [&](graph::Symbol& s) {
    const auto it = with.find(s.expr.node()->name);
    if (it == with.end()) return false;
    const bool is_range = it->second.kind() == sym::Kind::Symbol && it->second.node()->name == it->first;
    if (is_range) s.expr = it->second;
    return !is_range;
  });
}

// Whether e depends on sizes by their remainders alone, which many sizes share.
bool is_of_remainders(const Expr& e) {
  switch (e.kind()) {
    case sym::Kind::Symbol:
      return false;
    case sym::Kind::Const:
    case sym::Kind::Mod:
      return true;
    case sym::Kind::Poly:
      return std::all_of(e.node()->terms.begin(), e.node()->terms.end(),
                         [](const sym::Term& t) { return std::all_of(t.factors.begin(), t.factors.end(), is_of_remainders); });
    default:
      return std::all_of(e.node()->args.begin(), e.node()->args.end(), is_of_remainders);
  }
}

// Whether one side is the smaller or larger of the other side and something else: min(s, 100) == s holds for all sizes up to 100.
bool is_of_a_range(const sym::Relation& r) {
  const auto chooses = [](const Expr& e, const Expr& other) {
    const bool is_choice = e.kind() == sym::Kind::Min || e.kind() == sym::Kind::Max;
    return is_choice && (e.node()->args[0] == other || e.node()->args[1] == other);
  };
  return chooses(r.a, r.b) || chooses(r.b, r.a);
}

// The replacement that makes an equation between sizes hold, when it determines a symbol.
std::optional<std::pair<Expr, Expr>> solved(const sym::Relation& r, const Origins& origins) {
  if (r.rel != sym::Rel::Eq || is_of_remainders(r.a - r.b) || is_of_a_range(r)) return std::nullopt;
  auto backed = [&](const Expr& e) { return e.kind() == sym::Kind::Symbol && origins.count(e.node()->name); };
  if (backed(r.a) && backed(r.b)) return std::pair(r.b, r.a);
  std::optional<Expr> only;
  bool several = false;
  Expr difference = r.a - r.b;
  sym::for_each_symbol(difference, [&](const Expr& s) {
    if (only && !(*only == s)) several = true;
    only = s;
  });
  if (!only || several || !backed(*only)) return std::nullopt;
  return std::pair(*only, Expr(origins.at(only->node()->name).hint));
}

void refuse_fixing(const SymbolOrigin& s, const sym::Relation& guard, const std::string& place) {
  if (!s.policy.marked) return;
  fail<UserError>(
      "the {} was marked dynamic, but the function needs it to be {}: {} requires {}. Remove mark_dynamic, or change the function so that "
      "it works for other sizes",
      s.what, s.hint, place, sym::to_string(guard));
}

std::string range_text(int64_t min, int64_t max) {
  return max < sym::kInf - 1 ? fmt::format("from {} to {}", min, max) : fmt::format("for all sizes from {} on", min);
}

// What two symbols become that are equal: the second, with what their ranges have in common, as what was decided holds within both. A range
// that the caller has marked is not narrowed by one that he has not.
Replacements joined(const sym::Expr& gone, const sym::Expr& kept, Origins& origins, const std::string& place) {
  const sym::Node &a = *gone.node(), &b = *kept.node();
  const int64_t lo = std::max(a.lo, b.lo), hi = std::min(a.hi, b.hi);
  if (lo == b.lo && hi == b.hi) return {{a.name, kept}};
  SymbolOrigin &of_gone = origins.at(a.name), &of_kept = origins.at(b.name);
  TOROID_USER_CHECK(
      !of_kept.policy.marked || of_gone.policy.marked,
      "the {} was marked dynamic {}, but {} makes it equal to the {}, which was not marked and is open {}. Mark that one, too",
      of_kept.what, range_text(b.lo, b.hi), place, of_gone.what, range_text(a.lo, a.hi));
  of_kept.policy.min = lo, of_kept.policy.max = hi;
  const Expr common = sym::symbol(b.name, lo, hi);
  return {{a.name, common}, {b.name, common}};
}

// Whether the guard holds for all sizes of a range that one symbol of it has. What is linear is looked at at both ends. Else sizes are
// tried from the least on, which are all of a short range and all remainders of a long one, and the last.
bool holds_throughout(const sym::Relation& guard, const std::string& symbol, int64_t min, int64_t max) {
  constexpr int64_t kTried = 4096, kLargest = int64_t{1} << 40;
  const auto holds_at = [&](int64_t v) { return sym::holds(guard, [&](const sym::Node&) { return v; }); };
  if (!holds_at(min) || !holds_at(std::min(max, kLargest))) return false;
  const Expr difference = guard.a - guard.b;
  const auto slope = sym::linear_coefficient(difference, sym::symbol(symbol, min, max));
  const bool is_inequality = guard.rel != sym::Rel::Eq && guard.rel != sym::Rel::Ne;
  if (is_inequality && slope && slope->is_const()) return true;
  for (int64_t v = min; v <= max && v - min < kTried; ++v)
    if (!holds_at(v)) return false;
  return true;
}

// Marked ranges must lie inside of what a guard about one symbol allows.
void refuse_narrowing(const sym::Relation& guard, const Origins& origins, const std::string& place) {
  std::optional<std::string> only;
  bool several = false;
  auto collect = [&](const Expr& s) {
    if (only && *only != s.node()->name) several = true;
    only = s.node()->name;
  };
  sym::for_each_symbol(guard.a, collect);
  sym::for_each_symbol(guard.b, collect);
  if (!only || several) return;
  auto it = origins.find(*only);
  if (it == origins.end() || !it->second.policy.marked) return;
  const SizePolicy& p = it->second.policy;
  if (holds_throughout(guard, *only, p.min, p.max)) return;
  fail<UserError>("the {} was marked dynamic {}, but {} requires {}. {}", it->second.what, range_text(p.min, p.max), place,
                  sym::to_string(guard),
                  is_of_remainders(guard.a - guard.b) ? "Remove mark_dynamic, or change the function so that it works for other sizes"
                                                      : "Give mark_dynamic a range in which this holds");
}

}  // namespace

std::string with_sizes(std::string_view error, const Origins& origins) {
  const std::string_view text = error.substr(0, error.find(" (called at "));
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  std::string sizes;
  for (auto& [name, origin] : origins)
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      const size_t end = at + name.size();
      if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) continue;
      sizes += fmt::format("{}{} is {} ({})", sizes.empty() ? "" : ", ", name, origin.hint, origin.what);
      break;
    }
  if (sizes.empty() || text.find("; " + sizes) != text.npos) return {};
  return fmt::format("{}; {}{}", text, sizes, error.substr(text.size()));
}

std::vector<FixedSize> settle_guards(Graph& g, Origins origins, const std::vector<std::string>& places) {
  std::vector<FixedSize> fixed;
  std::map<std::string, std::vector<std::string>> equal;  // what else a symbol stands for
  auto place_of = [&](size_t i) { return i < places.size() ? places[i] : std::string("a comparison in the function"); };
  for (size_t i = 0; i < g.guards.size(); ++i) {
    sym::Relation r = g.guards[i];
    if (sym::known(r).value_or(false)) continue;
    auto s = solved(r, origins);
    if (!s) continue;
    if (s->second.is_const()) {
      const SymbolOrigin& origin = origins.at(s->first.node()->name);
      refuse_fixing(origin, r, place_of(i));
      const std::string why = fmt::format("{} requires {}", place_of(i), sym::to_string(r));
      fixed.push_back({origin.what, why});
      for (auto& what : equal[s->first.node()->name]) fixed.push_back({what, why});
    }
    if (!s->second.is_const() && origins.at(s->first.node()->name).policy.marked && !origins.at(s->second.node()->name).policy.marked)
      std::swap(s->first, s->second);
    if (!s->second.is_const()) {
      auto &here = equal[s->second.node()->name], &gone = equal[s->first.node()->name];
      here.push_back(origins.at(s->first.node()->name).what), here.insert(here.end(), gone.begin(), gone.end());
    }
    replace_in(g,
               s->second.is_const() ? Replacements{{s->first.node()->name, s->second}} : joined(s->first, s->second, origins, place_of(i)));
  }
  for (size_t i = 0; i < g.guards.size(); ++i)
    if (!g.guards[i].is_requirement() && !sym::known(g.guards[i])) refuse_narrowing(g.guards[i], origins, place_of(i));
  std::vector<sym::Guard> kept;
  for (auto& r : g.guards) {
    if (sym::known(r).value_or(false)) continue;
    bool twice = std::any_of(kept.begin(), kept.end(), [&](const sym::Relation& k) { return k.rel == r.rel && k.a == r.a && k.b == r.b; });
    if (!twice) kept.push_back(r);
  }
  g.guards = std::move(kept);
  return fixed;
}

}  // namespace toroid::trace
