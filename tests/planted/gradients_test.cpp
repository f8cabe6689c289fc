// Planted bugs of gradients (base/gradient_bugs.h), each of which the checks of gradients must catch.
//
// This program compiles the gradients' sources once more, with the bugs in them, and switches on one after the other. TOROID_PLANTED=all
// goes on to all checks that catch a bug (scripts/planted_gradients.sh), TOROID_PLANTED=NAME does that with one bug alone; without it the
// first check that catches a bug ends the search.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "autograd/checks.h"
#include "autograd/partition_checks.h"
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
  // The checks that catch the bug that is switched on; the first one, when not all are asked for.
  std::string caught_by() const {
    std::vector<std::string> by;
    const auto goes_on = [&] { return all_ || by.empty(); };
    if (catches([] { return wrong_corner(); })) by.push_back("corners");
    if (goes_on() && catches([] { return wrong_attention_parts(); })) by.push_back("heads of attention");
    for (size_t i = 0; i < samples_.size() && goes_on(); ++i)
      if (catches([&] { return wrong_gradient(samples_[i]); })) {
        by.push_back("differences of " + samples_[i].op);
        break;
      }
    for (size_t i = 0; i < samples_.size() && goes_on(); ++i)
      if (samples_[i].op == "div.Tensor" && catches([&] { return wrong_second_gradient_at_zero(samples_[i]); })) {
        by.push_back("second differences of " + samples_[i].op);
        break;
      }
    for (uint64_t seed = 1; seed <= graphs_ && goes_on(); ++seed)
      if (catches([&] { return check_random_graph(seed, false).wrong; })) {
        by.push_back("random graph " + std::to_string(seed));
        break;
      }
    if (goes_on() && catches([] { return wrong_checkpoint(); })) by.push_back("checkpoints");
    if (goes_on() && catches([] { return wrong_divided_effects(); })) by.push_back("effects of two programs");
    struct {
      const char* name;
      std::string (*check)(uint64_t);
      uint64_t count;
    } const by_seed[] = {{"cut", wrong_cut, 50 * graphs_},
                         {"partition", wrong_partition, graphs_},
                         {"recomputation", wrong_recomputation, graphs_},
                         {"division", wrong_division, graphs_}};
    for (auto& [name, check, count] : by_seed)
      for (uint64_t seed = 1; seed <= count && goes_on(); ++seed)
        if (catches([&] { return check(seed); })) {
          by.push_back(fmt::format("{} {}", name, seed));
          break;
        }
    std::string out;
    for (auto& b : by) out += (out.empty() ? "" : ", ") + b;
    return out;
  }

  ops::ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
  const std::vector<Sample> samples_ = [] {
    auto all = samples();
    for (auto& s : composite_samples()) all.push_back(s);
    return all;
  }();
  const std::string asked_ = std::getenv("TOROID_PLANTED") ? std::getenv("TOROID_PLANTED") : "";
  const bool all_ = !asked_.empty();
  const std::string only_ = asked_ == "all" ? "" : asked_;
  const uint64_t graphs_ = test::from_environment("TOROID_FUZZ_COUNT", 80);
};

TEST_F(Planted, EachIsCaught) {
  ASSERT_EQ(caught_by(), "") << "without any bug";
  size_t caught = 0, by_random = 0;
  size_t tried = 0;
  for (const Bug& b : kBugs) {
    if (!only_.empty() && only_ != b.name) continue;
    ++tried;
    active_gradient_bug = b.bug;
    const std::string by = caught_by();
    active_gradient_bug = GradientBug::None;
    caught += !by.empty(), by_random += by.find("random") != std::string::npos;
    std::printf("%-20s %s\n", b.name, by.empty() ? "NOT CAUGHT" : by.c_str());
    EXPECT_NE(by, "") << b.name << " (" << b.place << "): " << b.what;
  }
  EXPECT_GT(tried, 0U) << "there is no bug " << only_;
  std::printf("%zu of %zu caught", caught, tried);
  if (all_) std::printf(", %zu by random graphs", by_random);
  std::printf("\n");
}

}  // namespace
}  // namespace toroid::autograd
