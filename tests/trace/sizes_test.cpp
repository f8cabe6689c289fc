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

// Sizes within a range that both of its ends satisfy may be refused, too.
TEST(Sizes, AMarkedRangeHasNoGaps) {
  const auto with = [](const std::function<bool(const SymInt&)>& test, std::vector<SizePolicy> policies = kMarked) {
    return user_error([&] {
      settled({counting({8})}, [&](const Tensors& in) { return Tensors{test(in[0].size(0)) ? relu(in[0]) : in[0]}; }, {policies});
    });
  };
  const std::string multiple = with([](const SymInt& s) { return s % 4 == 0; });
  EXPECT_TRUE(contains(multiple, "was marked dynamic from 4 to 16, but")) << multiple;
  EXPECT_TRUE(contains(multiple, "Remove mark_dynamic, or change the function")) << multiple;
  EXPECT_TRUE(contains(with([](const SymInt& s) { return s != 9; }), "requires s0 != 9. Give mark_dynamic a range"));
  EXPECT_EQ(with([](const SymInt& s) { return s % 32 != 0; }), "no error") << "which no size of the range is";
  EXPECT_EQ(with([](const SymInt& s) { return s != 17; }), "no error");
  const std::vector<SizePolicy> unbounded = {{.dynamic = true, .marked = true}};
  for (const auto& test : std::vector<std::function<bool(const SymInt&)>>{
           [](const SymInt& s) { return s >= 5; }, [](const SymInt& s) { return s < 100; }, [](const SymInt& s) { return s < 1000000; }}) {
    const std::string said = with(test, unbounded);
    EXPECT_TRUE(contains(said, "was marked dynamic for all sizes from 2 on, but") && contains(said, "Give mark_dynamic a range")) << said;
  }
  const std::string odd = with([](const SymInt& s) { return s % 2 == 0; }, unbounded);
  EXPECT_TRUE(contains(odd, "for all sizes from 2 on") && contains(odd, "Remove mark_dynamic")) << odd;
  EXPECT_EQ(with([](const SymInt& s) { return s * 3 >= 6; }, unbounded), "no error");
}

// Many sizes have one remainder, on whichever side of an equation it stands.
TEST(Sizes, ARemainderFixesNoSize) {
  for (const auto& test : std::vector<std::function<bool(const SymInt&)>>{
           [](const SymInt& s) { return s % 4 == 3; }, [](const SymInt& s) { return SymInt(3) == s % 4; },
           [](const SymInt& s) { return s % 4 + 1 == 4; }, [](const SymInt& s) { return s % 4 == s % 8 - 4; }}) {
    const std::string text =
        settled({counting({7})}, [&](const Tensors& in) { return Tensors{test(in[0].size(0)) ? relu(in[0]) : in[0]}; }, {kOpenRows});
    EXPECT_TRUE(contains(text, "f32[s0]") && contains(text, "guards(")) << text;
  }
}

