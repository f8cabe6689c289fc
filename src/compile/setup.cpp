#include "compile/setup.h"

#include "base/check.h"

namespace toroid::compiler {

std::map<std::string, std::string> given_options(const std::vector<OptionField>& fields,
                                                 const std::map<std::string, std::string>& by_name) {
  const auto form = [](const std::string& name, const std::string& value) {
    CompileOptions one;
    one.set(name, value);
    return one;
  };
  std::map<std::string, std::string> out = by_name;
  for (auto& [name, value] : out) form(name, value);
  for (auto& f : fields) {
    const auto [it, fresh] = out.try_emplace(f.name, f.value);
    TOROID_USER_CHECK(fresh || f.value == f.default_value || form(f.name, it->second) == form(f.name, f.value),
                      "option {} is given twice: as \"{}\" in the options by name, and as \"{}\" in the field for it", f.name, it->second,
                      f.value);
  }
  return out;
}

Setup setup_of(const ModelOptions& options) {
  for (const char* name : {"backend", "fail_on_recompile_limit", "recompile_limit", "verify_trace"})
    TOROID_USER_CHECK(!options.options.count(name), "option {} is of compiled functions, and a model cannot have it: leave it out", name);
  TOROID_USER_CHECK(options.threads >= 0, "ModelOptions::threads is {}; expected the number of threads, or 0 for any", options.threads);
  const ModelOptions defaults;
  const auto name = [](auto value) { return std::string(name_of(value)); };
  const auto flag = [](bool on) { return std::string(on ? "1" : "0"); };
  const auto given = given_options({{"mode", name(options.mode), name(defaults.mode)},
                                    {"freezing", flag(options.freeze), flag(defaults.freeze)},
                                    {"templates", flag(options.templates), flag(defaults.templates)},
                                    {"max_threads", std::to_string(options.threads), "0"},
                                    {"fusion", name(options.fusion), name(defaults.fusion)}},
                                   options.options);
  return {options.device, CompileOptions::of_process().with(given)};
}

}  // namespace toroid::compiler
