// A template of CPUs: one function that says of a node whether and how the template computes it. generate.cpp lists them.
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

using CpuTemplate = Form (*)(const CpuSite& site);

// Those of products, the fastest first; the last takes every product of floats.
Form cpu_gemm_int8_form(const CpuSite& site);
Form cpu_gemv_form(const CpuSite& site);
Form cpu_gemm_form(const CpuSite& site);
// Of convolutions.
Form cpu_conv_int8_form(const CpuSite& site);
Form cpu_winograd_form(const CpuSite& site);
Form cpu_convolution_form(const CpuSite& site);
// Of attention.
Form cpu_attention_few_form(const CpuSite& site);
Form cpu_attention_form(const CpuSite& site);

// Sorts leave nothing open.
KernelText generate_sort(const program::Sort& s, device::Isa isa);

}  // namespace toroid::codegen
