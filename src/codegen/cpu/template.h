// A template of CPUs: one function that says of a node whether and how the template computes it, and its row in the table below.
#pragma once

#include "codegen/constant_memory.h"
#include "codegen/forms.h"
#include "device/cpu/isa.h"
#include "program/program.h"

namespace toroid::codegen {

// A node that is to be computed, and what there is around it. All of it outlives the forms that are made for it.
struct CpuSite {
  const program::Node& node;
  const program::Program& program;
  device::Isa isa;
  // What packed weights are added to; only code needs them.
  program::Program* writable = nullptr;
  ConstantMemory* constants = nullptr;

  // The node's problem, of the kind that the template is listed for.
  template <class Problem>
  const Problem& problem() const {
    return std::get<Problem>(node.problem);
  }
};

Form cpu_gemm_int8_form(const CpuSite& site);
Form cpu_gemv_form(const CpuSite& site);
Form cpu_gemm_form(const CpuSite& site);
Form cpu_conv_int8_form(const CpuSite& site);
Form cpu_winograd_form(const CpuSite& site);
Form cpu_convolution_form(const CpuSite& site);
Form cpu_attention_few_form(const CpuSite& site);
Form cpu_attention_form(const CpuSite& site);
Form cpu_sort_form(const CpuSite& site);
Form cpu_scan_form(const CpuSite& site);

struct CpuTemplate {
  bool (*takes)(const program::Problem& problem);
  Form (*form)(const CpuSite& site);
};

// Of each kind of problem the fastest first; its last takes whatever is lowered to the problem.
inline constexpr CpuTemplate kCpuTemplates[] = {
    {program::is_a<program::Gemm>, cpu_gemm_int8_form},
    {program::is_a<program::Gemm>, cpu_gemv_form},
    {program::is_a<program::Gemm>, cpu_gemm_form},
    {program::is_a<program::Convolution>, cpu_conv_int8_form},
    {program::is_a<program::Convolution>, cpu_winograd_form},
    {program::is_a<program::Convolution>, cpu_convolution_form},
    {program::is_a<program::Attention>, cpu_attention_few_form},
    {program::is_a<program::Attention>, cpu_attention_form},
    {program::is_a<program::Sort>, cpu_sort_form},
    {program::is_a<program::Scan>, cpu_scan_form},
};

}  // namespace toroid::codegen
