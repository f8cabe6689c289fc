// What belongs to loop variables: a map whose keys are variables, not their names.
#pragma once

#include <map>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::loop {

template <class T>
class VarMap {
 public:
  // The entry of a loop variable, made where it is missing. InternalError for what is no loop variable.
  T& operator[](const Expr& var) { return entries_[id_of(var)]; }
  // InternalError where there is none.
  const T& at(const Expr& var) const {
    const auto it = entries_.find(id_of(var));
    TOROID_CHECK(it != entries_.end(), "the variable {} has no entry", var.node()->name);
    return it->second;
  }
  // The entry of a symbol; null for variables without one, and for sizes and values.
  const T* find(const sym::Node& n) const {
    if (!sym::is_loop_var(n)) return nullptr;
    const auto it = entries_.find(n.id);
    return it == entries_.end() ? nullptr : &it->second;
  }
  // Adds entries of variables that have none here.
  void insert(const VarMap& other) { entries_.insert(other.entries_.begin(), other.entries_.end()); }

 private:
  static int64_t id_of(const Expr& var) {
    TOROID_CHECK(var.node() && sym::is_loop_var(*var.node()), "{} is no loop variable", sym::to_string(var));
    return var.node()->id;
  }
  std::map<int64_t, T> entries_;
};

// What takes the variables' places.
inline sym::Substitution replacing(const VarMap<Expr>& map) {
  return [&map](const sym::Node& n) {
    const Expr* e = map.find(n);
    return e ? std::optional<Expr>(*e) : std::nullopt;
  };
}

}  // namespace toroid::loop
