// compile() of modules.
#pragma once

#include <concepts>
#include <utility>

#include "toroid/compile.h"
#include "toroid/nn/module.h"

namespace toroid {

// The compiled form of module.forward(), of its arguments and results: compile(net)(x). The module must outlive it; what Module says of
// functions that call its forward() holds. An overloaded forward() is chosen by the arguments of the call.
template <std::derived_from<nn::Module> M>
auto compile(M& module, CompileConfig config = {}) {
  return compile([&module](const auto&... arguments) { return module.forward(arguments...); }, std::move(config));
}

}  // namespace toroid
