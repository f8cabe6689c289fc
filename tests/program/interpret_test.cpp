// What programs mean, by small ones whose results are known.
#include "program/interpret.h"

#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::program {
namespace {

Program program(const std::string& body) {
  Program p = parse("program \"p\" symbols(s0 in 0..9) {\n" + body + "}\n");
  verify(p, Stage::Lowered, "the test");
  return p;
}

std::vector<double> run(const Program& p, const std::vector<Tensor>& inputs) { return interpret(p, inputs).at(0).to_vector(); }

const char* kTake = R"(
buffer %0 "at": i64[s0] input
buffer %1 "table": f32[3] input
buffer %2 "faults": i64[8] faults
buffer %3 "out": f32[s0] output
in %0 user "at": i64[s0]
in %1 user "table": f32[3]
out %3: f32[s0]
site "take" dim 0 @ "model.cpp:7"
loops # "take"
loop (i0: s0) {
  v0: i64 = load %0 [i0]
  v1: i64 = check %2 v0 below [3] site 0
  v2: f32 = load %1 [v1] where v1 in 0..2
  store %3 [i0] v2
}
)";

TEST(ProgramInterpret, RefusesWhatAChecksFinds) {
  const Program p = program(kTake);
  const Tensor table = Tensor::of({1, 2, 4}, {3});
  EXPECT_EQ(run(p, {Tensor::of({2, 0}, {2}, DType::I64), table}), (std::vector<double>{4, 1}));
  EXPECT_EQ(run(p, {Tensor::of({}, {0}, DType::I64), table}), (std::vector<double>{}));
  const Tensor bad = Tensor::of({0, 7, -1}, {3}, DType::I64);
  EXPECT_EQ(test::user_error([&] {
              interpret(p, std::vector<Tensor>{bad, table});
            }),
            "take: index 7 is out of range for dimension 0 of size 3 (called at model.cpp:7)");
  EXPECT_NE(test::user_error([&] { interpret(p, std::vector<Tensor>{bad}); }), "no error");
}

TEST(ProgramInterpret, FindsElementsOutsideOfTheirBuffer) {
  Program p = program(kTake);
  p.nodes[0].body.steps[2].index = p.nodes[0].body.steps[2].index + 1;  // which the verifier cannot know
  verify(p, Stage::Lowered, "the test");
  const std::vector<Tensor> inputs = {Tensor::of({2}, {1}, DType::I64), Tensor::of({1, 2, 4}, {3})};
  EXPECT_NE(test::error_of<InternalError>([&] { interpret(p, inputs); }).find("element 3 of buffer %1, which has 3"), std::string::npos);
}

// a [2, 2] by [2, 4], its columns paired: sigmoid is not needed to see which sum is which.
TEST(ProgramInterpret, ProductsHaveProducersAndSecondSums) {
  const Program p = program(R"(
buffer %0 "x": f32[4] input
buffer %1 "doubled": f32[4] temporary
buffer %2 "weight": f32[8] input
buffer %3 "out": f32[4] output
in %0 user "x": f32[2, 2]
in %2 user "weight": f32[2, 4]
out %3: f32[2, 2]
gemm [2, 2, 2] a=%1 f32[0, 2, 1] b=%2 f32[0, 4, 1] b2=%2 f32[2, 4, 1] in f32 # "mm"
rows loop (i0: 2, i1: 2) {
  v0: f32 = load %0 [2*i0 + i1]
  v1: f32 = Add v0 v0
  store %1 [i1] v1
}
loop (m: 2, n: 2) {
  v0: f32 = accumulate
  v1: f32 = accumulate second
  v2: f32 = const 100
  v3: f32 = Mul v1 v2
  v4: f32 = Add v0 v3
  store %3 [2*m + n] v4
}
)");
  // Columns 0 and 1 of 2 x weight, and a hundred times columns 2 and 3.
  EXPECT_EQ(run(p, {Tensor::of({1, 0, 0, 1}, {2, 2}), Tensor::of({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4})}),
            (std::vector<double>{602, 804, 1410, 1612}));
}

