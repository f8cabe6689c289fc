// toroid compile, and packages in place of models.
#include "toroid/package.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/harness.h"
#include "errors.h"
#include "import/load_model.h"
#include "temp_folder.h"
#include "toroid/cuda_function.h"
#include "toroid/opaque_op.h"
#include "toroid/ops.h"
#include "toroid/save_package.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

using test::contains;

TEST(PackageCommand, CompilesShowsChecksRunsAndTimes) {
  const auto folder = make_temp_dir("toroid-package-cli");
  const std::string model = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/", package = (folder / "m.tpk").string();
  auto out = test::toroid_command("compile a=" + model + "core.pt2 -o " + package + " --target x86-64-v3,x86-64");
  ASSERT_EQ(out.code, 0) << out.text;
  out = test::toroid_command("inspect " + package);
  EXPECT_TRUE(out.code == 0 && contains(out.text, "entry a") && contains(out.text, "program for x86-64-v3: cpu avx2,")) << out.text;
  out = test::toroid_command("verify " + package);
  EXPECT_TRUE(out.code == 0 && contains(out.text, "parts are as the manifest says")) << out.text;
  out = test::toroid_command("run " + package + " --inputs " + model + "in.safetensors --expect " + model + "out.safetensors");
  EXPECT_TRUE(out.code == 0 && contains(out.text, "all outputs match")) << out.text;
  out = test::toroid_command("bench " + package + " --iterations 2 --json --inputs " + model + "in.safetensors");
  EXPECT_TRUE(out.code == 0 && contains(out.text, "\"ready_ms\"")) << out.text;

  std::string bytes = read_file(package);
  bytes[bytes.find("TOROIDPL") + 40] ^= 1;
  write_file_atomic(package, bytes);
  out = test::toroid_command("verify " + package);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "the file is damaged")) << out.text;

  out = test::toroid_command("compile " + model + "core.pt2 -o " + package + " --target x86-64-v5");
  EXPECT_TRUE(out.code == 2 && contains(out.text, "unknown target \"x86-64-v5\"")) << out.text;
  out = test::toroid_command("compile " + model + "core.pt2 " + model + "core.pt2 -o " + package);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "expected NAME=FILE")) << out.text;
  std::filesystem::remove_all(folder);
}

// The package knows them by name alone, which means nothing to a process that did not register them.
TEST(PackageCommand, RefusesOperationsThatNobodyRegistered) {
  static const auto twice = opaque_op(
      "package_cli::twice(Tensor x, Tensor(a!) total) -> Tensor", [](const MemoryType& x, const MemoryType&) { return x; },
      [](InputMemory x, OutputMemory total, OutputMemory y) {
        for (size_t i = 0; i < y.as<float>().size(); ++i) total.as<float>()[i] += y.as<float>()[i] = 2 * x.as<float>()[i];
      });
  const test::TempFolder folder;
  const std::string package = folder / "m.tpk";
  const Tensor x = Tensor::of({1, 2}, {2});
  save_package(
      [](const std::vector<Tensor>& in) {
        const Tensor total = in[0] * 10.0;
        return std::vector<Tensor>{twice(in[0] + 1.0, total) + 1.0, total};
      },
      {x}, package);
  const auto results = PackageFile::open(package).session().run({x});
  EXPECT_EQ(results.at(0).to_vector(), (std::vector<double>{5, 7}));
  EXPECT_EQ(results.at(1).to_vector(), (std::vector<double>{14, 26}));
  save_tensors(folder / "in.safetensors", {{"000", x}});
  const auto out = test::toroid_command("run " + package + " --inputs " + (folder / "in.safetensors"));
  EXPECT_EQ(out.code, 2);
  EXPECT_TRUE(contains(out.text, package + ": the entry \"main\" calls the operation \"package_cli::twice\"") &&
              contains(out.text, "register it") && contains(out.text, "in C cannot"))
      << out.text;
  const auto shown = test::toroid_command("inspect " + package);
  EXPECT_EQ(shown.code, 0) << "what can be shown is shown";
  EXPECT_TRUE(contains(shown.text, "output output1: f32[2]") && contains(shown.text, "steps cannot be read here") &&
              contains(shown.text, "needs the operation package_cli::twice, which"))
      << shown.text;
}

