// Shapes and arrangements that are compositions of others: what exported programs hold before they are decomposed.
#include "ops/rows/view_composite.h"

#include <algorithm>

#include "base/check.h"
#include "ops/rows/forms.h"

namespace toroid::ops {

using namespace forms;

namespace {

using Results = std::vector<Tensor>;

Results broadcast_tensors(const CallReader& c) {
  auto tensors = c.tensors("tensors");
  if (tensors.empty()) return {};
  Tensor widest = tensors[0];
  for (auto& t : tensors)
    if (!same_sizes(sizes_of(t), sizes_of(widest))) widest = call1("expand", {t, broadcast_sizes(widest, t)});
  const Sizes sizes = sizes_of(widest);
  for (auto& t : tensors) t = call1("expand", {t, sizes});
  return tensors;
}

// "xy" puts the first tensor along the second dimension.
Results meshgrid(const CallReader& c) {
  auto tensors = c.tensors("tensors");
  std::string indexing = c.op().schema.find("indexing") < 0 ? "ij" : c.text("indexing");
  TOROID_USER_CHECK(indexing == "ij" || indexing == "xy", "meshgrid: indexing is \"{}\"; expected ij or xy", indexing);
  const bool swapped = indexing == "xy" && tensors.size() >= 2;
  Sizes sizes;
  for (auto& t : tensors) {
    TOROID_USER_CHECK(t.dim() <= 1, "meshgrid: expected tensors of one dimension, got {}", t.dim());
    sizes.push_back(t.dim() == 0 ? Expr(1) : size_at(t, 0));
  }
  if (swapped) std::swap(sizes[0], sizes[1]);
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t at = swapped && i < 2 ? 1 - i : i;
    Sizes shape(sizes.size(), 1);
    shape[at] = sizes[at];
    tensors[i] = call1("expand", {view(tensors[i], shape), sizes});
  }
  return tensors;
}

Results diff(const CallReader& c) {
  Tensor x = c.tensor("self");
  int64_t dim = dim_of(c, "dim", x), n = c.integer("n");
  TOROID_USER_CHECK(x.dim() > 0 && n >= 0, "diff: expected at least one dimension and n of 0 or more, got {} and {}", x.dim(), n);
  if (n == 0) return {x};  // without what would be joined with it
  Results parts;
  if (c.has("prepend")) parts.push_back(c.tensor("prepend"));
  parts.push_back(x);
  if (c.has("append")) parts.push_back(c.tensor("append"));
  if (parts.size() > 1) x = call1("cat", {parts, num(dim)});
  for (int64_t i = 0; i < n; ++i) {
    Expr size = size_at(x, dim);
    if (size == Expr(0)) break;
    Tensor later = slice(x, dim, 1, size), earlier = slice(x, dim, 0, size - 1);
    x = is_bool(x.dtype()) ? call1("logical_xor", {later, earlier}) : sub(later, earlier);
  }
  return {x};
}

// The last dimension becomes the diagonal of two.
Results diag_embed(const CallReader& c) {
  Tensor x = c.tensor("self");
  int64_t rank = x.dim() + 1, offset = c.integer("offset"), above = std::max<int64_t>(offset, 0), below = above - offset;
  int64_t rows_at = normal_dim(c.op(), c.integer("dim1"), rank), columns_at = normal_dim(c.op(), c.integer("dim2"), rank);
  TOROID_USER_CHECK(x.dim() > 0 && rows_at != columns_at, "diag_embed: expected two different dimensions, and one to lay along them");
  Expr size = size_at(x, -1) + above + below;
  // Above the main diagonal an element is where its row is its place, below it where its column is.
  Tensor values = unsqueeze(pad_dim(x, x.dim() - 1, 0, above + below), offset >= 0 ? -1 : -2);
  const Tensor rows = iota_along(size, 0, 2), on_diagonal = compare_int("eq", sub(iota_along(size, 1, 2), rows), offset);
  Tensor out = where(on_diagonal, values, full({}, 0, x.dtype()));
  std::vector<int64_t> order;
  for (int64_t d = 0, next = 0; d < rank; ++d) order.push_back(d == rows_at ? rank - 2 : d == columns_at ? rank - 1 : next++);
  return {permute(out, order)};
}

// A vector becomes a diagonal, a matrix gives its own.
Results diag(const CallReader& c) {
  Tensor x = c.tensor("self");
  TOROID_USER_CHECK(x.dim() == 1 || x.dim() == 2, "diag: expected one or two dimensions, got {}", x.dim());
  if (x.dim() == 2) return {clone(call1("diagonal", {x, c.at("diagonal")}))};
  return {call1("diag_embed", {x, c.at("diagonal")})};
}

Results pad_sequence(const CallReader& c) {
  auto parts = c.tensors("sequences");
  TOROID_USER_CHECK(!parts.empty(), "pad_sequence: expected at least one tensor");
  const bool left = c.text("padding_side") == "left";
  Expr longest = size_at(parts[0], 0);
  for (auto& t : parts) longest = sym::max(longest, size_at(t, 0));
  for (auto& t : parts) {
    Expr missing = longest - size_at(t, 0);
    t = pad_dim(t, 0, left ? missing : Expr(0), left ? Expr(0) : missing, c.real("padding_value"));
  }
  return {call1("stack", {parts, num(c.flag("batch_first") ? 0 : 1)})};
}

Results is_in(const CallReader& c) {
  auto as_tensor = [&](const char* tensor, const char* number) {
    return c.op().schema.find(tensor) >= 0 ? c.tensor(tensor) : call1("scalar_tensor", {c.at(number)});
  };
  Tensor elements = as_tensor("elements", "element"), tests = as_tensor("test_elements", "test_element");
  const Tensor all_tests = flat(tests), equal = compare("eq", unsqueeze(elements, elements.dim()), all_tests);
  Tensor found = call1("any.dim", {equal, num(-1)});
  return {c.flag("invert") ? call1("logical_not", {found}) : found};
}

// Rows of self, in groups that end at offs, times a matrix each: every row by the matrix of its group.
Results grouped_mm(const CallReader& c) {
  const auto& args = c.args();
  auto tensor = [&](size_t i) { return std::get<Tensor>(args[i]); };
  Tensor rows = tensor(0), matrices = tensor(1);
  TOROID_USER_CHECK(rows.dim() == 2 && matrices.dim() == 3 && std::holds_alternative<Tensor>(args[2]),
                    "{}: expected rows of two dimensions, matrices of three, and where the groups of rows end", c.op().name);
  Tensor ends = unsqueeze(cast_to(tensor(2), DType::I64), 0), row = unsqueeze(iota(size_at(rows, 0)), 1);
  Tensor group = call1("sum.dim_IntList", {cast_to(compare("le", ends, row), DType::I64), nums({1})});
  group = call1("clamp_max", {group, size_at(matrices, 0) - 1});
  Tensor out = call1("bmm", {unsqueeze(rows, 1), call1("index_select", {matrices, num(0), group})});
  return {call1("squeeze.dim", {out, num(1)})};
}

// Means of neighbours times their distance: what the area under a line consists of.
Tensor trapezoids(const CallReader& c) {
  Tensor y = c.tensor("y");
  const int64_t dim = dim_of(c, "dim", y);
  const Expr size = size_at(y, dim);
  const Tensor lower = slice(y, dim, 0, size - 1), sums = add(slice(y, dim, 1, size), lower);
  if (c.op().schema.find("x") >= 0) {  // the distances: along dim where it is a vector
    Tensor x = c.tensor("x");
    if (x.dim() == 1) {
      Sizes along(static_cast<size_t>(y.dim()), Expr(1));
      along[static_cast<size_t>(dim)] = size_at(x, 0);
      x = view(x, along);
    }
    TOROID_USER_CHECK(x.dim() == y.dim(), "{}: \"x\" has {} dimensions and \"y\" {}; it must have 1 or as many", c.op().name, x.dim(),
                      y.dim());
    require({sym::Rel::Eq, size_at(x, dim), size}, "{}: \"x\" has {} elements along dimension {} and \"y\" {}", c.op().name,
            sym::to_string(size_at(x, dim)), dim, sym::to_string(size));
    const Expr own = size_at(x, dim);
    const Tensor begins = slice(x, dim, 0, own - 1);
    return mul(mul(sums, sub(slice(x, dim, 1, own), begins)), 0.5);
  }
  return mul(sums, c.real("dx") / 2);
}

template <bool kAll>
Results is_true(const CallReader& c) {
  return {call1(kAll ? "all" : "any", {c.tensor("self")})};
}

}  // namespace

