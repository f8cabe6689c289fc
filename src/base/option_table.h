// The rows of the table of options as values, and the one form of an option's value.
#pragma once

#include <span>

#include "base/options.h"

namespace toroid {

enum class OptionType : uint8_t { Bool, Int, String };

// The value in its one form; UserError, which begins with `what`, for a bad one.
using Canonical = std::string (*)(std::string_view value, std::string_view what);

struct OptionRow {
  OptionId id;
  OptionScope scope;
  OptionType type;
  std::string_view name, default_value, doc;
  int64_t max = 0;                // Int
  Canonical canonical = nullptr;  // String; null: any text
};

std::span<const OptionRow> option_rows();
const OptionRow& row_of(OptionId id);
// UserError with near names for others.
const OptionRow& find_option(std::string_view name);

// The value in its one form: bools are 0 or 1, integers have no leading zeros, lists no blanks. UserError for a bad one.
std::string canonical(const OptionRow& row, std::string_view value, std::string_view what);
// Of a bool or an integer in that form.
int64_t number_of(std::string_view canonical);

// TOROID_<NAME>.
std::string environment_name(const OptionRow& row);

}  // namespace toroid
