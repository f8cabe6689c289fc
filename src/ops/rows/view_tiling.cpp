// Rows whose result reads the input at a computed place, though PyTorch copies: flip, roll, repeat, and padding by reflection,
// replication and wrapping around.
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/view_rules.h"

namespace toroid::ops {

using namespace forms;

namespace {

void same_meta(MetaCall& c) { c.result(c.tensor("self")->dtype, c.tensor("self")->sizes); }

Index flip_dims(const TypeReader& c, const std::vector<int64_t>& dims, const Index& index) {
  Index out = index;
  auto* self = c.tensor("self");
  for (int64_t d : dims) {
    size_t k = static_cast<size_t>(normal_dim(c.op(), d, self->dim()));
    if (!out.empty()) out[k] = self->sizes[k] - 1 - index[k];
  }
  return out;
}
Index flip_map(const TypeReader& c, size_t, const Index& index) { return flip_dims(c, c.integers("dims"), index); }

Expr wrapped(const Expr& e, const Expr& size) {
  if (size == Expr(0) || size == Expr(1)) return 0;
  return sym::mod(e, size);
}

Index roll_map(const TypeReader& c, size_t, const Index& index) {
  auto* self = c.tensor("self");
  auto shifts = c.exprs("shifts");
  auto dims = c.integers("dims");
  if (dims.empty()) {
    TOROID_USER_CHECK(shifts.size() == 1, "{}: one shift is needed when no dimension is named", c.op().name);
    return split_index(wrapped(flat_index(index, self->sizes) - shifts[0], self->numel()), self->sizes);
  }
  TOROID_USER_CHECK(shifts.size() == dims.size(), "{}: {} shifts for {} dimensions", c.op().name, shifts.size(), dims.size());
  Index out = index;
  for (size_t i = 0; i < dims.size() && !out.empty(); ++i) {
    size_t k = static_cast<size_t>(normal_dim(c.op(), dims[i], self->dim()));
    out[k] = wrapped(out[k] - shifts[i], self->sizes[k]);
  }
  return out;
}

void repeat_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto sizes = c.exprs("repeats");
  TOROID_USER_CHECK(sizes.size() >= self->sizes.size(), "{}: {} repeats for a tensor of {} dimensions", c.op().name, sizes.size(),
                    self->sizes.size());
  size_t lead = sizes.size() - self->sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    c.require({sym::Rel::Ge, sizes[d], 0}, "{}: {} repeats", c.op().name, sym::to_string(sizes[d]));
    if (d >= lead) sizes[d] = sizes[d] * self->sizes[d - lead];
  }
  c.result(self->dtype, std::move(sizes));
}
Index repeat_map(const TypeReader& c, size_t, const Index& index) {
  const auto& from = c.tensor("self")->sizes;
  Index out(index.end() - static_cast<std::ptrdiff_t>(from.size()), index.end());
  for (size_t d = 0; d < from.size(); ++d) out[d] = wrapped(out[d], from[d]);
  return out;
}

void interleave_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  Expr repeats = c.expr("repeats");
  c.require({sym::Rel::Ge, repeats, 0}, "{}: {} repeats", c.op().name, sym::to_string(repeats));
  auto dim = c.opt_integer("dim");
  if (!dim || self->sizes.empty()) return c.result(self->dtype, {self->numel() * repeats});
  auto sizes = self->sizes;
  size_t d = static_cast<size_t>(normal_dim(c.op(), *dim, self->dim()));
  sizes[d] = sizes[d] * repeats;
  c.result(self->dtype, std::move(sizes));
}
Index interleave_map(const TypeReader& c, size_t, const Index& index) {
  auto* self = c.tensor("self");
  Expr repeats = c.expr("repeats");
  auto source = [&](const Expr& e) { return repeats == Expr(0) ? Expr(0) : sym::floor_div(e, repeats); };
  auto dim = c.opt_integer("dim");
  if (!dim || self->sizes.empty()) return split_index(source(index[0]), self->sizes);
  Index out = index;
  size_t d = static_cast<size_t>(normal_dim(c.op(), *dim, self->dim()));
  out[d] = source(index[d]);
  return out;
}

// Padding: parameter "padding" (or "pad") lists before and after of the last dimension first.
template <Expr (*source)(const Expr& i, const Expr& size)>
Index pad_map(const TypeReader& c, size_t, const Index& index) {
  auto pad = c.exprs(c.op().schema.params[1].name);
  const auto& sizes = c.tensor("self")->sizes;
  Index out = index;
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    size_t d = sizes.size() - 1 - k;
    out[d] = source(index[d] - pad[2 * k], sizes[d]);
  }
  return out;
}
Expr reflected(const Expr& i, const Expr& size) {
  Expr j = sym::max(i, -i), last = size - 1;
  return sym::min(j, last + last - j);
}
Expr replicated(const Expr& i, const Expr& size) { return sym::min(sym::max(i, 0), size - 1); }

