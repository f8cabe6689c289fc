// A template of GPUs: one function that says of a node whether and how the template computes it, and its row in the table below.
#pragma once

#include <algorithm>

#include "codegen/constant_memory.h"
#include "codegen/forms.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// A node that is to be computed, and what there is around it. All of it outlives the forms that are made for it.
struct CudaSite {
  const program::Node& node;
  const program::Program& program;
  const device::cuda::GpuInfo& gpu;
  // What packed weights are added to; only code needs them.
  program::Program* writable = nullptr;
  ConstantMemory* constants = nullptr;

  // The node's problem, of the kind that the template is listed for.
  template <class Problem>
  const Problem& problem() const {
    return std::get<Problem>(node.problem);
  }
};

// A guess where the run tells the size.
inline int64_t typical_size(const Expr& e) { return e.maybe_constant().value_or(512); }

// Whether a body leaves sums of columns.
inline bool leaves_sums(const loop::Body& body) { return std::any_of(body.steps.begin(), body.steps.end(), loop::stores_sum); }

Form cuda_gemv_form(const CudaSite& site);
Form cuda_gemm_wgmma_form(const CudaSite& site);
Form cuda_gemm_mma_form(const CudaSite& site);
Form cuda_gemm_simt_form(const CudaSite& site);
Form cuda_conv_depthwise_form(const CudaSite& site);
Form cuda_conv_wgmma_form(const CudaSite& site);
Form cuda_conv_wgrad_form(const CudaSite& site);
Form cuda_conv_gemm_form(const CudaSite& site);
Form cuda_attention_decode_form(const CudaSite& site);
Form cuda_attention_prefill_form(const CudaSite& site);
Form cuda_attention_mma_form(const CudaSite& site);
Form cuda_attention_backward_form(const CudaSite& site);
Form cuda_attention_backward_mma_form(const CudaSite& site);
Form cuda_gemv_all_reduce_form(const CudaSite& site);
Form cuda_all_reduce_inline_form(const CudaSite& site);
Form cuda_all_reduce_one_shot_form(const CudaSite& site);
Form cuda_all_reduce_two_shot_form(const CudaSite& site);
Form cuda_exchange_inline_form(const CudaSite& site);
Form cuda_exchange_rings_form(const CudaSite& site);
Form cuda_barrier_form(const CudaSite& site);
Form cuda_select_cluster_form(const CudaSite& site);
Form cuda_sort_form(const CudaSite& site);

// Meetings of products, others whose result is whole on all ranks, and others.
inline bool brings_product(const program::Problem& p) {
  const auto* m = std::get_if<program::Meeting>(&p);
  return m && m->product && !program::in_pieces(*m);
}
inline bool is_all_reduce(const program::Problem& p) {
  const auto* m = std::get_if<program::Meeting>(&p);
  return m && m->kind == distributed::Kind::AllReduce && !m->product;
}
inline bool is_exchange(const program::Problem& p) {
  const auto* m = std::get_if<program::Meeting>(&p);
  return m && m->kind != distributed::Kind::AllReduce && !m->product;
}
inline bool is_in_pieces(const program::Problem& p) {
  const auto* m = std::get_if<program::Meeting>(&p);
  return m && program::in_pieces(*m);
}

struct CudaTemplate {
  bool (*takes)(const program::Problem& problem);
  Form (*form)(const CudaSite& site);  // null: the templates of the plain product that the problem is, where it is one
};

// Of each kind of problem the fastest first; its last takes whatever is lowered to the problem.
inline constexpr CudaTemplate kCudaTemplates[] = {
    {program::is_a<program::Gemm>, cuda_gemv_form},
    {program::is_a<program::Gemm>, cuda_gemm_wgmma_form},
    {program::is_a<program::Gemm>, cuda_gemm_mma_form},
    {program::is_a<program::Gemm>, cuda_gemm_simt_form},
    {program::is_a<program::Convolution>, cuda_conv_depthwise_form},
    {program::is_a<program::Convolution>, nullptr},
    {program::is_a<program::Convolution>, cuda_conv_wgmma_form},
    {program::is_a<program::Convolution>, cuda_conv_wgrad_form},
    {program::is_a<program::Convolution>, cuda_conv_gemm_form},
    {program::is_a<program::Attention>, cuda_attention_decode_form},
    {program::is_a<program::Attention>, cuda_attention_prefill_form},
    {program::is_a<program::Attention>, cuda_attention_mma_form},
    {program::is_a<program::AttentionBackward>, cuda_attention_backward_form},
    {program::is_a<program::AttentionBackward>, cuda_attention_backward_mma_form},
    {brings_product, cuda_gemv_all_reduce_form},
    {is_all_reduce, cuda_all_reduce_inline_form},
    {is_all_reduce, cuda_all_reduce_one_shot_form},
    {is_all_reduce, cuda_all_reduce_two_shot_form},
    {is_exchange, cuda_exchange_inline_form},
    {is_exchange, cuda_exchange_rings_form},
    {is_in_pieces, cuda_barrier_form},
    {program::is_a<program::Sort>, cuda_select_cluster_form},
    {program::is_a<program::Sort>, cuda_sort_form},
};

}  // namespace toroid::codegen