// A program for a GPU needs the function, too, that was registered for one.
TEST(PackageCommand, NamesFunctionsForGpusThatAProgramCalls) {
  static const auto same = opaque_op(
      "package_cli::same(Tensor x) -> Tensor", [](const MemoryType& x) { return x; }, [](InputMemory, OutputMemory) {});
  register_cuda_function(same, [](InputMemory, OutputMemory, CudaStream) {});
  const test::TempFolder folder;
  PackageOptions options;
  options.targets = {"sm_90a", "native"};
  try {
    save_package([](const std::vector<Tensor>& in) { return std::vector<Tensor>{same(in[0])}; }, {Tensor::of({1, 2}, {2})},
                 folder / "m.tpk", options);
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  const auto shown = test::toroid_command("inspect " + (folder / "m.tpk"));
  const std::string line = "calls the function for GPUs of package_cli::same";
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(contains(shown.text, line)) << shown.text;
  EXPECT_EQ(shown.text.find(line), shown.text.rfind(line)) << "the program for the host has none: " << shown.text;
}

TEST(PackageCommand, NamesTheEntryThatRuns) {
  const test::TempFolder folder;
  const std::string package = folder / "m.tpk", in = " --inputs " + (folder / "in.safetensors"), total_in = in + " --entry add";
  const Tensor total = full({1}, 100), x = full({1}, 1);
  const auto add = [&](const std::vector<Tensor>& given) {
    Tensor t = total;
    add_(t, given[0]);
    return std::vector<Tensor>{t * 1.0};
  };
  const auto look = [&](const std::vector<Tensor>& given) { return std::vector<Tensor>{total * given[0]}; };
  save_package({{.name = "add", .function = add, .examples = {x}, .input_names = {"more"}},
                {.name = "look", .function = look, .examples = {x}, .input_names = {"scale"}}},
               package, {.weight_names = {{"total", total}}});
  auto out = test::toroid_command("inspect " + package);
  EXPECT_TRUE(out.code == 0 && contains(out.text, "memory of a session total: f32[1], shared by the entries add, look")) << out.text;
  save_tensors(folder / "in.safetensors", {{"scale", full({1}, 3)}});
  out = test::toroid_command("run " + package + in);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "it has 2 entries; say which one: --entry NAME, of add, look")) << out.text;
  out = test::toroid_command("run " + package + in + " --entry lok");
  EXPECT_TRUE(out.code == 2 && contains(out.text, "found \"lok\"")) << out.text;
  out = test::toroid_command("run " + package + in + " --entry look");
  EXPECT_TRUE(out.code == 0 && contains(out.text, "300")) << out.text;
  out = test::toroid_command("run " + package + total_in);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "more")) << "names are the entry's: " << out.text;
  out = test::toroid_command("bench " + package + in + " --entry look --iterations 2");
  EXPECT_TRUE(out.code == 0 && contains(out.text, "a call takes")) << out.text;
  out = test::toroid_command("bench " + package + in);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "--entry NAME")) << out.text;
  const std::string model = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/core.pt2";
  out = test::toroid_command("run " + model + in + " --entry look");
  EXPECT_TRUE(out.code == 2 && contains(out.text, "--entry is of packages")) << out.text;
  for (const std::string option : {" --entry look", " --weights-folder x"}) {
    out = test::toroid_command("bench " + model + option);
    EXPECT_TRUE(out.code == 2 && contains(out.text, "is of packages, ")) << out.text;
  }
}

TEST(PackageCommand, SaysWhatDiffersAndWhetherItLoads) {
  const test::TempFolder folder;
  const std::string a = folder / "a.tpk", b = folder / "b.tpk";
  const auto save = [](const std::string& path, double w) {
    const Tensor weight = Tensor::full(std::vector<int64_t>{3}, w);
    save_package([=](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * weight}; }, {weight}, path,
                 {.targets = {"x86-64"}});
  };
  save(a, 1), save(b, 3);
  auto out = test::toroid_command("diff " + a + " " + a);
  EXPECT_TRUE(out.code == 0 && contains(out.text, "are equal")) << out.text;
  out = test::toroid_command("diff " + a + " " + b);
  EXPECT_EQ(out.code, 1);
  EXPECT_TRUE(contains(out.text, "f32[3], 3 of 3 elements differ, by 2 at most")) << out.text;
  out = test::toroid_command("diff " + a + " " + (folder / "none"));
  EXPECT_EQ(out.code, 2) << out.text;

  out = test::toroid_command("doctor " + a);
  EXPECT_TRUE(out.code == 0 && contains(out.text, "it loads here")) << out.text;
  out = test::toroid_command("doctor " + a + " --device cuda");
  EXPECT_TRUE(out.code == 3 && contains(out.text, "it does not load here")) << out.text;
  std::string bytes = read_file(a);
  bytes[bytes.find("TOROIDPL") + 40] ^= 1;
  write_file_atomic(a, bytes);
  out = test::toroid_command("doctor " + a);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "failed   hash")) << out.text;
  EXPECT_TRUE(test::toroid_command("doctor --device cpu").code == 2);
}

