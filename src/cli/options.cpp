// toroid options: the options of the library.
#include "base/options.h"

#include <fmt/core.h>

#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "cli/commands.h"

namespace toroid::cli {
namespace {

bool has(std::string_view text, std::string_view word) { return text.find(word) != text.npos; }

std::string option_json(const OptionInfo& o) {
  return fmt::format("{{\"name\":{},\"type\":{},\"value\":{},\"default\":{},\"environment\":{},\"scope\":{},\"doc\":{}}}",
                     json_string(o.name), json_string(o.type), json_string(o.value), json_string(o.default_value),
                     o.environment.empty() ? "null" : json_string(o.environment), json_string(o.scope), json_string(o.doc));
}

void print_option(const OptionInfo& o) {
  const std::string value = o.type == "string" ? "\"" + o.value + "\"" : o.value;
  const std::string changed = o.value == o.default_value ? "" : fmt::format(" (default {})", o.default_value);
  const std::string where = o.environment.empty() ? "for compile() and Model::load alone" : o.environment;
  fmt::print("{} = {}{}, {}\n    {}\n", o.name, value, changed, where, o.doc);
}

}  // namespace

int options(const OptionsArgs& args) {
  std::string rows;
  std::vector<std::string_view> names;
  const std::vector<OptionInfo> all = list_options();
  for (auto& o : all) {
    names.push_back(o.name);
    if (!has(o.name, args.word) && !has(o.doc, args.word)) continue;
    rows += (rows.empty() ? "" : ",\n ") + option_json(o);
    if (!args.json) print_option(o);
  }
  if (rows.empty()) fail<UserError>("no option has \"{}\" in its name or its description{}", args.word, did_you_mean(args.word, names));
  if (args.json) fmt::print("[{}]\n", rows);
  return kOk;
}

}  // namespace toroid::cli
