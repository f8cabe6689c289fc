// Errors of the C++ library as Toroid's own.
#pragma once

#include <string>

namespace toroid {

// Within a catch (...): throws what was caught again. What the C++ library throws where memory, threads or the file system fail becomes an
// EnvironmentError that begins with `what` ("cannot load m.onnx") and has the path that it names, and the reason.
[[noreturn]] void rethrow_as_ours(const std::string& what);

// What f returns, with errors as above.
template <class F>
auto with_our_errors(const std::string& what, F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_as_ours(what);
  }
}

}  // namespace toroid
