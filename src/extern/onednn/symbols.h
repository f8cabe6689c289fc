// The functions of oneDNN that Toroid calls, found at run time.
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <string>

namespace toroid::external {

// clang-format off
#define TOROID_DNNL_FUNCTIONS(X) \
  X(dnnl_version) X(dnnl_status2str) X(dnnl_engine_create) X(dnnl_stream_create) X(dnnl_stream_wait) X(dnnl_stream_destroy) \
  X(dnnl_memory_desc_init_by_strides) X(dnnl_memory_desc_init_by_tag) X(dnnl_memory_desc_get_size) X(dnnl_memory_desc_equal) \
  X(dnnl_memory_create) X(dnnl_memory_destroy) \
  X(dnnl_matmul_desc_init) X(dnnl_dilated_convolution_forward_desc_init) X(dnnl_reorder_primitive_desc_create) \
  X(dnnl_primitive_attr_create) X(dnnl_primitive_attr_destroy) X(dnnl_primitive_attr_set_scratchpad_mode) \
  X(dnnl_primitive_attr_set_post_ops) X(dnnl_post_ops_create) X(dnnl_post_ops_destroy) X(dnnl_post_ops_append_eltwise) \
  X(dnnl_post_ops_append_binary) \
  X(dnnl_primitive_desc_create) X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query) X(dnnl_primitive_desc_query_md) \
  X(dnnl_primitive_create) X(dnnl_primitive_destroy) X(dnnl_primitive_execute)
// clang-format on

struct DnnlLibrary {
#define TOROID_DNNL_MEMBER(name) decltype(&::name) name = nullptr;
  TOROID_DNNL_FUNCTIONS(TOROID_DNNL_MEMBER)
#undef TOROID_DNNL_MEMBER
  std::string version;
  dnnl_engine_t engine = nullptr;
  // The OpenMP runtime that the library uses; null where it uses none.
  int (*omp_get_max_threads)() = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;
};

// The library that the option onednn_library names. Opened once, never closed. EnvironmentError.
const DnnlLibrary& dnnl_library();

}  // namespace toroid::external
