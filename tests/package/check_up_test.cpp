// The doctor finds what loading refuses, and goes on behind it.
#include "package/check_up.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data_models.h"
#include "errors.h"
#include "package/forge.h"
#include "temp_folder.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using package::Check;
using test::contains;
using test::kModels;
using test::TempFolder;

std::vector<Check> failed(const std::vector<Check>& checks) {
  std::vector<Check> out;
  std::copy_if(checks.begin(), checks.end(), std::back_inserter(out), [](auto& c) { return c.state == Check::State::Failed; });
  return out;
}

std::string texts(const std::vector<Check>& checks) {
  std::string out;
  for (auto& c : checks) out += c.name + ": " + c.text + "\n";
  return out;
}

TEST(PackageCheckUp, AGoodOnePassesAll) {
  const TempFolder folder;
  save_package(kModels + "digitsnet/core.pt2", folder / "m.tpk", {.targets = {"x86-64"}});
  const auto checks = package::check_up(folder / "m.tpk");
  EXPECT_TRUE(failed(checks).empty()) << texts(checks);
  for (const char* name :
       {"archive", "manifest", "format", "plan_version", "kernel_abi", "system", "machine", "parts", "hashes", "plan", "load"})
    EXPECT_TRUE(std::any_of(checks.begin(), checks.end(), [&](auto& c) { return c.name == name; })) << name;
}

// Each field that a loader refuses fails the check of its name, and says what to do; no field fails where loading succeeds.
TEST(PackageCheckUp, FindsWhatLoadingRefuses) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", forged = folder / "forged.tpk";
  save_package(kModels + "digitsnet/core.pt2", path, {.targets = {"x86-64"}});
  const std::string zeros = "\"" + std::string(64, '0') + "\"";
  struct Case {
    const char *field, *check;
    std::string value;
    const char* text;
    bool of_machine = false;
  };
  const Case cases[] = {
      {"format_name", "format_name", "\"another\"", "another, this runtime takes toroid-package"},
      {"format", "format", "7", "use a newer runtime"},
      {"plan_version", "plan_version", "2", "make the package again: toroid compile MODEL -o FILE"},
      {"kernel_abi", "kernel_abi", "9", "9, this runtime takes 1; make the package again"},
      {"system", "system", "\"plan9\"", "run toroid compile on such a system"},
      {"machine", "machine", "\"vax\"", "run toroid compile on such a machine"},
      {"entries", "parts", "7", "entries"},
      {"bytes", "parts", "3", "the manifest says 3"},
      {"sha256", "hash", zeros, "the file is damaged; copy it again"},
      {"operations", "operation", "[\"mine::twice\"]", "register it in this process"},
      {"code_for", "load", "\"avx512 +amx\"", "toroid compile MODEL -o FILE --target native", true},
      {"code_for", "load", "\"amx\"", "unknown instruction set"},
      {"device", "load", "\"vax\"", "toroid compile MODEL -o FILE --target native", true},
      {"weights_head", "load", zeros, "the header of weights.safetensors"},
  };
  for (auto& c : cases) {
    test::forge(path, forged, c.field, c.value);
    const auto checks = package::check_up(forged);
    const auto bad = failed(checks);
    ASSERT_FALSE(bad.empty()) << c.field;
    const auto at = std::find_if(bad.begin(), bad.end(), [&](auto& b) { return b.name == c.check && contains(b.text, c.text); });
    ASSERT_NE(at, bad.end()) << c.field << ":\n" << texts(bad);
    EXPECT_EQ(at->of_machine, c.of_machine) << c.field;
  }
}

TEST(PackageCheckUp, GoesOnBehindWhatFails) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", once = folder / "once.tpk", twice = folder / "twice.tpk";
  save_package(kModels + "digitsnet/core.pt2", path, {.targets = {"x86-64"}});
  test::forge(path, once, "kernel_abi", "9"), test::forge(once, twice, "machine", "\"vax\"");
  EXPECT_EQ(failed(package::check_up(twice)).size(), 2u);
  const auto missing = failed(package::check_up(folder / "none.tpk"));
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_TRUE(contains(missing[0].text, "No such file")) << missing[0].text;
}

// One of several programs is enough, unless a device is asked for.
TEST(PackageCheckUp, OneProgramThatFitsIsEnough) {
  const TempFolder folder;
  save_package(kModels + "digitsnet/core.pt2", folder / "m.tpk", {.targets = {"x86-64-v4", "x86-64"}});
  test::forge(folder / "m.tpk", folder / "forged.tpk", "code_for", "\"avx512 +amx\"");
  const auto checks = package::check_up(folder / "forged.tpk");
  EXPECT_TRUE(failed(checks).empty()) << texts(checks);
  EXPECT_TRUE(contains(texts(checks), "does not run") && contains(texts(checks), "the program for x86-64, in")) << texts(checks);
  const auto on_gpu = failed(package::check_up(folder / "forged.tpk", Device::cuda()));
  ASSERT_EQ(on_gpu.size(), 1u);
  EXPECT_TRUE(on_gpu[0].of_machine && contains(on_gpu[0].text, "programs for CPUs alone")) << on_gpu[0].text;
}

}  // namespace
}  // namespace toroid
