#include "base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <regex>
#include <span>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"

namespace toroid {
namespace {

enum class Kind { Bool, Int, String };

struct Row {
  OptionId id;
  Kind kind;
  std::string_view name;
  std::string_view default_value;
  std::string_view doc;
  int64_t max = 0;                                                         // Int: values lie in [0, max]
  void (*check)(std::string_view value, std::string_view what) = nullptr;  // String: throws UserError for a bad value
};

void check_isa(std::string_view value, std::string_view what) {
  for (std::string_view known : {"auto", "avx2", "avx512", "scalar"})
    if (value == known) return;
  fail<UserError>("{}: \"{}\" is not known; expected auto, avx2, avx512 or scalar", what, value);
}

void check_backends(std::string_view value, std::string_view what, std::span<const std::string_view> known) {
  const auto names = split_list(value);
  for (std::string_view name : names)
    if (std::find(known.begin(), known.end(), name) == known.end() || std::count(names.begin(), names.end(), name) > 1)
      fail<UserError>("{}: \"{}\" is not acceptable; expected a comma-separated list of {}, each at most once", what, value,
                      fmt::join(known, " and "));
  if (names.empty()) fail<UserError>("{}: the list is empty; expected one or more of {}", what, fmt::join(known, " and "));
}

void check_gemm_backends(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"template", "onednn", "cublaslt"};
  check_backends(value, what, kKnown);
}

void check_conv_backends(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"template", "onednn", "cudnn"};
  check_backends(value, what, kKnown);
}

void check_capture_results(std::string_view value, std::string_view what) {
  if (value != "own" && value != "pool" && value != "pool-clone")
    fail<UserError>("{}: \"{}\" is not known; expected own, pool or pool-clone", what, value);
}

void check_over_budget(std::string_view value, std::string_view what) {
  if (value != "evict" && value != "refuse") fail<UserError>("{}: \"{}\" is not known; expected evict or refuse", what, value);
}

void check_fusion_types(std::string_view value, std::string_view what) {
  for (std::string_view kind : split_list(value))
    if (kind != "epilogue" && kind != "prologue" && kind != "cross_subgraph" && kind != "none")
      fail<UserError>("{}: \"{}\" is not known; expected a comma-separated list of epilogue, prologue and cross_subgraph, or none", what,
                      kind);
}

void check_tune_backends(std::string_view value, std::string_view what) {
  static constexpr std::string_view kKnown[] = {"template", "subgraph", "onednn", "cublaslt", "cudnn"};
  if (value != "none") check_backends(value, what, kKnown);
}

void check_regex(std::string_view value, std::string_view what) {
  try {
    std::regex(value.begin(), value.end());
  } catch (const std::regex_error& e) {
    fail<UserError>("{}: \"{}\" is no regular expression (of ECMAScript): {}", what, value, e.what());
  }
}

void check_logs(std::string_view value, std::string_view) { parse_artifacts(value); }

