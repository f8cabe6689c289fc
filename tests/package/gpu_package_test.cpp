// Packages for GPUs: made without one, and run where there is one.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "data_models.h"
#include "device/cuda/architecture.h"
#include "errors.h"
#include "exec/stored.h"
#include "jit/nvrtc.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/device_stream.h"
#include "toroid/model.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid_runtime.h"
#include "tune/memory/lock_file.h"

namespace toroid {
namespace {

using test::contains;
using test::error_of;
using test::inputs_of;
using test::kModels;
using test::TempFolder;
using test::user_error;

bool has_gpu() { return cuda_device_count() > 0; }

// NVRTC makes what these tests look at.
class GpuPackage : public testing::Test {
  void SetUp() override {
    try {
      jit::nvrtc_info();
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

PackageOptions for_targets(std::vector<std::string> targets) {
  PackageOptions out;
  out.targets = std::move(targets);
  return out;
}

std::vector<Tensor> on(const Device& device, std::vector<Tensor> tensors) {
  for (auto& t : tensors)
    if (t.defined()) t = t.to(device);
  return tensors;
}

TEST_F(GpuPackage, IsMadeWithoutOne) {
  const TempFolder folder;
  for (const char* name : {"digitsnet", "encoder", "regions"}) {
    const std::string model = kModels + name + "/core.pt2", path = folder / "m.tpk", again = folder / "n.tpk";
    save_package(model, path, for_targets({"sm_90a", "compute_80", "native"}));
    save_package(model, again, for_targets({"sm_90a", "compute_80", "native"}));
    EXPECT_EQ(read_file(path) == read_file(again), true) << name << ": equal programs, other bytes";
    const auto p = package::Package::open(path);
    p->verify();
    for (auto& program : p->manifest().entries.at(0).programs) {
      EXPECT_FALSE(program.kernels.empty()) << name << ", " << program.target;
      EXPECT_EQ(program.device, program.target == "native" ? "cpu" : "cuda");
      EXPECT_EQ(program.driver >= 12000, program.device == "cuda") << program.driver;
      EXPECT_EQ(p->plan(program).code_for, program.code_for);
      EXPECT_EQ(p->plan(program).device.is_cuda(), program.device == "cuda");
    }
    // The one for this processor runs, and is the model's.
    const auto inputs = inputs_of(name);
    EXPECT_EQ(test::bit_difference(Model::load(model).run(inputs), p->load("")->session()->run(inputs)), "") << name;
  }
}

// What is in the file is what its name says.
TEST_F(GpuPackage, HoldsMachineCodeAndPtx) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk";
  save_package(kModels + "encoder/core.pt2", path, for_targets({"sm_80", "sm_90a", "compute_80"}));
  const std::string file = read_file(path);
  const auto archive = import::ZipArchive::open(std::as_bytes(std::span(file)), path);
  const auto p = package::Package::open(path);
  constexpr unsigned char kCudaElf = 190;  // EM_CUDA
  for (auto& program : p->manifest().entries.at(0).programs)
    for (auto& kernel : program.kernels) {
      const std::string_view code = archive.at(kernel).text();
      if (program.target == "compute_80") {
        EXPECT_TRUE(contains(std::string(code), ".target sm_80")) << kernel;
      } else {
        ASSERT_TRUE(code.starts_with("\177ELF")) << kernel;
        EXPECT_EQ(static_cast<unsigned char>(code[18]), kCudaElf) << kernel;
      }
    }
}

TEST_F(GpuPackage, TargetsThatCannotBeAreRefused) {
  const TempFolder folder;
  const std::string model = kModels + "encoder/core.pt2", path = folder / "m.tpk";
  const auto refusal = [&](const PackageOptions& o) { return user_error([&] { save_package(model, path, o); }); };
  for (const char* name : {"sm_91", "compute_81", "sm_", "sm_90a,sm_80", "compute_80 ", "gpu"})
    EXPECT_TRUE(contains(refusal(for_targets({name})), "unknown target")) << name;
  EXPECT_TRUE(contains(refusal(for_targets({"sm_100"})), "did you mean \"sm_100a\""));
  PackageOptions o = for_targets({"native", "sm_90a"});
  o.model.mode = Mode::MaxAutotune;
  EXPECT_TRUE(contains(refusal(o), "--lock")) << "nothing can be timed";
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A lock file decides for the GPU that it was made on.
TEST_F(GpuPackage, ALockFileNamesTheGpu) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", file = folder / "tuning.lock";
  const auto save = [&](const std::vector<std::string>& devices) {
    tune::LockFile lock;
    for (auto& d : devices) lock.set(d, "0a", {"mm", "default", "77", 1});
    lock.write(file);
    PackageOptions o = for_targets({"sm_90a"});
    o.model.mode = Mode::MaxAutotune;
    o.model.options = {{"tune_lock", file}, {"deterministic", "1"}, {"tune_lock_check", "0"}};
    const Tensor a = Tensor::full(std::vector<int64_t>{256, 1024}, 1), b = Tensor::full(std::vector<int64_t>{1024, 256}, 1);
    save_package([](const std::vector<Tensor>& in) { return std::vector<Tensor>{mm(in[0], in[1])}; }, {a, b}, path, o);
  };
  const auto kernels = [&](const std::vector<std::string>& devices) {
    save(devices);
    const auto p = package::Package::open(path);
    EXPECT_EQ(p->manifest().mode, "max-autotune");
    return p->manifest().entries.at(0).programs.at(0).kernels;
  };
  const auto small = kernels({"NVIDIA A100, sm_80, 108 multiprocessors", "NVIDIA H100, small, sm_90a, 4 multiprocessors"});
  EXPECT_NE(small, kernels({"NVIDIA H200, sm_90a, 132 multiprocessors"})) << "tiles for other numbers of multiprocessors";
  EXPECT_EQ(small, kernels({"NVIDIA H20, small, sm_90a, 4 multiprocessors"}));
  const auto h100 = device::cuda::gpu_of_tuning_key("NVIDIA H100, PCIe, sm_90a, 114 multiprocessors");
  ASSERT_TRUE(h100);
  EXPECT_EQ(std::tuple(h100->name, h100->architecture, h100->multiprocessors), std::tuple("NVIDIA H100, PCIe", "sm_90a", 114));
  const std::string two = user_error([&] { save({"NVIDIA H100, sm_90a, 132 multiprocessors", "NVIDIA H20, sm_90a, 78 multiprocessors"}); });
  EXPECT_TRUE(contains(two, "NVIDIA H100") && contains(two, "NVIDIA H20")) << two;
}

TEST_F(GpuPackage, WithoutAGpuALoadSaysWhatIsMissing) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  const TempFolder folder;
  save_package(kModels + "encoder/core.pt2", folder / "m.tpk", for_targets({"compute_80"}));
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  EXPECT_TRUE(contains(error_of<EnvironmentError>([&] { file.session("", Device::cuda()); }), "CUDA driver"));
  const std::string cpu = error_of<EnvironmentError>([&] { file.session(); });
  EXPECT_TRUE(contains(cpu, "\"compute_80\"") && contains(cpu, "--target native")) << cpu;
  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  ASSERT_EQ(toroid_package_open((folder / "m.tpk").c_str(), &package), TOROID_OK) << toroid_last_error();
  EXPECT_EQ(toroid_session_open_on(package, nullptr, "cuda", &session), TOROID_ENVIRONMENT_ERROR);
  EXPECT_EQ(toroid_session_open_on(package, nullptr, "tpu", &session), TOROID_USER_ERROR) << toroid_last_error();
  EXPECT_EQ(toroid_session_open_on(package, nullptr, nullptr, &session), TOROID_ENVIRONMENT_ERROR) << "null is the CPU";
  toroid_package_close(package);
}

TEST_F(GpuPackage, RunsAsTheModelDoes) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const TempFolder folder;
  const std::string here = device::cuda::gpu(0).info().architecture;
  for (const char* name : {"digitsnet", "encoder", "tied", "regions", "numbers_from_data"})
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
      const std::string model = kModels + name + "/core.pt2", path = folder / "m.tpk";
      const auto inputs = on(Device::cuda(), inputs_of(name));
      std::vector<std::vector<Tensor>> expected;  // by call: some count their calls
      Model jit = Model::load(model, {.device = Device::cuda(), .mode = mode});
      for (int call = 0; call < 3; ++call) expected.push_back(on(Device::cpu(), jit.run(inputs)));
      for (const std::string& target : {std::string("native"), here, std::string("compute_80")}) {
        PackageOptions o = for_targets({target});
        o.model.mode = mode, o.model.device = Device::cuda();
        save_package(model, path, o);
        PackageSession session = PackageFile::open(path).session("", Device::cuda());
        for (auto& outputs : expected) {
          const auto results = on(Device::cpu(), session.run(inputs));
          if (target != "compute_80") {
            EXPECT_EQ(test::bit_difference(outputs, results), "") << name << ", " << target;
            continue;
          }
          for (size_t i = 0; i < results.size(); ++i) {
            const auto a = outputs[i].to_vector(), b = results[i].to_vector();
            ASSERT_EQ(a.size(), b.size());
            double largest = 0, off = 0;
            for (size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a[k])), off = std::max(off, std::abs(a[k] - b[k]));
            EXPECT_LE(off, 2e-3 * largest) << name << ", output " << i;  // products by other templates, tf32 off
          }
        }
      }
    }
}

