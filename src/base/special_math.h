// Special functions for the host, and their text for generated kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace toroid {

// One function of the text: "digamma" and "SPECIAL_FN double sp_digamma(double x) {...}".
struct SpecialText {
  std::string_view name;
  std::string_view code;
};

// Every special function and helper, in an order in which each uses only earlier ones. SPECIAL_FN stands for the storage class.
std::span<const SpecialText> special_texts();

using SpecialUnary = double (*)(double);
using SpecialBinary = double (*)(double, double);

// Host functions by name ("digamma", "i0e", "chebyshev_t" ...). Null when there is no such function of that arity.
SpecialUnary find_special_unary(std::string_view name);
SpecialBinary find_special_binary(std::string_view name);

// Names of all unary, then binary functions over floats; kernels get a wrapper for each.
std::span<const std::string_view> special_unary_names();
std::span<const std::string_view> special_binary_names();

// Greatest common divisor and least common multiple; the sign of the arguments does not matter. Overflow wraps.
int64_t special_gcd(int64_t a, int64_t b);
int64_t special_lcm(int64_t a, int64_t b);

}  // namespace toroid
