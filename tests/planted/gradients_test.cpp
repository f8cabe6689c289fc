// Planted bugs of gradients (base/gradient_bugs.h), each of which the checks of gradients must catch.
//
// This program compiles the gradients' sources once more, with the bugs in them. TOROID_PLANTED=all switches on one after the other
// (scripts/planted_gradients.sh); without it a few take turns.
#include <gtest/gtest.h>

#include <cstdlib>

#include "autograd/checks.h"
#include "base/gradient_bugs.h"
#include "fuzz_compiled/from_environment.h"
#include "ops/reference.h"
#include "toroid/error.h"

namespace toroid::autograd {
namespace {

struct Bug {
  GradientBug bug;
  const char *name, *place, *what;
};
constexpr Bug kBugs[] = {
#define TOROID_BUG(name, place, what) {GradientBug::name, #name, place, what},
    TOROID_EACH_GRADIENT_BUG(TOROID_BUG)
#undef TOROID_BUG
};

class Planted : public ::testing::Test {
 protected:
  // Whether a check finds something wrong, or fails on its way.
  template <class F>
  static bool catches(F&& check) {
    try {
      return !check().empty();
    } catch (const Error&) {
      return true;
    }
  }
  // The checks that catch the bug that is switched on.
  std::string caught_by() const {
    std::string out;
    const auto add = [&](const char* check) { out += (out.empty() ? "" : ", ") + std::string(check); };
    for (auto& s : samples_)
      if (catches([&] { return wrong_gradient(s); })) {
        add(("differences of " + s.op).c_str());
        break;
      }
    if (catches([] { return wrong_corner(); })) add("corners");
    for (uint64_t seed = 1; seed <= graphs_; ++seed)
      if (catches([&] { return check_random_graph(seed, false).wrong; })) {
        add(("random graph " + std::to_string(seed)).c_str());
        break;
      }
    return out;
  }

  ops::ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
  const std::vector<Sample> samples_ = [] {
    auto all = samples();
    for (auto& s : composite_samples()) all.push_back(s);
    return all;
  }();
  const uint64_t graphs_ = test::from_environment("TOROID_FUZZ_COUNT", 60);
};

TEST_F(Planted, EachIsCaught) {
  const char* which = std::getenv("TOROID_PLANTED");
  const bool all = which && std::string_view(which) == "all";
  constexpr size_t kFew = 10;  // one of ten, when not all
  ASSERT_EQ(caught_by(), "") << "without any bug";
  size_t tried = 0, caught = 0, by_random = 0;
  for (size_t i = 0; i < std::size(kBugs); ++i) {
    if (!all && i % kFew != kFew / 2) continue;
    active_gradient_bug = kBugs[i].bug;
    const std::string by = caught_by();
    active_gradient_bug = GradientBug::None;
    ++tried, caught += !by.empty(), by_random += by.find("random") != std::string::npos;
    std::printf("%-20s %s\n", kBugs[i].name, by.empty() ? "NOT CAUGHT" : by.c_str());
    EXPECT_NE(by, "") << kBugs[i].name << " (" << kBugs[i].place << "): " << kBugs[i].what;
  }
  std::printf("%zu of %zu caught, %zu of them by random graphs\n", caught, tried, by_random);
}

// Names and places are what scripts and people look for.
TEST_F(Planted, AreMany) { EXPECT_GE(std::size(kBugs), 36u); }

}  // namespace
}  // namespace toroid::autograd
