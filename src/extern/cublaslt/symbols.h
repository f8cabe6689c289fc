// The functions of cuBLASLt that Toroid calls, found at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/shared_library.h"
#include "device/cuda/driver.h"

namespace toroid::external::cublaslt {

// The part of cublasLt.h that is used here, by its own names and with its own values.
using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t*;
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

enum : int { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum : int { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};
enum : int { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum : uint32_t { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4, CUBLASLT_EPILOGUE_GELU = 32 };

struct Library {
  SharedLibrary library;
  template <class F>
  using Function = F*;
  Function<size_t()> version = library.function<size_t()>("cublasLtGetVersion");
  Function<const char*(cublasStatus_t)> status_string = library.function<const char*(cublasStatus_t)>("cublasLtGetStatusString");
  Function<cublasStatus_t(cublasLtHandle_t*)> create = library.function<cublasStatus_t(cublasLtHandle_t*)>("cublasLtCreate");
  Function<cublasStatus_t(cublasLtMatmulDesc_t*, int, int)> create_desc =
      library.function<cublasStatus_t(cublasLtMatmulDesc_t*, int, int)>("cublasLtMatmulDescCreate");
  Function<cublasStatus_t(cublasLtMatmulDesc_t)> destroy_desc =
      library.function<cublasStatus_t(cublasLtMatmulDesc_t)>("cublasLtMatmulDescDestroy");
  Function<cublasStatus_t(cublasLtMatmulDesc_t, int, const void*, size_t)> set_desc =
      library.function<cublasStatus_t(cublasLtMatmulDesc_t, int, const void*, size_t)>("cublasLtMatmulDescSetAttribute");
  Function<cublasStatus_t(cublasLtMatrixLayout_t*, int, uint64_t, uint64_t, int64_t)> create_layout =
      library.function<cublasStatus_t(cublasLtMatrixLayout_t*, int, uint64_t, uint64_t, int64_t)>("cublasLtMatrixLayoutCreate");
  Function<cublasStatus_t(cublasLtMatrixLayout_t)> destroy_layout =
      library.function<cublasStatus_t(cublasLtMatrixLayout_t)>("cublasLtMatrixLayoutDestroy");
  Function<cublasStatus_t(cublasLtMatrixLayout_t, int, const void*, size_t)> set_layout =
      library.function<cublasStatus_t(cublasLtMatrixLayout_t, int, const void*, size_t)>("cublasLtMatrixLayoutSetAttribute");
  Function<cublasStatus_t(cublasLtMatmulPreference_t*)> create_preference =
      library.function<cublasStatus_t(cublasLtMatmulPreference_t*)>("cublasLtMatmulPreferenceCreate");
  Function<cublasStatus_t(cublasLtMatmulPreference_t)> destroy_preference =
      library.function<cublasStatus_t(cublasLtMatmulPreference_t)>("cublasLtMatmulPreferenceDestroy");
  Function<cublasStatus_t(cublasLtMatmulPreference_t, int, const void*, size_t)> set_preference =
      library.function<cublasStatus_t(cublasLtMatmulPreference_t, int, const void*, size_t)>("cublasLtMatmulPreferenceSetAttribute");
  using Heuristic = cublasStatus_t(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                   cublasLtMatmulHeuristicResult_t*, int*);
  Heuristic* heuristic = library.function<Heuristic>("cublasLtMatmulAlgoGetHeuristic");
  using Matmul = cublasStatus_t(cublasLtHandle_t, cublasLtMatmulDesc_t, const void* alpha, const void* a, cublasLtMatrixLayout_t,
                                const void* b, cublasLtMatrixLayout_t, const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                                cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace, size_t, device::cuda::CUstream);
  Matmul* matmul = library.function<Matmul>("cublasLtMatmul");

  // EnvironmentError with the library's word for it, and `doing`.
  void check(cublasStatus_t status, const char* doing) const;
};

// Opened once, never closed. EnvironmentError; a later call tries again.
const Library& library();

}  // namespace toroid::external::cublaslt
