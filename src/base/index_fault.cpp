#include "base/index_fault.h"

#include <fmt/format.h>

#include "base/check.h"

namespace toroid {

std::string index_error(const IndexSite& site, int64_t index, int64_t size) {
  const std::string place = site.where.empty() ? "" : fmt::format(" (called at {})", site.where);
  if (site.dim == IndexSite::kDivisor) return fmt::format("{}: division of integers by zero{}", site.operation, place);
  if (site.dim == IndexSite::kRank && size < 0)
    return fmt::format("{}: rank {} runs another operation, data type, size or reduction at this point{}", site.operation, index, place);
  if (site.dim == IndexSite::kRank) return fmt::format("{}: rank {} has not come within {} ms{}", site.operation, index, size, place);
  const std::string range =
      site.dim < 0 ? fmt::format("a tensor of {} elements", size) : fmt::format("dimension {} of size {}", site.dim, size);
  return fmt::format("{}: index {} is out of range for {}{}{}", site.operation, index, range,
                     index < 0 && !site.wraps ? "; negative ones do not count from the end here" : "", place);
}

std::string index_error(const IndexSite& site, const IndexFault& fault) {
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
