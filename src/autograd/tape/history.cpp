#include "autograd/tape/history.h"

#include "base/check.h"
#include "ops/call_errors.h"

namespace toroid::autograd {
namespace {

// A tensor of which only dtype and sizes are known.
Tensor typed(DType dtype, std::vector<int64_t> sizes) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = dtype;
  impl->strides = contiguous_strides(sizes);
  impl->sizes = std::move(sizes);
  return Tensor(std::move(impl));
}

// Of memory that is written in place: where it lies, and the line that writes to it or sees it.
struct Site {
  Device device;
  const std::source_location& where;
};

// A node of a call that is not made, whose operands are of these types: edges by operand, some of which are none.
GradEdge unmade_call(std::string_view name, CallArgs args, const std::vector<GradEdge>& edges, const Tensor& result, const Site& site) {
  const ops::Op& op = ops::get(name);
  args = ops::complete(op, std::move(args));
  std::vector<bool> wanted;
  std::vector<GradEdge> next;
  for (auto& e : edges) {
    wanted.push_back(static_cast<bool>(e));
    if (e) next.push_back(e);
  }
  if (next.empty()) return {};
  std::string place = ops::place_text(site.where);
  auto reverse = reverse_of(op, args, wanted, place);
  for (auto& s : reverse->inputs)
    TOROID_CHECK(s.kind == Reverse::Kind::Cotangent || s.kind == Reverse::Kind::Constant, "the reverse of {} reads elements", name);
  auto node = std::make_shared<OperationNode>(op.name, std::move(place), std::move(next), std::move(reverse), "");
  node->device = site.device;
  node->results.push_back({result.dtype(), result.sizes(), {}, {}});
  return {std::move(node), 0, nullptr};
}

// Elements in a row: those of a base as they lie in memory from `offset` on.
struct Row {
  GradEdge edge;
  int64_t length = 0, offset = 0;
};

bool is_row(const GradState& base) { return contiguous_strides(base.sizes) == base.strides; }

int64_t extent(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  if (product(sizes) == 0) return 0;
  int64_t n = 1;
  for (size_t d = 0; d < sizes.size(); ++d) n += (sizes[d] - 1) * strides[d];
  return n;
}

// A base whose elements do not lie in a row is put into one.
Row row_of(const GradState& base, const Site& site) {
  Row row{base.edge, extent(base.sizes, base.strides), base.offset};
  if (is_row(base) || !base.edge) return row;
  const Tensor whole = typed(base.dtype, {row.length});
  row.edge = unmade_call("as_strided_scatter", {whole, typed(base.dtype, base.sizes), exprs(base.sizes), exprs(base.strides), Expr(0)},
                         {{}, base.edge}, whole, site);
  return row;
}

void check_fits(const GradState& base, const Row& row, DType dtype, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                int64_t offset) {
  TOROID_USER_CHECK(
      dtype == base.dtype && offset >= row.offset && offset + extent(sizes, strides) <= row.offset + row.length,
      "a view of dtype {} sees memory of a tensor of {} that was written in place, in a way that has no gradient; clone() the "
      "tensor before the write",
      name_of(dtype), name_of(base.dtype));
}

// The view of a base that lies as t does.
GradEdge view_of(const GradState& base, const TensorImpl& t, const std::source_location& where) {
  const Site site{t.storage->device, where};
  if (!base.edge) return {};
  const bool same = t.dtype == base.dtype && t.sizes == base.sizes && t.strides == base.strides && t.offset == base.offset;
  if (same) return base.edge;
  const Row row = row_of(base, site);
  check_fits(base, row, t.dtype, t.sizes, t.strides, t.offset);
  const Tensor memory = typed(base.dtype, is_row(base) ? base.sizes : std::vector<int64_t>{row.length});
  return unmade_call("as_strided", {memory, exprs(t.sizes), exprs(t.strides), Expr(t.offset - row.offset)}, {row.edge},
                     typed(t.dtype, t.sizes), site);
}

std::shared_ptr<GradState> base_of(const TensorImpl& t) {
  if (!t.grad) return t.storage->history;
  return t.grad->base ? t.grad->base : t.grad;
}

std::shared_ptr<GradState> new_state(const TensorImpl& t) {
  if (!gradients_are_in_use()) install_members();
  auto s = std::make_shared<GradState>();
  s->dtype = t.dtype;
  s->sizes = t.sizes;
  s->strides = t.strides;
  s->offset = t.offset;
  return s;
}

}  // namespace