TEST_F(GpuPackage, SessionsKeepTheirStateApart) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const TempFolder folder;
  const Tensor count = Tensor::full(std::vector<int64_t>{1 << 16}, 1), x = Tensor::full(std::vector<int64_t>{1 << 16}, 10);
  PackageOptions o = for_targets({"compute_80"});
  o.model.mode = Mode::ReduceOverhead;
  save_package(
      [count](const std::vector<Tensor>& in) {
        Tensor c = count;
        add_(c, in[0]);
        return std::vector<Tensor>{c * 2};
      },
      {x}, folder / "counter.tpk", o);
  const PackageFile file = PackageFile::open(folder / "counter.tpk");
  PackageSession a = file.session("", Device::cuda()), b = file.session("", Device::cuda());
  const Tensor there = x.to(Device::cuda());
  const auto call = [&](PackageSession& s) { return s.run({there})[0].to(Device::cpu()).to_vector().back(); };
  EXPECT_EQ((std::vector{call(a), call(a), call(b), call(a)}), (std::vector<double>{22, 42, 22, 62}));
}

TEST_F(GpuPackage, EntriesShareWhatTheyKeep) {
  const TempFolder folder;
  const Tensor count = Tensor::full(std::vector<int64_t>{1 << 16}, 1), x = Tensor::full(std::vector<int64_t>{1 << 16}, 10);
  PackageOptions o = for_targets({"compute_80"});
  o.model.mode = Mode::ReduceOverhead;
  const auto add = [count](const std::vector<Tensor>& in) {
    Tensor c = count;
    add_(c, in[0]);
    return std::vector<Tensor>{c * 2};
  };
  const auto look = [count](const std::vector<Tensor>& in) { return std::vector<Tensor>{count * in[0]}; };
  save_package({{.name = "add", .function = add, .examples = {x}}, {.name = "look", .function = look, .examples = {x}}},
               folder / "counter.tpk", o);
  ASSERT_EQ(package::Package::open(folder / "counter.tpk")->manifest().states.size(), 1u);
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const PackageFile file = PackageFile::open(folder / "counter.tpk");
  PackageSession a = file.session("add", Device::cuda()), a_look = a.entry("look"), b = file.session("look", Device::cuda());
  const Tensor there = x.to(Device::cuda());
  const auto call = [&](PackageSession& s) { return s.run({there})[0].to(Device::cpu()).to_vector().back(); };
  EXPECT_EQ((std::vector{call(a), call(a_look), call(a), call(a_look), call(b)}), (std::vector<double>{22, 110, 42, 210, 10}));
}

