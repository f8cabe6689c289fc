// Positions of elements: nonzero and what repeats elements as data tells. Their result sizes are known only after a run.
#include <algorithm>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"

namespace toroid::ops {
namespace {

using namespace host;
using Results = std::vector<Tensor>;

std::vector<int64_t> nonzero_positions(const Tensor& t) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < t.numel(); ++i)
    if (get_complex(t, i) != std::complex<double>(0)) out.push_back(i);
  return out;
}
// Row k of `out` becomes the index of element `at` of a tensor of these sizes.
void put_index(const Tensor& out, int64_t k, int64_t at, const std::vector<int64_t>& sizes) {
  int64_t rank = static_cast<int64_t>(sizes.size());
  for (int64_t d = rank; d-- > 0;) {
    put(out, k * rank + d, Number::of(at % sizes[static_cast<size_t>(d)]));
    at /= sizes[static_cast<size_t>(d)];
  }
}

void nonzero_meta(MetaCall& c) { c.result(DType::I64, {c.fresh_size(), c.tensor("self")->dim()}); }
void nonzero_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  auto found = nonzero_positions(self);
  c.outputs[0] = Tensor::empty({static_cast<int64_t>(found.size()), self.dim()}, DType::I64);
  for (size_t k = 0; k < found.size(); ++k) put_index(c.outputs[0], static_cast<int64_t>(k), found[k], self.sizes());
}
// The positions, a tensor for each dimension.
Results nonzero_parts(const CallReader& c) {
  Tensor self = std::get<Tensor>(c.args()[0]);
  if (self.dim() == 0) self = forms::unsqueeze(self, 0);
  return call("unbind.int", {call1("nonzero", {self}), forms::num(1)});
}

// An empty tensor with as many rows as a number says: what makes a number that the run computes a size.
void size_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  bool one = std::all_of(self->sizes.begin(), self->sizes.end(), [](auto& s) { return s == Expr(1); });
  TOROID_USER_CHECK(one && is_int(self->dtype), "{}: a size must be one whole number, not {}", c.op().name, to_string(*self));
  c.result(DType::Bool, {c.fresh_size(), Expr(0)});
}
void size_kernel(KernelCall& c) {
  int64_t size = get_int(c.tensor("self").contiguous(), 0);
  TOROID_USER_CHECK(size >= 0, "the program reads the number {} from a tensor and uses it as a size; sizes are 0 or more", size);
  TOROID_USER_CHECK(size <= c.integer("max"), "the program reads the number {} from a tensor and uses it as a size that may be {} at most",
                    size, c.integer("max"));
  c.outputs[0] = Tensor::empty({size, 0}, DType::Bool);
}
void nonzero_static_meta(MetaCall& c) {
  Expr size = c.expr("size");
  c.require({sym::Rel::Ge, size, 0}, "{}: the size {} is negative", c.op().name, sym::to_string(size));
  c.result(DType::I64, {size, c.tensor("self")->dim()});
}
void nonzero_static_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous(), out = c.outputs[0];
  auto found = nonzero_positions(self);
  for (int64_t i = 0; i < out.numel(); ++i) put(out, i, Number::of(c.integer("fill_value")));
  for (int64_t k = 0; k < std::min<int64_t>(out.sizes()[0], static_cast<int64_t>(found.size())); ++k)
    put_index(out, k, found[static_cast<size_t>(k)], self.sizes());
}

// Number k as often as repeats[k] says.
void interleave_meta(MetaCall& c) {
  auto* repeats = c.tensor("repeats");
  TOROID_USER_CHECK(repeats->dim() == 1 && is_int(repeats->dtype), "{}: repeats must be one dimension of integers", c.op().name);
  c.result(repeats->dtype == DType::I32 ? DType::I32 : DType::I64, {c.has("output_size") ? c.expr("output_size") : c.fresh_size()});
}
void interleave_kernel(KernelCall& c) {
  Tensor repeats = c.tensor("repeats").contiguous();
  int64_t total = 0;
  for (int64_t k = 0; k < repeats.numel(); ++k) {
    int64_t n = get_int(repeats, k);
    TOROID_USER_CHECK(n >= 0 && !__builtin_add_overflow(total, n, &total), "{}: {} repeats", c.op().name, n);
  }
  if (!c.outputs[0].defined()) c.outputs[0] = Tensor::empty({total}, repeats.dtype() == DType::I32 ? DType::I32 : DType::I64);
  TOROID_USER_CHECK(c.outputs[0].numel() == total, "{}: output_size is {}, the repeats make {}", c.op().name, c.outputs[0].numel(), total);
  for (int64_t k = 0, at = 0; k < repeats.numel(); ++k)
    for (int64_t n = get_int(repeats, k); n > 0; --n) put(c.outputs[0], at++, Number::of(k));
}
Results interleave_self(const CallReader& c) {
  Tensor self = c.tensor("self"), repeats = c.tensor("repeats");
  int64_t dim = 0;
  if (c.has("dim"))
    dim = forms::dim_of(c, "dim", self);
  else
    self = forms::flat(self);
  if (repeats.dim() == 0) repeats = forms::unsqueeze(repeats, 0);
  repeats = forms::expand(repeats, {forms::size_at(self, dim)});
  return {call1("index_select", {self, forms::num(dim), call1("repeat_interleave.Tensor", {repeats, c.at("output_size")})})};
}

}  // namespace

void add_index_nonzero_rows(Table& t) {
  t.primitive("nonzero(Tensor self) -> Tensor", nonzero_meta, nonzero_kernel);
  t.composite("argwhere(Tensor self) -> Tensor", [](const CallReader& c) -> Results { return {call1("nonzero", {c.tensor("self")})}; });
  t.composite("nonzero_numpy(Tensor self) -> Tensor[]", nonzero_parts);
  t.composite("where(Tensor condition) -> Tensor[]", nonzero_parts);
  t.primitive("_number_as_size(Tensor self, int max) -> Tensor", size_meta, size_kernel);
  t.primitive("nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", nonzero_static_meta, nonzero_static_kernel);
  t.primitive("repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor", interleave_meta, interleave_kernel);
  t.composite("repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
              interleave_self);
}

}  // namespace toroid::ops
