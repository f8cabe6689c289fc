// Views that reorder dimensions or repeat elements along them: permute and its relatives, expand.
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/view_rules.h"

namespace toroid::ops {

using namespace forms;

namespace {

// Order[i] is the dimension of the input that becomes dimension i.
using Order = std::vector<int64_t>;
using OrderOf = Order (*)(const TypeReader&);

Order identity(int64_t rank) {
  Order out;
  for (int64_t d = 0; d < rank; ++d) out.push_back(d);
  return out;
}

Order permute_order(const TypeReader& c) {
  int64_t rank = c.tensor("self")->dim();
  Order dims = c.integers("dims");
  std::vector<bool> seen(static_cast<size_t>(rank));
  TOROID_USER_CHECK(static_cast<int64_t>(dims.size()) == rank, "{}: {} dimensions are named, the tensor has {}", c.op().name, dims.size(),
                    rank);
  for (auto& d : dims) {
    d = normal_dim(c.op(), d, rank);
    TOROID_USER_CHECK(!seen[static_cast<size_t>(d)], "{}: dimension {} is named twice", c.op().name, d);
    seen[static_cast<size_t>(d)] = true;
  }
  return dims;
}

Order swapped(const TypeReader& c, int64_t a, int64_t b) {
  int64_t rank = c.tensor("self")->dim();
  Order out = identity(rank);
  a = normal_dim(c.op(), a, rank);
  b = normal_dim(c.op(), b, rank);
  if (rank) std::swap(out[static_cast<size_t>(a)], out[static_cast<size_t>(b)]);
  return out;
}
Order transpose_order(const TypeReader& c) { return swapped(c, c.integer("dim0"), c.integer("dim1")); }
Order swapaxes_order(const TypeReader& c) { return swapped(c, c.integer("axis0"), c.integer("axis1")); }
Order t_order(const TypeReader& c) {
  int64_t rank = c.tensor("self")->dim();
  TOROID_USER_CHECK(rank <= 2, "{}: at most 2 dimensions are taken, the tensor has {}; use permute", c.op().name, rank);
  return rank == 2 ? Order{1, 0} : identity(rank);
}
Order reversed_order(const TypeReader& c) {
  Order out = identity(c.tensor("self")->dim());
  return {out.rbegin(), out.rend()};
}
Order last_two_order(const TypeReader& c) {
  TOROID_USER_CHECK(c.tensor("self")->dim() >= 2, "{}: at least 2 dimensions are needed", c.op().name);
  return swapped(c, -2, -1);
}
Order movedim_order(const TypeReader& c) {
  int64_t rank = c.tensor("self")->dim();
  Order from = c.integers("source"), to = c.integers("destination");
  TOROID_USER_CHECK(from.size() == to.size(), "{}: {} dimensions cannot move to {} places", c.op().name, from.size(), to.size());
  if (rank == 0) return {};
  Order out(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank));
  for (size_t i = 0; i < from.size(); ++i) {
    size_t f = static_cast<size_t>(normal_dim(c.op(), from[i], rank)), d = static_cast<size_t>(normal_dim(c.op(), to[i], rank));
    TOROID_USER_CHECK(!moved[f] && out[d] < 0, "{}: a dimension is named twice", c.op().name);
    moved[f] = true;
    out[d] = static_cast<int64_t>(f);
  }
  size_t next = 0;
  for (auto& o : out) {
    if (o >= 0) continue;
    while (moved[next]) ++next;
    o = static_cast<int64_t>(next++);
  }
  return out;
}

template <OrderOf order>
void order_meta(MetaCall& c) {
  std::vector<Expr> sizes;
  for (int64_t d : order(c)) sizes.push_back(c.tensor("self")->sizes[static_cast<size_t>(d)]);
  c.result(c.tensor("self")->dtype, std::move(sizes));
}
template <OrderOf order>
Index order_map(const TypeReader& c, size_t, const Index& index) {
  Index out(index.size());
  Order dims = order(c);
  for (size_t d = 0; d < dims.size(); ++d) out[static_cast<size_t>(dims[d])] = index[d];
  return out;
}
// Rows are called with tensors when a view is written back, with types otherwise: the order depends on the rank alone.
template <OrderOf order>
Tensor order_write(const CallReader& c, size_t, const Tensor& value) {
  std::vector<TensorType> types;
  types.reserve(c.args().size());
  std::vector<Arg<const TensorType*>> args;
  for (auto& a : c.args())
    args.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      types.push_back({t.dtype(), sizes_of(t), {}});
      return &types.back();
    }));
  Order dims = order(TypeReader(c.op(), args)), back(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) back[static_cast<size_t>(dims[d])] = static_cast<int64_t>(d);
  return permute(value, back);
}
template <OrderOf order>
void add_order(Table& t, const std::string& name, const std::string& signature, bool with_copy = false) {
  if (with_copy)
    view_and_copy(t, name, signature, order_meta<order>, order_map<order>, order_write<order>);
  else
    t.view(name + signature, order_meta<order>, order_map<order>, order_write<order>);
}

