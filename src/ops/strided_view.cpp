#include "ops/strided_view.h"

#include <optional>
#include <set>

#include "base/check.h"
#include "ops/reference.h"
#include "tensor/layout.h"

namespace toroid::ops {
namespace {

// Those that are copies where no strides say where the elements are.
bool is_reshape(const std::string& name) { return name == "view" || name == "reshape" || name == "flatten.using_ints"; }

std::vector<int64_t> numbers(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (auto& e : exprs) out.push_back(e.constant());
  return out;
}

// The same bytes as elements of another dtype: pairs for complex numbers, and the other way round, or bits. nullopt where no strides say
// which bytes an element has.
std::optional<Tensor> same_bytes(const Tensor& self, DType dtype, std::vector<int64_t> sizes) {
  const int64_t from = static_cast<int64_t>(size_of(self.dtype())), to = static_cast<int64_t>(size_of(dtype));
  auto impl = std::make_shared<TensorImpl>(*self.impl());
  std::vector<int64_t> strides = self.strides();
  int64_t offset = impl->offset;
  const bool splits = from > to;
  const int64_t ratio = splits ? from / to : to / from;
  const bool pairs = sizes.size() > strides.size(), joins_pairs = sizes.size() < strides.size();
  if (splits) {
    if (!pairs && strides.back() != 1 && self.sizes().back() != 1) return std::nullopt;
    if (!pairs) strides.pop_back();
    for (auto& s : strides) s *= ratio;
    strides.push_back(1);
    offset *= ratio;
  } else if (ratio > 1) {
    if (strides.back() != 1 || offset % ratio != 0) return std::nullopt;
    strides.pop_back();
    for (auto& s : strides) {
      if (s % ratio != 0) return std::nullopt;
      s /= ratio;
    }
    if (!joins_pairs) strides.push_back(1);
    offset /= ratio;
  }
  impl->dtype = dtype;
  impl->sizes = std::move(sizes);
  impl->strides = std::move(strides);
  impl->offset = offset;
  impl->grad = nullptr;
  impl->requires_grad = false;
  return Tensor(std::move(impl));
}

// What cannot be known: the search for a layout ends there.
struct NotKnown {};

class Asker {
 public:
  explicit Asker(const Ask& ask) : ask_(ask) {}
  bool holds(sym::Rel rel, const Expr& a, const Expr& b) const {
    if (const auto k = known(rel, a, b)) return *k;
    const auto told = ask_({rel, a, b});
    if (!told) throw NotKnown{};
    return *told;
  }
  // An equation that one open size solves fixes that. Others are asked as inequalities, which leave sizes open.
  bool equal(const Expr& a, const Expr& b) const {
    if (const auto k = known(sym::Rel::Eq, a, b)) return *k;
    if (is_solved(a - b)) return holds(sym::Rel::Eq, a, b);
    return holds(sym::Rel::Le, a, b) && holds(sym::Rel::Ge, a, b);
  }
  // Whether a dimension of such a size and stride continues one whose elements end at `end`.
  bool continues(const Expr& size, const Expr& stride, const Expr& end) const {
    const auto fits = known(sym::Rel::Eq, stride, end), single = known(sym::Rel::Eq, size, 1);
    if (fits.value_or(false) || single.value_or(false)) return true;
    if (!fits && equal(stride, end)) return true;
    return !single && equal(size, 1);
  }

 private:
  static std::optional<bool> known(sym::Rel rel, const Expr& a, const Expr& b) { return sym::known(sym::Relation{rel, a, b}); }
  static bool is_solved(const Expr& difference) {
    std::optional<Expr> only;
    bool several = false;
    sym::for_each_symbol(difference, [&](const Expr& s) {
      several = several || (only && !(*only == s));
      only = s;
    });
    if (!only || several) return false;
    const auto slope = sym::linear_coefficient(difference, *only);
    return slope && slope->is_const();
  }

