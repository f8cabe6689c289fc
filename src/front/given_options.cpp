#include "front/given_options.h"

#include "base/check.h"
#include "base/compile_options.h"

namespace toroid::front {

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

}  // namespace toroid::front
