#include "nn/layer_scope.h"

#include <cxxabi.h>
#include <fmt/core.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "base/text.h"

namespace toroid::nn {
namespace {

thread_local int open_scopes = 0;
thread_local const std::source_location* caller = nullptr;

// "Linear": the class of a module, without its namespaces.
std::string class_of(const Module& module) {
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(typeid(module).name(), nullptr, nullptr, nullptr), std::free);
  const std::string whole = name ? name.get() : "layer";
  const size_t colon = whole.substr(0, whole.find('<')).rfind("::");
  return colon == std::string::npos ? whole : whole.substr(colon + 2);
}

}  // namespace

LayerScope::LayerScope(const Module& module) : place_(text, &module) { ++open_scopes; }
LayerScope::~LayerScope() { --open_scopes; }

std::string LayerScope::text(const void* module) {
  const Module& m = *static_cast<const Module*>(module);
  const std::string path = m.path();
  const std::string what = path.empty() ? class_of(m) : fmt::format("{} ({})", path, class_of(m));
  return caller ? fmt::format("{}, {}", what, line_text(*caller)) : what;
}

CallerScope::CallerScope(const std::source_location& where) : before_(caller) {
  if (open_scopes == 0) caller = &where;
}
CallerScope::~CallerScope() { caller = before_; }

}  // namespace toroid::nn
