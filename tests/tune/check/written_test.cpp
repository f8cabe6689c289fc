// Choices are compared on what they write: no more and no less than the default, whatever was in memory before.
#include "tune/check/written.h"

#include <gtest/gtest.h>

#include "errors.h"
#include "tune/check/check.h"
#include "tune/search/choices.h"
#include "tune/search/search.h"
#include "tune/text_pipeline.h"

namespace toroid::tune {
namespace {

using test::contains;

// What comparing the choice of form `name` with the default says; empty: nothing. each: what they do for element i of 64.
std::string verdict(const std::map<std::string, std::string>& each, const std::string& name) {
  auto pipeline = std::make_shared<TextPipeline>();
  for (auto& [form, text] : each) pipeline->each[form] = {text};
  const std::vector<Region> regions = find_regions(TextPipeline::program(), TextPipeline::program(), 3);
  SearchOptions options;
  RegionReport report;
  const auto callers = choices_of(regions.at(0), pipeline->get(), options, report);
  const Sample sample = time_checked(callers, regions[0], Device::cpu());
  for (size_t i = 0; i < callers.size(); ++i) {
    if (callers[i]->name() != name + "()") continue;
    try {
      sample(0);  // its results lie in memory that the next may be given
      sample(i);
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  }
  ADD_FAILURE() << "no choice " << name;
  return "";
}

class Written : public testing::Test {
 protected:
  void SetUp() override {
    if (skips_cpu()) GTEST_SKIP() << "the CPU's compiler may be missing";
  }
};

TEST_F(Written, AResultThatIsWrittenInPart) {
  const std::map<std::string, std::string> each = {{"", "if (i % 8 < 4) product(i);"},
                                                   {"same", "if (i % 8 < 4) { float keep = out[i]; product(i); (void)keep; }"},
                                                   {"more", "product(i);"},
                                                   {"one_more", "if (i % 8 < 4 || i == 7) out[i] = 0; if (i % 8 < 4) product(i);"},
                                                   {"less", "if (i % 8 < 4 && i != 9) product(i);"},
                                                   {"none", "if (i < 0) product(i);"},
                                                   {"wrong", "if (i % 8 < 4) { product(i); out[i] += 1; }"}};
  EXPECT_EQ(verdict(each, "same"), "");
  EXPECT_TRUE(contains(verdict(each, "more"), "is written at element 4, which the default leaves as it is (32 of 64 elements)"))
      << verdict(each, "more");
  EXPECT_TRUE(contains(verdict(each, "one_more"), "is written at element 7"));
  for (const char* bad : {"less", "none", "wrong"}) EXPECT_TRUE(contains(verdict(each, bad), "not equivalent")) << bad;
}

// Right results of another choice that are left in memory are nobody's.
TEST_F(Written, AResultThatIsWrittenInFull) {
  const std::map<std::string, std::string> each = {
      {"", "product(i);"}, {"same", "product(i);"}, {"less", "if (i != 9) product(i);"}, {"none", "if (i < 0) product(i);"}};
  EXPECT_EQ(verdict(each, "same"), "");
  EXPECT_TRUE(contains(verdict(each, "less"), "at [9]")) << verdict(each, "less");
  EXPECT_TRUE(contains(verdict(each, "none"), "not equivalent"));
}

TEST_F(Written, AResultThatIsAddedTo) {
  const std::map<std::string, std::string> each = {{"", "if (i < 40) out[i] += a[i];"},
                                                   {"same", "if (i < 40) out[i] = a[i] + out[i];"},
                                                   {"sets", "if (i < 40) out[i] = a[i];"},
                                                   {"twice", "if (i < 40) out[i] += 2 * a[i];"},
                                                   {"more", "out[i] += a[i];"}};
  EXPECT_EQ(verdict(each, "same"), "");
  for (const char* bad : {"sets", "twice", "more"}) EXPECT_TRUE(contains(verdict(each, bad), "not equivalent")) << bad;
}

// Small results are not compared by the size of what lies beside them.
TEST_F(Written, WhatIsNotWrittenLoosensNoBound) {
  const std::map<std::string, std::string> each = {{"", "if (i < 8) out[i] = 1e-6f * a[i];"},
                                                   {"same", "if (i < 8) out[i] = a[i] * 1e-6f;"},
                                                   {"wrong", "if (i < 8) out[i] = 1.01e-6f * a[i];"}};
  EXPECT_EQ(verdict(each, "same"), "");
  EXPECT_TRUE(contains(verdict(each, "wrong"), "has an error of")) << verdict(each, "wrong");
}

// NaN in both hides what differs; there a second look is had, at positive numbers.
TEST_F(Written, RootsOfNegativeNumbersHideNothing) {
  const std::map<std::string, std::string> each = {
      {"", "out[i] = a[i] > 0 ? __builtin_sqrtf(a[0] < 0 || a[1] < 0 ? -1.0f : a[i]) : __builtin_nanf(\"\");"},
      {"wrong", "out[i] = __builtin_nanf(\"\");"}};
  EXPECT_TRUE(contains(verdict(each, "wrong"), "not equivalent"));
}

TEST(Patterns, DifferEverywhere) {
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool, DType::C64}) {
    const Tensor a = pattern({3000}, t, 5, 0), b = pattern({3000}, t, 5, 1);
    Left kept{{a, b}, {a, b}}, swapped{{a, b}, {b, a}};
    const auto none = unwritten(swapped), all = unwritten(kept);
    EXPECT_EQ(std::count(all.begin(), all.end(), 1), 3000) << name_of(t);
    EXPECT_EQ(std::count(none.begin(), none.end(), 0), 3000) << name_of(t);
    EXPECT_TRUE(combines(swapped, none));
    EXPECT_FALSE(combines(kept, all));
    EXPECT_EQ(compare_unwritten(a, a, all), "");
    EXPECT_NE(compare_unwritten(a, b, all), "");
    EXPECT_EQ(compare_unwritten(a, b, none), "");
  }
}

}  // namespace
}  // namespace toroid::tune
