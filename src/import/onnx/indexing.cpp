// Operators that pick and place elements by indices, and that order them.
#include <algorithm>

#include "base/check.h"
#include "base/scalar.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

// For operations that take no negative places: indices of dimension `dim` that count from the end, as what they stand for. Others are an
// error that tells them as they are.
Tensor wrapped(const OpCall& c, const Tensor& index, const Expr& size, int64_t dim) {
  return op("_check_index", cast(index, DType::I64), size, c.node().op_type, dim, true);
}

// A list of index tensors with holes for the dimensions before `axis`.
std::vector<Tensor> index_at(int64_t axis, const Tensor& index) {
  std::vector<Tensor> out(static_cast<size_t>(axis));
  out.push_back(index);
  return out;
}

void gather(OpCall& c) {
  Tensor x = c.in(0), index = c.in(1);
  auto axis = normal_axis(c.integer("axis", 0), rank_of(x));
  if (auto known = c.constant(index); known && known->dim() <= 1) {
    // What is known is a view, or at least needs no check for negative places.
    std::vector<int64_t> places;
    for (double v : known->to_vector()) places.push_back(whole_number(v));
    if (known->dim() == 0) return c.set(0, op("select.int", x, axis, places[0]));
    bool negative = std::any_of(places.begin(), places.end(), [](int64_t p) { return p < 0; });
    if (!negative) return c.set(0, op("index_select", x, axis, integer_tensor(Sizes(places.begin(), places.end()))));
  }
  c.set(0, op("index.Tensor", x, index_at(axis, cast(index, DType::I64))));
}

void gather_elements(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", 0), rank_of(x));
  c.set(0, op("gather", x, axis, wrapped(c, c.in(1), sizes_of(x)[static_cast<size_t>(axis)], axis)));
}

// The rows of an index tensor [..., k] as one tensor for each of k dimensions of x behind the first `batch`.
std::vector<Tensor> tuples(const Tensor& index, const Tensor& x, int64_t batch) {
  auto k = known_size(sizes_of(index).back(), "the last dimension of the indices");
  TOROID_USER_CHECK(k <= rank_of(x) - batch, "{} indices for {} dimensions of a tensor", k, rank_of(x) - batch);
  std::vector<Tensor> out;
  for (int64_t i = 0; i < k; ++i) out.push_back(op("select.int", index, rank_of(index) - 1, i));
  return out;
}

void gather_nd(OpCall& c) {
  Tensor x = c.in(0), index = c.in(1);
  int64_t batch = c.integer("batch_dims", 0), rank = rank_of(index);
  TOROID_USER_CHECK(rank > 0 && batch >= 0 && batch < rank, "batch_dims is {} for indices of {} dimensions", batch, rank);
  Sizes sizes = sizes_of(x);
  std::vector<Tensor> list;
  // The place in each batch dimension is that of the index itself.
  for (int64_t d = 0; d < batch; ++d) list.push_back(along_axis(op("arange", sizes[static_cast<size_t>(d)], DType::I64), d, rank - 1));
  for (const Tensor& part : tuples(index, x, batch)) list.push_back(cast(part, DType::I64));
  c.set(0, op("index.Tensor", x, list));
}

std::string_view reduction_name(const std::string& name) {
  if (name == "add") return "sum";
  if (name == "mul") return "prod";
  if (name == "max") return "amax";
  if (name == "min") return "amin";
  fail<UserError>("the attribute \"reduction\" is \"{}\", which is unknown", name);
}

void scatter_elements(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", 0), rank_of(x));
  Tensor index = wrapped(c, c.in(1), sizes_of(x)[static_cast<size_t>(axis)], axis);
  std::string reduction = c.text("reduction", "none");
  if (reduction == "none") return c.set(0, op("scatter.src", x, axis, index, c.in(2)));
  c.set(0, op("scatter_reduce.two", x, axis, index, c.in(2), reduction_name(reduction)));
}

void scatter_nd(OpCall& c) {
  Tensor x = c.in(0), index = c.in(1), updates = c.in(2);
  Sizes sizes = sizes_of(x);
  auto parts = tuples(index, x, 0);
  for (Tensor& part : parts) part = cast(part, DType::I64);
  std::string reduction = c.text("reduction", "none");
  if (reduction == "none" || reduction == "add") return c.set(0, op("index_put", x, parts, updates, reduction == "add"));
  // Slices become rows of a matrix, which are joined by their flat place.
  Expr rows = 1, columns = 1;
  Tensor place;
  for (size_t d = 0; d < sizes.size(); ++d) (d < parts.size() ? rows : columns) *= sizes[d];
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor part = wrapped(c, parts[i], sizes[i], static_cast<int64_t>(i));
    place = place.defined() ? op("add.Tensor", op("mul.Tensor", place, sizes[i]), part) : part;
  }
  Expr count = numel_of(place);
  Tensor index_rows = op("expand", reshape(place, {count, 1}), Sizes{count, columns});
  const Tensor update_rows = reshape(updates, {count, columns});
  Tensor out = op("scatter_reduce.two", reshape(x, {rows, columns}), 0, index_rows, update_rows, reduction_name(reduction));
  c.set(0, reshape(out, sizes));
}

