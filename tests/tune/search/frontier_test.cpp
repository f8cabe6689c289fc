// Which choices are tried when what those before them took is known.
#include "tune/search/frontier.h"

#include <gtest/gtest.h>

namespace toroid::tune {
namespace {

using Positions = std::vector<size_t>;

std::vector<Frontier::Entry> listed(const std::vector<std::string>& forms) {
  std::vector<Frontier::Entry> out;
  for (auto& form : forms) out.push_back({out.size(), form});
  return out;
}

std::vector<Frontier::Entry> forms(size_t a, size_t b) {
  std::vector<std::string> out(a, "a");
  out.insert(out.end(), b, "b");
  return listed(out);
}

TEST(Frontier, AFormGoesOnUntilItsLatestPartIsFarBehind) {
  Frontier f(forms(16, 4), false);
  EXPECT_EQ(f.next(), (Positions{0, 1, 2, 3, 16}));
  f.report(0, 0.8);
  for (size_t i : {1, 2, 3}) f.report(i, 1.2);
  f.report(16, 1.05);  // 31 % behind
  EXPECT_FALSE(f.is_done());
  EXPECT_EQ(f.next(), (Positions{4, 5, 6, 7}));
  for (size_t i : {4, 5, 7}) f.report(i, 1.2);
  f.report(6, 0.9);
  EXPECT_EQ(f.next(), (Positions{8, 9, 10, 11}));
  for (size_t i : {8, 9, 10, 11}) f.report(i, 1.02);
  EXPECT_TRUE(f.is_done());
  EXPECT_TRUE(f.next().empty());
  EXPECT_EQ(f.passed_over(), (Positions{12, 13, 14, 15, 17, 18, 19}));
  EXPECT_EQ(f.best(), 0.8);
}

TEST(Frontier, AShortListIsOnePart) {
  Frontier f(forms(Frontier::kShort, 0), false);
  EXPECT_EQ(f.next().size(), Frontier::kShort);
  EXPECT_TRUE(f.is_done());
}

TEST(Frontier, WhatHasNoFormIsTriedAtOnce) {
  Frontier f(listed({"", "a", "", "a", "a", "a", ""}), false);
  EXPECT_EQ(f.next(), (Positions{0, 1, 2, 6}));
  for (size_t i : {0, 1, 2, 6}) f.report(i, 2);
  EXPECT_TRUE(f.is_done());
}

TEST(Frontier, TheWholeIsOneWave) {
  Frontier f(forms(16, 4), true);
  EXPECT_EQ(f.next().size(), 20u);
  EXPECT_TRUE(f.is_done());
  EXPECT_TRUE(f.passed_over().empty());
}

// One that could not be run says nothing of what stands behind it.
TEST(Frontier, FailuresEndNoForm) {
  Frontier f(forms(2, 0), false);
  EXPECT_EQ(f.next(), (Positions{0}));
  f.report(0, 0);
  EXPECT_EQ(f.next(), (Positions{1}));
  EXPECT_TRUE(f.is_done());
}

TEST(Frontier, StopEndsAllForms) {
  Frontier f(forms(16, 0), false);
  f.next();
  f.report(0, 0.5);
  f.stop();
  EXPECT_TRUE(f.is_done());
  EXPECT_EQ(f.passed_over().size(), 12u);
}

TEST(Frontier, ThereMayBeNoChoices) { EXPECT_TRUE(Frontier({}, false).is_done()); }

}  // namespace
}  // namespace toroid::tune