constexpr Row kRows[] = {
    {OptionId::Cache, Kind::Bool, "cache", "1", "Keep compiled kernels on disk and use those found there."},
    {OptionId::CacheDir, Kind::String, "cache_dir", "", "Folder of the cache; empty: XDG_CACHE_HOME/toroid or ~/.cache/toroid."},
    {OptionId::CacheSizeMb, Kind::Int, "cache_size_mb", "2048", "Size of the cache in MiB above which old entries are removed.", 1 << 30},
    {OptionId::CompileThreads, Kind::Int, "compile_threads", "0", "Threads that compile kernels; 0: one for each processor.", 1024},
    {OptionId::Threads, Kind::Int, "threads", "0",
     "Threads that run kernels, at most one for each processor that the process may use; 0: one for each.", 1024},
    {OptionId::SpinUs, Kind::Int, "spin_us", "100", "How long an idle kernel thread spins before it sleeps, in microseconds.", 1'000'000},
    {OptionId::CompileDebug, Kind::Bool, "compile_debug", "0", "Write every stage of each compilation into debug_dir."},
    {OptionId::DebugDir, Kind::String, "debug_dir", "toroid_debug", "Folder for what compile_debug writes."},
    {OptionId::KernelDir, Kind::String, "kernel_dir", "",
     "Folder with edited kernels: a file of the name that compile_debug gave it replaces the generated text."},
    {OptionId::Logs, Kind::String, "logs", "", "Comma-separated artifacts to log, or \"all\" (see base/log.h).", 0, check_logs},
    {OptionId::VerifyPasses, Kind::Bool, "verify_passes", "0", "Verify the program after every pass."},
    {OptionId::DisablePasses, Kind::String, "disable_passes", "", "Comma-separated names of passes to leave out."},
    {OptionId::RecompileLimit, Kind::Int, "recompile_limit", "8", "Compiled variants of one function before it is run eagerly.", 1 << 20},
    {OptionId::Isa, Kind::String, "isa", "auto", "Instructions to compile for: auto, avx2, avx512 or scalar.", 0, check_isa},
    {OptionId::CudaDir, Kind::String, "cuda_dir", "",
     "Folder with CUDA's libraries (NVRTC, cuBLASLt; cuDNN and CUPTI also in the folders beside and under it where CUDA's installers put "
     "them), searched before the system's."},
    {OptionId::CudaSharedPercent, Kind::Int, "cuda_shared_percent", "100",
     "How much of a multiprocessor's memory is shared memory while kernels run that need less of it; the rest is cache.", 100},
    {OptionId::GemmBackends, Kind::String, "gemm_backends", "template",
     "What computes matrix products, comma-separated, the first that takes a product: template, onednn (CPU), cublaslt (GPU). Where none "
     "does: template.",
     0, check_gemm_backends},
    {OptionId::ConvBackends, Kind::String, "conv_backends", "template",
     "What computes 2-d convolutions, as gemm_backends: template, onednn (CPU), cudnn (GPU). Where none takes one it becomes a loop. "
     "ReLU by a library gives 0 for NaN.",
     0, check_conv_backends},
    {OptionId::AllowTf32, Kind::Bool, "allow_tf32", "0",
     "On GPUs, matrix products and convolutions of f32, those of libraries too, may round their operands to tf32 (10 bits of mantissa; "
     "sums stay f32), which tensor cores multiply. Unlike PyTorch's switches this is one for both, and off for convolutions, too."},
    {OptionId::OneDnnLibrary, Kind::String, "onednn_library", "libdnnl.so.2", "File of oneDNN 2, opened when a backend list names onednn."},
    {OptionId::CaptureRequire, Kind::Bool, "capture_require", "0",
     "A step or call of a program in reduce-overhead mode that is not recorded is an error that says why."},
    {OptionId::CaptureWarmups, Kind::Int, "capture_warmups", "1", "Runs at given sizes before they are recorded.", 1000},
    {OptionId::CaptureMinLaunches, Kind::Int, "capture_min_launches", "1", "Shorter parts of a program are not recorded.", 1 << 20},
    {OptionId::CaptureResults, Kind::String, "capture_results", "own",
     "Memory of the results of recorded calls: own; pool (later calls may overwrite it, reading it then is an error); or pool-clone (then "
     "it is copied before).",
     0, check_capture_results},
    {OptionId::CaptureSizes, Kind::String, "capture_sizes", "",
     "Sizes to record for, comma-separated, with x between those of several symbols (\"1,8\", \"2x16\"); empty: all."},
    {OptionId::CaptureSizesWarnLimit, Kind::Int, "capture_sizes_warn_limit", "8",
     "Recordings of one program for different sizes, above which a warning is given.", 1 << 20},
    {OptionId::CaptureSkipDynamic, Kind::Bool, "capture_skip_dynamic", "0", "Record only programs without symbolic sizes."},
    {OptionId::CaptureRerecordLimit, Kind::Int, "capture_rerecord_limit", "128",
     "Recordings of one program that others had to replace, above which it runs step by step.", 1 << 20},
    {OptionId::CaptureMemoryKb, Kind::Int, "capture_memory_kb", "0", "KiB that recordings of a device and their pool may take; 0: any.",
     int64_t{1} << 40},
    {OptionId::CaptureOverBudget, Kind::String, "capture_over_budget", "evict",
     "What happens where capture_memory_kb is too little: evict (drop recordings, the longest unused first) or refuse (run step by step).",
     0, check_over_budget},
    {OptionId::ReplayTimeoutMs, Kind::Int, "replay_timeout_ms", "0",
     "Milliseconds that replayed graphs may take before whoever waits for them gets an error; 0: no limit.", 1 << 30},
    {OptionId::TuneBudgetMs, Kind::Int, "tune_budget_ms", "0", "Milliseconds that tuning one program may take; 0: no limit.", 1 << 30},
    {OptionId::TuneRegionMs, Kind::Int, "tune_region_ms", "1000",
     "Milliseconds that timing the choices of one region of a program may take.", 1 << 30},
    {OptionId::TuneWholeMs, Kind::Int, "tune_whole_ms", "1500",
     "Milliseconds for timing a whole program with and without what was chosen, so that it is never slower (more where a few runs take "
     "longer); 0: that is not done.",
     1 << 30},
    {OptionId::TunePrecompile, Kind::Bool, "tune_precompile", "1",
     "Compile all choices of a program on several threads before the first is timed."},
    {OptionId::TuneAllTried, Kind::Int, "tune_all_tried", "16",
     "Choices of a program for each thread that compiles, up to which tuning tries all; where there are more, those behind ones that are "
     "far "
     "from the best, in their template's order, are passed over.",
     1 << 20},
    {OptionId::TuneChoices, Kind::String, "tune_choices", "",
     "Regular expression (ECMAScript): beside the default tuning tries only choices in whose name it finds something; empty: all.", 0,
     check_regex},
    {OptionId::TuneBackends, Kind::String, "tune_backends", "template,subgraph,onednn,cublaslt,cudnn",
     "What tuning tries beside the default for products, convolutions and attention, comma-separated: template (other configurations), "
     "subgraph (other programs: sums cut into parts, operands laid out anew), onednn, cublaslt, cudnn; or none.",
     0, check_tune_backends},
    {OptionId::TuneStrict, Kind::Bool, "tune_strict", "0",
     "Tuning takes only choices whose results have the same bits as the default's; otherwise those within the error that rounding "
     "explains."},
    {OptionId::DecomposeKThreshold, Kind::Int, "decompose_k_threshold", "32",
     "Tuning tries to cut the sums of a product into parts where they are so many times as long as it has rows, and as it has columns; and "
     "where it has fewer tiles than there are processors. 0: always.",
     1 << 30},
    {OptionId::NumDecomposeKSplits, Kind::Int, "num_decompose_k_splits", "6",
     "Numbers of parts that it tries, powers of two first; 0: none.", 512},
    {OptionId::FusionTypes, Kind::String, "fusion_types", "epilogue,prologue,cross_subgraph",
     "What may be fused with a node that has choices, in modes that tune; comma-separated: epilogue, prologue, cross_subgraph, or none.", 0,
     check_fusion_types},
    {OptionId::EnableRecursiveFusion, Kind::Bool, "enable_recursive_fusion", "1",
     "Tuning tries to fuse what was fused with further neighbours."},
    {OptionId::MaxFusionDepth, Kind::Int, "max_fusion_depth", "3", "Neighbours that tuning tries to fuse with a node that has choices.",
     16},
    {OptionId::FusionSpeedupPercent, Kind::Int, "fusion_speedup_percent", "100",
     "How fast a fused choice must be to be taken, the fastest that is not fused being 100.", 10000},
    {OptionId::TuneDatabase, Kind::String, "tune_database", "",
     "File that remembers what was tuned; empty: tuning-1.sqlite in cache_dir; \"none\": nothing is remembered."},
    {OptionId::TuneRetryHours, Kind::Int, "tune_retry_hours", "168",
     "Hours after which a candidate that crashed or took too long when it was tuned is tried again.", 1 << 20},
    {OptionId::TuneWorker, Kind::String, "tune_worker", "",
     "Program that runs candidates in a process of its own; empty: toroid-tune-worker beside this program or in ../lib/toroid, or where "
     "libtoroid_jit.so lies."},
    {OptionId::TuneIsolated, Kind::Bool, "tune_isolated", "0",
     "Kernels of a choice run once in a process of their own, tune_worker, before they run in the one that tunes: a choice that crashes, "
     "hangs or writes out of bounds is refused with the reason. Calls of libraries are not run there."},
    {OptionId::TuneTimeoutMs, Kind::Int, "tune_timeout_ms", "60000",
     "Milliseconds that the kernels of a choice may take there, compiling them included; 0: no limit.", 1 << 30},
    {OptionId::TuneCompileTimeoutMs, Kind::Int, "tune_compile_timeout_ms", "30000",
     "Milliseconds that compiling a choice may take when tuning, but for the default, with which all are compared; 0: no limit. The search "
     "goes on without one that takes longer; the process ends after its compile.",
     1 << 30},
    {OptionId::TuneRemote, Kind::String, "tune_remote", "", "Redis server that shares decisions between machines, host:port; empty: none."},
    {OptionId::TuneLock, Kind::String, "tune_lock", "",
     "Lock file that decides all choices: nothing is timed, and what it does not decide is done as without tuning."},
    {OptionId::TuneLockCheck, Kind::Bool, "tune_lock_check", "0",
     "Compare the kernels of what the lock file chose with those that it was written for."},
    {OptionId::CoordinateDescentTuning, Kind::Bool, "coordinate_descent_tuning", "0",
     "Tuning goes on from each winner in steps of its configuration's numbers, until none is faster."},
    {OptionId::Deterministic, Kind::Bool, "deterministic", "0",
     "Nothing is timed when tuning: what no lock file decides is done as without."},
    {OptionId::Nvtx, Kind::Bool, "nvtx", "0",
     "Name each call, replay and step on the timelines of NVIDIA's tools (NVTX ranges), in programs compiled from then on."},
};
static_assert(std::size(kRows) == kOptionCount);
static_assert([] {
  for (int i = 0; i < kOptionCount; ++i)
    if (kRows[i].id != static_cast<OptionId>(i)) return false;
  return true;
}());

