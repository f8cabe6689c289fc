// Who calls operations: the place that errors, graphs and reports name.
#pragma once

#include <source_location>
#include <string>
#include <utility>

#include "toroid/error.h"

namespace toroid::ops {

// line_text(where), or that of the innermost PlaceScope of the thread, if there is one.
std::string place_text(const std::source_location& where);

// Calls on behalf of others are at the place of those.
class PlaceScope {
 public:
  // An empty place changes nothing. `place` outlives the scope.
  explicit PlaceScope(const std::string& place);
  // text(of) makes the place when somebody asks for it.
  PlaceScope(std::string (*text)(const void* of), const void* of);
  ~PlaceScope();
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

  std::string text() const { return text_(of_); }

 private:
  std::string (*text_)(const void* of);
  const void* of_;
  const PlaceScope* before_;
};

// `what`, and behind it the place, unless it names a line already, of the same file or of a call.
std::string told_at(const std::source_location& where, std::string what);

// Calls fn. What is wrong in the user's call is told with its place.
template <class F>
decltype(auto) at_place(const std::source_location& where, F&& fn) {
  try {
    return std::forward<F>(fn)();
  } catch (const UserError& e) {
    throw UserError(told_at(where, e.what()));
  }
}

}  // namespace toroid::ops
