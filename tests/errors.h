// What tests ask of errors.
#pragma once

#include <string>

#include "toroid/error.h"

namespace toroid::test {

// The text of the UserError that f() throws; "no error" where it throws none.
template <class F>
std::string user_error(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace toroid::test
