// The numbers behind size symbols during a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "toroid/sym_expr.h"

namespace toroid::exec {

using Symbols = std::vector<std::pair<std::string, int64_t>>;

// "s0=16, s1=3"; "fixed sizes" for none.
std::string to_string(const Symbols& symbols);
// InternalError for a symbol that has no value yet.
int64_t value_of(const Symbols& symbols, const std::string& name);
int64_t evaluate(const Expr& e, const Symbols& symbols);
std::vector<int64_t> evaluate(const std::vector<Expr>& list, const Symbols& symbols);
std::string sizes_text(const std::vector<int64_t>& sizes);  // "[2, 3]"

}  // namespace toroid::exec
