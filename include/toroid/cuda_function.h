// C++ functions over the memory of NVIDIA GPUs that compute opaque operations (toroid/opaque_op.h) there: calls of libraries, and launches
// of kernels that were compiled elsewhere.
//
//   register_cuda_function(scale, [](InputMemory x, double by, OutputMemory y, CudaStream stream) {
//     scale_by<<<blocks, threads, 0, static_cast<cudaStream_t>(stream.handle)>>>(x.data<float>(), y.data<float>(), x.numel(), by);
//   });
#pragma once

#include <optional>

#include "toroid/opaque_op.h"

namespace toroid {

// A queue of a GPU's work.
struct CudaStream {
  void* handle = nullptr;  // a CUstream, which is a cudaStream_t
  Device device;           // the GPU, whose primary context is the calling thread's
};

// The function with its types erased. It takes what the operation's function takes (InputMemory, OutputMemory, std::vector<InputMemory>,
// int64_t, double, bool, std::string), and last the CudaStream. The memory is the GPU's: data() and data<T>() are addresses for kernels,
// as<T>() is a UserError. It starts its work on the stream, or on streams that wait for it and that it waits for, and returns without
// waiting: the memory stays until that work is done. It may run on several threads at once. What it throws arrives as of other functions.
class CudaFunction {
 public:
  CudaFunction() = default;
  template <class F>
  requires(!std::same_as<std::decay_t<F>, CudaFunction>) CudaFunction(F f)
      : CudaFunction(std::function(std::move(f))) {}  // NOLINT: functions are written as they are
  template <class... P>
  CudaFunction(std::function<void(P...)> f);  // NOLINT

  std::vector<CustomFunction::Kind> params;  // without the stream
  std::function<void(std::span<const OpaqueFunction::Arg>, const CudaStream&)> run;
};

struct CudaFunctionOptions {
  // Whether what it starts may be recorded in a CUDA graph (Mode::ReduceOverhead, CudaGraph), which repeats that work, on the same
  // addresses, without calling the function. Else it is called between the recorded parts. Empty: where the operation has no `effect`.
  std::optional<bool> capturable = {};
};

// Gives an operation a function that takes the place of its own in what runs on an NVIDIA GPU; the two must compute the same. It is a step
// of the programs that are compiled from then on, which packages name: a process that loads one registers it before. Arguments are
// row-major, by a copy where they are not, unless the operation is `strided`; they may begin within other memory, aligned to an element.
// Those that it writes are written where they lie. UserError for an operation that is not opaque, has a kernel or such a function already,
// and for a function that takes other arguments.
void register_cuda_function(const CustomOpBase& op, CudaFunction f, const CudaFunctionOptions& options = {});

// --- implementation ---------------------------------------------------------------------------------------------------------------

namespace detail {

template <class... P>
inline constexpr bool kEndsWithStream = false;
template <class P, class... Rest>
inline constexpr bool kEndsWithStream<P, Rest...> = sizeof...(Rest) == 0 ? std::same_as<std::remove_cvref_t<P>, CudaStream>
                                                                         : kEndsWithStream<Rest...>;

}  // namespace detail

template <class... P>
CudaFunction::CudaFunction(std::function<void(P...)> f) {
  static_assert(detail::kEndsWithStream<P...>, "the last parameter of a function for GPUs is the CudaStream");
  using All = std::tuple<std::remove_cvref_t<P>...>;
  [&]<size_t... I>(std::index_sequence<I...>) {
    params = {detail::memory_kind_of<std::tuple_element_t<I, All>>()...};
    if (!f) return;
    run = [f = std::move(f)](std::span<const OpaqueFunction::Arg> args, const CudaStream& stream) {
      std::tuple<std::tuple_element_t<I, All>...> own{detail::taken_from<std::tuple_element_t<I, All>>(args[I])...};
      std::apply([&](auto&... a) { f(a..., stream); }, own);
    };
  }
  (std::make_index_sequence<sizeof...(P) - 1>());
}

}  // namespace toroid
