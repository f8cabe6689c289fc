// Options of one compiled function, checked, and what they mean for a compile.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "front/backend.h"
#include "toroid/compile.h"

namespace toroid::front {

struct Settings {
  Backend backend;
  std::map<std::string, std::string> own;  // options that the function was given
  bool fail_on_recompile_limit = false;
  bool verify_trace = false;
};

// UserError for an unknown option (with near names), a bad value, and an option of the process.
Settings read_settings(const CompileConfig& config);

// What a compile of the function goes by: what the process's options say, and in their place the function's own. Read at each call, by
// two comparisons where nothing has changed.
struct OptionsNow {
  uint64_t version = 0;  // options_version() that they are of
  CompileOptions options;
  uint64_t key = 0;  // number_of_key(options)
};
std::shared_ptr<const OptionsNow> options_now(const Settings& settings);

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
