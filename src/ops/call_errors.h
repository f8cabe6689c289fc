// Who called an operation wrongly, and where: what the rule of an operation cannot know when it refuses its arguments.
#pragma once

#include <source_location>

#include "ops/call_place.h"
#include "ops/op.h"
#include "toroid/error.h"

namespace toroid::ops {

// `what` as the error of a call of op at `place`: with the operation's name in front, if another says it (a part of a composite), and the
// place behind.
std::string call_error(std::string_view what, const Op& op, std::string_view place);

// Throws e as the error of a call of op at `where`: with the operation's name in front, if another says it (a part of a composite), and
// the source line behind.
[[noreturn]] void fail_call(const UserError& e, const Op& op, const std::source_location& where);

// What call() returns, or its UserError by fail_call(). What the functions of custom operations throw says in which it was, too.
template <class F>
auto checked_call(const Op& op, const std::source_location& where, F&& call) {
  try {
    return call();
  } catch (const UserError& e) {
    fail_call(e, op, where);
  }
}

// UserError unless what an in-place operation computes has the sizes of what it is written to, or broadcasts to them. Open sizes are
// demanded to be equal.
void check_fits(const Op& op, const std::vector<Expr>& result, const std::vector<Expr>& self,
                const std::function<void(const sym::Relation&, const std::string& error)>& demand = {});

}  // namespace toroid::ops
