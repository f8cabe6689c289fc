// Factorisations whose factors are not unique, and what their product must be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "toroid/tensor.h"

namespace toroid::cli {

struct FactorCheck {
  std::string_view op;
  unsigned loose;  // bit i: result i is not unique
  // What is wrong with the results for this matrix; nothing when they are factors of it.
  std::optional<std::string> (*run)(const Tensor& matrix, std::span<const Tensor> results);
};

// nullptr for an operation whose results are unique.
const FactorCheck* factor_check(std::string_view op);
inline bool is_one_of_results(const FactorCheck& check, size_t result) { return result < 32 && (check.loose >> result & 1u); }

}  // namespace toroid::cli
