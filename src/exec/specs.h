// What programs take and return, by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/plan.h"
#include "toroid/tensor_spec.h"

namespace toroid::exec {

// In the order of run().
std::vector<TensorSpec> inputs_of(const Plan& plan);
// names: of each; none: output0, output1, ...
std::vector<TensorSpec> outputs_of(const Plan& plan, const std::vector<std::string>& names);

// The tensors in the order of the inputs. what: "the model", for messages. UserError for a name that no input has, with the nearest ones,
// for inputs that are not given, and where two inputs have one name.
std::vector<Tensor> in_order(const std::vector<TensorSpec>& inputs, const std::map<std::string, Tensor>& given, const std::string& what);
// The results by the names of the outputs, without those that are no tensors. UserError where two have one name.
std::map<std::string, Tensor> by_name(const std::vector<TensorSpec>& outputs, const std::vector<Tensor>& results, const std::string& what);

}  // namespace toroid::exec
