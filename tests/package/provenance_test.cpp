// What a package says of how exactly it computes, and of where decisions of tuning come from.
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "data_models.h"
#include "device/cpu/isa.h"
#include "errors.h"
#include "front/precision.h"
#include "import/load_model.h"
#include "package/forge.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/save_package.h"
#include "toroid/version.h"
#include "tune/memory/lock_file.h"

namespace toroid {
namespace {

using test::TempFolder;

package::Program program_of(const std::string& path) { return package::Package::open(path)->manifest().entries.at(0).programs.at(0); }

package::Program saved(const std::function<Tensor(const Tensor&)>& fn, DType dtype = DType::F32) {
  const TempFolder folder;
  const Tensor x = Tensor::full(std::vector<int64_t>{4, 4}, 2, dtype);
  save_package([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{fn(in[0])}; }, {x}, folder / "m.tpk");
  return program_of(folder / "m.tpk");
}

// The lowest precision anywhere counts, whatever inputs and results are.
TEST(Provenance, PrecisionIsTheLowest) {
  struct Case {
    const char* name;
    package::Program program;
    double tolerance;
  };
  const Case cases[] = {
      {"f32", saved([](const Tensor& x) { return exp(x); }), 1e-4},
      {"f64", saved([](const Tensor& x) { return exp(x); }, DType::F64), 1e-4},
      {"f32", saved([](const Tensor& x) { return matmul(x, x); }), 1e-4},
      {"bf16", saved([](const Tensor& x) { return exp(x.to(DType::BF16)).to(DType::F32); }), 1.6e-2},
      {"f16", saved([](const Tensor& x) { return matmul(x.to(DType::F16), x.to(DType::F16)).to(DType::F32); }), 5e-3},
      {"bf16", saved([](const Tensor& x) { return x.to(DType::F16).to(DType::BF16); }), 1.6e-2},
      {"f64", saved([](const Tensor& x) { return x * x; }, DType::I32), 1e-4},
  };
  for (auto& c : cases) {
    EXPECT_EQ(c.program.precision, c.name);
    EXPECT_EQ(c.program.tolerance, c.tolerance);
    EXPECT_EQ(c.program.tuning.by, "nothing");
  }
}

TEST(Provenance, RoundedOperandsAreAnOptionOfGpus) {
  const auto graph = import::load_model(test::kModels + "digitsnet/core.pt2");
  const graph::Graph& g = *graph;
  CompileOptions options = CompileOptions::of_process();
  EXPECT_STREQ(front::precision_of(g, Device::cuda(), options).name, "f32");
  options.set("allow_tf32", "1");
  EXPECT_STREQ(front::precision_of(g, Device::cuda(), options).name, "tf32");
  EXPECT_STREQ(front::precision_of(g, Device::cpu(), options).name, "f32");
}

// Code for named instructions has these alone, whatever processor makes it, be it one that lacks them: it is the same everywhere.
TEST(Provenance, CodeForNamedInstructionsIsThatOfNoProcessor) {
  const TempFolder folder;
  const std::string model = test::kModels + "digitsnet/core.pt2";
  save_package(model, folder / "m.tpk", {.targets = {"x86-64-v4", "x86-64-v3", "x86-64"}});
  const auto package = package::Package::open(folder / "m.tpk");
  std::vector<std::string> codes;
  for (auto& p : package->manifest().entries.at(0).programs) codes.push_back(p.code_for);
  EXPECT_EQ(codes, (std::vector<std::string>{"avx512", "avx2", "scalar"}));
  EXPECT_EQ(package->manifest().compiler.find('+'), std::string::npos) << package->manifest().compiler;
  if (device::host().isa == device::Isa::Avx512) return;
  PackageOptions timed{.targets = {"x86-64-v4"}};
  timed.model.options["mode"] = "max-autotune";
  const std::string error = test::user_error([&] { save_package(model, folder / "timed.tpk", timed); });
  EXPECT_NE(error.find("times kernels on the processor, and one for the target x86-64-v4 need not be there"), std::string::npos) << error;
}

TEST(Provenance, ALockFileIsKnownByItsHash) {
  const TempFolder folder;
  const std::string lock = folder / "tuning.lock", model = test::kModels + "digitsnet/core.pt2";
  tune::LockFile().write(lock);
  PackageOptions o;
  o.model.options["tune_lock"] = lock;
  save_package(model, folder / "default.tpk", o);
  EXPECT_EQ(program_of(folder / "default.tpk").tuning.by, "nothing") << "this mode reads no decisions";
  o.model.mode = Mode::MaxAutotuneNoCudagraphs;
  save_package(model, folder / "locked.tpk", o);
  const package::Tuning locked = program_of(folder / "locked.tpk").tuning;
  EXPECT_EQ(locked.by, "lock");
  EXPECT_EQ(locked.lock, sha256(read_file(lock)));
  EXPECT_TRUE(test::contains(locked.device, "threads")) << locked.device;
  o.model.options = {{"deterministic", "1"}};
  save_package(model, folder / "untuned.tpk", o);
  EXPECT_EQ(program_of(folder / "untuned.tpk").tuning.by, "nothing");
  const std::string made_by = package::Package::open(folder / "locked.tpk")->manifest().toroid;
  EXPECT_TRUE(made_by.starts_with(TOROID_VERSION " ")) << made_by;
}

// Packages from before say nothing of it, and one that lies is refused.
TEST(Provenance, IsReadWhereItIs) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", forged = folder / "forged.tpk";
  save_package(test::kModels + "digitsnet/core.pt2", path);
  test::forge(path, forged, "tolerance", "0.5");
  EXPECT_EQ(program_of(forged).tolerance, 0.5);
  for (const char* value : {"-1", "1", "NaN", "Infinity"}) {
    test::forge(path, forged, "tolerance", value);
    EXPECT_TRUE(test::contains(test::user_error([&] { program_of(forged); }), "expected a part of an output's range")) << value;
  }
}

}  // namespace
}  // namespace toroid