// A function that catches an operation's error goes on in a way that is right where the operation fails; what it asks later has its place.
TEST(Sizes, ACaughtErrorLeavesItsOppositeAndItsPlace) {
  const test::Body body = [](const Tensors& in) {
    try {
      return Tensors{ops::call1("unfold", {in[0], Expr(0), Expr(9), Expr(1)})};
    } catch (const UserError&) {
      return Tensors{in[0].size(0) < 7 ? relu(in[0]) : in[0]};
    }
  };
  EXPECT_EQ(settled({counting({6})}, body, {kOpenRows}), "graph \"f\"(%arg: f32[s0]) symbols(s0 in 2..inf) guards(9 > s0, s0 < 7)");
  const Segment s = traced({counting({6})}, body, {kOpenRows});
  ASSERT_EQ(s.guard_places.size(), s.graph->guards.size());
  EXPECT_TRUE(contains(s.guard_places.at(0), "unfold (")) << s.guard_places.at(0);
  EXPECT_TRUE(contains(s.guard_places.at(1), "a comparison of sizes after")) << s.guard_places.at(1);
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

// What was decided about either holds in both ranges alone. A marked range is narrowed by another one that the caller has marked.
TEST(Sizes, EqualSymbolsHaveWhatTheirRangesHaveInCommon) {
  const auto marked = [](int64_t min, int64_t max) {
    return std::vector<SizePolicy>{{.dynamic = true, .marked = true, .min = min, .max = max}};
  };
  const test::Body body = [](const Tensors& in) { return Tensors{in[1].size(0) > 1 ? in[0] + in[1] : in[0]}; };
  const Tensors in{counting({6}), counting({6})};
  for (const bool first : {true, false})
    EXPECT_TRUE(
        contains(settled(in, body, first ? test::Policies{marked(0, 16), marked(2, 64)} : test::Policies{marked(2, 64), marked(2, 16)}),
                 " in 2..16)"));
  EXPECT_TRUE(contains(settled(in, body, {kOpenRows, kOpenRows}), " in 2..inf)"));
  for (const bool first : {true, false}) {
    const std::string said = user_error([&] {
      settled(in, body, first ? test::Policies{marked(1, 16), kOpenRows} : test::Policies{kOpenRows, marked(0, 16)});
    });
    const std::string other = fmt::format("makes it equal to the size of dimension 0 of input {}, which was not marked", first ? 1 : 0);
    EXPECT_TRUE(contains(said, other) && contains(said, "for all sizes from 2 on. Mark that one, too")) << said;
  }
  const std::string three =
      settled({counting({6}), counting({6}), counting({6})}, [](const Tensors& t) { return Tensors{t[0] + t[1] + t[2]}; },
              {marked(1, 16), marked(0, 8), marked(2, 64)});
  EXPECT_TRUE(contains(three, " in 2..8)")) << three;
}

// What stops at the end of something holds for all sizes up to there.
TEST(Sizes, TheSmallerOfTwoFixesNoSize) {
  const auto open = [](const std::function<bool(const SymInt&, const SymInt&)>& test) {
    return settled({counting({6}), counting({6})},
                   [&](const Tensors& in) { return Tensors{test(in[0].size(0), in[1].size(0)) ? relu(in[0]) : in[0]}; },
                   {kOpenRows, kOpenRows});
  };
  const auto least = [](const SymInt& a, const SymInt& b) { return SymInt(sym::min(a.expr(), b.expr())); };
  const auto most = [](const SymInt& a, const SymInt& b) { return SymInt(sym::max(a.expr(), b.expr())); };
  EXPECT_TRUE(contains(open([&](auto& a, auto&) { return least(a, 100) == a; }), "%arg: f32[s0]"));
  EXPECT_TRUE(contains(open([&](auto& a, auto&) { return a == least(100, a); }), "%arg: f32[s0]"));
  EXPECT_TRUE(contains(open([&](auto& a, auto&) { return most(a, 3) == a; }), "%arg: f32[s0]"));
  EXPECT_TRUE(contains(open([&](auto& a, auto& b) { return least(a, b) == b; }), "%arg: f32[s0]"));
  EXPECT_TRUE(contains(open([&](auto& a, auto&) { return least(a, 100) == 6; }), "%arg: f32[6]")) << "one size alone";
}

TEST(Sizes, WhatWasFixedIsSaidForEachInput) {
  const Segment s = traced({counting({6}), counting({6})},
                           [](const Tensors& in) { return Tensors{in[0].size(0) == 6 ? in[0] + in[1] : in[0]}; }, {kOpenRows, kOpenRows});
  const auto fixed = settle_guards(*s.graph, s.origins, s.guard_places);
  ASSERT_EQ(fixed.size(), 2u);
  EXPECT_EQ(fixed[0].what, "size of dimension 0 of input 0");
  EXPECT_TRUE(contains(fixed[0].why, "a comparison of sizes at the start of the function requires s0 == 6")) << fixed[0].why;
  EXPECT_EQ(fixed[1].what, "size of dimension 0 of input 1");
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
