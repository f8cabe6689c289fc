// What tests ask of errors.
#pragma once

#include <string>

#include "toroid/error.h"

namespace toroid::test {

// The text of the error of this kind that f() throws; "no error" where it throws none.
template <class Error, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
template <class F>
std::string user_error(F&& f) {
  return error_of<UserError>(f);
}
template <class F>
std::string environment_error(F&& f) {
  return error_of<EnvironmentError>(f);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace toroid::test
