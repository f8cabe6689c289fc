// Rows of the table as people read them: docs/ops.md, `toroid ops`.
#pragma once

#include <string>

#include "ops/op.h"

namespace toroid::ops {

// "add.Tensor(Tensor self, Tensor other, Scalar alpha=1) -> Tensor", without the parameters that Toroid ignores.
std::string schema_text(const Op& op);

// How a row is defined: "formula", "view", "composite", "template or composite", "kernel".
std::string kind_text(const Op& op);

// A row's name without its overload: "add".
std::string base_name(const Op& op);

// What people write for an operation as the table's name: "aten::add", "torch.ops.aten.add.default" and "torch.add" are "add",
// "torch.special.erfcx" is "special_erfcx", "torchvision::nms" is "torchvision.nms".
std::string table_name(std::string_view written);

}  // namespace toroid::ops
