#include "ops/table.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "ops/custom.h"
#include "ops/derivative.h"

namespace toroid::ops {

// Conditions are masks, as in PyTorch: a condition of numbers is most often another tensor that was given in its place. That of where() may
// be of bytes.
void check_masks(const MetaCall& c) {
  const Op& op = c.op();
  uint32_t bit = 1;
  for (size_t i = 0; i < c.args().size(); ++i) {
    if (op.schema.params[i].type != ParamType::Tensor) continue;
    const auto* mask = op.bool_operands & bit ? std::get_if<const TensorType*>(&c.args()[i]) : nullptr;
    bit <<= 1;
    if (!mask || !*mask) continue;
    const DType t = (*mask)->dtype;
    TOROID_USER_CHECK(is_bool(t) || (t == DType::U8 && !op.name.starts_with("masked_fill")), "{}: expected a bool mask, got {}",
                      plain_name(op), name_of(t));
  }
}

void pointwise_meta(MetaCall& c) {
  const Op& op = c.op();
  if (op.bool_operands) check_masks(c);
  std::vector<Expr> sizes;
  const TensorType* first = nullptr;
  auto join = [&](const TensorType* t) {
    if (!t) return;
    if (!first) first = t;
    sizes = broadcast(c, sizes, t->sizes);
  };
  for (auto& a : c.args()) {
    if (auto* t = std::get_if<const TensorType*>(&a)) join(*t);
  }
  DType t = DType::F32;
  switch (op.promote) {
    case Promote::Default:
      t = promoted_dtype(c);
      break;
    case Promote::Float:
      t = float_type(promoted_dtype(c));
      break;
    case Promote::KeepFirst:
      t = first ? first->dtype : promoted_dtype(c);
      break;
    case Promote::Compare:
    case Promote::Logical:
    case Promote::Predicate:
      t = DType::Bool;
      break;
  }
  c.result(t, std::move(sizes));
}

Op& Table::add(std::string_view schema) {
  Op& op = rows_.emplace_back();
  op.schema = parse_schema(schema);
  op.name = op.schema.name;
  TOROID_CHECK(by_name_.emplace(op.name, &op).second, "two rows for {}", op.name);
  return op;
}

Op& Table::pointwise(std::string_view schema, Promote promote, Formula formula) {
  Op& op = add(schema);
  op.meta = pointwise_meta;
  op.promote = promote;
  op.formula = formula;
  return op;
}

Op& Table::view(std::string_view schema, Meta meta, IndexMap map, WriteBack write_back) {
  Op& op = add(schema);
  op.meta = meta;
  op.index_map = map;
  op.write_back = write_back;
  return op;
}

Op& Table::composite(std::string_view schema, Decompose decompose) {
  Op& op = add(schema);
  op.decompose = decompose;
  op.may_alias = std::any_of(op.schema.params.begin(), op.schema.params.end(), [](auto& p) { return p.alias && !p.mutated; });
  return op;
}

Op& Table::primitive(std::string_view schema, Meta meta, Kernel kernel) {
  Op& op = add(schema);
  op.meta = meta;
  op.kernel = kernel;
  return op;
}

namespace {

// Operations that are no formulas and that ATen has in place.
constexpr std::string_view kWritten[] = {"add",
                                         "sub",
                                         "subtract",
                                         "mul",
                                         "multiply",
                                         "div",
                                         "divide",
                                         "true_divide",
                                         "float_power",
                                         "ldexp",
                                         "resize",
                                         "copy",
                                         "cumsum",
                                         "cumprod",
                                         "index_put",
                                         "index_copy",
                                         "index_add",
                                         "index_fill",
                                         "put",
                                         "masked_scatter",
                                         "_index_put_impl",
                                         "tril",
                                         "triu",
                                         "scatter",
                                         "scatter_add",
                                         "index_reduce",
                                         "scatter_reduce",
                                         "embedding_renorm",
                                         "addmm",
                                         "baddbmm",
                                         "addbmm",
                                         "addmv",
                                         "addr",
                                         "renorm",
                                         "conj_physical",
                                         "random",
                                         "bernoulli",
                                         "normal",
                                         "log_normal",
                                         "uniform",
                                         "exponential",
                                         "cauchy",
                                         "geometric",
                                         "dropout",
                                         "feature_dropout",
                                         "rrelu",
                                         "alpha_dropout",
                                         "feature_alpha_dropout"};

// Whether the result has the sizes and the dtype of the first operand by rule, so that it can be written there.
bool fits_first_operand(const Op& op) {
  const std::string_view base = std::string_view(op.name).substr(0, op.name.find('.'));
  return op.formula || std::find(std::begin(kWritten), std::end(kWritten), base) != std::end(kWritten);
}

}  // namespace

void Table::derive_inplace() {
  auto add_inplace = [&](const std::string& name, const Op& functional) {
    Op copy = functional;
    copy.name = copy.schema.name = name;
    copy.schema.params[0].name = "self";  // whatever the functional form calls it
    copy.schema.params[0].mutated = copy.schema.params[0].alias = true;
    copy.inplace_of = &functional;
    Op& row = rows_.emplace_back(std::move(copy));
    by_name_.emplace(row.name, &row);
  };
  size_t n = rows_.size();
  for (size_t i = 0; i < n; ++i) {
    const Op& op = rows_[i];
    if (!fits_first_operand(op) || !space_of(op.name).empty() || op.schema.params.empty() ||
        op.schema.params[0].type != ParamType::Tensor || op.schema.params[0].list || op.schema.returns.size() != 1 ||
        op.schema.find("self") > 0)  // gradients by self, which ATen has not
      continue;
    size_t dot = op.name.find('.');
    std::string name = op.name.substr(0, dot) + "_" + (dot == std::string::npos ? "" : op.name.substr(dot));
    if (op.name.substr(0, dot).ends_with("_") || by_name_.count(name)) continue;
    add_inplace(name, op);
  }
  // Those that are not called as their functional form is.
  constexpr std::pair<const char*, const char*> kOthers[] = {{"pow_.Scalar", "pow.Tensor_Scalar"},
                                                             {"pow_.Tensor", "pow.Tensor_Tensor"},
                                                             {"float_power_.Scalar", "float_power.Tensor_Scalar"},
                                                             {"float_power_.Tensor", "float_power.Tensor_Tensor"},
                                                             {"floor_divide_.Tensor", "floor_divide"},
                                                             {"ldexp_", "ldexp.Tensor"},
                                                             {"__iand__.Tensor", "bitwise_and.Tensor"},
                                                             {"__iand__.Scalar", "bitwise_and.Scalar"},
                                                             {"__ior__.Tensor", "bitwise_or.Tensor"},
                                                             {"__ior__.Scalar", "bitwise_or.Scalar"},
                                                             {"__ixor__.Tensor", "bitwise_xor.Tensor"},
                                                             {"__ixor__.Scalar", "bitwise_xor.Scalar"},
                                                             {"__ilshift__.Tensor", "bitwise_left_shift.Tensor"},
                                                             {"__irshift__.Tensor", "bitwise_right_shift.Tensor"}};
  for (auto& [name, functional] : kOthers)
    if (!by_name_.count(name)) add_inplace(name, *by_name_.at(functional));
}

const Op* Table::find(std::string_view name) const {
  if (name.starts_with("torch.ops.")) name.remove_prefix(10);
  if (name.starts_with("aten.")) name.remove_prefix(5);
  if (name.ends_with(".default")) name.remove_suffix(8);
  auto it = by_name_.find(std::string(name));
  if (it != by_name_.end()) return it->second;
  return name.starts_with(kDerivativeSpace) ? find_derivative(name) : find_custom(name);
}

std::vector<std::string> Table::near(std::string_view name) const {
  std::vector<std::string_view> names;
  for (auto& op : rows_) names.push_back(op.name);
  return nearest_names(name, names);
}

const Table& table() {
  static const Table& whole = *[] {  // never destroyed: threads may outlive main
    auto& t = *new Table;
    add_pointwise_rows(t);
    add_special_rows(t);
    add_view_rows(t);
    add_creation_rows(t);
    add_reduction_rows(t);
    add_scan_sort_rows(t);
    add_index_rows(t);
    add_matmul_rows(t);
    add_attention_rows(t);
    add_convolution_rows(t);
    add_convolution_gradient_rows(t);
    add_pool_rows(t);
    add_norm_rows(t);
    add_resample_rows(t);
    add_linalg_rows(t);
    add_fft_complex_rows(t);
    add_random_rows(t);
    add_recurrent_rows(t);
    add_collective_rows(t);
    add_backward_rows(t);
    t.derive_inplace();
    return &t;
  }();
  return whole;
}

const Op& get(std::string_view name) {
  const Op* op = table().find(name);
  TOROID_CHECK(op, "no operation named {}", name);
  return *op;
}

}  // namespace toroid::ops
