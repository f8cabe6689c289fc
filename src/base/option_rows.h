// The one table of options. A row gives its key, whose it is, its type, its name, its default and what it does; an Int then says the most
// that it may be (the least is 0), and a String may name the function in option_table.cpp that brings its values to one form or refuses
// them.
//
// Whose an option is:
//   Process    of the process: threads, folders, libraries. Read where it is used; no compile can have its own.
//   Code       of a compile, and decides what is made in every mode.
//   Tuning     of a compile, and decides what is made in modes that tune.
//   Recording  of a compile, and decides how calls are recorded in modes that record.
//   Watching   of a compile, which makes the same with it as without.
//   Function   of a compile, and given to it alone: the process has no value for it.
// The values that the process has for options of compiles (set_option, TOROID_<NAME>) are what compiles begin with.
#pragma once

// clang-format off
#define TOROID_OPTIONS(ROW) \
  ROW(Cache, Process, Bool, "cache", "1", "Keep what was compiled on disk and use what is found there.") \
  ROW(CachePrograms, Process, Bool, "cache_programs", "1", \
      "Keep whole programs for CPUs there too, with packed weights, so that the next process neither imports nor compiles them.") \
  ROW(CacheWaitMs, Process, Int, "cache_wait_ms", "120000", \
      "Milliseconds to wait for another process that compiles the same program; after that it is compiled here as well.", 1 << 30) \
  ROW(CacheDir, Process, String, "cache_dir", "", "Folder of the cache; empty: XDG_CACHE_HOME/toroid or ~/.cache/toroid.") \
  ROW(CacheSizeMb, Process, Int, "cache_size_mb", "2048", "Size of the cache in MiB above which old entries are removed.", 1 << 30) \
  ROW(CompileThreads, Process, Int, "compile_threads", "0", "Threads that compile kernels; 0: one for each processor.", 1024) \
  ROW(Threads, Process, Int, "threads", "0", \
      "Threads that run kernels, at most one for each processor that the process may use; 0: one for each.", 1024) \
  ROW(MaxThreads, Code, Int, "max_threads", "0", \
      "At most so many of them run the kernels of a program; 0: as many as the process uses.", 1024) \
  ROW(SpinUs, Process, Int, "spin_us", "100", "How long an idle kernel thread spins before it sleeps, in microseconds.", 1'000'000) \
  ROW(CompileDebug, Watching, Bool, "compile_debug", "0", "Write every stage of each compilation into debug_dir.") \
  ROW(DebugDir, Watching, String, "debug_dir", "toroid_debug", "Folder for what compile_debug writes.") \
  ROW(KernelDir, Code, String, "kernel_dir", "", \
      "Folder with edited kernels: a file of the name that compile_debug gave it replaces the generated text.") \
  ROW(Logs, Process, String, "logs", "", "Comma-separated artifacts to log, or \"all\" (see toroid/log.h).", logs) \
  ROW(VerifyPasses, Watching, Bool, "verify_passes", "0", "Verify the program after every pass.") \
  ROW(DisablePasses, Code, String, "disable_passes", "", "Comma-separated names of passes to leave out.") \
  ROW(FoldPadding, Code, Bool, "fold_padding", "1", \
      "Convolutions pad with zeros themselves what an operation before them pads; without, that stays a kernel of its own.") \
  ROW(FoldProbabilities, Code, Bool, "fold_probabilities", "1", \
      "The largest probability of a softmax is computed from the sum of its exponentials; without, it is found among all.") \
  ROW(RecompileLimit, Watching, Int, "recompile_limit", "8", "Compiled variants of one function before it is run eagerly.", 1 << 20) \
  ROW(Isa, Code, String, "isa", "auto", "Instructions to compile for: auto, avx2, avx512 or scalar.", isa) \
  ROW(CudaDir, Process, String, "cuda_dir", "", \
      "Folder with CUDA's libraries (NVRTC, cuBLASLt; cuDNN and CUPTI also in the folders beside and under it where CUDA's " \
      "installers put them), searched before the system's.") \
  ROW(CudaSharedPercent, Process, Int, "cuda_shared_percent", "100", \
      "How much of a multiprocessor's memory is shared memory while kernels run that need less of it; the rest is cache.", 100) \
  ROW(GemmBackends, Code, String, "gemm_backends", "template", \
      "What computes matrix products, comma-separated, the first that takes a product: template, onednn (CPU), cublaslt (GPU). Where " \
      "none does: template.", gemm_backends) \
  ROW(ConvBackends, Code, String, "conv_backends", "template", \
      "What computes 2-d convolutions, as gemm_backends: template, onednn (CPU), cudnn (GPU). Where none takes one it becomes a " \
      "loop. ReLU by a library gives 0 for NaN.", conv_backends) \
  ROW(AllowTf32, Code, Bool, "allow_tf32", "0", \
      "On GPUs, matrix products and convolutions of f32, those of libraries too, may round their operands to tf32 (10 bits of " \
      "mantissa; sums stay f32), which tensor cores multiply. Unlike PyTorch's switches this is one for both, and off for " \
      "convolutions, too.") \
  ROW(OrderedSums, Code, Bool, "ordered_sums", "0", \
      "On GPUs the gradient of attention's queries is summed in one order, so that equal runs give equal bits; without, in the order in " \
      "which blocks of keys are done.") \
  ROW(OneDnnLibrary, Process, String, "onednn_library", "libdnnl.so.2", "File of oneDNN 2, opened when a backend list names onednn.") \
  ROW(CaptureRequire, Recording, Bool, "capture_require", "0", \
      "A step or call of a program in reduce-overhead mode that is not recorded is an error that says why.") \
  ROW(CaptureWarmups, Recording, Int, "capture_warmups", "1", "Runs at given sizes before they are recorded.", 1000) \
  ROW(CaptureMinLaunches, Recording, Int, "capture_min_launches", "1", "Shorter parts of a program are not recorded.", 1 << 20) \
  ROW(CaptureResults, Recording, String, "capture_results", "own", \
      "Memory of the results of recorded calls: own; pool (later calls may overwrite it, reading it then is an error); or pool-clone " \
      "(then it is copied before).", capture_results) \
  ROW(CaptureSizes, Recording, String, "capture_sizes", "", \
      "Sizes to record for, comma-separated, with x between those of several symbols (\"1,8\", \"2x16\"); empty: all.") \
  ROW(CaptureSizesWarnLimit, Recording, Int, "capture_sizes_warn_limit", "8", \
      "Recordings of one program for different sizes, above which a warning is given.", 1 << 20) \
  ROW(CaptureSkipDynamic, Recording, Bool, "capture_skip_dynamic", "0", "Record only programs without symbolic sizes.") \
  ROW(CaptureRerecordLimit, Recording, Int, "capture_rerecord_limit", "128", \
      "Recordings of one program that others had to replace, above which it runs step by step.", 1 << 20) \
  ROW(CaptureMemoryKb, Recording, Int, "capture_memory_kb", "0", \
      "KiB that recordings of a device and their pool may take; 0: any.", int64_t{1} << 40) \
  ROW(CaptureOverBudget, Recording, String, "capture_over_budget", "evict", \
      "What happens where capture_memory_kb is too little: evict (drop recordings, the longest unused first) or refuse (run step by " \
      "step).", over_budget) \
  ROW(ReplayTimeoutMs, Process, Int, "replay_timeout_ms", "0", \
      "Milliseconds that replayed graphs may take before whoever waits for them gets an error; 0: no limit.", 1 << 30) \
  ROW(DistTimeoutMs, Process, Int, "dist_timeout_ms", "600000", \
      "Milliseconds that a rank waits for the others of its group in a collective before all get an error; 0: no limit.", 1 << 30) \
  ROW(CollectiveOrder, Code, String, "collective_order", "ranks", \
      "How reductions over more than two ranks may be folded: ranks (in their order), or any (other bits of floats), which adds choices " \
      "when tuning, and products in pieces between GPUs.", collective_order) \
  ROW(TuneBudgetMs, Tuning, Int, "tune_budget_ms", "0", "Milliseconds that tuning one program may take; 0: no limit.", 1 << 30) \
  ROW(TuneRegionMs, Tuning, Int, "tune_region_ms", "1000", \
      "Milliseconds that timing the choices of one region of a program may take.", 1 << 30) \
  ROW(TuneWholeMs, Tuning, Int, "tune_whole_ms", "1500", \
      "Milliseconds for timing a whole program with and without what was chosen, so that it is never slower (more where a few runs " \
      "take longer); 0: that is not done.", 1 << 30) \
  ROW(TunePrecompile, Tuning, Bool, "tune_precompile", "1", \
      "Compile all choices of a program on several threads before the first is timed.") \
  ROW(TuneAllTried, Tuning, Int, "tune_all_tried", "16", \
      "Choices of a program for each thread that compiles, up to which tuning tries all; where there are more, those behind ones " \
      "that are far from the best, in their template's order, are passed over.", 1 << 20) \
  ROW(TuneChoices, Tuning, String, "tune_choices", "", \
      "Regular expression (ECMAScript): beside the default tuning tries only choices in whose name it finds something; empty: all.", \
      regex) \
  ROW(TuneBackends, Tuning, String, "tune_backends", "template,subgraph,onednn,cublaslt,cudnn", \
      "What tuning tries beside the default for products, convolutions and attention, comma-separated: template (other " \
      "configurations), subgraph (other programs: sums cut into parts, operands laid out anew), onednn, cublaslt, cudnn; or none.", \
      tune_backends) \
  ROW(TuneStrict, Tuning, Bool, "tune_strict", "0", \
      "Tuning takes only choices whose results have the same bits as the default's; otherwise those within the error that rounding " \
      "explains.") \
  ROW(DecomposeKThreshold, Tuning, Int, "decompose_k_threshold", "32", \
      "Tuning tries to cut the sums of a product into parts where they are so many times as long as it has rows, and as it has " \
      "columns; and where it has fewer tiles than there are processors. 0: always.", 1 << 30) \
  ROW(NumDecomposeKSplits, Tuning, Int, "num_decompose_k_splits", "6", \
      "Numbers of parts that it tries, powers of two first; 0: none.", 512) \
  ROW(FusionTypes, Tuning, String, "fusion_types", "epilogue,prologue,cross_subgraph", \
      "What may be fused with a node that has choices, in modes that tune; comma-separated: epilogue, prologue, cross_subgraph, or " \
      "none.", fusion_types) \
  ROW(EnableRecursiveFusion, Tuning, Bool, "enable_recursive_fusion", "1", "Tuning tries to fuse what was fused with further neighbours.") \
  ROW(MaxFusionDepth, Tuning, Int, "max_fusion_depth", "3", "Neighbours that tuning tries to fuse with a node that has choices.", 16) \
  ROW(FusionSpeedupPercent, Tuning, Int, "fusion_speedup_percent", "100", \
      "How fast a fused choice must be to be taken, the fastest that is not fused being 100.", 10000) \
  ROW(TuneDatabase, Tuning, String, "tune_database", "", \
      "File that remembers what was tuned; empty: tuning-1.sqlite in cache_dir; \"none\": nothing is remembered.") \
  ROW(TuneRetryHours, Tuning, Int, "tune_retry_hours", "168", \
      "Hours after which a candidate that crashed or took too long when it was tuned is tried again.", 1 << 20) \
  ROW(TuneWorker, Process, String, "tune_worker", "", \
      "Program that runs candidates in a process of its own; empty: toroid-tune-worker beside this program or in ../lib/toroid, or " \
      "where libtoroid_jit.so lies.") \
  ROW(TuneIsolated, Tuning, Bool, "tune_isolated", "0", \
      "Kernels of a choice run once in a process of their own, tune_worker, before they run in the one that tunes: a choice that " \
      "crashes, hangs or writes out of bounds is refused with the reason. Calls of libraries are not run there.") \
  ROW(TuneTimeoutMs, Tuning, Int, "tune_timeout_ms", "60000", \
      "Milliseconds that the kernels of a choice may take there, compiling them included; 0: no limit.", 1 << 30) \
  ROW(TuneCompileTimeoutMs, Tuning, Int, "tune_compile_timeout_ms", "30000", \
      "Milliseconds that compiling a choice may take when tuning, but for the default, with which all are compared; 0: no limit. The " \
      "search goes on without one that takes longer; the process ends after its compile.", 1 << 30) \
  ROW(TuneRemote, Tuning, String, "tune_remote", "", "Redis server that shares decisions between machines, host:port; empty: none.") \
  ROW(TuneLock, Tuning, String, "tune_lock", "", \
      "Lock file that decides all choices: nothing is timed, and what it does not decide is done as without tuning.") \
  ROW(TuneLockCheck, Tuning, Bool, "tune_lock_check", "0", \
      "Compare the kernels of what the lock file chose with those that it was written for.") \
  ROW(CoordinateDescentTuning, Tuning, Bool, "coordinate_descent_tuning", "0", \
      "Tuning goes on from each winner in steps of its configuration's numbers, until none is faster.") \
  ROW(Deterministic, Tuning, Bool, "deterministic", "0", "Nothing is timed when tuning: what no lock file decides is done as without.") \
  ROW(Nvtx, Watching, Bool, "nvtx", "0", \
      "Name each call, replay and step on the timelines of NVIDIA's tools (NVTX ranges), in programs compiled from then on.") \
  ROW(CheckIndices, Code, Bool, "check_indices", "1", \
      "Indices in tensors (embedding, gather, scatter, ...) that are out of range are a UserError, and so is an integer that is divided " \
      "by 0 on a CPU. Without, programs compiled from then on read and write whatever lies there.") \
  ROW(Mode, Function, String, "mode", "default", \
      "How the program is compiled and run: default, reduce-overhead, max-autotune or max-autotune-no-cudagraphs.", mode) \
  ROW(Freezing, Function, Bool, "freezing", "0", \
      "Tensors that the program captures become constants: folded and packed. Later changes of them are not seen. On in Model::load.") \
  ROW(Templates, Function, Bool, "templates", "1", "GEMM, convolution and attention by templates; otherwise as plain loops.") \
  ROW(Fusion, Function, String, "fusion", "all", \
      "Operations that become one kernel: all (those that share memory), per-node (those that one value composes) or none (each has " \
      "its own).", fusion) \
  ROW(Backend, Function, String, "backend", "compiled", \
      "What runs a function: compiled, or reference: the traced graph is run by the reference evaluator.") \
  ROW(ActivationMemoryBudget, Code, String, "activation_memory_budget", "1", \
      "Memory for what the forward pass of a program with gradients keeps for its backward pass: 1, all but what is cheap to compute " \
      "again; below 1, more is computed again: 0, as much as lets a run take least memory; between them, that share of the memory " \
      "between both; bytes (\"500MB\", \"2GiB\"), a run takes no more than these beside its inputs, or compiling it is an error (of a " \
      "call on the tape, whose passes are two programs, what is saved has such a share of bytes, or at most these); " \
      "off, the operations in the order in which they were called. Below 1 up to 17 programs are planned.", \
      activation_memory_budget) \
  ROW(FailOnRecompileLimit, Function, Bool, "fail_on_recompile_limit", "0", \
      "Reaching recompile_limit is a UserError; otherwise calls run eagerly from there on.") \
  ROW(VerifyTrace, Function, Bool, "verify_trace", "0", \
      "Trace a function again at every call, and throw a UserError when it takes another path than the compiled one.") \
  ROW(TuneInBackground, Watching, Bool, "tune_in_background", "0", \
      "In modes that tune, programs run untuned at once; one thread tunes them beside the calls, and the tuned program takes the place of " \
      "the untuned one between two calls. Not with collectives, whose ranks tune together.")
// clang-format on
