// Reads JSON configurations into flat maps.
#include "base/check.h"
#include "base/files.h"
#include "import/json.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

// The depth is bounded by the reader's own limit on levels.
void flatten(const std::string& key, const import::Json& v, std::map<std::string, ConfigValue>& out) {
  auto inside = [&](std::string_view name) { return key.empty() ? std::string(name) : key + "." + std::string(name); };
  switch (v.kind()) {
    case import::JsonKind::Object:
      for (size_t i = 0; i < v.size(); ++i) flatten(inside(v.key(i)), v.value(i), out);
      break;
    case import::JsonKind::Array:
      for (size_t i = 0; i < v.size(); ++i) flatten(inside(std::to_string(i)), v[i], out);
      break;
    case import::JsonKind::Null:
      out[key] = std::monostate{};
      break;
    case import::JsonKind::Bool:
      out[key] = v.as_bool();
      break;
    case import::JsonKind::Int:
      out[key] = v.as_int();
      break;
    case import::JsonKind::Double:
      out[key] = v.as_double();
      break;
    case import::JsonKind::String:
      out[key] = std::string(v.as_str());
      break;
  }
}

}  // namespace

std::map<std::string, ConfigValue> load_config(const std::string& path) {
  FileBytes file(path);
  auto document = import::JsonDocument::parse(file.text(), path);
  TOROID_USER_CHECK(document.root().is_object(), "{}: expected a JSON object", path);
  std::map<std::string, ConfigValue> out;
  flatten("", document.root(), out);
  return out;
}

}  // namespace toroid