void expand_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto sizes = c.exprs("size");
  TOROID_USER_CHECK(sizes.size() >= self->sizes.size(), "{}: {} sizes were given for a tensor of {} dimensions", c.op().name, sizes.size(),
                    self->sizes.size());
  size_t lead = sizes.size() - self->sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d < lead) {
      c.require({sym::Rel::Ge, sizes[d], 0}, "{}: the size {} of a new dimension is negative", c.op().name, sym::to_string(sizes[d]));
      continue;
    }
    const Expr& from = self->sizes[d - lead];
    if (sizes[d] == Expr(-1) || sizes[d] == from)
      sizes[d] = from;
    else if (!(from == Expr(1)) && c.same(from, sizes[d]))
      sizes[d] = from;
    else
      TOROID_USER_CHECK(from == Expr(1), "{}: a dimension of size {} cannot become {}; only size 1 can be expanded", c.op().name,
                        sym::to_string(from), sym::to_string(sizes[d]));
    c.require({sym::Rel::Ge, sizes[d], 0}, "{}: the size {} is negative", c.op().name, sym::to_string(sizes[d]));
  }
  c.result(self->dtype, std::move(sizes));
}
Index expand_map(const TypeReader& c, size_t, const Index& index) {
  const auto& from = c.tensor("self")->sizes;
  Index out(index.end() - static_cast<std::ptrdiff_t>(from.size()), index.end());
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d] == Expr(1)) out[d] = 0;
  return out;
}

}  // namespace

void add_permute_view_rows(Table& t) {
  add_order<permute_order>(t, "permute", "(Tensor(a) self, int[] dims) -> Tensor(a)", true);
  add_order<transpose_order>(t, "transpose.int", "(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", true);
  add_order<transpose_order>(t, "swapdims", "(Tensor(a) self, int dim0, int dim1) -> Tensor(a)");
  add_order<swapaxes_order>(t, "swapaxes", "(Tensor(a) self, int axis0, int axis1) -> Tensor(a)");
  add_order<t_order>(t, "t", "(Tensor(a) self) -> Tensor(a)", true);
  add_order<reversed_order>(t, "numpy_T", "(Tensor(a) self) -> Tensor(a)");
  add_order<last_two_order>(t, "mT", "(Tensor(a) self) -> Tensor(a)");
  add_order<movedim_order>(t, "movedim.int", "(Tensor(a) self, int source, int destination) -> Tensor(a)");
  add_order<movedim_order>(t, "movedim.intlist", "(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)");
  add_order<movedim_order>(t, "moveaxis.int", "(Tensor(a) self, int source, int destination) -> Tensor(a)");
  add_order<movedim_order>(t, "moveaxis.intlist", "(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)");
  for (const char* name : {"adjoint", "mH", "matrix_H"})
    t.composite(std::string(name) + "(Tensor(a) self) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
      Tensor transposed = call1("mT", {c.tensor("self")});
      return {is_complex(transposed.dtype()) ? call1("conj_physical", {transposed}) : transposed};
    });
  view_and_copy(t, "expand", "(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", expand_meta, expand_map, nullptr);
  t.view("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", expand_meta, expand_map, nullptr);
  t.composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("expand", {c.tensor("self"), sizes_of(c.tensor("other"))})};
  });
}

}  // namespace toroid::ops
