#include "base/check.h"

#include <string_view>

namespace toroid {

void internal_failure(const char* condition, const char* file, int line, const std::string& message) {
  std::string_view path = file;
  if (auto at = path.find("src/"); at != std::string_view::npos) path.remove_prefix(at);
  fail<InternalError>("internal error at {}:{}: {}{}{} (this is a bug in Toroid)", path, line, condition, message.empty() ? "" : ": ",
                      message);
}

}  // namespace toroid
