#include "compile/index_check.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::front {
namespace {

template <class T>
std::pair<int64_t, int64_t> extremes(const Tensor& t) {
  auto [least, most] = std::minmax_element(t.data<T>(), t.data<T>() + t.numel());
  return {static_cast<int64_t>(*least), static_cast<int64_t>(*most)};
}

// Negative indices count from the end.
void check_range(const ops::Op& op, const Tensor& given, int64_t size) {
  if (!given.defined() || given.device().is_cuda() || given.numel() == 0 || !is_int(given.dtype())) return;
  const Tensor index = given.contiguous();
  int64_t least = 0, most = 0;
  if (index.dtype() == DType::I64) {
    std::tie(least, most) = extremes<int64_t>(index);
  } else if (index.dtype() == DType::I32) {
    std::tie(least, most) = extremes<int32_t>(index);
  } else {
    const auto values = index.to_vector();
    least = static_cast<int64_t>(*std::min_element(values.begin(), values.end()));
    most = static_cast<int64_t>(*std::max_element(values.begin(), values.end()));
  }
  TOROID_USER_CHECK(least >= -size && most < size, "{}: index {} is out of range for a dimension of size {}", op.name,
                    most < size ? least : most, size);
}

// Each tensor of integers is for one dimension, each mask for as many as it has.
void check_list(const ops::Op& op, const Tensor& self, const std::vector<Tensor>& indices) {
  size_t d = 0;
  for (auto& i : indices) {
    const bool mask = i.defined() && (is_bool(i.dtype()) || i.dtype() == DType::U8);
    if (!mask && d < self.sizes().size()) check_range(op, i, self.sizes()[d]);
    d += mask ? i.sizes().size() : 1;
  }
}

// Classes: of the second dimension, or of the only one.
void check_classes(const ops::Op& op, const Tensor& scores, const Tensor& target, int64_t ignored) {
  if (!is_int(target.dtype()) || target.device().is_cuda() || scores.dim() == 0) return;
  const int64_t classes = scores.sizes()[scores.dim() == 1 ? 0 : 1];
  for (double v : target.to_vector())
    TOROID_USER_CHECK((v >= 0 && v < static_cast<double>(classes)) || v == static_cast<double>(ignored),
                      "{}: target {} is none of {} classes", op.name, v, classes);
}

}  // namespace

void check_indices(const ops::Op& op, const CallArgs& args) {
  const int along = op.schema.find("index"), among = op.schema.find("indices"), dim = op.schema.find("dim");
  const int target = op.schema.find("target"), ignored = op.schema.find("ignore_index");
  if (along < 0 && among < 0 && (target < 0 || ignored < 0)) return;
  auto* self = std::get_if<Tensor>(&args.at(0));
  if (!self || !self->defined() || self->device().is_cuda()) return;
  if (target >= 0) {
    auto* classes = std::get_if<Tensor>(&args.at(static_cast<size_t>(target)));
    auto* none = std::get_if<Expr>(&args.at(static_cast<size_t>(ignored)));
    if (classes && classes->defined() && none && none->is_const()) check_classes(op, *self, *classes, none->constant());
    return;
  }
  const Arg<Tensor>& index = args.at(static_cast<size_t>(along >= 0 ? along : among));
  if (auto* list = std::get_if<std::vector<Tensor>>(&index)) return check_list(op, *self, *list);
  auto* t = std::get_if<Tensor>(&index);
  if (!t) return;
  if (op.name == "embedding" && self->dim() > 0) check_range(op, *t, self->sizes()[0]);
  if (op.name == "take" || op.name == "put") check_range(op, *t, self->numel());
  auto* d = dim < 0 ? nullptr : std::get_if<Expr>(&args.at(static_cast<size_t>(dim)));
  if ((along < 0 && op.name != "take_along_dim") || !d || self->dim() == 0 || !d->is_const()) return;
  check_range(op, *t, self->sizes()[static_cast<size_t>(ops::normal_dim(op, d->constant(), self->dim()))]);
}

}  // namespace toroid::front
