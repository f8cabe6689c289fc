// The one table of options: each has a type, a default, a text for people and an environment variable TOROID_<NAME>.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toroid/options.h"

namespace toroid {

enum class OptionId : uint8_t {
  Cache,
  CacheDir,
  CacheSizeMb,
  CompileThreads,
  Threads,
  SpinUs,
  CompileDebug,
  DebugDir,
  KernelDir,
  Logs,
  VerifyPasses,
  DisablePasses,
  RecompileLimit,
  Isa,
  CudaDir,
  CudaSharedPercent,
  GemmBackends,
  ConvBackends,
  AllowTf32,
  OneDnnLibrary,
  CaptureRequire,
  CaptureWarmups,
  CaptureMinLaunches,
  CaptureResults,
  CaptureSizes,
  CaptureSizesWarnLimit,
  CaptureSkipDynamic,
  CaptureRerecordLimit,
  CaptureMemoryKb,
  CaptureOverBudget,
  ReplayTimeoutMs,
  TuneBudgetMs,
  TuneRegionMs,
  TuneWholeMs,
  TunePrecompile,
  TuneAllTried,
  TuneChoices,
  TuneBackends,
  TuneStrict,
  DecomposeKThreshold,
  NumDecomposeKSplits,
  FusionTypes,
  EnableRecursiveFusion,
  MaxFusionDepth,
  FusionSpeedupPercent,
  TuneDatabase,
  TuneRetryHours,
  TuneWorker,
  TuneIsolated,
  TuneTimeoutMs,
  TuneCompileTimeoutMs,
  TuneRemote,
  TuneLock,
  TuneLockCheck,
  CoordinateDescentTuning,
  Deterministic,
  Nvtx,
  CheckIndices,
};
inline constexpr int kOptionCount = 58;

// A key into the table that knows the type of its value: bool, int64_t or std::string.
template <class T>
struct Option {
  OptionId id;
};

namespace options {
inline constexpr Option<bool> kCache{OptionId::Cache};
inline constexpr Option<std::string> kCacheDir{OptionId::CacheDir};
inline constexpr Option<int64_t> kCacheSizeMb{OptionId::CacheSizeMb};
inline constexpr Option<int64_t> kCompileThreads{OptionId::CompileThreads};
inline constexpr Option<int64_t> kThreads{OptionId::Threads};
inline constexpr Option<int64_t> kSpinUs{OptionId::SpinUs};
inline constexpr Option<bool> kCompileDebug{OptionId::CompileDebug};
inline constexpr Option<std::string> kDebugDir{OptionId::DebugDir};
inline constexpr Option<std::string> kKernelDir{OptionId::KernelDir};
inline constexpr Option<std::string> kLogs{OptionId::Logs};
inline constexpr Option<bool> kVerifyPasses{OptionId::VerifyPasses};
inline constexpr Option<std::string> kDisablePasses{OptionId::DisablePasses};
inline constexpr Option<int64_t> kRecompileLimit{OptionId::RecompileLimit};
inline constexpr Option<std::string> kIsa{OptionId::Isa};
inline constexpr Option<std::string> kCudaDir{OptionId::CudaDir};
inline constexpr Option<int64_t> kCudaSharedPercent{OptionId::CudaSharedPercent};
inline constexpr Option<std::string> kGemmBackends{OptionId::GemmBackends};
inline constexpr Option<std::string> kConvBackends{OptionId::ConvBackends};
inline constexpr Option<bool> kAllowTf32{OptionId::AllowTf32};
inline constexpr Option<std::string> kOneDnnLibrary{OptionId::OneDnnLibrary};
inline constexpr Option<bool> kCaptureRequire{OptionId::CaptureRequire};
inline constexpr Option<int64_t> kCaptureWarmups{OptionId::CaptureWarmups};
inline constexpr Option<int64_t> kCaptureMinLaunches{OptionId::CaptureMinLaunches};
inline constexpr Option<std::string> kCaptureResults{OptionId::CaptureResults};
inline constexpr Option<std::string> kCaptureSizes{OptionId::CaptureSizes};
inline constexpr Option<int64_t> kCaptureSizesWarnLimit{OptionId::CaptureSizesWarnLimit};
inline constexpr Option<bool> kCaptureSkipDynamic{OptionId::CaptureSkipDynamic};
inline constexpr Option<int64_t> kCaptureRerecordLimit{OptionId::CaptureRerecordLimit};
inline constexpr Option<int64_t> kCaptureMemoryKb{OptionId::CaptureMemoryKb};
inline constexpr Option<std::string> kCaptureOverBudget{OptionId::CaptureOverBudget};
inline constexpr Option<int64_t> kReplayTimeoutMs{OptionId::ReplayTimeoutMs};
inline constexpr Option<int64_t> kTuneBudgetMs{OptionId::TuneBudgetMs};
inline constexpr Option<int64_t> kTuneRegionMs{OptionId::TuneRegionMs};
inline constexpr Option<int64_t> kTuneWholeMs{OptionId::TuneWholeMs};
inline constexpr Option<bool> kTunePrecompile{OptionId::TunePrecompile};
inline constexpr Option<int64_t> kTuneAllTried{OptionId::TuneAllTried};
inline constexpr Option<std::string> kTuneChoices{OptionId::TuneChoices};
inline constexpr Option<std::string> kTuneBackends{OptionId::TuneBackends};
inline constexpr Option<bool> kTuneStrict{OptionId::TuneStrict};
inline constexpr Option<int64_t> kDecomposeKThreshold{OptionId::DecomposeKThreshold};
inline constexpr Option<int64_t> kNumDecomposeKSplits{OptionId::NumDecomposeKSplits};
inline constexpr Option<std::string> kFusionTypes{OptionId::FusionTypes};
inline constexpr Option<bool> kEnableRecursiveFusion{OptionId::EnableRecursiveFusion};
inline constexpr Option<int64_t> kMaxFusionDepth{OptionId::MaxFusionDepth};
inline constexpr Option<int64_t> kFusionSpeedupPercent{OptionId::FusionSpeedupPercent};
inline constexpr Option<std::string> kTuneDatabase{OptionId::TuneDatabase};
inline constexpr Option<int64_t> kTuneRetryHours{OptionId::TuneRetryHours};
inline constexpr Option<std::string> kTuneWorker{OptionId::TuneWorker};
inline constexpr Option<bool> kTuneIsolated{OptionId::TuneIsolated};
inline constexpr Option<int64_t> kTuneTimeoutMs{OptionId::TuneTimeoutMs};
inline constexpr Option<int64_t> kTuneCompileTimeoutMs{OptionId::TuneCompileTimeoutMs};
inline constexpr Option<std::string> kTuneRemote{OptionId::TuneRemote};
inline constexpr Option<std::string> kTuneLock{OptionId::TuneLock};
inline constexpr Option<bool> kTuneLockCheck{OptionId::TuneLockCheck};
inline constexpr Option<bool> kCoordinateDescentTuning{OptionId::CoordinateDescentTuning};
inline constexpr Option<bool> kDeterministic{OptionId::Deterministic};
inline constexpr Option<bool> kNvtx{OptionId::Nvtx};
inline constexpr Option<bool> kCheckIndices{OptionId::CheckIndices};
}  // namespace options

// The value now. The first access to any option reads the environment; a bad value there is a UserError that names the variable.
bool get_option(Option<bool> key);
int64_t get_option(Option<int64_t> key);
std::string get_option(Option<std::string> key);

// Grows with every set_option: whoever keeps something derived from options compares it.
uint64_t options_version();

// Sets an option for the life of this object and puts the old value back. For the whole process, not for one thread.
class ScopedOption {
 public:
  ScopedOption(std::string_view name, std::string_view value);
  ~ScopedOption();
  ScopedOption(const ScopedOption&) = delete;
  ScopedOption& operator=(const ScopedOption&) = delete;

 private:
  std::string name_, old_;
};

// Gives options other values in this thread alone, for the life of this object. UserError as set_option.
class ThreadOptions {
 public:
  explicit ThreadOptions(const std::vector<std::pair<std::string, std::string>>& values);
  ~ThreadOptions();
  ThreadOptions(const ThreadOptions&) = delete;
  ThreadOptions& operator=(const ThreadOptions&) = delete;

 private:
  size_t before_;
};
// UserError for an unknown option (with the nearest ones) or a bad value.
void check_option(std::string_view name, std::string_view value);

}  // namespace toroid
