#include "ops/call_place.h"

#include "base/text.h"

namespace toroid::ops {
namespace {
thread_local const PlaceScope* innermost_place = nullptr;
}  // namespace

PlaceScope::PlaceScope(const std::string& place)
    : text_([](const void* of) { return *static_cast<const std::string*>(of); }), of_(&place), before_(innermost_place) {
  if (!place.empty()) innermost_place = this;
}
PlaceScope::PlaceScope(std::string (*text)(const void* of), const void* of) : text_(text), of_(of), before_(innermost_place) {
  innermost_place = this;
}
PlaceScope::~PlaceScope() { innermost_place = before_; }

std::string told_at(const std::source_location& where, std::string what) {
  const std::string line = line_text(where);
  const bool has_line = what.find(" (called at ") != what.npos || what.find(line.substr(0, line.rfind(':') + 1)) != what.npos;
  return has_line ? what : what + " (called at " + place_text(where) + ")";
}

std::string place_text(const std::source_location& where) { return innermost_place ? innermost_place->text() : line_text(where); }

}  // namespace toroid::ops