GradEdge edge_of(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  if (!is_taped(impl)) return {};
  const auto where = std::source_location::current();
  if (!impl.grad) return view_of(*impl.storage->history, impl, where);
  const GradState& s = *impl.grad;
  if (s.asks) return {nullptr, 0, impl.grad};
  if (s.base && s.base->generation != s.generation) return view_of(*s.base, impl, where);
  return s.edge;
}

void set_history(const Tensor& t, GradEdge edge, const Tensor* of) {
  TensorImpl& impl = *t.impl();
  const bool shared = of && of->impl()->storage == impl.storage;
  if (!edge && !(shared && is_taped(*of->impl()))) return;
  auto s = new_state(impl);
  s->edge = std::move(edge);
  if (shared) s->base = base_of(*of->impl());
  if (s->base) s->generation = s->base->generation;
  impl.grad = std::move(s);
}

void cut_history(const Tensor& t) { t.impl()->grad = new_state(*t.impl()); }

void check_writable(const Tensor& t, std::string_view name) {
  const TensorImpl& impl = *t.impl();
  if (!impl.grad) return;
  const auto which = [&] { return to_string(TensorType{impl.dtype, {impl.sizes.begin(), impl.sizes.end()}, {}}); };
  TOROID_USER_CHECK(!impl.grad->asks,
                    "{}: a leaf that requires gradients, {}, is written in place; do it within a NoGrad, or write to a clone() of it", name,
                    which());
  TOROID_USER_CHECK(
      !impl.grad->base || !impl.grad->base->asks,
      "{}: a view of a leaf that requires gradients, {}, is written in place; do it within a NoGrad, or write to a clone() of the leaf",
      name, which());
}

void set_written(const Tensor& t, GradEdge value, const std::source_location& where) {
  TensorImpl& impl = *t.impl();
  auto base = base_of(impl);
  if (!base) {
    if (!value) return;
    // Nobody knows which tensors see this memory: all of it has a history from now on.
    base = new_state(impl);
    base->sizes = {static_cast<int64_t>(impl.storage->bytes / size_of(impl.dtype))};
    base->strides = {1};
    base->offset = 0;
    impl.storage->history = base;
  }
  const bool whole = base->dtype == impl.dtype && base->sizes == impl.sizes && base->strides == impl.strides && base->offset == impl.offset;
  if (whole || (!base->edge && !value)) {
    base->edge = value;
  } else {
    const Site site{impl.storage->device, where};
    const Row row = row_of(*base, site);
    check_fits(*base, row, impl.dtype, impl.sizes, impl.strides, impl.offset);
    const Tensor memory = typed(base->dtype, is_row(*base) ? base->sizes : std::vector<int64_t>{row.length});
    const GradEdge after =
        unmade_call("as_strided_scatter",
                    {memory, typed(impl.dtype, impl.sizes), exprs(impl.sizes), exprs(impl.strides), Expr(impl.offset - row.offset)},
                    {row.edge, value}, memory, site);
    base->edge = is_row(*base) ? after
                               : unmade_call("as_strided", {memory, exprs(base->sizes), exprs(base->strides), Expr(0)}, {after},
                                             typed(base->dtype, base->sizes), site);
  }
  ++base->generation;
  if (impl.grad == base) return;
  auto s = new_state(impl);
  s->edge = std::move(value);
  s->base = base;
  s->generation = base->generation;
  impl.grad = std::move(s);
}

GradState& state_of(const Tensor& t) {
  TensorImpl& impl = *t.impl();
  if (impl.grad && (!impl.grad->base || impl.grad->base->generation == impl.grad->generation)) return *impl.grad;
  auto s = new_state(impl);
  s->edge = edge_of(t);
  s->base = is_taped(impl) ? base_of(impl) : nullptr;
  if (s->base) s->generation = s->base->generation;
  impl.grad = std::move(s);
  return *impl.grad;
}

}  // namespace toroid::autograd
