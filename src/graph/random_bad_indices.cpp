// Random operations one of whose indices its dimension may not have.
#include "graph/random_generator.h"

namespace toroid::graph {

using ops::call1;

// The indices, with one in the place of them where the input "bad..." says so, which random_inputs() makes true at one place or at none.
Tensor RandomGenerator::spoiled(const Tensor& at, const Expr& extent) {
  Value* v = graph_->add_input({DType::Bool, sizes_of(at), {}}, InputKind::User, "bad" + std::to_string(graph_->inputs.size()));
  graph_->inputs.back().name = v->name;
  const Tensor size = call1("full", {Exprs{}, extent, DType::I64});
  const auto constant = [&](int64_t i) { return call1("full", {Exprs{}, Expr(i), DType::I64}); };
  Tensor other = size;
  switch (pick(6)) {
    case 0:
      other = constant(-1);  // the last one, where negative indices count from the end
      break;
    case 1:
      other = call1("sub.Tensor", {constant(-1), size});
      break;
    case 2:
      other = constant(int64_t{1} << 40);
      break;
    case 3:
      other = constant(-(int64_t{1} << 40));
      break;
    case 4:
      other = call1("add.Tensor", {size, constant(1 + pick(5))});
      break;
    default:
      break;
  }
  return call1("where.self", {recorder_.proxy(v), other, at});
}

std::vector<Drawn> RandomGenerator::bad_index() {
  Drawn x = any_rank(1, 3);
  if (is_bool(x.t.dtype())) x = as_float(x);
  const Exprs sizes = sizes_of(x.t);
  const int64_t d = pick(x.t.dim());
  const Expr dim = d, extent = sizes[static_cast<size_t>(d)];
  // Indices of these sizes, most of them right.
  const auto at = [&](const Exprs& of, const Expr& size) { return spoiled(call1("remainder.Scalar", {index_into(of, size), size}), size); };
  const Exprs few = chance(2) ? Exprs{one_of(sizes_)} : Exprs{2, 3}, line = {one_of(sizes_)};
  Exprs rows = sizes;
  rows[static_cast<size_t>(d)] = line[0];
  const auto source = [&] { return fresh_input(x.t.dtype(), rows).t; };
  switch (pick(14)) {
    case 0:
      return {rough(call1("gather", {x.t, dim, at(sizes, extent)}))};
    case 1:
      return {rough(call1("index_select", {x.t, dim, at(line, extent)}))};
    case 2: {
      std::vector<Tensor> where(static_cast<size_t>(d) + 1);
      where[static_cast<size_t>(d)] = at(few, extent);
      return {rough(call1("index.Tensor", {x.t, where}))};
    }
    case 3:
      if (x.t.dim() != 2) return {};
      return {rough(call1("embedding", {x.t, at(few, sizes[0])}))};
    case 4:
      return {rough(call1("take", {x.t, at(few, numel(sizes))}))};
    case 5:
      return {rough(call1("take_along_dim", {x.t, at(sizes, extent), dim}))};
    case 6:
      return {rough(call1("scatter.src", {x.t, dim, at(sizes, extent), fresh_input(x.t.dtype(), sizes).t}))};
    case 7:
      return {rough(call1("scatter.value", {x.t, dim, at(sizes, extent), Expr(1)}))};
    case 8:
      return {rough(call1("scatter_add", {x.t, dim, at(sizes, extent), fresh_input(x.t.dtype(), sizes).t}))};
    case 9: {
      std::vector<Tensor> where(static_cast<size_t>(d) + 1);
      where[static_cast<size_t>(d)] = at(line, extent);
      Exprs values = line;  // index tensors behind whole dimensions leave them where they are
      values.insert(values.begin(), sizes.begin(), sizes.begin() + d);
      values.insert(values.end(), sizes.begin() + d + 1, sizes.end());
      return {rough(call1("index_put", {x.t, where, fresh_input(x.t.dtype(), values).t, chance(2)}))};
    }
    case 10:
      return {rough(call1("index_add", {x.t, dim, at(line, extent), source()}))};
    case 11:
      return {rough(call1("index_copy", {x.t, dim, at(line, extent), source()}))};
    case 12:
      return {rough(call1("index_fill.int_Scalar", {x.t, dim, at(line, extent), Expr(1)}))};
    default:
      return {rough(call1("put", {x.t, at(few, numel(sizes)), fresh_input(x.t.dtype(), few).t, chance(2)}))};
  }
}

}  // namespace toroid::graph
