// Options of the process, and the keys of all options. What one compile goes by is a CompileOptions (base/compile_options.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_rows.h"
#include "toroid/options.h"

namespace toroid {

// Whose an option is; see base/option_rows.h.
enum class OptionScope : uint8_t { Process, Code, Tuning, Recording, Watching, Function };

enum class OptionId : uint8_t {
#define TOROID_OPTION_ID(key, ...) key,
  TOROID_OPTIONS(TOROID_OPTION_ID)
#undef TOROID_OPTION_ID
};
#define TOROID_COUNT_OPTION(...) +1
inline constexpr int kOptionCount = 0 TOROID_OPTIONS(TOROID_COUNT_OPTION);
#undef TOROID_COUNT_OPTION

// A key into the table that knows the type of its value, bool, int64_t or std::string, and whether the process or a compile has it:
// get_option takes the one, CompileOptions::get the other.
template <class T, bool of_process>
struct Option {
  OptionId id;
};

namespace option_types {
using Bool = bool;
using Int = int64_t;
using String = std::string;
}  // namespace option_types

namespace options {
#define TOROID_OPTION_KEY(key, scope, type, ...) \
  inline constexpr Option<option_types::type, OptionScope::scope == OptionScope::Process> k##key{OptionId::key};
TOROID_OPTIONS(TOROID_OPTION_KEY)
#undef TOROID_OPTION_KEY
}  // namespace options

// The value now. The first access to any option reads the environment; a bad value there is a UserError that names the variable, and so is
// a variable whose name looks like that of an option and is none.
bool get_option(Option<bool, true> key);
int64_t get_option(Option<int64_t, true> key);
std::string get_option(Option<std::string, true> key);

// From now on another value would come too late: setting one is a UserError that says so, with the reason ("the kernel threads run").
void settle_option_id(OptionId id, std::string_view reason);
template <class T>
void settle_option(Option<T, true> key, std::string_view reason) {
  settle_option_id(key.id, reason);
}

// Grows with every set_option: whoever keeps something derived from options compares it.
uint64_t options_version();

// Variables TOROID_<NAME> of the environment that are no option's and nothing else that Toroid reads: a complaint each.
std::vector<std::string> unknown_variables();

// Sets an option for the life of this object and puts the old value back, settled or not. For the whole process, not for one thread.
class ScopedOption {
 public:
  ScopedOption(std::string_view name, std::string_view value);
  ~ScopedOption();
  ScopedOption(const ScopedOption&) = delete;
  ScopedOption& operator=(const ScopedOption&) = delete;

 private:
  std::string name_, old_;
};

}  // namespace toroid
