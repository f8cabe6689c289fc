#include "ops/strided_view.h"

#include <set>

#include "base/check.h"
#include "ops/reference.h"

namespace toroid::ops {
namespace {

// Views that keep the row-major order of the elements.
bool keeps_order(const std::string& name) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{
      "view",  "reshape", "flatten.using_ints", "unflatten.int", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
      "alias", "detach",  "_reshape_alias",     "contiguous",    "lift_fresh"};
  return names.count(name) > 0;
}

std::vector<int64_t> numbers(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (auto& e : exprs) out.push_back(e.constant());
  return out;
}

}  // namespace

std::vector<Tensor> strided_view(const Op& op, const CallArgs& args) {
  const Tensor& self = std::get<Tensor>(args.at(0));
  TensorType type{self.dtype(), {self.sizes().begin(), self.sizes().end()}, {}};
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : args) types.push_back(map_arg<const TensorType*>(a, [&](const Tensor&) -> const TensorType* { return &type; }));
  auto decide = [](const sym::Relation& r) { return sym::known(r).value_or(false); };
  auto fresh = []() -> Expr { fail<InternalError>("a view with a size that depends on data"); };
  auto results = infer(op, types, decide, fresh);
  bool row_major = self.is_contiguous();
  if (op.name == "contiguous") return {self.contiguous()};
  std::vector<Tensor> out, copies;
  for (size_t r = 0; r < results.size(); ++r) {
    std::vector<int64_t> sizes = numbers(results[r].sizes);
    if (row_major && keeps_order(op.name)) {
      out.push_back(self.as_strided(sizes, contiguous_strides(sizes)));
      continue;
    }
    std::vector<Expr> index;
    for (size_t d = 0; d < sizes.size(); ++d)
      index.push_back(sizes[d] == 1 ? Expr(0) : sym::loop_symbol("i" + std::to_string(d), sizes[d]));
    std::vector<Expr> from = op.index_map(TypeReader(op, types), r, index);
    Expr rest = 0;
    for (size_t d = 0; d < from.size(); ++d) rest += from[d] * Expr(self.strides()[d]);
    std::vector<int64_t> strides;
    for (size_t d = 0; d < sizes.size(); ++d) {
      auto c = index[d].is_const() ? std::optional<Expr>(0) : sym::linear_coefficient(rest, index[d]);
      if (!c || !c->is_const()) break;
      strides.push_back(c->constant());
      if (!index[d].is_const()) rest = rest - *c * index[d];
    }
    if (strides.size() == sizes.size() && rest.is_const()) {
      out.push_back(self.as_strided(sizes, strides, self.numel() == 0 ? 0 : rest.constant()));
      continue;
    }
    if (copies.empty()) copies = evaluate(op, args);
    out.push_back(copies.at(r));
  }
  return out;
}

}  // namespace toroid::ops
