#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/check.h"

namespace toroid {

SharedLibrary::SharedLibrary(std::string what, std::span<const char* const> names, const std::string& folder, const std::string& remedy)
    : what_(std::move(what)) {
  std::string reasons;
  for (const std::string& prefix : {folder.empty() ? std::string() : folder + "/", std::string()}) {
    for (const char* name : names) {
      path_ = prefix + name;
      handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
      const char* why = ::dlerror();
      reasons += fmt::format("\n  {}", why ? why : path_);
    }
    if (prefix.empty()) break;
  }
  fail<EnvironmentError>("{} cannot be loaded:{}\n{}", what_, reasons, remedy);
}

void* SharedLibrary::find(const char* name) const {
  void* address = ::dlsym(handle_, name);
  if (!address) fail<EnvironmentError>("{} ({}) has no function {}: it is too old or not the library of that name", what_, path_, name);
  return address;
}

}  // namespace toroid