enum class PadKind { Reflect, Replicate, Circular };
template <PadKind kind, size_t dims>
void pad_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto pad = c.exprs(c.op().schema.params[1].name);
  size_t padded = dims ? dims : pad.size() / 2;
  TOROID_USER_CHECK(pad.size() == 2 * padded && self->sizes.size() >= padded, "{}: {} pad widths for a tensor of {} dimensions",
                    c.op().name, pad.size(), self->sizes.size());
  auto sizes = self->sizes;
  for (size_t k = 0; k < padded; ++k) {
    size_t d = sizes.size() - 1 - k;
    const Expr &before = pad[2 * k], &after = pad[2 * k + 1], size = sizes[d];
    const sym::Relation fits = kind == PadKind::Reflect    ? sym::Relation{sym::Rel::Lt, sym::max(before, after), size}
                               : kind == PadKind::Circular ? sym::Relation{sym::Rel::Le, sym::max(before, after), size}
                                                           : sym::Relation{sym::Rel::Gt, size, 0};
    c.require(fits, "{}: padding ({}, {}) is too wide for a dimension of size {}", c.op().name, sym::to_string(before),
              sym::to_string(after), sym::to_string(size));
    sizes[d] = size + before + after;
    c.require({sym::Rel::Ge, sizes[d], 0}, "{}: padding ({}, {}) leaves less than nothing of size {}", c.op().name, sym::to_string(before),
              sym::to_string(after), sym::to_string(size));
  }
  c.result(self->dtype, std::move(sizes));
}

template <size_t dims>
void add_pads(Table& t) {
  std::string n = std::to_string(dims), widths = std::to_string(2 * dims);
  t.view("reflection_pad" + n + "d(Tensor self, SymInt[" + widths + "] padding) -> Tensor", pad_meta<PadKind::Reflect, dims>,
         pad_map<reflected>, nullptr);
  t.view("replication_pad" + n + "d(Tensor self, SymInt[" + widths + "] padding) -> Tensor", pad_meta<PadKind::Replicate, dims>,
         pad_map<replicated>, nullptr);
}

std::vector<Tensor> pad(const CallReader& c) {
  Tensor self = c.tensor("self");
  std::string mode = c.text("mode");
  auto widths = c.exprs("pad");
  if (mode == "constant") return {call1("constant_pad_nd", {self, widths, c.has("value") ? c.at("value") : Arg<Tensor>(0.0)})};
  if (mode == "circular") return {call1("_pad_circular", {self, widths})};
  size_t dims = widths.size() / 2;
  TOROID_USER_CHECK(mode == "reflect" || mode == "replicate",
                    "{}: mode is \"{}\"; it must be \"constant\", \"reflect\", \"replicate\" or \"circular\"", c.op().name, mode);
  TOROID_USER_CHECK(dims >= 1 && dims <= 3, "{}: mode \"{}\" pads 1 to 3 dimensions, {} are given", c.op().name, mode, dims);
  return {call1((mode == "reflect" ? "reflection_pad" : "replication_pad") + std::to_string(dims) + "d", {self, widths})};
}

std::vector<Tensor> rot90(const CallReader& c) {
  Tensor self = c.tensor("self");
  auto dims = dims_of(c, "dims", self);
  TOROID_USER_CHECK(dims.size() == 2 && dims[0] != dims[1], "{}: two different dimensions are needed", c.op().name);
  auto flip = [](const Tensor& t, std::vector<int64_t> d) { return call1("flip", {t, nums(d)}); };
  auto transpose = [&](const Tensor& t) { return call1("transpose.int", {t, num(dims[0]), num(dims[1])}); };
  switch (((c.integer("k") % 4) + 4) % 4) {
    case 1:
      return {transpose(flip(self, {dims[1]}))};
    case 2:
      return {flip(self, dims)};
    case 3:
      return {transpose(flip(self, {dims[0]}))};
    default:
      return {clone(self)};
  }
}

}  // namespace

void add_tiling_view_rows(Table& t) {
  t.view("flip(Tensor self, int[] dims) -> Tensor", same_meta, flip_map, nullptr);
  t.view(
      "fliplr(Tensor self) -> Tensor", same_meta, [](const TypeReader& c, size_t, const Index& i) { return flip_dims(c, {1}, i); },
      nullptr);
  t.view(
      "flipud(Tensor self) -> Tensor", same_meta, [](const TypeReader& c, size_t, const Index& i) { return flip_dims(c, {0}, i); },
      nullptr);
  t.view("roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", same_meta, roll_map, nullptr);
  t.view("repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat_meta, repeat_map, nullptr);
  t.composite("tile(Tensor self, SymInt[] dims) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor self = c.tensor("self");
    Sizes repeats = c.exprs("dims");
    if (static_cast<int64_t>(repeats.size()) < self.dim())
      repeats.insert(repeats.begin(), static_cast<size_t>(self.dim()) - repeats.size(), Expr(1));
    return {call1("repeat", {self, repeats})};
  });
  t.view("repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", interleave_meta,
         interleave_map, nullptr);
  add_pads<1>(t);
  add_pads<2>(t);
  add_pads<3>(t);
  t.view("_pad_circular(Tensor self, SymInt[] pad) -> Tensor", pad_meta<PadKind::Circular, 0>, pad_map<wrapped>, nullptr);
  t.composite("pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad);
  t.composite("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", rot90);
}

}  // namespace toroid::ops
