#include "import/onnx/operators.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/text.h"

namespace toroid::import::onnx {

void Operators::add(std::string_view domain, std::string_view name, int64_t since, ImportOp run) {
  bool fresh = rows_[{std::string(domain), std::string(name)}].emplace(since, run).second;
  TOROID_CHECK(fresh, "the operator {} of version {} is there twice", name, since);
}

ImportOp Operators::find(const std::string& domain, const std::string& name, int64_t version) const {
  auto row = rows_.find({domain, name});
  if (row == rows_.end()) return nullptr;
  auto after = row->second.upper_bound(version);
  return after == row->second.begin() ? nullptr : std::prev(after)->second;
}

int64_t Operators::first_version(const std::string& domain, const std::string& name) const {
  auto row = rows_.find({domain, name});
  return row == rows_.end() ? 0 : row->second.begin()->first;
}

std::vector<std::string> Operators::near(const std::string& name) const {
  std::vector<std::string_view> names;
  for (auto& [key, versions] : rows_) names.push_back(key.second);
  return nearest_names(name, names);
}

std::vector<Operators::Listed> Operators::list() const {
  std::vector<Listed> listed;
  for (auto& [key, versions] : rows_) {
    listed.push_back({key.first, key.second, {}});
    for (auto& [since, run] : versions) listed.back().versions.push_back(since);
  }
  return listed;
}

const Operators& operators() {
  static const Operators& table = *[] {  // never destroyed: threads may outlive main
    auto& t = *new Operators;
    add_elementwise_operators(t);
    add_activation_operators(t);
    add_layout_operators(t);
    add_creation_operators(t);
    add_reduction_operators(t);
    add_matmul_operators(t);
    add_convolution_operators(t);
    add_pooling_operators(t);
    add_normalization_operators(t);
    add_indexing_operators(t);
    add_quantization_operators(t);
    add_loss_operators(t);
    add_recurrent_operators(t);
    add_resize_operators(t);
    add_signal_operators(t);
    add_selection_operators(t);
    add_sequence_operators(t);
    add_contrib_operators(t);
    add_attention_operators(t);
    add_control_flow_operators(t);
    return &t;
  }();
  return table;
}

void Sizes::need(size_t d) const { TOROID_USER_CHECK(d < size(), "a tensor has {} dimensions, more are expected", size()); }

Sizes sizes_of(const Tensor& t) {
  Sizes out;
  for (auto& s : t.sym_sizes()) out.push_back(s.expr());
  return out;
}

Expr numel_of(const Tensor& t) {
  Expr out = 1;
  for (auto& s : sizes_of(t)) out *= s;
  return out;
}

int64_t known_size(const Expr& e, std::string_view what) {
  auto c = e.maybe_constant();
  TOROID_USER_CHECK(c, "{} is {}, which changes from call to call; a fixed number is needed here", what, sym::to_string(e));
  return *c;
}

std::vector<int64_t> known_sizes(const Tensor& t, std::string_view what) {
  std::vector<int64_t> out;
  for (auto& s : sizes_of(t)) out.push_back(known_size(s, what));
  return out;
}

int64_t whole_number(double v) {
  TOROID_USER_CHECK(std::abs(v) < 0x1p53, "{} is no size and no place", v);
  return static_cast<int64_t>(v);
}

int64_t normal_axis(int64_t axis, int64_t rank) {
  TOROID_USER_CHECK(axis >= -rank && axis < rank, "axis {} is out of range for a tensor of {} dimensions", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> normal_axes(std::vector<int64_t> axes, int64_t rank) {
  for (auto& a : axes) a = normal_axis(a, rank);
  return axes;
}

Tensor permuted(const Tensor& t, const std::vector<int64_t>& order) { return op("permute", t, order); }

Tensor with_rank(Tensor t, int64_t rank) {
  Sizes sizes = sizes_of(t);
  sizes.resize(static_cast<size_t>(std::max(rank, rank_of(t))), 1);
  return reshape(t, sizes);
}

Tensor integer_tensor(const Sizes& values) {
  bool constant = std::all_of(values.begin(), values.end(), [](const Expr& e) { return e.is_const(); });
  if (constant) {
    Tensor out = Tensor::empty({static_cast<int64_t>(values.size())}, DType::I64);
    for (size_t i = 0; i < values.size(); ++i) out.data<int64_t>()[i] = values[i].constant();
    return out;
  }
  std::vector<Tensor> parts;
  for (auto& v : values) parts.push_back(op("reshape", op("scalar_tensor", v, DType::I64), Sizes{1}));
  return op("cat", parts, 0);
}

Tensor along_axis(const Tensor& t, int64_t axis, int64_t rank) {
  Sizes sizes(static_cast<size_t>(rank), 1);
  sizes[static_cast<size_t>(axis)] = numel_of(t);
  return reshape(t, sizes);
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

}  // namespace toroid::import::onnx