TEST(ProgramInterpret, ConvolutionsSeeNothingOutsideOfTheirInput) {
  const Program p = program(R"(
buffer %0 "x": f32[4] input
buffer %1 "w": f32[9] input
buffer %2 "out": f32[4] output
in %0 user "x": f32[1, 1, 2, 2]
in %1 user "w": f32[1, 1, 3, 3]
out %2: f32[1, 1, 2, 2]
convolution [1, 1, 2, 2] -> [1, 2, 2] kernel 3x3 stride 1x1 pad 1x1 dilation 1x1 groups 1 input=%0 f32[0, 4, 4, 2, 1] weight=%1 f32[0, 9, 9, 3, 1] less 0 in f32 # "conv"
loop (n: 1, o: 1, y: 2, x: 2) {
  v0: f32 = accumulate
  store %2 [2*y + x] v0
}
)");
  const Tensor w = Tensor::of({0, 0, 0, 0, 1, 10, 0, 100, 0}, {1, 1, 3, 3});
  EXPECT_EQ(run(p, {Tensor::of({1, 2, 3, 4}, {1, 1, 2, 2}), w}), (std::vector<double>{321, 402, 43, 4}));
}

TEST(ProgramInterpret, AttentionIsASoftmaxOfScores) {
  const Program p = program(R"(
buffer %0 "q": f32[2] input
buffer %1 "v": f32[2] input
buffer %2 "out": f32[2] output
in %0 user "q": f32[1, 1, 2, 1]
in %1 user "v": f32[1, 1, 2, 1]
out %2: f32[1, 1, 2, 1]
attention [1, 1, 1, 2, 2] head 1 value 1 q=%0 f32[0, 2, 2, 1, 1] k=%0 f32[0, 2, 2, 1, 1] v=%1 f32[0, 2, 2, 1, 1] mask=none scale 0.5 causal # "sdpa"
loop (b: 1, h: 1, i: 2, d: 1) {
  v0: f32 = accumulate
  store %2 [i] v0
}
)");
  const auto out = run(p, {Tensor::of({1, 2}, {1, 1, 2, 1}), Tensor::of({10, 20}, {1, 1, 2, 1})});
  EXPECT_EQ(out[0], 10) << "the first query sees the first key alone";
  EXPECT_NEAR(out[1], (10 * std::exp(1.0) + 20 * std::exp(2.0)) / (std::exp(1.0) + std::exp(2.0)), 1e-5);
}

TEST(ProgramInterpret, SortsAreStableAndCallsRunTheirRows) {
  const Program p = program(R"(
buffer %0 "x": f32[4] input
buffer %1 "places": i64[3] output
buffer %2 "sums": f32[4] output
in %0 user "x": f32[4]
out %1: i64[3]
out %2: f32[4]
sort [4] first [3] keys=%0 f32[0, 1] values=none positions=%1 i64[0, 1] descending # "sort"
call cumsum(#0, 0, none) (%0 f32[0, 1] of [4]) -> (%2 f32[0, 1] of [4]) # "cumsum"
)");
  const auto out = interpret(p, std::vector<Tensor>{Tensor::of({2, 5, 2, NAN}, {4})});
  EXPECT_EQ(out[0].to_vector(), (std::vector<double>{3, 1, 0}));
  EXPECT_EQ(out[1].to_vector()[2], 9);
}

// An input that the program replaces holds the new contents afterwards; other results were taken before.
TEST(ProgramInterpret, InputsAreReplacedAtTheEnd) {
  const Program p = program(R"(
buffer %0 "state": f32[2] input
buffer %1 "next": f32[2] output
buffer %2 "before": f32[2] output
in %0 user "state": f32[2]
out %1: f32[2] -> 0
out %2: f32[2]
loops # "copy"
loop (i0: 2) {
  v0: f32 = load %0 [i0]
  store %2 [i0] v0
}
loops # "add"
loop (i0: 2) {
  v0: f32 = load %0 [i0]
  v1: f32 = Add v0 v0
  store %1 [i0] v1
}
)");
  const Tensor state = Tensor::of({1, 2}, {2});
  EXPECT_EQ(run(p, {state}), (std::vector<double>{1, 2}));
  EXPECT_EQ(state.to_vector(), (std::vector<double>{2, 4}));
}

}  // namespace
}  // namespace toroid::program