// Text to number; bools accept the usual words. `what` names the source of the text in messages.
int64_t parse_number(const Row& row, std::string_view value, std::string_view what) {
  if (row.kind == Kind::Bool) {
    for (std::string_view yes : {"1", "true", "on", "yes"})
      if (value == yes) return 1;
    for (std::string_view no : {"0", "false", "off", "no"})
      if (value == no) return 0;
    fail<UserError>("{}: \"{}\" is not a truth value; expected 1/true/on/yes or 0/false/off/no", what, value);
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc() || end != value.data() + value.size() || number < 0 || number > row.max)
    fail<UserError>("{}: \"{}\" is not acceptable; expected a whole number from 0 to {}", what, value, row.max);
  return number;
}

std::string environment_name(const Row& row) {
  std::string name = "TOROID_";
  for (char c : row.name) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

// The values. Numbers are read without a lock, texts under one.
class Table {
 public:
  Table() {
    for (const Row& row : kRows) {
      set(row, row.default_value, row.name);
      const std::string variable = environment_name(row);
      if (const char* value = std::getenv(variable.c_str())) set(row, value, "environment variable " + variable);
    }
  }

  void set(const Row& row, std::string_view value, std::string_view what) {
    if (row.kind == Kind::String) {
      if (row.check != nullptr) row.check(value, what);
      std::lock_guard lock(mutex_);
      texts_[static_cast<size_t>(row.id)] = value;
    } else {
      numbers_[static_cast<size_t>(row.id)].store(parse_number(row, value, what), std::memory_order_relaxed);
    }
    version_.fetch_add(1, std::memory_order_release);
  }

  int64_t number(OptionId id) const { return numbers_[static_cast<size_t>(id)].load(std::memory_order_relaxed); }

  std::string text(OptionId id) const {
    std::lock_guard lock(mutex_);
    return texts_[static_cast<size_t>(id)];
  }

  std::string as_text(const Row& row) const { return row.kind == Kind::String ? text(row.id) : std::to_string(number(row.id)); }

  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::array<std::atomic<int64_t>, kOptionCount> numbers_{};
  std::array<std::string, kOptionCount> texts_;
  std::atomic<uint64_t> version_{0};
};

Table& table() {
  // Never destroyed: threads that outlive main may still read options.
  static Table* const table = new Table;
  return *table;
}

const Row& find_row(std::string_view name) {
  std::array<std::string_view, kOptionCount> names;
  for (int i = 0; i < kOptionCount; ++i) {
    if (kRows[i].name == name) return kRows[i];
    names[i] = kRows[i].name;
  }
  fail<UserError>("there is no option \"{}\"{}", name, did_you_mean(name, names));
}

// What ThreadOptions of this thread say, the innermost last.
struct Override {
  OptionId id;
  int64_t number = 0;
  std::string text;
};
thread_local std::vector<Override> overrides;

const Override* overridden(OptionId id) {
  for (size_t i = overrides.size(); i-- > 0;)
    if (overrides[i].id == id) return &overrides[i];
  return nullptr;
}

int64_t number_now(OptionId id) {
  const Override* own = overridden(id);
  return own ? own->number : table().number(id);
}

Override checked(std::string_view name, std::string_view value) {
  const Row& row = find_row(name);
  const std::string what = fmt::format("option {}", name);
  if (row.kind != Kind::String) return {row.id, parse_number(row, value, what), {}};
  if (row.check != nullptr) row.check(value, what);
  return {row.id, 0, std::string(value)};
}

}  // namespace

