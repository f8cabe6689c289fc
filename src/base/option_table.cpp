// What each option's values may be.
#include "base/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "base/log.h"
#include "base/pattern.h"
#include "base/text.h"
#include "toroid/mode.h"

namespace toroid {
namespace {

using Names = std::span<const std::string_view>;

std::string one_of(std::string_view value, std::string_view what, Names known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return std::string(value);
  std::string list;
  for (size_t i = 0; i < known.size(); ++i) list += fmt::format("{}{}", i == 0 ? "" : i + 1 == known.size() ? " or " : ", ", known[i]);
  fail<UserError>("{}: \"{}\" is not known; expected {}", what, value, list);
}

std::string some_of(std::string_view value, std::string_view what, Names known) {
  const auto names = split_list(value);
  for (std::string_view name : names)
    if (std::find(known.begin(), known.end(), name) == known.end() || std::count(names.begin(), names.end(), name) > 1)
      fail<UserError>("{}: \"{}\" is not acceptable; expected a comma-separated list of {}, each at most once", what, value,
                      fmt::join(known, " and "));
  if (names.empty()) fail<UserError>("{}: the list is empty; expected one or more of {}", what, fmt::join(known, " and "));
  return fmt::format("{}", fmt::join(names, ","));
}

std::string isa(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"auto", "avx2", "avx512", "scalar"};
  return one_of(value, what, kKnown);
}

std::string gemm_backends(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"template", "onednn", "cublaslt"};
  return some_of(value, what, kKnown);
}

std::string conv_backends(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"template", "onednn", "cudnn"};
  return some_of(value, what, kKnown);
}

std::string capture_results(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"own", "pool", "pool-clone"};
  return one_of(value, what, kKnown);
}

std::string collective_order(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"ranks", "any"};
  return one_of(value, what, kKnown);
}

std::string over_budget(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"evict", "refuse"};
  return one_of(value, what, kKnown);
}

std::string fusion_types(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"epilogue", "prologue", "cross_subgraph"};
  return value == "none" ? "none" : some_of(value, what, kKnown);
}

std::string tune_backends(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"template", "subgraph", "onednn", "cublaslt", "cudnn"};
  return value == "none" ? "none" : some_of(value, what, kKnown);
}

std::string regex(std::string_view value, std::string_view what) {
  try {
    to_pattern(value);
  } catch (const std::regex_error& e) {
    fail<UserError>("{}: \"{}\" is no regular expression (of ECMAScript): {}", what, value, e.what());
  }
  return std::string(value);
}

std::string logs(std::string_view value, std::string_view) {
  parse_artifacts(value);
  return fmt::format("{}", fmt::join(split_list(value), ","));
}

std::string mode(std::string_view value, std::string_view what) { return one_of(value, what, kModeNames); }

// Bools stand for the two ends.
std::string fusion(std::string_view value, std::string_view what) {
  for (std::string_view yes : {"1", "true", "on", "yes"})
    if (value == yes) return "all";
  for (std::string_view no : {"0", "false", "off", "no"})
    if (value == no) return "none";
  return one_of(value, what, kFusionNames);
}

std::string activation_memory_budget(std::string_view value, std::string_view what) {
  if (value == "off") return "off";
  constexpr std::pair<std::string_view, double> kUnits[] = {{"B", 1},         {"kB", 1e3},      {"MB", 1e6},     {"GB", 1e9},
                                                            {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  double number = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && number >= 0) {
    const std::string_view rest(end, static_cast<size_t>(value.data() + value.size() - end));
    if (rest.empty() && number <= 1) return fmt::format("{}", number);
    for (auto& [unit, bytes] : kUnits)
      if (rest == unit && number * bytes < 1e15) return fmt::format("{}B", static_cast<int64_t>(number * bytes));
  }
  fail<UserError>("{}: \"{}\" is not acceptable; expected a number from 0 to 1, bytes (as \"500MB\" or \"2GiB\"), or off", what, value);
}

// What a row ends with: nothing, an Int's maximum, or a String's form.
struct Rest {
  int64_t max = 0;
  Canonical canonical = nullptr;
  constexpr Rest() = default;
  constexpr Rest(int64_t m) : max(m) {}
  constexpr Rest(Canonical c) : canonical(c) {}
};

constexpr OptionRow row(OptionId id, OptionScope scope, OptionType type, std::string_view name, std::string_view default_value,
                        std::string_view doc, Rest rest = {}) {
  return {id, scope, type, name, default_value, doc, rest.max, rest.canonical};
}

#define TOROID_OPTION_ROW(key, scope, type, ...) row(OptionId::key, OptionScope::scope, OptionType::type, __VA_ARGS__),
constexpr OptionRow kRows[] = {TOROID_OPTIONS(TOROID_OPTION_ROW)};
#undef TOROID_OPTION_ROW
static_assert(std::size(kRows) == kOptionCount);

// The row's sentence says what it switches on, and may name another option that takes the value.
std::string canonical_bool(const OptionRow& row, std::string_view value, std::string_view what) {
  for (std::string_view yes : {"1", "true", "on", "yes"})
    if (value == yes) return "1";
  for (std::string_view no : {"0", "false", "off", "no"})
    if (value == no) return "0";
  fail<UserError>("{}: \"{}\" is not a bool; expected 1/true/on/yes or 0/false/off/no (the default is {}; 1: {})", what, value,
                  row.default_value, row.doc);
}

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }
const OptionRow& row_of(OptionId id) { return kRows[static_cast<size_t>(id)]; }

const OptionRow& find_option(std::string_view name) {
  std::array<std::string_view, kOptionCount> names;
  for (size_t i = 0; i < names.size(); ++i) {
    if (kRows[i].name == name) return kRows[i];
    names[i] = kRows[i].name;
  }
  fail<UserError>("there is no option \"{}\"{}", name, did_you_mean(name, names));
}

int64_t number_of(std::string_view canonical) {
  int64_t number = 0;
  std::from_chars(canonical.data(), canonical.data() + canonical.size(), number);
  return number;
}

std::string canonical(const OptionRow& row, std::string_view value, std::string_view what) {
  if (row.type == OptionType::Bool) return canonical_bool(row, value, what);
  if (row.type == OptionType::String) return row.canonical ? row.canonical(value, what) : std::string(value);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc() || end != value.data() + value.size() || number < 0 || number > row.max)
    fail<UserError>("{}: \"{}\" is not acceptable; expected an integer from 0 to {}", what, value, row.max);
  return std::to_string(number);
}

std::string environment_name(const OptionRow& row) {
  std::string name = "TOROID_";
  for (char c : row.name) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

}  // namespace toroid
