// Where a module's forward() is in errors, graphs and reports.
#pragma once

#include <source_location>

#include "nn/errors.h"
#include "ops/call_place.h"
#include "toroid/nn/module.h"

namespace toroid::nn {

// What a forward() of this room calls is at its module's place, "encoder.fc2 (Linear), model.cpp:12", in place of a line of this room. Not
// for a forward() that runs layers of others, whose operations have lines of their own.
class LayerScope {
 public:
  explicit LayerScope(const Module& module);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

  // nn::require() with the place behind the message.
  template <class... A>
  void require(bool condition, fmt::format_string<A...> f, A&&... a) const {
    if (!condition) nn::require(false, "{} (called at {})", fmt::format(f, std::forward<A>(a)...), place_.text());
  }

 private:
  static std::string text(const void* module);
  ops::PlaceScope place_;
};

// Notes the line that calls a layer, unless a LayerScope is open: then that line is one of this room.
class CallerScope {
 public:
  explicit CallerScope(const std::source_location& where);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  const std::source_location* before_;
};

}  // namespace toroid::nn
