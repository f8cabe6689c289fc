// Signatures of operations in ATen's notation: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
#pragma once

#include <string>
#include <vector>

#include "tensor/dispatch.h"

namespace toroid::ops {

enum class ParamType : uint8_t {
  Tensor,
  Scalar,
  Int,
  Float,
  Bool,
  Str,
  DType,
  Complex,
  Graph,
  Ignored /* layout, device, generator ... */
};

struct Param {
  std::string name;
  ParamType type = ParamType::Tensor;
  bool list = false;            // Tensor[], int[]
  bool optional = false;        // T?
  bool optional_items = false;  // Tensor?[]
  bool keyword_only = false;
  bool has_default = false;
  bool alias = false;     // (a): results may be views of it
  bool mutated = false;   // (a!)
  int64_t list_size = 0;  // int[2]: one number stands for two
  Arg<Tensor> default_value;
};

struct Return {
  ParamType type = ParamType::Tensor;
  bool list = false;
};

struct Schema {
  std::string name;  // without ".default"
  std::vector<Param> params;
  std::vector<Return> returns;
  // Position of a parameter, -1 when there is none of that name.
  int find(std::string_view param) const;
};

// UserError for malformed text, with the character from which on it is, and what is expected there.
Schema parse_schema(std::string_view text);

}  // namespace toroid::ops
