#include "program/ways.h"

namespace toroid::program {
namespace {

constexpr std::string_view kAlternative = "alternative ";

}  // namespace

std::optional<Implementation> library_of(const Config& way) {
  for (auto by : {Implementation::OneDnn, Implementation::CublasLt, Implementation::CuDnn})
    if (way.form == name_of(by)) return by;
  return std::nullopt;
}

Config alternative_way(std::string_view name) { return {std::string(kAlternative) + std::string(name), {}}; }

std::optional<std::string_view> alternative_of(const Config& way) {
  if (!way.form.starts_with(kAlternative)) return std::nullopt;
  return std::string_view(way.form).substr(kAlternative.size());
}

}  // namespace toroid::program