bool get_option(Option<bool> key) { return number_now(key.id) != 0; }
int64_t get_option(Option<int64_t> key) { return number_now(key.id); }
std::string get_option(Option<std::string> key) {
  const Override* own = overridden(key.id);
  return own ? own->text : table().text(key.id);
}

void check_option(std::string_view name, std::string_view value) { checked(name, value); }

ThreadOptions::ThreadOptions(const std::vector<std::pair<std::string, std::string>>& values) : before_(overrides.size()) {
  std::vector<Override> own;
  for (auto& [name, value] : values) own.push_back(checked(name, value));
  overrides.insert(overrides.end(), own.begin(), own.end());
}

ThreadOptions::~ThreadOptions() { overrides.resize(before_); }

void set_option(std::string_view name, std::string_view value) {
  const Row& row = find_row(name);
  table().set(row, value, fmt::format("option {}", name));
}

uint64_t options_version() { return table().version(); }

ScopedOption::ScopedOption(std::string_view name, std::string_view value) : name_(name), old_(table().as_text(find_row(name))) {
  set_option(name, value);
}

ScopedOption::~ScopedOption() { set_option(name_, old_); }

std::vector<OptionInfo> list_options() {
  static constexpr std::string_view kTypes[] = {"bool", "int", "string"};
  std::vector<OptionInfo> rows;
  for (const Row& row : kRows)
    rows.push_back({row.name, kTypes[static_cast<int>(row.kind)], std::string(row.default_value), table().as_text(row),
                    environment_name(row), row.doc});
  return rows;
}

}  // namespace toroid
