// What is known of tensors that were, or are, parameters: so that an error can say why a loss does not depend on them.
#pragma once

#include <functional>
#include <string>

#include "toroid/tensor.h"

namespace toroid::detail {

// Another tensor has taken its place in a module. where: "up.weight, by load_state()".
void note_replaced(const Tensor& t, const std::string& where);
// It is what its owner goes on with, as copies in a wider dtype are.
void withdraw_replaced(const Tensor& t);
// Who hands it out as a module's parameter tells by `replaced` whether the module has another one in its place by now, and since what;
// empty: it has not.
void note_held(const Tensor& t, std::function<std::string()> replaced);
// As noted, or as who holds it tells; empty where it was not.
std::string replaced(const Tensor& t);

// An optimizer steps it, until it withdraws that.
void note_trained(const Tensor& t);
void withdraw_trained(const Tensor& t);
bool is_trained(const Tensor& t);

}  // namespace toroid::detail