// Writes the update of each batch into its cache from a place on, around the end where the mode says so.
void tensor_scatter(OpCall& c) {
  Tensor cache = c.in(0), update = c.in(1);
  auto axis = normal_axis(c.integer("axis", -2), rank_of(cache));
  Sizes sizes = sizes_of(update);
  Tensor place = along_axis(op("arange", sizes[static_cast<size_t>(axis)], DType::I64), axis, rank_of(cache));
  if (c.has(2)) place = op("add.Tensor", place, along_axis(cast(c.in(2), DType::I64), 0, rank_of(cache)));
  if (c.text("mode", "linear") == "circular") place = op("remainder.Scalar", place, sizes_of(cache)[static_cast<size_t>(axis)]);
  c.set(0, op("scatter.src", cache, axis, op("expand", place, sizes), update));
}

void top_k(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", -1), rank_of(x));
  c.ignore({"sorted"});  // any order is right where it is 0
  Expr k = c.version() < 10 ? Expr(c.integer("k")) : c.size(1);
  auto both = op_all("topk", x, k, axis, c.integer("largest", 1) != 0, true);
  c.set(0, both[0]);
  c.set(1, both[1]);
}

void nonzero(OpCall& c) { c.set(0, permuted(op("nonzero", c.in(0)), {1, 0})); }

void compress(OpCall& c) {
  Tensor x = c.in(0), condition = c.in(1);
  bool flat = !c.has_attribute("axis");
  int64_t axis = flat ? 0 : normal_axis(c.integer("axis"), rank_of(x));
  if (flat) x = reshape(x, {numel_of(x)});
  // The condition may be shorter than the axis.
  Tensor places = op("nonzero", condition);
  c.set(0, op("index_select", x, axis, op("select.int", places, 1, 0)));
}

void unique(OpCall& c) {
  Tensor x = c.in(0);
  bool flat = !c.has_attribute("axis"), sorted = c.integer("sorted", 1) != 0;
  int64_t axis = flat ? 0 : normal_axis(c.integer("axis"), rank_of(x));
  if (flat) x = reshape(x, {numel_of(x)});
  auto out = op_all("unique_dim", x, axis, true, true, true);
  Tensor values = out[0], inverse = out[1], counts = out[2];
  // Where each first appears: the least of the places that lead to it.
  Expr n = numel_of(inverse);
  Tensor none = op("add.Tensor", op("zeros_like", counts), n);
  Tensor first = op("scatter_reduce.two", none, 0, inverse, op("arange", n, DType::I64), "amin");
  if (!sorted) {  // in the order of their appearance
    Tensor order = op("argsort", first);
    values = op("index_select", values, axis, order);
    counts = op("index_select", counts, 0, order);
    first = op("index_select", first, 0, order);
    inverse = op("index_select", op("argsort", order), 0, inverse);
  }
  c.set(0, values);
  c.set(1, first);
  c.set(2, inverse);
  c.set(3, counts);
}

void reverse_sequence(OpCall& c) {
  int64_t rank = rank_of(c.in(0));
  c.set(0,
        reversed_sequences(c.in(0), c.in(1), normal_axis(c.integer("time_axis", 0), rank), normal_axis(c.integer("batch_axis", 1), rank)));
}

}  // namespace

Tensor reversed_sequences(const Tensor& x, const Tensor& lengths, int64_t time, int64_t batch) {
  Sizes sizes = sizes_of(x);
  Tensor step = along_axis(op("arange", sizes[static_cast<size_t>(time)], DType::I64), time, rank_of(x));
  Tensor length = along_axis(cast(lengths, DType::I64), batch, rank_of(x));
  Tensor back = op("sub.Tensor", op("sub.Tensor", length, step), 1);
  Tensor place = op("where.self", op("lt.Tensor", step, length), back, step);
  return op("gather", x, time, op("expand", place, sizes));
}

void add_indexing_operators(Operators& t) {
  t.add("Gather", 1, gather);
  t.add("GatherElements", 11, gather_elements);
  t.add("GatherND", 11, gather_nd);
  t.add("Scatter", 9, scatter_elements);
  t.add("ScatterElements", 11, scatter_elements);
  t.add("ScatterND", 11, scatter_nd);
  t.add("TensorScatter", 24, tensor_scatter);
  t.add("TopK", 1, top_k);
  t.add("NonZero", 9, nonzero);
  t.add("Compress", 9, compress);
  t.add("Unique", 11, unique);
  t.add("ReverseSequence", 10, reverse_sequence);
}

}  // namespace toroid::import::onnx