TEST_F(GpuPackage, TheInterfaceInCWritesToInputs) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const TempFolder folder;
  const Tensor x = Tensor::full(std::vector<int64_t>{64}, 3);
  save_package(
      [](const std::vector<Tensor>& in) {
        Tensor c = in[0];
        add_(c, 1);
        return std::vector<Tensor>{c * 2};
      },
      {x}, folder / "f.tpk", for_targets({"compute_80"}));
  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  ASSERT_EQ(toroid_package_open((folder / "f.tpk").c_str(), &package), TOROID_OK) << toroid_last_error();
  ASSERT_EQ(toroid_session_open_on(package, nullptr, "cuda", &session), TOROID_OK) << toroid_last_error();
  const toroid_tensor host{x.raw_data(), 256, TOROID_F32, 1, {64}, nullptr};
  toroid_tensor out{};
  ASSERT_EQ(toroid_session_run(session, &host, 1, &out, 1), TOROID_OK) << toroid_last_error();
  EXPECT_EQ(static_cast<float*>(out.data)[63], 8);
  EXPECT_EQ(x.to_vector()[63], 4);
  toroid_tensor_release(&out);
  toroid_session_close(session);
  toroid_package_close(package);
}

TEST_F(GpuPackage, TheInterfaceInCTakesAStream) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const TempFolder folder;
  const Tensor w = Tensor::full(std::vector<int64_t>{64}, 5), x = Tensor::full(std::vector<int64_t>{64}, 3);
  save_package([w](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * w}; }, {x}, folder / "f.tpk",
               for_targets({"compute_80"}));
  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  ASSERT_EQ(toroid_package_open((folder / "f.tpk").c_str(), &package), TOROID_OK) << toroid_last_error();
  ASSERT_EQ(toroid_session_open_on(package, nullptr, "cuda:0", &session), TOROID_OK) << toroid_last_error();
  const toroid_tensor host{x.raw_data(), 256, TOROID_F32, 1, {64}, nullptr};
  toroid_tensor out{};
  ASSERT_EQ(toroid_session_run(session, &host, 1, &out, 1), TOROID_OK) << toroid_last_error();
  EXPECT_EQ(static_cast<float*>(out.data)[63], 15);
  toroid_tensor_release(&out);
  // In memory of the GPU, given and taken, on streams of the caller's.
  const Tensor there = x.to(Device::cuda());
  const toroid_tensor in{there.raw_data(), 256, TOROID_F32, 1, {64}, nullptr};
  for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(device::cuda::gpu(0).default_stream())}) {
    Tensor mine = Tensor::full(std::vector<int64_t>{64}, 0, DType::F32, Device::cuda());
    toroid_tensor given{mine.raw_data(), 256, TOROID_F32, 1, {}, nullptr}, made{};
    ASSERT_EQ(toroid_session_run_on(session, stream, &in, 1, &given, 1), TOROID_OK) << toroid_last_error();
    ASSERT_EQ(toroid_session_run_on(session, stream, &in, 1, &made, 1), TOROID_OK) << toroid_last_error();
    synchronize(Device::cuda());
    Stream::adopt(Device::cuda(), stream).synchronize();
    EXPECT_EQ(mine.to(Device::cpu()).to_vector()[63], 15);
    EXPECT_EQ(Tensor::from_blob(made.data, std::vector<int64_t>{64}, DType::F32, {}, {}, Device::cuda()).to(Device::cpu()).to_vector()[0],
              15);
    toroid_tensor_release(&made);
  }
  toroid_session_close(session);
  toroid_package_close(package);
}

}  // namespace
}  // namespace toroid
