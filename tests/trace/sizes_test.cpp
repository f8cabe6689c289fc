// What the guards of a trace make of its sizes.
#include <gtest/gtest.h>

#include "trace/harness.h"

namespace toroid::trace {
namespace {

using test::contains;
using test::counting;
using test::kOpen;
using test::kOpenRows;
using test::text_of;
using test::traced;
using test::user_error;
using Tensors = std::vector<Tensor>;

// The trace with its guards settled, up to the end of the signature: inputs, symbols and guards.
std::string settled(const Tensors& in, const test::Body& body, const test::Policies& policies) {
  const Segment s = traced(in, body, policies);
  settle_guards(*s.graph, s.origins, s.guard_places);
  const std::string text = text_of(s);
  return text.substr(0, text.find(" {"));
}

TEST(Sizes, EqualSizesAreOneSymbol) {
  EXPECT_EQ(settled({counting({5}), counting({5})}, [](const Tensors& in) { return Tensors{in[0] + in[1]}; }, {kOpenRows, kOpenRows}),
            "graph \"f\"(%arg: f32[s0], %arg_1 \"arg\": f32[s0]) symbols(s0 in 2..inf)");
}

TEST(Sizes, ASizeThatAnEquationFixesIsANumber) {
  EXPECT_EQ(settled({counting({6})}, [](const Tensors& in) { return Tensors{in[0].size(0) * 2 == 12 ? relu(in[0]) : in[0]}; }, {kOpenRows}),
            "graph \"f\"(%arg: f32[6])");
  EXPECT_EQ(settled({counting({6}), counting({3})},
                    [](const Tensors& in) {
                      return Tensors{reshape(in[0], {3, 2}) * unsqueeze(in[1], 1)};
                    },
                    {kOpenRows}),
            "graph \"f\"(%arg: f32[6], %arg_1 \"arg\": f32[3])");
}

TEST(Sizes, GuardsThatAlwaysHoldAreDropped) {
  const std::string always =
      settled({counting({6})}, [](const Tensors& in) { return Tensors{in[0].size(0) > 1 && in[0].size(0) + 1 > 0 ? relu(in[0]) : in[0]}; },
              {kOpenRows});
  EXPECT_FALSE(contains(always, "guards")) << always;
  const std::string twice =
      settled({counting({6})}, [](const Tensors& in) { return Tensors{in[0].size(0) > 4 && in[0].size(0) > 4 ? relu(in[0]) : in[0]}; },
              {kOpenRows});
  EXPECT_EQ(twice.find("s0 >", twice.find("s0 >") + 1), std::string::npos) << twice;
}

const std::vector<SizePolicy> kMarked = {{.dynamic = true, .marked = true, .min = 4, .max = 16}};

TEST(Sizes, AMarkedSizeMayNotBeFixed) {
  const std::string error = user_error(
      [] { settled({counting({6})}, [](const Tensors& in) { return Tensors{in[0].size(0) == 6 ? relu(in[0]) : in[0]}; }, {kMarked}); });
  EXPECT_TRUE(contains(error, "size of dimension 0 of input 0 was marked dynamic, but the function needs it to be 6")) << error;
  EXPECT_TRUE(contains(error, "Remove mark_dynamic")) << error;
}

TEST(Sizes, AMarkedRangeMayNotBeNarrowed) {
  const auto with = [](int64_t bound) {
    return user_error([&] {
      settled({counting({6})}, [&](const Tensors& in) { return Tensors{in[0].size(0) < bound ? relu(in[0]) : in[0]}; }, {kMarked});
    });
  };
  EXPECT_EQ(with(17), "no error");
  EXPECT_TRUE(contains(with(16), "was marked dynamic from 4 to 16, but")) << with(16);
  EXPECT_TRUE(contains(with(7), "Give mark_dynamic a range in which this holds")) << with(7);
}

// Of two equal sizes the one that the caller has marked stays a symbol with its range.
TEST(Sizes, AMarkedSymbolStaysOfTwoEqualOnes) {
  const test::Body add = [](const Tensors& in) { return Tensors{in[0] + in[1]}; };
  for (const bool first : {true, false}) {
    const std::string text =
        settled({counting({6}), counting({6})}, add, first ? test::Policies{kMarked, kOpenRows} : test::Policies{kOpenRows, kMarked});
    EXPECT_TRUE(contains(text, " in 4..16")) << text;
  }
}

// The number of elements of what is reshaped ties three sizes to each other; none of them is determined by that.
TEST(Sizes, EquationsOfSeveralSymbolsStayGuards) {
  const std::string text =
      settled({counting({6, 4}), counting({8, 3})},
              [](const Tensors& in) {
                return Tensors{reshape(in[0], {in[0].size(0) * in[0].size(1)}) + reshape(in[1], {in[1].size(0) * in[1].size(1)})};
              },
              {kOpen, kOpen});
  EXPECT_TRUE(contains(text, "guards(")) << text;
  for (const char* symbol : {"s0", "s1", "s2", "s3"}) EXPECT_TRUE(contains(text, symbol)) << text;
}

}  // namespace
}  // namespace toroid::trace
