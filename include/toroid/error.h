// The three kinds of error that Toroid throws. The library never prints, exits or aborts.
#pragma once

#include <stdexcept>
#include <string>

namespace toroid {

// Base of all errors. what() says what happened, where, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the caller passed is not acceptable (a shape, a dtype, a file, an option).
class UserError : public Error {
 public:
  using Error::Error;
};

// A bug in Toroid.
class InternalError : public Error {
 public:
  using Error::Error;
};

// Something outside is missing or refuses: a library, a driver, memory, a permission, disk space.
class EnvironmentError : public Error {
 public:
  using Error::Error;
};

}  // namespace toroid
