// Libraries that are looked for while the program runs, so that it starts where they are missing.
#pragma once

#include <span>
#include <string>

namespace toroid {

class SharedLibrary {
 public:
  // Opens the first of `names` that can be opened: in `folder`, when that is not empty, then where the system's loader looks.
  // EnvironmentError that begins with `what` and tells why each could not be opened, and `remedy`. It stays open for ever.
  SharedLibrary(std::string what, std::span<const char* const> names, const std::string& folder, const std::string& remedy);

  const std::string& path() const { return path_; }
  // A function of the library. EnvironmentError when it has none of this name.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(find(name));
  }

 private:
  void* find(const char* name) const;

  std::string what_, path_;
  void* handle_ = nullptr;
};

}  // namespace toroid
