// The functions of cuDNN that Toroid calls, found at run time.
#pragma once

#include <cstddef>
#include <string>

#include "base/shared_library.h"
#include "device/cuda/driver.h"

namespace toroid::external::cudnn {

// The part of cudnn.h that is used here, by its own names and with its own values.
using cudnnStatus_t = int;
using cudnnHandle_t = struct cudnnContext*;
using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
using cudnnFilterDescriptor_t = struct cudnnFilterStruct*;
using cudnnConvolutionDescriptor_t = struct cudnnConvolutionStruct*;
using cudnnActivationDescriptor_t = struct cudnnActivationStruct*;
struct cudnnConvolutionFwdAlgoPerf_t {
  int algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  int determinism;
  int mathType;
  int reserved[3];
};

enum : int { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum : int { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 };
enum : int { CUDNN_NOT_PROPAGATE_NAN = 0 };
enum : int { CUDNN_TENSOR_NHWC = 1 };
enum : int { CUDNN_CROSS_CORRELATION = 1 };
enum : int { CUDNN_ACTIVATION_RELU = 1, CUDNN_ACTIVATION_IDENTITY = 5 };
enum : int { CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1, CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8 };

struct Library {
  SharedLibrary library;
  template <class F>
  using Function = F*;
  Function<size_t()> version = library.function<size_t()>("cudnnGetVersion");
  Function<const char*(cudnnStatus_t)> status_string = library.function<const char*(cudnnStatus_t)>("cudnnGetErrorString");
  Function<void(char*, size_t)> last_error = library.function<void(char*, size_t)>("cudnnGetLastErrorString");
  Function<cudnnStatus_t(cudnnHandle_t*)> create = library.function<cudnnStatus_t(cudnnHandle_t*)>("cudnnCreate");
  Function<cudnnStatus_t(cudnnHandle_t, device::cuda::CUstream)> set_stream =
      library.function<cudnnStatus_t(cudnnHandle_t, device::cuda::CUstream)>("cudnnSetStream");

  template <class T>
  using Create = cudnnStatus_t(T*);
  template <class T>
  using Destroy = cudnnStatus_t(T);
  Create<cudnnTensorDescriptor_t>* create_tensor = library.function<Create<cudnnTensorDescriptor_t>>("cudnnCreateTensorDescriptor");
  Destroy<cudnnTensorDescriptor_t>* destroy_tensor = library.function<Destroy<cudnnTensorDescriptor_t>>("cudnnDestroyTensorDescriptor");
  Create<cudnnFilterDescriptor_t>* create_filter = library.function<Create<cudnnFilterDescriptor_t>>("cudnnCreateFilterDescriptor");
  Destroy<cudnnFilterDescriptor_t>* destroy_filter = library.function<Destroy<cudnnFilterDescriptor_t>>("cudnnDestroyFilterDescriptor");
  Create<cudnnConvolutionDescriptor_t>* create_convolution =
      library.function<Create<cudnnConvolutionDescriptor_t>>("cudnnCreateConvolutionDescriptor");
  Destroy<cudnnConvolutionDescriptor_t>* destroy_convolution =
      library.function<Destroy<cudnnConvolutionDescriptor_t>>("cudnnDestroyConvolutionDescriptor");
  Create<cudnnActivationDescriptor_t>* create_activation =
      library.function<Create<cudnnActivationDescriptor_t>>("cudnnCreateActivationDescriptor");
  Destroy<cudnnActivationDescriptor_t>* destroy_activation =
      library.function<Destroy<cudnnActivationDescriptor_t>>("cudnnDestroyActivationDescriptor");

  using SetTensor = cudnnStatus_t(cudnnTensorDescriptor_t, int format, int type, int n, int c, int h, int w);
  SetTensor* set_tensor = library.function<SetTensor>("cudnnSetTensor4dDescriptor");
  using SetFilter = cudnnStatus_t(cudnnFilterDescriptor_t, int type, int format, int k, int c, int h, int w);
  SetFilter* set_filter = library.function<SetFilter>("cudnnSetFilter4dDescriptor");
  using SetConvolution = cudnnStatus_t(cudnnConvolutionDescriptor_t, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                                       int dilation_w, int mode, int compute_type);
  SetConvolution* set_convolution = library.function<SetConvolution>("cudnnSetConvolution2dDescriptor");
  using SetNumber = cudnnStatus_t(cudnnConvolutionDescriptor_t, int);
  SetNumber* set_groups = library.function<SetNumber>("cudnnSetConvolutionGroupCount");
  SetNumber* set_math = library.function<SetNumber>("cudnnSetConvolutionMathType");
  using SetActivation = cudnnStatus_t(cudnnActivationDescriptor_t, int mode, int nan, double coefficient);
  SetActivation* set_activation = library.function<SetActivation>("cudnnSetActivationDescriptor");

  using Heuristic = cudnnStatus_t(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t,
                                  cudnnTensorDescriptor_t y, int most, int* count, cudnnConvolutionFwdAlgoPerf_t*);
  Heuristic* heuristic = library.function<Heuristic>("cudnnGetConvolutionForwardAlgorithm_v7");
  using Workspace = cudnnStatus_t(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t,
                                  cudnnTensorDescriptor_t y, int algo, size_t* bytes);
  Workspace* workspace = library.function<Workspace>("cudnnGetConvolutionForwardWorkspaceSize");
  using Forward = cudnnStatus_t(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x, cudnnFilterDescriptor_t,
                                const void* w, cudnnConvolutionDescriptor_t, int algo, void* workspace, size_t bytes, const void* beta,
                                cudnnTensorDescriptor_t, void* y);
  Forward* forward = library.function<Forward>("cudnnConvolutionForward");
  using FusedForward = cudnnStatus_t(cudnnHandle_t, const void* alpha1, cudnnTensorDescriptor_t, const void* x, cudnnFilterDescriptor_t,
                                     const void* w, cudnnConvolutionDescriptor_t, int algo, void* workspace, size_t bytes,
                                     const void* alpha2, cudnnTensorDescriptor_t, const void* z, cudnnTensorDescriptor_t, const void* bias,
                                     cudnnActivationDescriptor_t, cudnnTensorDescriptor_t, void* y);
  FusedForward* fused_forward = library.function<FusedForward>("cudnnConvolutionBiasActivationForward");

  // EnvironmentError with the library's words for it, and `doing`.
  void check(cudnnStatus_t status, const char* doing) const;
};

// Opened once, never closed. EnvironmentError; a later call tries again.
const Library& library();

}  // namespace toroid::external::cudnn
