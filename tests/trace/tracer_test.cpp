// What a traced function is recorded as.
#include <gtest/gtest.h>

#include <map>
#include <random>

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

TEST(Tracer, RecordsOperationsWithTheLinesThatCallThem) {
  const Segment s = traced({counting({2, 3}), counting({3})}, [](const Tensors& in) { return Tensors{relu(in[0] + in[1]), in[0]}; });
  EXPECT_EQ(text_of(s), R"(graph "f"(%arg: f32[2, 3], %arg_1 "arg": f32[3]) {
  %add: f32[2, 3] = add.Tensor(%arg, %arg_1)
  %relu: f32[2, 3] = relu(%add)
  return %relu, %arg
}
)");
  for (auto& n : s.graph->nodes) EXPECT_TRUE(contains(n->where, "tracer_test.cpp:")) << n->where;
  EXPECT_EQ(s.arguments, 2u);
  EXPECT_EQ(s.inputs.size(), 2u);
  EXPECT_FALSE(s.writes_inputs);
  EXPECT_EQ(s.break_reason, "");
}

TEST(Tracer, ATensorThatIsGivenTwiceIsOneInput) {
  const Tensor x = counting({4});
  const Segment s = traced({x, x}, [](const Tensors& in) { return Tensors{in[0] * in[1]}; });
  EXPECT_EQ(s.inputs.size(), 1u);
  EXPECT_TRUE(contains(text_of(s), "mul.Tensor(%arg, %arg)")) << text_of(s);
}

TEST(Tracer, TensorsFromOutsideAreInputsOfTheirOwn) {
  Tensor weight = counting({3}), buffer = counting({3});
  weight.set_requires_grad(true);
  const Segment s = traced({counting({2, 3})}, [&](const Tensors& in) {
    const Tensor same = weight;  // another handle to it
    return Tensors{in[0] * weight + buffer + same};
  });
  ASSERT_EQ(s.graph->inputs.size(), 3u);
  EXPECT_EQ(s.graph->inputs[1].kind, graph::InputKind::Parameter);
  EXPECT_EQ(s.graph->inputs[1].data.impl(), weight.impl());
  EXPECT_EQ(s.graph->inputs[2].kind, graph::InputKind::Buffer);
  EXPECT_EQ(s.inputs.size(), 1u) << "only arguments come with a call";
}

// The next call may have another argument in that place.
TEST(Tracer, ACaptureThatIsAnArgumentAsWellIsTwoInputs) {
  const Tensor x = counting({3});
  const Segment s = traced({x}, [&](const Tensors& in) { return Tensors{in[0] - x}; });
  EXPECT_EQ(s.graph->inputs.size(), 2u);
}

TEST(Tracer, SeesWritesToItsInputs) {
  const auto writes = [](const test::Body& body) { return traced({counting({2, 3})}, body).writes_inputs; };
  EXPECT_TRUE(writes([](const Tensors& in) {
    Tensor x = in[0];
    x += 1;
    return Tensors{x};
  }));
  EXPECT_TRUE(writes([](const Tensors& in) {  // through a view
    Tensor row = select(in[0], 0, 1);
    row += 1;
    return Tensors{row};
  }));
  EXPECT_FALSE(writes([](const Tensors& in) {  // of what the function made
    Tensor made = in[0] * 2;
    made += 1;
    return Tensors{made};
  }));
}

TEST(Tracer, RefusesToLetTensorsOutliveTheTrace) {
  Tensor kept;
  const std::string error = user_error([&] {
    traced({counting({2})}, [&](const Tensors& in) {
      kept = in[0] + 1;
      return Tensors{kept};
    });
  });
  EXPECT_TRUE(contains(error, "keeps the result of add.Tensor (")) << error;
  EXPECT_TRUE(contains(error, "return the tensor instead")) << error;
  EXPECT_EQ(kept.numel(), 0) << "the handle is an ordinary, empty tensor";
}

TEST(Tracer, AnErrorLeavesNothingBehind) {
  Tensor kept;
  for (int i = 0; i < 2; ++i) {
    const std::string error = user_error([&] {
      traced({counting({2, 3})}, [&](const Tensors& in) {
        kept = in[0] + 1;
        return Tensors{in[0] + counting({4})};
      });
    });
    EXPECT_TRUE(contains(error, "tracer_test.cpp:")) << error;
    EXPECT_EQ(Tracer::current(), nullptr);
    EXPECT_EQ(kept.numel(), 0);
  }
}