// What the precision of a program leaves is no mismatch, unless the call says so.
TEST(PackageCommand, ComparesWithinTheTolerancesOfPackages) {
  const test::TempFolder folder;
  const Tensor x = Tensor::of({1, 0.5}, {2});
  const auto save = [&](const std::string& path, DType inside) {
    save_package([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{(in[0].to(inside) * 2.0).to(DType::F32)}; }, {x}, path);
  };
  const std::string in = folder / "in.safetensors", out = folder / "out.safetensors";
  save_tensors(in, {{"000", x}}), save_tensors(out, {{"000", Tensor::of({2.01, 1}, {2})}});
  save(folder / "m.tpk", DType::F32);
  const std::string run = "run " + (folder / "m.tpk") + " --inputs " + in + " --expect " + out;
  EXPECT_EQ(test::toroid_command(run).code, 1);
  EXPECT_EQ(test::toroid_command(run + " --tolerance 0.01").code, 0);
  EXPECT_EQ(test::toroid_command("verify " + folder.path.string()).code, 1);
  save(folder / "m.tpk", DType::BF16);
  EXPECT_EQ(test::toroid_command(run).code, 0);
  EXPECT_EQ(test::toroid_command(run + " --tolerance 0.001").code, 1);
  auto verified = test::toroid_command("verify " + folder.path.string());
  EXPECT_TRUE(verified.code == 0 && contains(verified.text, "1 passed")) << verified.text;
  verified = test::toroid_command("verify --tolerance 0.001 " + folder.path.string());
  EXPECT_EQ(verified.code, 1) << verified.text;
  const auto shown = test::toroid_command("inspect " + (folder / "m.tpk"));
  EXPECT_TRUE(contains(shown.text, "computes in bf16: f32 results within 0.016 of their range")) << shown.text;
}

TEST(PackageCommand, WritesWeightsBesideAndFindsThem) {
  const test::TempFolder folder;
  const std::string package = folder / "m.tpk";
  const std::string digits = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/digitsnet/";
  auto out = test::toroid_command("compile " + digits + "core.pt2 --weights beside -o " + package);
  ASSERT_EQ(out.code, 0) << out.text;
  const std::string run = "run " + package + " --inputs " + digits + "in.safetensors --expect " + digits + "out.safetensors";
  EXPECT_EQ(test::toroid_command(run).code, 0);
  out = test::toroid_command("inspect " + package);
  EXPECT_TRUE(contains(out.text, "weights beside it")) << out.text;
  out = test::toroid_command("verify " + package);
  EXPECT_TRUE(out.code == 0 && contains(out.text, "files beside it are as the manifest says")) << out.text;
  std::filesystem::rename(folder / "weights", folder / "moved");
  out = test::toroid_command(run);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "are missing in") && contains(out.text, "--weights-folder")) << out.text;
  EXPECT_EQ(test::toroid_command("doctor " + package).code, 2);
  for (const std::string& command :
       {run, "verify " + package, "doctor " + package, "bench " + package + " --iterations 1 --inputs " + digits + "in.safetensors"}) {
    out = test::toroid_command(command + " --weights-folder " + (folder / "moved"));
    EXPECT_EQ(out.code, 0) << command << "\n" << out.text;
  }
  EXPECT_EQ(test::toroid_command("compile " + digits + "core.pt2 --weights below -o " + package).code, 2);
}

TEST(PackageCommand, RunsOnOtherWeights) {
  const test::TempFolder folder;
  const std::string model = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/", package = folder / "m.tpk";
  std::map<std::string, Tensor> own, zeros;
  const auto graph = import::load_model(model + "core.pt2");
  for (auto& in : graph->inputs)
    if (in.data.defined()) own[in.name] = in.data, zeros[in.name] = in.data * 0;
  save_tensors(folder / "own.safetensors", own), save_tensors(folder / "zeros.safetensors", zeros);
  auto out = test::toroid_command("compile " + model + "core.pt2 --swappable -o " + package);
  ASSERT_EQ(out.code, 0) << out.text;
  out = test::toroid_command("inspect " + package);
  EXPECT_TRUE(contains(out.text, "can be swapped")) << out.text;
  const std::string run = " --inputs " + model + "in.safetensors --expect " + model + "out.safetensors --weights ";
  out = test::toroid_command("run " + package + run + (folder / "own.safetensors"));
  EXPECT_TRUE(out.code == 0 && contains(out.text, "all outputs match")) << out.text;
  out = test::toroid_command("run " + package + run + (folder / "zeros.safetensors"));
  EXPECT_TRUE(out.code == 1 && contains(out.text, "differs")) << out.text;
  out = test::toroid_command("compile a=" + model + "core.pt2 a=" + model + "core.pt2 -o " + package);
  EXPECT_TRUE(out.code == 2 && contains(out.text, "two entries have the name \"a\"")) << out.text;
  out = test::toroid_command("run " + model + "core.pt2" + run + (folder / "own.safetensors"));
  EXPECT_TRUE(out.code == 2 && contains(out.text, "toroid compile MODEL -o FILE --swappable")) << out.text;
}

}  // namespace
}  // namespace toroid
