#include "front/scalar_arguments.h"

#include <bit>

#include "base/check.h"

namespace toroid::front {

using detail::ArgumentView;

std::vector<Scalar> scalars_of(std::span<const ArgumentView> arguments) {
  std::vector<Scalar> out;
  for (auto& a : arguments) {
    if (auto* list = std::get_if<const std::vector<Tensor>*>(&a))
      out.emplace_back(static_cast<int64_t>((*list)->size()));
    else if (auto* i = std::get_if<int64_t>(&a))
      out.emplace_back(*i);
    else if (auto* d = std::get_if<double>(&a))
      out.emplace_back(*d);
    else if (auto* b = std::get_if<bool>(&a))
      out.emplace_back(*b);
    else if (auto* s = std::get_if<std::string_view>(&a))
      out.emplace_back(std::string(*s));
  }
  return out;
}

bool equal(const ArgumentView& a, const Scalar& s) {
  if (auto* list = std::get_if<const std::vector<Tensor>*>(&a))
    return std::get_if<int64_t>(&s) && std::get<int64_t>(s) == static_cast<int64_t>((*list)->size());
  if (auto* i = std::get_if<int64_t>(&a)) return std::get_if<int64_t>(&s) && std::get<int64_t>(s) == *i;
  if (auto* d = std::get_if<double>(&a))  // by bits: 1 / 0. and 1 / -0. are not equal, and what is no number is equal to itself
    return std::get_if<double>(&s) && std::bit_cast<uint64_t>(std::get<double>(s)) == std::bit_cast<uint64_t>(*d);
  if (auto* b = std::get_if<bool>(&a)) return std::get_if<bool>(&s) && std::get<bool>(s) == *b;
  if (auto* t = std::get_if<std::string_view>(&a)) return std::get_if<std::string>(&s) && std::get<std::string>(s) == *t;
  return false;
}

std::string text_of(const Scalar& s) {
  if (auto* i = std::get_if<int64_t>(&s)) return std::to_string(*i);
  if (auto* d = std::get_if<double>(&s)) return fmt::format("{}", *d);
  if (auto* b = std::get_if<bool>(&s)) return *b ? "true" : "false";
  return "\"" + std::get<std::string>(s) + "\"";
}

}  // namespace toroid::front