TEST(Tracer, ScopesNest) {
  Tracer outer("outer", nullptr), inner("inner", nullptr);
  const Tracer::Scope first(&outer);
  {
    const Tracer::Scope second(&inner);
    EXPECT_EQ(Tracer::current(), &inner);
    const Tracer::Scope none(nullptr);
    EXPECT_EQ(Tracer::current(), nullptr);
  }
  EXPECT_EQ(Tracer::current(), &outer);
}

// ---- graph breaks -------------------------------------------------------------------------------------------------------------------

// Runs segments by the interpreter, and keeps their texts and reasons.
struct Segments {
  std::vector<std::string> texts, reasons;
  SegmentRunner runner() {
    return [this](Segment s) {
      texts.push_back(text_of(s));
      reasons.push_back(s.break_reason);
      return graph::interpret(*s.graph, s.inputs);
    };
  }
};

TEST(Tracer, AReadOfAValueEndsTheSegment) {
  Segments before;
  const Tensor x = counting({3});
  const Segment last = traced(
      {x},
      [](const Tensors& in) {
        const Tensor doubled = in[0] * 2;
        const double total = sum(doubled).item();  // 6
        return Tensors{total > 5 ? doubled + 1 : doubled};
      },
      {}, before.runner());
  ASSERT_EQ(before.texts.size(), 1u);
  EXPECT_TRUE(contains(before.reasons[0], "item() at tracer_test.cpp:")) << before.reasons[0];
  EXPECT_TRUE(contains(before.texts[0], "sum")) << before.texts[0];
  EXPECT_FALSE(contains(text_of(last), "mul")) << "what was computed before the break is an input: " << text_of(last);
  const auto results = graph::interpret(*last.graph, last.inputs);
  EXPECT_EQ(results.at(0).to_vector(), (std::vector<double>{1, 3, 5}));
}

// What was a view before the break is one afterwards: a write through it is seen by its base.
TEST(Tracer, ViewsShareMemoryAcrossABreak) {
  Segments before;
  Tensor base, row;
  traced(
      {counting({2, 2})},
      [&](const Tensors& in) {
        Tensor made = in[0] + 0, view = select(made, 0, 1);
        EXPECT_EQ(view.to_vector(), (std::vector<double>{2, 3}));  // breaks
        EXPECT_EQ(made.impl()->storage, view.impl()->storage);
        return Tensors{made};
      },
      {}, before.runner());
  EXPECT_EQ(before.texts.size(), 1u);
}

TEST(Tracer, WithoutARunnerABreakIsAnErrorWithItsPlace) {
  const std::string error = user_error([] {
    traced({counting({3})}, [](const Tensors& in) {
      const Tensor y = relu(in[0]);
      return Tensors{y * sum(y).item()};
    });
  });
  EXPECT_TRUE(contains(error, "item() at tracer_test.cpp:")) << error;
  EXPECT_TRUE(contains(error, "after sum")) << error;
}

// ---- sizes --------------------------------------------------------------------------------------------------------------------------

TEST(Tracer, OpenSizesAreSymbolsButZeroAndOne) {
  const auto head = [](const std::vector<int64_t>& sizes) {
    const std::string text = text_of(traced({counting(sizes)}, [](const Tensors& in) { return Tensors{in[0]}; }, {kOpen}));
    return text.substr(0, text.find(')'));
  };
  EXPECT_EQ(head({5, 7}), "graph \"f\"(%arg: f32[s0, s1]");
  EXPECT_EQ(head({1, 7}), "graph \"f\"(%arg: f32[1, s0]");
  EXPECT_EQ(head({5, 0}), "graph \"f\"(%arg: f32[s0, 0]");
}

TEST(Tracer, ABranchOnASizeIsAGuard) {
  const auto body = [](const Tensors& in) { return Tensors{in[0].size(0) > 4 ? in[0] * 2 : in[0] + 1}; };
  const Segment more = traced({counting({5})}, body, {kOpenRows}), fewer = traced({counting({3})}, body, {kOpenRows});
  ASSERT_EQ(more.graph->guards.size(), 1u);
  ASSERT_EQ(fewer.graph->guards.size(), 1u);
  for (int64_t size : {2, 3, 4, 5, 6, 100}) {
    const auto at = [&](const sym::Node&) { return size; };
    EXPECT_EQ(sym::holds(more.graph->guards[0], at), size > 4);
    EXPECT_EQ(sym::holds(fewer.graph->guards[0], at), size <= 4);
  }
  ASSERT_EQ(more.guard_places.size(), 1u);
}

