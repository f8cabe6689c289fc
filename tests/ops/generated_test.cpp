// Files that are generated from tables say what the tables say, and every public operation can be called from C++.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "generate.h"
#include "ops/descriptions.h"
#include "ops/table.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

bool of_another_library(std::string_view base) {
  return base == "prims" || base == "torchvision" || base == "torch_nn" || base == "transformers" || base == "higher_order";
}

// With TOROID_TEST_WRITE the files are written (scripts/generate.sh).
TEST(Generated, FilesSayWhatTheTablesSay) {
  for (const generate::File& file : generate::files()) {
    const std::string path = std::string(TOROID_SOURCE_DIR) + "/" + file.path;
    if (std::getenv("TOROID_TEST_WRITE")) std::ofstream(path) << file.text;
    std::ostringstream held;
    held << std::ifstream(path).rdbuf();
    EXPECT_TRUE(held.str() == file.text) << file.path << " differs from the table; run scripts/generate.sh";
  }
}

TEST(Generated, EveryPublicOperationIsDescribed) {
  for (const ops::Op& op : ops::table().rows()) {
    const std::string base = op.name.substr(0, op.name.find('.'));
    if (base.starts_with("_") || base.ends_with("_copy") || op.inplace_of || of_another_library(base)) continue;
    EXPECT_FALSE(ops::description(base).empty()) << op.name << " needs a sentence in src/ops/descriptions.cpp";
  }
}

TEST(Generated, EverySentenceIsOfAnOperation) {
  for (std::string_view name : ops::described()) {
    bool found = false;
    for (const ops::Op& op : ops::table().rows()) found = found || op.name.substr(0, op.name.find('.')) == name;
    EXPECT_TRUE(found) << name << " is no operation";
  }
}

Tensor of(std::vector<double> v) {
  const int64_t sizes[] = {static_cast<int64_t>(v.size())};
  return Tensor::of(v, sizes);
}

TEST(Generated, FormulasTakeTensorsAndNumbers) {
  const Tensor x = of({-1, 0, 2});
  EXPECT_EQ(heaviside(x, 0.5).to_vector(), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(fmod(7.0, of({2, 4})).to_vector(), (std::vector<double>{1, 3}));
  EXPECT_EQ(clamp_min(x, 1).to_vector(), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(clamp_min(x, of({0, 3, 0})).to_vector(), (std::vector<double>{0, 3, 2}));
  EXPECT_THROW(heaviside(1.0, 2.0), UserError);
  EXPECT_THROW(threshold(x, x, 0), UserError);
}

TEST(Generated, ResultsAreAsManyAsTheSchemaSays) {
  const auto [mantissa, exponent] = frexp(of({8, 3}));
  EXPECT_EQ(mantissa.to_vector(), (std::vector<double>{0.5, 0.75}));
  const std::vector<Tensor> parts = tensor_split(of({1, 2, 3}), 2);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].to_vector(), (std::vector<double>{3}));
}

}  // namespace
}  // namespace toroid
