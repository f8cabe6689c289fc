#include "base/index_fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace toroid {
namespace {

constexpr std::string_view kRuleNames[] = {"probability", "not_negative", "weight", "total", "at_least", "at_most"};
constexpr std::string_view kWanted[] = {"must be in 0..1", "must not be negative", "must be finite and not negative",
                                        "must be finite and above 0"};
constexpr std::string_view kFound[] = {"right", "NaN", "negative", "infinite", "above 1", "0"};

std::string value_error(const IndexSite& site, ValueRule rule, int64_t found, int64_t bound, const std::string& place) {
  if (rule == ValueRule::AtLeast) return fmt::format("{}: {}; at least {} expected{}", site.operation, found, bound, place);
  if (rule == ValueRule::AtMost) return fmt::format("{}: {}; 0 up to {} expected{}", site.operation, found, bound, place);
  return fmt::format("{} is {}; it {}{}", site.operation, kFound[static_cast<size_t>(found)], kWanted[static_cast<size_t>(rule)], place);
}

}  // namespace

std::string_view name_of(ValueRule rule) { return kRuleNames[static_cast<size_t>(rule)]; }

ValueRule value_rule(std::string_view name) {
  for (ValueRule r : kValueRules)
    if (name_of(r) == name) return r;
  fail<UserError>("there is no rule of values \"{}\"; there are {}", name, fmt::join(kRuleNames, ", "));
}

std::string index_error(const IndexSite& site, int64_t index, int64_t size) {
  const std::string place = site.where.empty() ? "" : fmt::format(" (called at {})", site.where);
  if (site.dim == IndexSite::kDivisor) return fmt::format("{}: division of integers by zero{}", site.operation, place);
  if (site.dim == IndexSite::kRank && size < 0)
    return fmt::format("{}: rank {} runs another operation, data type, size or reduction at this point{}", site.operation, index, place);
  if (site.dim == IndexSite::kRank) return fmt::format("{}: rank {} has not come within {} ms{}", site.operation, index, size, place);
  for (ValueRule rule : kValueRules)
    if (site.dim == IndexSite::of(rule)) return value_error(site, rule, index, size, place);
  const std::string range =
      site.dim < 0 ? fmt::format("a tensor of {} elements", size) : fmt::format("dimension {} of size {}", site.dim, size);
  return fmt::format("{}: index {} is out of range for {}{}{}", site.operation, index, range,
                     index < 0 && !site.wraps ? "; negative ones do not count from the end here" : "", place);
}

std::string index_error(const IndexSite& site, const IndexFault& fault) {
  if (site.dim == IndexSite::of(ValueRule::AtLeast)) return index_error(site, -1 - fault.index, fault.size);
  if (site.dim == IndexSite::of(ValueRule::AtMost)) return index_error(site, fault.index, fault.size - 1);
  return index_error(site, site.wraps && fault.index < 0 ? fault.index - fault.size : fault.index, fault.size);
}

namespace {
constinit thread_local const std::string* place = nullptr;
}

void fail_at(const IndexSite& site, const IndexFault& fault) {
  const std::string what = index_error(site, fault);
  if (site.dim == IndexSite::kRank && fault.size >= 0) fail<EnvironmentError>("{}", what);
  fail<UserError>("{}", what);
}

OperationPlace::OperationPlace(const std::string& where) : before_(place) { place = &where; }
OperationPlace::~OperationPlace() { place = before_; }
std::string OperationPlace::current() { return place ? *place : std::string(); }

}  // namespace toroid
