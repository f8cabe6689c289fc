// toroid doctor: what this machine offers and what is missing.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/compile_options.h"
#include "base/files.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/unknown_variables.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "device/cpu/isa.h"
#include "device/cuda/cupti.h"
#include "device/cuda/gpu.h"
#include "device/cuda/nvtx.h"
#include "dist/mpi/mpi_transport.h"
#include "dist/nccl/symbols.h"
#include "dist/tcp/place.h"
#include "extern/cublaslt/cublaslt.h"
#include "extern/cudnn/cudnn.h"
#include "extern/onednn/onednn.h"
#include "jit/artefact_cache.h"
#include "jit/jit.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"
#include "toroid/error.h"

namespace toroid::cli {
namespace {

void check_processor(Checks& checks) {
  const auto& host = device::host();
  checks.ok("processor", fmt::format("{}, {} core{}", host.model, host.cores, host.cores == 1 ? "" : "s"));
  checks.ok("instructions", fmt::format("{} (kernels use {}){}{}{}", name_of(host.isa),
                                        name_of(device::usable_isa(CompileOptions::of_process().get(options::kIsa))),
                                        host.f16c ? ", f16c" : "", host.avx512_bf16 ? ", bf16" : "", host.avx512_vnni ? ", vnni" : ""));
  checks.ok("caches", fmt::format("{} kB L1, {} kB L2, {} kB L3", host.l1d_bytes / 1024, host.l2_bytes / 1024, host.l3_bytes / 1024));
  checks.ok("threads", fmt::format("{}", ThreadPool::global().size()));
}

void check_compiler(Checks& checks) {
  try {
    auto info = jit::compiler_info();
    auto made = jit::KernelCompiler(nullptr).compile({"int toroid_probe(int x) { return x + 1; }", "native", 1, false});
    checks.ok("compiler", fmt::format("{} at {}; a probe took {:.0f} ms", info.version, info.library, made.compile_ms));
  } catch (const Error& e) {
    checks.missing("compiler", e.what());
  }
}

void check_cache(Checks& checks) {
  std::string problem;
  auto cache = jit::shared_cache(&problem);
  if (!cache) {
    if (get_option(options::kCache))
      checks.missing("cache", problem);
    else
      checks.ok("cache", "switched off by the option cache");
    return;
  }
  auto stats = cache->stats();
  try {
    make_directories(cache->root());
    const auto probe = cache->root() / "probe";
    write_file_atomic(probe, std::string(4096, 'x'));  // a full disk takes empty files
    std::filesystem::remove(probe);
    checks.ok("cache", fmt::format("{}: {} kernels, programs and sizes, {:.1f} MB", cache->root().string(), stats.entries,
                                   static_cast<double>(stats.bytes) / 1e6));
  } catch (const Error& e) {
    checks.missing("cache", fmt::format("kernels are not kept: {}; or set TOROID_CACHE_DIR", e.what()));
  }
}

// Needed only where an option asks for it.
void check_libraries(Checks& checks) {
  bool wanted = false;
  const CompileOptions now = CompileOptions::of_process();
  for (auto key : {options::kGemmBackends, options::kConvBackends}) wanted = wanted || now.get(key).find("onednn") != std::string::npos;
  try {
    checks.ok("onednn", fmt::format("{}{}", external::onednn_version(),
                                    wanted ? "" : ", used where the option gemm_backends or conv_backends says so"));
    if (wanted && !std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT"))
      checks.note("set OMP_WAIT_POLICY=passive: idle OpenMP threads of oneDNN otherwise spin where other threads have work");
  } catch (const EnvironmentError& e) {
    if (wanted)
      checks.missing("onednn", e.what());
    else
      checks.ok("onednn", "not found, and not needed");
  }
}

// GPUs need not be there; where there is one, so must be what compiles for it.
void check_gpus(Checks& checks) {
  const int count = cuda_device_count();
  for (int i = 0; i < count; ++i) try {
      const device::cuda::GpuInfo& gpu = device::cuda::gpu(i).info();
      const double free = static_cast<double>(device::cuda::gpu(i).free_bytes()) / 1e9;
      checks.ok("gpu", fmt::format("cuda:{}: {}, {}, {} multiprocessors, {:.0f} GB ({:.1f} free); the driver is for CUDA {}.{}", i,
                                   gpu.name, gpu.architecture, gpu.multiprocessors, static_cast<double>(gpu.memory_bytes) / 1e9, free,
                                   gpu.driver_version / 1000, gpu.driver_version % 1000 / 10));
    } catch (const Error& e) {
      checks.missing("gpu", e.what());
    }
  if (count == 0) {
    try {
      device::cuda::driver();
    } catch (const Error& e) {
      checks.ok("gpu", fmt::format("none, and none is needed. {}", e.what()));
    }
  }
  try {
    const jit::NvrtcInfo& nvrtc = jit::nvrtc_info();
    checks.ok("nvrtc", fmt::format("{}.{} at {}", nvrtc.major, nvrtc.minor, nvrtc.library));
  } catch (const EnvironmentError& e) {
    if (count > 0)
      checks.missing("nvrtc", e.what());
    else
      checks.ok("nvrtc", "not found, and not needed without a GPU");
  }
}

std::string first_line(const Error& e) {
  const std::string text = e.what();
  return text.substr(0, text.find('\n'));
}

// A library that computes on GPUs where an option lists it, and that tuning tries where it is found.
void check_gpu_library(Checks& checks, const char* name, Option<std::string, false> backends, std::string (*version)()) {
  const bool wanted = CompileOptions::of_process().get(backends).find(name) != std::string::npos;
  try {
    checks.ok(name, version());
  } catch (const EnvironmentError& e) {
    if (wanted)
      checks.missing(name, e.what());
    else
      checks.ok(name, fmt::format("not used, and not needed: tuning for GPUs does without it ({})", first_line(e)));
  }
}

// What shows how a GPU spends its time.
void check_tracing(Checks& checks) {
  try {
    checks.ok("cupti", device::cuda::cupti_version());
  } catch (const EnvironmentError& e) {
    checks.ok("cupti", fmt::format("not used, and not needed: `toroid bench --device cuda` then times kernels one by one alone ({})",
                                   first_line(e)));
  }
  try {
    if (device::cuda::has_nvtx() || CompileOptions::of_process().get(options::kNvtx)) device::cuda::require_nvtx();
    checks.ok("nvtx",
              device::cuda::has_nvtx() ? "in this build, for the option nvtx" : "not in this build, and needed for the option nvtx alone");
  } catch (const EnvironmentError& e) {
    checks.missing("nvtx", e.what());
  }
}

// What pairs of GPUs are to each other: "GPUs 0-1, 2-3 reach each other's memory by NVLink". A link with native atomics is taken for
// NVLink.
std::string describe_links(int count) {
  const auto& driver = device::cuda::driver();
  const auto handle = [&](int i) {
    device::cuda::CUdevice out = 0;
    driver.check(driver.device(&out, i), "asking for a GPU");
    return out;
  };
  std::map<std::string, std::vector<std::string>> pairs;  // by what they are
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      constexpr int kNativeAtomics = 3;  // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
      int there = 0, back = 0, atomics = 0;
      driver.check(driver.can_reach(&there, handle(a), handle(b)), "asking what GPUs reach");
      driver.check(driver.can_reach(&back, handle(b), handle(a)), "asking what GPUs reach");
      driver.check(driver.link_attribute(&atomics, kNativeAtomics, handle(a), handle(b)), "asking what links GPUs");
      const char* what = !there || !back ? "do not reach each other's memory: what they exchange goes through the host"
                         : atomics       ? "reach each other's memory by NVLink"
                                         : "reach each other's memory by PCIe";
      pairs[what].push_back(fmt::format("{}-{}", a, b));
    }
  std::string out;
  for (auto& [what, of] : pairs) out += fmt::format("{}GPUs {} {}", out.empty() ? "" : "\n", fmt::join(of, ", "), what);
  return out;
}

// What ranks of one program need; where nobody starts ranks, nothing.
void check_ranks(Checks& checks) {
  const std::string variables = distributed::tcp::starter_variables();
  checks.ok("ranks", variables.empty()
                         ? "this process was not started as one of several ranks (no RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID)"
                         : variables);
  const auto optional = [&](const char* name, const char* without, const std::function<std::string()>& describe) {
    try {
      checks.ok(name, describe());
    } catch (const EnvironmentError& e) {
      checks.ok(name, fmt::format("not used, and not needed: {} ({})", without, first_line(e)));
    }
  };
  optional("mpi", "ranks can meet at MASTER_ADDR and MASTER_PORT instead", distributed::mpi::describe_library);
  const int count = cuda_device_count();
  if (count < 2) {
    checks.ok("links", count == 0 ? "there is no GPU, and so no link between GPUs" : "there is one GPU, and so no link between GPUs");
    return;
  }
  optional("links", "collectives then go through the host", [&] { return describe_links(count); });
}

void check_nccl(Checks& checks) {
  try {
    const auto& nccl = distributed::nccl::library();
    int version = 0;
    nccl.version(&version);
    checks.ok("nccl", fmt::format("{}.{}.{} at {}", version / 10000, version / 100 % 100, version % 100, nccl.library.path()));
  } catch (const EnvironmentError& e) {
    checks.ok("nccl", fmt::format("not used, and not needed but for collectives between GPUs ({})", first_line(e)));
  }
}

}  // namespace

int doctor(const DoctorArgs& args) {
  if (!args.package.empty()) return doctor_of_package(args);
  TOROID_USER_CHECK(args.device.empty(), "--device is of packages; the machine is looked at as a whole");
  Checks checks(args.json);
  const std::vector<std::string> complaints = forget_unknown_variables();
  check_processor(checks);
  check_compiler(checks);
  check_cache(checks);
  check_libraries(checks);
  check_gpus(checks);
  check_gpu_library(checks, "cublaslt", options::kGemmBackends, external::cublaslt_version);
  check_gpu_library(checks, "cudnn", options::kConvBackends, external::cudnn_version);
  check_tracing(checks);
  check_ranks(checks);
  check_nccl(checks);
  for (auto& o : list_options())
    if (o.value != o.default_value) checks.note(fmt::format("option {} is {} (default {})", o.name, o.value, o.default_value));
  for (const std::string& complaint : complaints) checks.note(complaint);
  return checks.finish("everything is in place", "something is missing: see above") ? kOk : kEnvironmentError;
}

}  // namespace toroid::cli
