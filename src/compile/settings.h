// Options of one compiled function, checked, and what they mean for a compile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/backend.h"
#include "toroid/compile.h"

namespace toroid::front {

struct Settings {
  Backend backend;
  BackendOptions backend_options;
  bool fail_on_recompile_limit = false;
  bool verify_trace = false;
  int64_t recompile_limit = -1;                           // -1: the option recompile_limit of the process
  std::vector<std::pair<std::string, std::string>> base;  // options of base/options.h, set while this function compiles
};

// UserError for an unknown option (with near names) or a bad value.
Settings read_settings(const CompileConfig& config);

// Calls f with the function's base options in force. They are options of the process, so that such compiles run alone.
Program with_base_options(const Settings& settings, const std::function<Program()>& f);

// Dimensions that mark_dynamic and mark_static named; kFree elsewhere.
struct Mark {
  enum Kind : uint8_t { kFree, kDynamic, kStatic } kind = kFree;
  int64_t min = 2, max = 0;
};
// One entry a dimension; empty when t has no marks.
std::vector<Mark> marks_of(const Tensor& t);

Stance current_stance();
// Grows with every reset() of the process.
uint64_t reset_count();

}  // namespace toroid::front