TEST(Tracer, AGuardNamesWhatMadeIt) {
  const Segment s =
      traced({counting({5, 3})}, [](const Tensors& in) { return Tensors{relu(in[0]).size(0) == 5 ? in[0] : in[0] * 2}; }, {kOpenRows});
  ASSERT_EQ(s.guard_places.size(), 1u);
  EXPECT_TRUE(contains(s.guard_places[0], "a comparison of sizes after relu (tracer_test.cpp:")) << s.guard_places[0];
}

TEST(Tracer, MarkedSizesOutOfTheirRangeAreRefused) {
  const auto with = [](int64_t size) {
    return user_error([&] {
      traced({counting({size})}, [](const Tensors& in) { return in; }, {{{.dynamic = true, .marked = true, .min = 4, .max = 8}}});
    });
  };
  EXPECT_EQ(with(4), "no error");
  EXPECT_EQ(with(8), "no error");
  EXPECT_TRUE(contains(with(9), "size of dimension 0 of input 0 was marked dynamic from 4 to 8, but it is 9")) << with(9);
  EXPECT_TRUE(contains(with(3), "from 4 to 8, but it is 3")) << with(3);
  EXPECT_TRUE(contains(with(1), "was marked dynamic from 4 on, but it is 1")) << with(1);
}

// ---- random functions ---------------------------------------------------------------------------------------------------------------

// A function of two tensors by a seed: it reads sizes, branches on them and captures tensors.
Tensors random_function(uint32_t seed, const Tensors& in) {
  std::mt19937 random(seed);
  const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Tensors made = in;
  const auto any = [&] { return made[static_cast<size_t>(one_of(static_cast<int>(made.size())))]; };
  for (int step = 0; step < 6; ++step) {
    const Tensor a = any(), b = any();
    switch (one_of(9)) {
      case 0:
        made.push_back(relu(a) + 1);
        break;
      case 1:
        made.push_back(a.dim() == b.dim() && a.sym_sizes() == b.sym_sizes() ? a * b : a - 2);
        break;
      case 2:
        made.push_back(a.dim() > 0 ? sum(a, {0}) : a + 3);
        break;
      case 3:
        made.push_back(a.dim() > 1 ? transpose(a, 0, 1) : a);
        break;
      case 4:
        made.push_back(a.dim() > 0 && a.size(0) > 3 ? slice(a, 0, 1, 3) : a * 3);
        break;
      case 5:
        made.push_back(a.dim() > 0 && a.size(-1) % 2 == 0 ? a + 4 : a - 5);
        break;
      case 6:
        made.push_back(a.dim() > 1 ? reshape(a, {a.size(0) * a.size(1)}) : unsqueeze(a, 0));
        break;
      case 7:
        made.push_back(a.dim() > 0 ? cat({a, a}, 0) : a);
        break;
      default:
        made.push_back(a + Tensor::of({0.5}, {1}));
        break;
    }
  }
  return {made.back(), made[made.size() - 2]};
}

// A trace with open sizes, run at other sizes, says what a trace at those sizes says, wherever its guards hold.
TEST(Tracer, RandomFunctionsAtOtherSizes) {
  int compared = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const test::Body body = [&](const Tensors& in) { return random_function(seed, in); };
    const Segment open = traced({counting({4, 6}), counting({6, 4})}, body, {kOpen, kOpen});
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{4, 6}, {5, 6}, {2, 3}, {8, 8}, {7, 2}}) {
      const Tensors in = {counting({m, n}), counting({n, m})};
      const std::map<std::string, int64_t> sizes = {{"s0", m}, {"s1", n}, {"s2", n}, {"s3", m}};
      const auto size_of = [&](const sym::Node& s) { return sizes.at(s.name); };
      const bool holds =
          std::all_of(open.graph->guards.begin(), open.graph->guards.end(), [&](const sym::Relation& r) { return sym::holds(r, size_of); });
      if (!holds) continue;
      ++compared;
      const Segment there = traced(in, body);
      const Tensors expected = graph::interpret(*there.graph, there.inputs);
      const Tensors got = graph::interpret(*open.graph, in);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].sizes(), expected[i].sizes());
        EXPECT_EQ(got[i].to_vector(), expected[i].to_vector());
      }
    }
  }
  EXPECT_GT(compared, 400);
}

}  // namespace
}  // namespace toroid::trace