  const Ask& ask_;
};

bool has_no_elements(const std::vector<Expr>& sizes) {
  for (auto& s : sizes)
    if (s == Expr(0)) return true;
  return false;
}

ViewLayout layout(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const std::vector<Expr>& to, const Asker& ask) {
  if (has_no_elements(sizes) || sizes.empty()) return {Sharing::View, row_major_strides(to)};
  std::vector<Expr> out(to.size());
  size_t next = to.size();  // dimensions of the result behind it are done
  Expr step = strides.back(), had = 1, given = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    had = had * sizes[d];
    if (d > 0 && ask.continues(sizes[d - 1], strides[d - 1], had * step)) continue;
    while (next > 0) {
      const Expr& size = to[next - 1];
      if (!(size == Expr(1)) && ask.equal(given, had)) {
        if (!ask.equal(size, 1)) break;
      } else if (!(size == Expr(1)) && !ask.holds(sym::Rel::Lt, given, had)) {
        break;
      }
      out[--next] = given * step;
      given = given * size;
    }
    if (!ask.equal(given, had)) return {Sharing::Copy};
    if (d > 0) step = strides[d - 1], had = 1, given = 1;
  }
  return next == 0 ? ViewLayout{Sharing::View, std::move(out)} : ViewLayout{Sharing::Copy};
}

}  // namespace

bool keeps_row_order(const Op& op) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{
      "view",  "reshape", "flatten.using_ints", "unflatten.int", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
      "alias", "detach",  "_reshape_alias",     "contiguous",    "lift_fresh"};
  return names.count(op.name) > 0;
}

std::vector<Expr> row_major_strides(const std::vector<Expr>& sizes) {
  std::vector<Expr> out(sizes.size());
  Expr step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    out[d] = step;
    step = step * sizes[d];
  }
  return out;
}

ViewLayout reshaped_layout(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const std::vector<Expr>& to, const Ask& ask) {
  try {
    return layout(sizes, strides, to, Asker(ask));
  } catch (const NotKnown&) {
    return {Sharing::Unknown};
  }
}

Sharing contiguous_sharing(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const Ask& ask) {
  if (has_no_elements(sizes)) return Sharing::View;
  const Asker asker(ask);
  bool unknown = false;
  Expr step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    try {
      if (!asker.continues(sizes[d], strides[d], step)) return Sharing::Copy;
    } catch (const NotKnown&) {
      unknown = true;  // another dimension may tell
    }
    step = step * sizes[d];
  }
  return unknown ? Sharing::Unknown : Sharing::View;
}

std::vector<Tensor> strided_view(const Op& op, const CallArgs& args) {
  const Tensor& self = std::get<Tensor>(args.at(0));
  TensorType type{self.dtype(), {self.sizes().begin(), self.sizes().end()}, {}};
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : args) types.push_back(map_arg<const TensorType*>(a, [&](const Tensor&) -> const TensorType* { return &type; }));
  auto decide = [](const sym::Relation& r) { return sym::known(r).value_or(false); };
  auto fresh = []() -> Expr { fail<InternalError>("a view with a size that depends on data"); };
  auto results = infer(op, types, decide, fresh);
  bool row_major = self.is_contiguous();
  if (op.name == "contiguous") return {made_dense(self)};
  if (!op.index_map) {
    if (auto bytes = same_bytes(self, results.at(0).dtype, numbers(results[0].sizes))) return {*bytes};
    return evaluate(op, args);
  }
  std::vector<Tensor> out, copies;
  for (size_t r = 0; r < results.size(); ++r) {
    std::vector<int64_t> sizes = numbers(results[r].sizes);
    if (row_major && keeps_row_order(op)) {
      out.push_back(seen_as(self, sizes, contiguous_strides(sizes)));
      continue;
    }
    if (is_reshape(op.name)) {
      const auto [sharing, strides] = reshaped_layout(type.sizes, {self.strides().begin(), self.strides().end()}, results[r].sizes,
                                                      [](const sym::Relation&) { return std::nullopt; });
      TOROID_CHECK(sharing != Sharing::Unknown, "{}: nobody knows whether a tensor of known sizes is a view", op.name);
      out.push_back(sharing == Sharing::View ? seen_as(self, sizes, numbers(strides)) : evaluate(op, args).at(r));
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
      out.push_back(seen_as(self, sizes, strides, self.numel() == 0 ? 0 : rest.constant()));
      continue;
    }
    if (copies.empty()) copies = evaluate(op, args);
    out.push_back(copies.at(r));
  }
  return out;
}

}  // namespace toroid::ops
