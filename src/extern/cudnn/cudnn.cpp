#include "extern/cudnn/cudnn.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "extern/cudnn/symbols.h"
#include "toroid/device_error.h"

namespace toroid::external {
namespace {

using namespace cudnn;

constexpr size_t kMostWorkspace = size_t{256} << 20;

// A descriptor of the library, and the function that frees it.
template <class T>
class Owned {
 public:
  Owned(const Library& lib, Library::Create<T>* create, Library::Destroy<T>* destroy) : destroy_(destroy) {
    lib.check(create(&value_), "making a descriptor");
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { destroy_(value_); }
  T get() const { return value_; }

 private:
  T value_ = nullptr;
  Library::Destroy<T>* destroy_;
};

int type_of(DType t) {
  switch (t) {
    case DType::F32:
      return CUDNN_DATA_FLOAT;
    case DType::F16:
      return CUDNN_DATA_HALF;
    case DType::BF16:
      return CUDNN_DATA_BFLOAT16;
    default:
      fail<InternalError>("cuDNN is not asked for convolutions of {}", name_of(t));
  }
}

// The library's context of a GPU, made once and kept. It serves one thread at a time.
struct Context {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

Context& context(const Library& lib, device::cuda::Gpu& gpu) {
  static std::mutex mutex;
  static auto& contexts = *new std::map<device::cuda::Gpu*, Context>;
  std::lock_guard lock(mutex);
  Context& c = contexts[&gpu];
  gpu.use();
  if (!c.handle) lib.check(lib.create(&c.handle), "opening the GPU");
  return c;
}

// Buffers of a call, in its order.
enum Buffer { kInput, kWeight, kOut, kBias, kAddend, kBuffers };

class Call : public LibraryCall {
 public:
  Call(const CudnnProblem& p, device::cuda::Gpu& gpu, int math)
      : p_(p),
        lib_(library()),
        gpu_(gpu),
        context_(context(lib_, gpu)),
        input_(lib_, lib_.create_tensor, lib_.destroy_tensor),
        out_(lib_, lib_.create_tensor, lib_.destroy_tensor),
        bias_(lib_, lib_.create_tensor, lib_.destroy_tensor),
        weight_(lib_, lib_.create_filter, lib_.destroy_filter),
        convolution_(lib_, lib_.create_convolution, lib_.destroy_convolution),
        activation_(lib_, lib_.create_activation, lib_.destroy_activation) {
    constexpr const char* kDoing = "describing a convolution";
    auto tensor = [&](auto& t, int64_t n, int64_t c, int64_t h, int64_t w) {
      lib_.check(lib_.set_tensor(t.get(), CUDNN_TENSOR_NHWC, type_of(p.dtype), int(n), int(c), int(h), int(w)), kDoing);
    };
    tensor(input_, p.n, p.in_channels, p.in_h, p.in_w);
    tensor(out_, p.n, p.out_channels, p.out_h, p.out_w);
    tensor(bias_, 1, p.out_channels, 1, 1);
    const auto& w = p.window;
    lib_.check(lib_.set_filter(weight_.get(), type_of(p.dtype), CUDNN_TENSOR_NHWC, int(p.out_channels), int(p.in_channels / p.groups),
                               int(w.size[0]), int(w.size[1])),
               kDoing);
    lib_.check(lib_.set_convolution(convolution_.get(), int(w.pad[0]), int(w.pad[1]), int(w.stride[0]), int(w.stride[1]),
                                    int(w.dilation[0]), int(w.dilation[1]), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
               kDoing);
    lib_.check(lib_.set_groups(convolution_.get(), int(p.groups)), kDoing);
    lib_.check(lib_.set_math(convolution_.get(), math), kDoing);
    lib_.check(
        lib_.set_activation(activation_.get(), p.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0.0),
        kDoing);
  }

  // What the library proposes, the fastest first.
  std::vector<cudnnConvolutionFwdAlgoPerf_t> algorithms() const {
    constexpr int kMost = 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT;  // some with and without tensor cores
    std::vector<cudnnConvolutionFwdAlgoPerf_t> found(kMost);
    int count = 0;
    std::lock_guard lock(context_.mutex);
    const auto status =
        lib_.heuristic(context_.handle, input_.get(), weight_.get(), convolution_.get(), out_.get(), kMost, &count, found.data());
    // A problem that it does not take is no error here: it is a bad parameter (2000 to 2999), or not supported (3000 to 3999).
    if (status / 1000 == 2 || status / 1000 == 3) return {};
    lib_.check(status, "proposing algorithms for a convolution");
    found.resize(static_cast<size_t>(count));
    std::erase_if(found, [&](auto& f) {
      if (f.status != 0 || f.memory > kMostWorkspace) return true;
      // Without an activation the call with a bias knows this algorithm alone.
      return p_.has_bias && !p_.relu && f.algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    });
    return found;
  }

  // Of algorithms(), with the numbers that the problem has. False where the library refuses after all.
  bool take(const cudnnConvolutionFwdAlgoPerf_t& how) {
    algorithm_ = how.algo;
    std::lock_guard lock(context_.mutex);
    return lib_.workspace(context_.handle, input_.get(), weight_.get(), convolution_.get(), out_.get(), algorithm_, &workspace_) == 0 &&
           workspace_ <= kMostWorkspace;
  }

  // Runs on memory of its own, where there is as much. False where the library refuses, which the log says.
  bool try_out() const try {
    const auto size = static_cast<int64_t>(size_of(p_.dtype));
    const int64_t sizes[kBuffers] = {
        p_.input_offset + p_.n * p_.in_h * p_.in_w * p_.in_channels,
        p_.weight_offset + p_.out_channels * p_.window.size[0] * p_.window.size[1] * p_.in_channels / p_.groups,
        p_.out_offset + p_.n * p_.out_h * p_.out_w * p_.out_channels, p_.bias_offset + p_.out_channels,
        p_.has_addend ? p_.addend_offset + p_.n * p_.out_h * p_.out_w * p_.out_channels : 1};
    std::vector<std::shared_ptr<void>> memory;
    std::vector<void*> buffers;
    for (int64_t n : sizes) buffers.push_back(memory.emplace_back(gpu_.allocate(static_cast<size_t>(n * size))).get());
    const auto scratch = gpu_.allocate(workspace_ + 1);
    const cudnnStatus_t status = start(buffers.data(), scratch.get());
    if (status != 0) log(Artifact::Choices, fmt::format("algorithm {} of cuDNN: {}", algorithm_, lib_.status_string(status)));
    return status == 0;
  } catch (const DeviceError& e) {
    if (!e.is(DeviceErrorCode::OutOfMemory)) throw;
    log(Artifact::Choices, fmt::format("a convolution by cuDNN was not tried out: {}", e.what()));
    return true;
  }

  int64_t scratch_bytes() const override { return static_cast<int64_t>(workspace_); }

  // A call by itself took 243 to 324 us between two events (9.14, most of it waiting for the host, as the same kernels take a tenth of that
  // in a recording): the second call at the same addresses in a row is recorded.
  void run(void* const* buffers, void* scratch) const override {
    if (is_capturing()) return lib_.check(start(buffers, scratch), "a convolution");
    Addresses now = {};
    std::copy_n(buffers, p_.has_addend ? kBuffers : p_.has_bias ? kAddend : kBias, now.begin());
    now.back() = scratch;
    std::lock_guard lock(mutex_);
    if (now != latest_) {
      latest_ = now;
      recording_.reset();
      return lib_.check(start(buffers, scratch), "a convolution");
    }
    if (!recording_ && !unrecordable_) try {
        recording_ = gpu_.record([&] { lib_.check(start(buffers, scratch), "a convolution"); });
      } catch (const EnvironmentError& e) {
        unrecordable_ = true;
        log(Artifact::Captures, fmt::format("a convolution by cuDNN is started by the library each time: {}", e.what()));
      }
    if (recording_) return gpu_.launch(*recording_);
    lib_.check(start(buffers, scratch), "a convolution");
  }

 private:
  using Addresses = std::array<void*, kBuffers + 1>;  // of the buffers, and of the scratch memory

  bool is_capturing() const {
    int status = 0;
    uint64_t id = 0;
    device::cuda::CUgraph graph = nullptr;
    const device::cuda::CUgraphNode* nodes = nullptr;
    const void* edges = nullptr;
    size_t count = 0;
    const auto& driver = gpu_.driver_functions();
    driver.check(driver.capture_info(gpu_.stream(), &status, &id, &graph, &nodes, &edges, &count), "asking whether work is captured");
    return status != 0;
  }

  cudnnStatus_t start(void* const* buffers, void* scratch) const {
    auto at = [&](Buffer b, int64_t offset) { return static_cast<char*>(buffers[b]) + offset * static_cast<int64_t>(size_of(p_.dtype)); };
    const float one = 1, zero = 0;
    const void* x = at(kInput, p_.input_offset);
    const void* w = at(kWeight, p_.weight_offset);
    void* y = at(kOut, p_.out_offset);
    gpu_.use();
    std::lock_guard lock(context_.mutex);
    if (const cudnnStatus_t status = lib_.set_stream(context_.handle, gpu_.stream()); status != 0) return status;
    if (!p_.has_bias)
      return lib_.forward(context_.handle, &one, input_.get(), x, weight_.get(), w, convolution_.get(), algorithm_, scratch, workspace_,
                          &zero, out_.get(), y);
    const void* z = p_.has_addend ? at(kAddend, p_.addend_offset) : y;
    return lib_.fused_forward(context_.handle, &one, input_.get(), x, weight_.get(), w, convolution_.get(), algorithm_, scratch, workspace_,
                              p_.has_addend ? &one : &zero, out_.get(), z, bias_.get(), at(kBias, p_.bias_offset), activation_.get(),
                              out_.get(), y);
  }

  CudnnProblem p_;
  const Library& lib_;
  device::cuda::Gpu& gpu_;
  Context& context_;
  Owned<cudnnTensorDescriptor_t> input_, out_, bias_;
  Owned<cudnnFilterDescriptor_t> weight_;
  Owned<cudnnConvolutionDescriptor_t> convolution_;
  Owned<cudnnActivationDescriptor_t> activation_;
  int algorithm_ = 0;
  size_t workspace_ = 0;
  mutable std::mutex mutex_;  // of:
  mutable Addresses latest_ = {};
  mutable bool unrecordable_ = false;
  mutable std::unique_ptr<device::cuda::Graph> recording_;  // of a call at these; or null
};

}  // namespace

std::string cudnn_version() {
  const size_t v = library().version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::vector<std::shared_ptr<const LibraryCall>> prepare_cudnn(const CudnnProblem& problem, device::cuda::Gpu& gpu, int most) {
  TOROID_CHECK(problem.has_bias || (!problem.has_addend && !problem.relu), "cuDNN adds and clips only with a bias");
  const bool exact = problem.dtype == DType::F32 && !problem.tf32;
  const int math = exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  std::vector<std::shared_ptr<const LibraryCall>> calls;
  for (const auto& how : Call(problem, gpu, math).algorithms()) {
    if (calls.size() >= static_cast<size_t>(most)) break;
    if (exact && how.mathType != CUDNN_FMA_MATH) continue;
    auto call = std::make_shared<Call>(problem, gpu, how.mathType);
    if (call->take(how) && call->try_out()) calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace toroid::external
