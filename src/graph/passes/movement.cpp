#include "graph/passes/movement.h"

#include <set>
#include <string>

namespace toroid::graph {
namespace {

using Names = std::set<std::string_view>;

}  // namespace

bool is_copy(const ops::Op& op) {
  static const Names& names =
      *new Names{"alias", "alias_copy", "detach", "detach_copy", "clone", "contiguous", "lift_fresh", "lift_fresh_copy"};
  return names.count(op.name) > 0;
}

bool is_reshape(const ops::Op& op) {
  static const Names& names = *new Names{"view",    "view_copy",   "_unsafe_view", "reshape",   "flatten.using_ints", "unflatten.int",
                                         "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "_reshape_alias"};
  return names.count(op.name) > 0;
}

bool is_permute(const ops::Op& op) {
  static const Names& names = *new Names{"permute", "permute_copy", "transpose.int",   "t",        "numpy_T",
                                         "mT",      "movedim.int",  "movedim.intlist", "swapdims", "swapaxes"};
  return names.count(op.name) > 0;
}

bool is_expand(const ops::Op& op) { return op.name == "expand" || op.name == "broadcast_to"; }

bool is_cast(const ops::Op& op) {
  static const Names& names =
      *new Names{"_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as", "prims.convert_element_type"};
  return names.count(op.name) > 0;
}

std::vector<size_t> permutation(const Node& n) {
  const size_t rank = n.results[0]->type.sizes.size();
  std::vector<Expr> index;
  for (size_t d = 0; d < rank; ++d) index.push_back(sym::loop_symbol("i" + std::to_string(d)));
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : n.args)
    types.push_back(map_arg<const TensorType*>(a, [](Value* v) -> const TensorType* { return v ? &v->type : nullptr; }));
  const auto from = n.op->index_map(ops::TypeReader(*n.op, types), 0, index);
  std::vector<size_t> dims(rank);
  for (size_t s = 0; s < rank; ++s)
    for (size_t d = 0; d < rank; ++d)
      if (from[s] == index[d]) dims[d] = s;
  return dims;
}

}  // namespace toroid::graph
