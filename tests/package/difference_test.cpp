// What differs between two packages is said, whatever it is; what does not is not.
#include "package/difference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data_models.h"
#include "errors.h"
#include "package/forge.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using package::Differences;
using test::kModels;
using test::TempFolder;

Differences between(const std::string& a, const std::string& b) {
  return package::differences(*package::Package::open(a), *package::Package::open(b));
}

// exp(x) * w + plus, on 2 to `most` rows.
void save(const std::string& path, const Tensor& w, double plus = 1, int64_t most = 50) {
  const Tensor x = Tensor::full(std::vector<int64_t>{4, 3}, 2);
  mark_dynamic(x, 0, 2, most);
  save_package([=](const std::vector<Tensor>& in) { return std::vector<Tensor>{exp(in[0]) * w + plus}; }, {x}, path);
}

TEST(PackageDifference, EqualOnesHaveNone) {
  const TempFolder folder;
  save_package(kModels + "encoder/core.pt2", folder / "a.tpk"), save_package(kModels + "encoder/core.pt2", folder / "b.tpk");
  EXPECT_TRUE(between(folder / "a.tpk", folder / "b.tpk").none());
}

// Each field of a manifest that a reader takes with another value.
TEST(PackageDifference, EachFieldIsNamed) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", forged = folder / "forged.tpk";
  save(path, Tensor::of({1, 2, 3}, {3}));
  const std::array<std::string, 3> cases[] = {
      {"compiler", "\"cc\"", "compiler"},
      {"mode", "\"max-autotune\"", "mode"},
      {"type", "\"f32[7]\"", "entries.main.inputs.input0.type"},
      {"written", "true", "entries.main.inputs.input0.written"},
      {"least", "3", "entries.main.sizes.s0.least"},
      {"greatest", "49", "entries.main.sizes.s0.greatest"},
      {"code_for", "\"avx2\"", "entries.main.programs.native.code_for"},
      {"driver", "13000", "entries.main.programs.native.driver"},
      {"libraries", "[\"onednn\"]", "entries.main.programs.native.libraries"},
      {"outputs", "[]", "entries.main.outputs"},
  };
  for (auto& [field, value, expected] : cases) {
    test::forge(path, forged, field, value);
    const Differences d = between(path, forged);
    ASSERT_EQ(d.fields.size(), 1u) << field;
    EXPECT_EQ(d.fields[0].path, expected);
    EXPECT_EQ(d.fields[0].b, value);
    EXPECT_TRUE(d.kernels.empty() && d.lines.empty() && d.weights.empty()) << field;
  }
  test::forge(path, forged, "name", "\"other\"");
  const Differences renamed = between(path, forged);
  ASSERT_EQ(renamed.fields.size(), 2u) << "an entry is gone and another one there";
  EXPECT_TRUE(renamed.fields[0].path == "entries.main" && !renamed.fields[0].b);
  EXPECT_TRUE(renamed.fields[1].path == "entries.other" && !renamed.fields[1].a);
}

TEST(PackageDifference, TheOrderOfTargetsCounts) {
  const TempFolder folder;
  save_package(kModels + "digitsnet/core.pt2", folder / "a.tpk", {.targets = {"x86-64-v3", "x86-64"}});
  save_package(kModels + "digitsnet/core.pt2", folder / "b.tpk", {.targets = {"x86-64", "x86-64-v3"}});
  const Differences d = between(folder / "a.tpk", folder / "b.tpk");
  EXPECT_TRUE(std::any_of(d.fields.begin(), d.fields.end(), [](auto& f) { return f.path == "entries.main.programs (order)"; }));
  EXPECT_TRUE(d.kernels.empty() && d.lines.empty() && d.weights.empty()) << "they are called otherwise in the file, and are the same";
}

TEST(PackageDifference, KernelsAreComparedByTheirCode) {
  const TempFolder folder;
  const Tensor w = Tensor::of({1, 2, 3}, {3});
  save(folder / "a.tpk", w, 1), save(folder / "b.tpk", w, 2);
  const Differences d = between(folder / "a.tpk", folder / "b.tpk");
  ASSERT_EQ(d.kernels.size(), 1u);
  EXPECT_EQ(d.kernels[0].program, "main for native");
  EXPECT_TRUE(d.kernels[0].a && d.kernels[0].b && d.kernels[0].a != d.kernels[0].b);
  EXPECT_TRUE(d.fields.empty() && d.lines.empty() && d.weights.empty()) << "the program is the same but for its code";
}

TEST(PackageDifference, WeightsAreComparedByTheirElements) {
  const TempFolder folder;
  const std::string a = folder / "a.tpk", b = folder / "b.tpk";
  save(a, Tensor::of({1, 2, 3}, {3})), save(b, Tensor::of({1, 2.5, 1}, {3}));
  const Differences values = between(a, b);
  ASSERT_EQ(values.weights.size(), 1u);
  EXPECT_EQ(values.weights[0].a, "f32[3]");
  EXPECT_TRUE(values.weights[0].elements == 3 && values.weights[0].differ == 2 && values.weights[0].largest == 2);
  EXPECT_TRUE(values.fields.empty() && values.kernels.empty() && values.lines.empty()) << "all else is the same";
  save(b, Tensor::of({1, 2, std::nan("")}, {3}));
  EXPECT_EQ(between(a, b).weights.at(0).largest, HUGE_VAL);
  save(b, Tensor::of({1, 2, 3}, {1, 3}));
  EXPECT_EQ(between(a, b).weights.at(0).b, "f32[1, 3]");
  save(b, Tensor::of({1, 2, 3}, {3}, DType::BF16));
  const Differences type = between(a, b);
  EXPECT_TRUE(type.weights.at(0).a == "f32[3]" && type.weights[0].b == "bf16[3]");
  ASSERT_EQ(type.lines.size(), 1u) << "the program has another type too";
  EXPECT_NE(type.lines[0].a, type.lines[0].b);
}

TEST(PackageDifference, OpenSizesAreFieldsAndLines) {
  const TempFolder folder;
  const Tensor w = Tensor::of({1, 2, 3}, {3});
  save(folder / "a.tpk", w), save(folder / "b.tpk", w, 1, 60);
  const Differences d = between(folder / "a.tpk", folder / "b.tpk");
  ASSERT_EQ(d.fields.size(), 1u);
  EXPECT_EQ(d.fields[0].path, "entries.main.sizes.s0.greatest");
  ASSERT_EQ(d.lines.size(), 1u);
  EXPECT_EQ(d.lines[0].line, 1u);
}

TEST(PackageDifference, DamageIsAnError) {
  const TempFolder folder;
  save(folder / "a.tpk", Tensor::of({1, 2, 3}, {3}));
  std::string bytes = read_file(folder / "a.tpk");
  bytes[bytes.find("TOROIDPL") + 40] ^= 1;
  write_file_atomic(folder / "b.tpk", bytes);
  EXPECT_TRUE(test::contains(test::user_error([&] { between(folder / "a.tpk", folder / "b.tpk"); }), "the file is damaged"));
}

}  // namespace
}  // namespace toroid
