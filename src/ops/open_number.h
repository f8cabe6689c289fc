// What a row throws that is given an open size where it needs a number.
#pragma once

#include <utility>

#include "toroid/error.h"
#include "toroid/sym_expr.h"

namespace toroid::ops {

// Who records the call may fix the size by a guard, and call again with the number.
class OpenNumber : public UserError {
 public:
  OpenNumber(const std::string& what, Expr size) : UserError(what), size_(std::move(size)) {}
  const Expr& size() const { return size_; }

 private:
  Expr size_;
};

}  // namespace toroid::ops
