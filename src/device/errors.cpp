#include "device/errors.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::device {
namespace {

struct Row {
  int code;
  const char *name, *cause, *next;
};

constexpr const char* kKernelWentWrong =
    "a kernel that ran before went wrong: it reached memory that is not there any more, or there is a bug in it. This process cannot use "
    "the "
    "GPU any more";
constexpr const char* kReportKernel =
    "start the program again; keep the tensors that a graph was captured with alive and where they are as long as it is replayed; run "
    "without graphs (Mode::Default) and with CUDA_LAUNCH_BLOCKING=1 to see which launch it is; TOROID_COMPILE_DEBUG=1 writes the kernels' "
    "text for a report";

constexpr Row kRows[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "the driver was given a value out of its range", "report it with the text above"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY",
     "the device has no memory left; an executable graph needs some beside its tensors, about 64 KB and a kilobyte a launch",
     "free tensors and graphs (reset), give back what is kept (empty_cache), or let graphs share one pool (graph_pool_handle)"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "the driver is shutting down, or a child process uses the GPU that its parent opened",
     "use the GPU only in processes that started it themselves"},
    {4, "CUDA_ERROR_DEINITIALIZED", "the driver has shut down: the process is ending", "end work on the GPU before main returns"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "another process has the GPU for itself (exclusive mode)", "end it, or choose another GPU"},
    {100, "CUDA_ERROR_NO_DEVICE", "the driver finds no GPU", "use Device::cpu(), or check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "there is no GPU of this number", "toroid doctor lists the GPUs there are"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "the cached machine code of a kernel is damaged", "empty the cache: toroid cache clear"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the kernel was compiled for another architecture", "empty the cache: toroid cache clear"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is older than the compiler", "update the driver"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "a stream, event or graph of another GPU, or one that is gone, was used",
     "use streams and events on the device that they were made for"},
    {600, "CUDA_ERROR_NOT_READY", "work is still under way", "wait for it: synchronize()"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", kKernelWentWrong, kReportKernel},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a kernel asks for more registers or shared memory than the GPU has",
     "report it with the kernel's text (TOROID_COMPILE_DEBUG=1)"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "work on the device did not end in time: a kernel hangs, or waits for another rank",
     "raise the option replay_timeout_ms (0: no limit) if the work may take so long; else run without graphs to see which launch it is"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the driver is shutting down, or a stream or event that is gone was used",
     "end work on the GPU before main returns"},
    {710, "CUDA_ERROR_ASSERT", "a kernel's own check failed, most likely an index out of range",
     "check the indices; run with CUDA_LAUNCH_BLOCKING=1 to see which launch it is; start the program again"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", kKernelWentWrong, kReportKernel},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", kKernelWentWrong, kReportKernel},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", kKernelWentWrong, kReportKernel},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", kKernelWentWrong, kReportKernel},
    {718, "CUDA_ERROR_INVALID_PC", kKernelWentWrong, kReportKernel},
    {719, "CUDA_ERROR_LAUNCH_FAILED", kKernelWentWrong, kReportKernel},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "this GPU or driver cannot do it", "update the driver"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "the machine's GPU services have not started (Fabric Manager)",
     "ask the administrator to start them"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the driver's library and its kernel module have different versions",
     "restart the machine after an update of the driver"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "while work is captured nothing runs, so that nothing can be waited for, read on the host or decided by its values",
     "do it before the capture or after the replay: call each function once before (warm-up), read results after replay(), or capture the "
     "parts around it as graphs of their own"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier call, perhaps of another thread, is not allowed while work is captured",
     "remove that call, or capture with the error mode thread_local or relaxed if it is another thread's; then capture again"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would become one through an event", "let each capture use events of its own"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the stream where the capture ends is not the one where it began",
     "end it on the same stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream that took part in the capture has work that the first stream does not wait for",
     "before the end, let the first stream wait for it: wait_stream()"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "captured work would wait for work outside of the capture",
     "wait for it before the capture begins"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "captured work would wait for the legacy default stream",
     "keep other libraries off the legacy default stream meanwhile"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "an event that was recorded in a capture has no time and never happens by itself",
     "record it again outside of the capture"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread than the one that began the capture would end it",
     "begin and end a capture in one thread"},
    {909, "CUDA_ERROR_TIMEOUT", "the device waited too long", "see whether another process blocks the GPU"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph has other nodes or edges than the executable one", "instantiate it"},
};

}  // namespace

void fail_on_device(int code, std::string_view doing, std::string_view words, std::string_view name) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.code == code; });
  const Row unknown{code, nullptr, "unknown", "search the driver's documentation for the name"};
  if (row == std::end(kRows)) row = &unknown;
  const std::string title = row->name ? row->name : std::string(name.empty() ? "an error without a name" : name);
  throw DeviceError(code, title, row->cause, row->next,
                    fmt::format("{} failed: {} ({}){}{}. Likely cause: {}. What to do: {}", doing, title, code, words.empty() ? "" : ": ",
                                words, row->cause, row->next));
}

}  // namespace toroid::device
