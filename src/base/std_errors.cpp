#include "base/std_errors.h"

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/check.h"

namespace toroid {

void rethrow_as_ours(const std::string& what) {
  try {
    throw;
  } catch (const std::filesystem::filesystem_error& e) {
    const std::string second = e.path2().empty() ? "" : fmt::format(" and \"{}\"", e.path2().string());
    const std::string paths = e.path1().empty() ? "" : fmt::format(" (\"{}\"{})", e.path1().string(), second);
    fail<EnvironmentError>("{}: {}{}; check the path and the permissions of its folders", what, e.code().message(), paths);
  } catch (const std::system_error& e) {
    fail<EnvironmentError>("{}: {}", what, e.what());
  } catch (const std::bad_alloc&) {
    fail<EnvironmentError>("{}: there is not enough memory", what);
  } catch (const std::length_error&) {  // more elements than any memory has
    fail<EnvironmentError>("{}: there is not enough memory", what);
  }
}

}  // namespace toroid
