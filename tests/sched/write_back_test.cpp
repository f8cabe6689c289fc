// Where results that replace an input are computed.
#include "sched/write_back.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::sched {
namespace {

using program::Program;

// %0 "state" and %1 "x", of 6 elements, are inputs; %2 replaces the state; %3 is another result, where `more` writes one.
Program state_of(const std::string& nodes, const std::string& more = "", const std::string& state = "f32[6]") {
  std::string text =
      "program \"p\" {\nbuffer %0 \"state\": f32[6] input\nbuffer %1 \"x\": f32[6] input\nbuffer %2 \"new\": f32[6] output\n";
  if (!more.empty()) text += "buffer %3 \"more\": f32[6] output\n";
  text += "in %0 user \"state\": " + state + "\nin %1 user \"x\": f32[6]\nout %2: " + state + " -> 0\n";
  if (!more.empty()) text += "out %3: f32[6]\n";
  Program p = program::parse(text + nodes + more + "}\n");
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

// What the state and the other results are afterwards, of inputs of which each holds 0, 1, 2, ...
std::vector<std::vector<double>> all_of(const Program& p) {
  std::vector<Tensor> tensors;
  for (auto& in : p.inputs) {
    std::vector<double> values(static_cast<size_t>(p.buffers[static_cast<size_t>(in.buffer)].numel.constant()));
    std::iota(values.begin(), values.end(), 0);
    tensors.push_back(Tensor::of(values, std::vector<int64_t>{static_cast<int64_t>(values.size())}));
  }
  for (const Tensor& made : program::interpret(p, tensors)) tensors.push_back(made);
  std::vector<std::vector<double>> out;
  for (auto& t : tensors) out.push_back(t.to_vector());
  return out;
}

struct WriteBack {
  const char *name, *nodes, *more;
  size_t launches;  // afterwards
};

const WriteBack kWriteBacks[] = {
    {"an update of each element",
     "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %0 [i0]\nv1: f32 = load %1 [i0]\nv2: f32 = Add v0 v1\nstore %2 [i0] v2\n}\n",
     "", 1},
    {"the old contents are not read", "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %1 [-i0 + 5]\nstore %2 [i0] v0\n}\n", "", 1},
    {"a neighbour is read",
     "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %0 [-i0 + 5]\nv1: f32 = load %1 [i0]\nv2: f32 = Add v0 v1\nstore %2 [i0] v2\n}\n",
     "", 2},
    {"the old contents are read later", "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %1 [i0]\nstore %2 [i0] v0\n}\n",
     "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %0 [i0]\nv1: f32 = load %2 [i0]\nv2: f32 = Mul v0 v1\nstore %3 [i0] v2\n}\n",
     3},
    {"the new contents are read later",
     "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %0 [i0]\nv1: f32 = load %1 [i0]\nv2: f32 = Add v0 v1\nstore %2 [i0] v2\n}\n",
     "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %2 [i0]\nv1: f32 = load %2 [-i0 + 5]\nv2: f32 = Sub v0 v1\nstore %3 [i0] v2\n}\n",
     2},
    {"another result of the loop reads the old contents behind the update",
     "loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %1 [i0]\nstore %2 [i0] v0\nv2: f32 = load %0 [i0]\nstore %3 [i0] v2\n}\n", " ",
     2},
    {"the old contents follow from all of the new ones",
     "loops parts [] # \"n\"\nloop (i0: 6, r r0: 6) {\nv0: f32 = load %1 [r0]\nv1: f32 = reduce sum v0\nv2: f32 = load %0 [i0]\nv3: f32 = Add v1 v2\nstore %2 [i0] "
     "v3\n}\n",
     "", 1},
    {"it is written in parts",
     "loops parts [] # \"n\"\nloop (i0: 3) {\nv0: f32 = load %0 [i0]\nstore %2 [i0] v0\n}\nloops parts [] # \"n\"\nloop (i0: 3) {\nv0: f32 = load %0 [-i0 + 2]\nstore %2 [i0 + 3] v0\n}\n",
     "", 3},
};

TEST(WriteBack, ResultsAreThoseOfBefore) {
  for (auto& c : kWriteBacks) {
    SCOPED_TRACE(c.name);
    Program p = state_of(c.nodes, c.more);
    const auto want = all_of(p);
    EXPECT_EQ(write_back(p), 1);
    program::verify(p, program::Stage::Scheduled, "write_back");
    EXPECT_EQ(p.outputs[0].buffer, -1);
    EXPECT_EQ(all_of(p), want) << program::to_string(p);
    EXPECT_EQ(p.nodes.size(), c.launches) << program::to_string(p);
    EXPECT_EQ(write_back(p), 0);
  }
}

// A result that all threads of a row need, and one of them has stored, may not be in the memory of what they made it of.
TEST(WriteBack, WhatARowSharesKeepsItsOldContents) {
  const std::string text =
      "program \"p\" {\nbuffer %0 \"state\": f32[2] input\nbuffer %1 \"x\": f32[6] input\nbuffer %2 \"new\": f32[2] output\n"
      "buffer %3 \"y\": f32[6] output\nin %0 user \"state\": f32[2]\nin %1 user \"x\": f32[2, 3]\nout %2: f32[2] -> 0\nout %3: f32[2, 3]\n"
      "loops parts [] # \"n\"\nloop (i0: 2, r r0: 3) {\nv0: f32 = load %1 [3*i0 + r0]\nv1: f32 = reduce sum v0\nv2: f32 = load %0 [i0]\nv3: f32 = Add v1 v2\n"
      "store %2 [i0] v3\nv5: f32 = Mul v0 v3\nstore %3 [3*i0 + r0] v5\n}\n}\n";
  Program p = program::parse(text);
  EXPECT_EQ(write_back(p), 1);
  EXPECT_EQ(p.nodes.size(), 2u) << program::to_string(p);
}

TEST(WriteBack, AResultThatIsReturnedTooIsCopied) {
  Program p = state_of("loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %1 [i0]\nstore %2 [i0] v0\n}\n");
  p.outputs.push_back({2, p.outputs[0].type, -1, {}, {}});
  EXPECT_EQ(write_back(p), 1);
  program::verify(p, program::Stage::Scheduled, "write_back");
  EXPECT_EQ(p.nodes.size(), 2u);
  EXPECT_EQ(p.outputs[1].buffer, 2);
}

TEST(WriteBack, AnInputOfOtherStridesIsCopiedTo) {
  Program p = state_of("loops parts [] # \"n\"\nloop (i0: 6) {\nv0: f32 = load %1 [i0]\nstore %2 [i0] v0\n}\n", "", "f32[2, 3]");
  p.inputs[0].type.strides = {1, 2};
  EXPECT_EQ(write_back(p), 1);
  program::verify(p, program::Stage::Scheduled, "write_back");
  ASSERT_EQ(p.nodes.size(), 2u);
  const std::vector<Tensor> inputs{
      Tensor::full(std::vector<int64_t>{6}, 0).as_strided(std::vector<int64_t>{2, 3}, std::vector<int64_t>{1, 2}),
      Tensor::of({0, 1, 2, 3, 4, 5}, {6})};
  program::interpret(p, inputs);
  EXPECT_EQ(inputs[0].to_vector(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace toroid::sched
