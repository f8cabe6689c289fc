// THE op table.
#pragma once

#include <deque>
#include <unordered_map>

#include "ops/op.h"

namespace toroid::ops {

class Table {
 public:
  // Row builders; each returns the row for further settings. `schema` in ATen's notation.
  Op& pointwise(std::string_view schema, Promote promote, Formula formula);
  Op& view(std::string_view schema, Meta meta, IndexMap map, WriteBack write_back);
  Op& composite(std::string_view schema, Decompose decompose);
  // Defined by its kernel.
  Op& primitive(std::string_view schema, Meta meta, Kernel kernel);

  // nullptr when there is no such operation. Accepts "aten.add.Tensor", "add.Tensor" and "relu.default" forms. In-place forms
  // ("add_.Tensor") are derived from their functional row at the first use.
  const Op* find(std::string_view name) const;
  const std::deque<Op>& rows() const { return rows_; }
  // Names like `name`, for error messages.
  std::vector<std::string> near(std::string_view name) const;

 private:
  friend const Table& table();
  Op& add(std::string_view schema);
  void derive_inplace();
  std::deque<Op> rows_;
  std::unordered_map<std::string, const Op*> by_name_;
};

const Table& table();
// The meta of pointwise rows: sizes by broadcasting, the dtype as the row's `promote` says.
void pointwise_meta(MetaCall& c);
// Row of an operation that must exist (InternalError otherwise).
const Op& get(std::string_view name);

// Families of rows, one source file each under ops/rows/.
void add_pointwise_rows(Table& t);
void add_special_rows(Table& t);
void add_view_rows(Table& t);
void add_creation_rows(Table& t);
void add_reduction_rows(Table& t);
void add_scan_sort_rows(Table& t);
void add_index_rows(Table& t);
void add_matmul_rows(Table& t);
void add_attention_rows(Table& t);
void add_convolution_rows(Table& t);
void add_convolution_gradient_rows(Table& t);
void add_pool_rows(Table& t);
void add_norm_rows(Table& t);
void add_resample_rows(Table& t);
void add_linalg_rows(Table& t);
void add_fft_complex_rows(Table& t);
void add_random_rows(Table& t);
void add_recurrent_rows(Table& t);
void add_collective_rows(Table& t);
void add_backward_rows(Table& t);

// Calls an operation through the dispatch hook. Arguments beyond those given take their defaults.
std::vector<Tensor> call(const Op& op, CallArgs args, const std::source_location& where = std::source_location::current());
inline std::vector<Tensor> call(std::string_view name, CallArgs args, const std::source_location& where = std::source_location::current()) {
  return call(get(name), std::move(args), where);
}
// The only result of an operation with one result.
Tensor call1(std::string_view name, CallArgs args, const std::source_location& where = std::source_location::current());

// Fills defaults and expands single numbers given for lists. UserError naming what is missing or of the wrong kind.
CallArgs complete(const Op& op, CallArgs args);

// Result types of a call. The functions are those of MetaCall; where all sizes are known nothing is demanded.
std::vector<TensorType> infer(const Op& op, std::span<const Arg<const TensorType*>> args,
                              const std::function<bool(const sym::Relation&)>& decide, const std::function<Expr()>& fresh_size,
                              const std::function<void(const sym::Relation&, const std::string& error)>& demand = {});

}  // namespace toroid::ops
