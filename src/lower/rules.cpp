// Which rule lowers which operation, where the kind of its row does not tell.
#include "lower/lowering.h"

namespace toroid::lower {

void lower_full(Lowering& l, const graph::Node& n);
void lower_iota(Lowering& l, const graph::Node& n);
void lower_random(Lowering& l, const graph::Node& n);
void lower_matmul(Lowering& l, const graph::Node& n);
void lower_whole_matmul(Lowering& l, const graph::Node& n);
void lower_convolution(Lowering& l, const graph::Node& n);
void lower_whole_convolution(Lowering& l, const graph::Node& n);
void lower_weight_gradient(Lowering& l, const graph::Node& n);
void lower_attention(Lowering& l, const graph::Node& n);
void lower_attention_backward(Lowering& l, const graph::Node& n);
void lower_index(Lowering& l, const graph::Node& n);
void lower_check_index(Lowering& l, const graph::Node& n);
void lower_check_values(Lowering& l, const graph::Node& n);
void lower_gather(Lowering& l, const graph::Node& n);
void lower_cat(Lowering& l, const graph::Node& n);
void lower_interleave(Lowering& l, const graph::Node& n);
void lower_index_put(Lowering& l, const graph::Node& n);
void lower_scatter(Lowering& l, const graph::Node& n);
void lower_view_scatter(Lowering& l, const graph::Node& n);
void lower_scan(Lowering& l, const graph::Node& n);
void lower_sort(Lowering& l, const graph::Node& n);

Rule find_rule(const std::string& name) {
  static const std::map<std::string, Rule>& rules = *new std::map<std::string, Rule>{
      {"full", lower_full},
      {"prims.iota", lower_iota},
      {"prims.rand_uniform.state", lower_random},
      {"prims.rand_normal.state", lower_random},
      {"mm", lower_matmul},
      {"bmm", lower_matmul},
      {"mm.dtype", lower_matmul},
      {"bmm.dtype", lower_matmul},
      {"_int_mm", lower_whole_matmul},
      {"convolution", lower_convolution},
      {"_int_convolution", lower_whole_convolution},
      {"prims.convolution_weight_gradient", lower_weight_gradient},
      {"scaled_dot_product_attention", lower_attention},
      {"_scaled_dot_product_flash_attention_for_cpu", lower_attention},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", lower_attention_backward},
      {"index.Tensor", lower_index},
      {"_check_index", lower_check_index},
      {"_check_values", lower_check_values},
      {"gather", lower_gather},
      {"cat", lower_cat},
      {"prims.interleave", lower_interleave},
      {"constant_pad_nd", lower_pad},
      {"index_put", lower_index_put},
      {"scatter.src", lower_scatter},
      {"scatter_add", lower_scatter},
      {"slice_scatter", lower_view_scatter},
      {"select_scatter", lower_view_scatter},
      {"cumsum", lower_scan},
      {"cumprod", lower_scan},
      {"cummax", lower_scan},
      {"cummin", lower_scan},
      {"logcumsumexp", lower_scan},
      {"sort", lower_sort},
      {"sort.stable", lower_sort},
      {"topk", lower_sort},
  };
  auto it = rules.find(name);
  return it == rules.end() ? nullptr : it->second;
}

}  // namespace toroid::lower