void add_view_composite_rows(Table& t) {
  t.composite("broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors).may_alias = true;
  t.composite("meshgrid(Tensor[] tensors) -> Tensor[]", meshgrid).may_alias = true;
  t.composite("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", meshgrid).may_alias = true;
  t.composite("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff);
  t.composite("trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("sum.dim_IntList", {trapezoids(c), num(dim_of(c, "dim", c.tensor("y")))})};
  });
  t.composite("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("cumsum", {trapezoids(c), num(dim_of(c, "dim", c.tensor("y")))})};
  });
  t.composite("trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("sum.dim_IntList", {trapezoids(c), num(dim_of(c, "dim", c.tensor("y")))})};
  });
  t.composite("cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("cumsum", {trapezoids(c), num(dim_of(c, "dim", c.tensor("y")))})};
  });
  t.composite("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diag_embed);
  t.composite("diag(Tensor self, int diagonal=0) -> Tensor", diag);
  t.composite("diagflat(Tensor self, int offset=0) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("diag", {call1("flatten.using_ints", {c.tensor("self")}), c.at("offset")})};
  });
  t.composite("pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side=\"right\") -> Tensor",
              pad_sequence);
  const std::string options = ", *, bool assume_unique=False, bool invert=False) -> Tensor";
  t.composite("isin.Tensor_Tensor(Tensor elements, Tensor test_elements" + options, is_in);
  t.composite("isin.Tensor_Scalar(Tensor elements, Scalar test_element" + options, is_in);
  t.composite("isin.Scalar_Tensor(Scalar element, Tensor test_elements" + options, is_in);
  t.composite("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
              grouped_mm);
  t.composite("transformers.grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", grouped_mm);
  t.composite("_is_all_true(Tensor self) -> Tensor", is_true<true>);
  t.composite("_is_any_true(Tensor self) -> Tensor", is_true<false>);
  t.composite("unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", [](const CallReader& c) {
    return call("split_copy.Tensor", {c.at("self"), c.at("split_size"), c.at("dim")});
  });
  t.composite("unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", [](const CallReader& c) {
    return call("split_with_sizes_copy", {c.at("self"), c.at("split_sizes"), c.at("dim")});
  });
}

}  // namespace toroid::ops
