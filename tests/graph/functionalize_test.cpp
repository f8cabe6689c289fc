// The functionalize pass against a program that really shares memory.
#include <gtest/gtest.h>

#include "aliasing_oracle.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"

namespace toroid::graph {
namespace {

Tensor counting(const TensorType& type, double start) {
  std::vector<int64_t> sizes;
  for (auto& s : type.sizes) sizes.push_back(s.constant());
  std::vector<double> values(static_cast<size_t>(product(sizes)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i);
  return Tensor::of(values, sizes, type.dtype);
}

// Runs the text both ways and compares results and what the inputs hold afterwards. Returns the functional graph.
std::unique_ptr<Graph> check(const std::string& text) {
  auto g = parse(text);
  auto f = functionalize(*g);
  if (!f) {
    ADD_FAILURE() << "nothing was changed";
    return g;
  }
  verify(*f, "after functionalize");
  for (auto& n : f->nodes) EXPECT_FALSE(is_mutating(*n->op)) << to_string(*f);
  std::vector<Tensor> a, b;
  for (size_t i = 0; i < g->inputs.size(); ++i) {
    // index inputs count from 0, so that they stay in range
    a.push_back(counting(g->inputs[i].value->type, is_int(g->inputs[i].value->type.dtype) ? 1 : 1.0 + 10.0 * static_cast<double>(i)));
    b.push_back(deep_copy(a.back()));
  }
  auto expected = run_aliasing(*g, a);
  auto found = interpret(*f, b);
  EXPECT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < std::min(expected.size(), found.size()); ++i)
    EXPECT_EQ(expected[i].to_vector(), found[i].to_vector()) << "output " << i << "\n" << to_string(*f);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].to_vector(), b[i].to_vector()) << "input " << i << "\n" << to_string(*f);
  return f;
}

TEST(Functionalize, LeavesFunctionalGraphsAlone) {
  auto g = parse("graph \"t\"(%x: f32[2]) {\n  %y: f32[2] = add.Tensor(%x, 1)\n  return %y\n}\n");
  EXPECT_EQ(functionalize(*g), nullptr);
}

TEST(Functionalize, WritesThroughASelectedColumn) {
  auto f = check(R"(graph "t"(%x: f32[2, 3]) {
    %c: f32[2] = select.int(%x, dim=1, index=0)
    %r: f32[2] = add_.Tensor(%c, 1)
    return %x, %r
  })");
  ASSERT_EQ(f->outputs.size(), 3u);
  EXPECT_EQ(f->outputs[0].mutates, 0);
}

TEST(Functionalize, WritesThroughAFlatView) {
  check(R"(graph "t"(%x: f32[2, 3]) {
    %y: f32[6] = view(%x, size=[-1])
    %m: f32[6] = mul_.Tensor(%y, 2)
    return %x
  })");
}

TEST(Functionalize, IntermediateValuesAreWrittenToo) {
  auto f = check(R"(graph "t"(%x: f32[2, 3]) {
    %a: f32[2, 3] = add.Tensor(%x, 1)
    %v: f32[3] = select.int(%a, dim=0, index=1)
    %r: f32[3] = mul_.Tensor(%v, 3)
    %s: f32[2, 3] = add.Tensor(%a, %x)
    return %s, %v
  })");
  EXPECT_EQ(f->outputs.size(), 2u) << "x itself was not written";
}

TEST(Functionalize, WritesThroughPartsOfComplexNumbers) {
  auto g = parse(R"(graph "t"(%x: f32[2, 2]) {
    %a: f32[2, 2] = clone(%x)
    %z: c64[2] = view_as_complex(%a)
    %p: f32[2, 2] = view_as_real(%z)
    %r: f32[2] = select.int(%p, dim=1, index=0)
    %m: f32[2] = mul_.Tensor(%r, 10)
    return %a, %p
  })");
  auto f = functionalize(*g);
  ASSERT_NE(f, nullptr);
  const std::vector<Tensor> inputs = {Tensor::of({1, 2, 3, 4}, {2, 2})};
  for (auto& y : interpret(*f, inputs)) EXPECT_EQ(y.to_vector(), (std::vector<double>{10, 2, 30, 4}));
}

TEST(Functionalize, TransposedWrites) {
  check(R"(graph "t"(%x: f32[2, 3]) {
    %t: f32[3, 2] = transpose.int(%x, dim0=0, dim1=1)
    %s: f32[2] = select.int(%t, dim=0, index=2)
    %r: f32[2] = mul_.Tensor(%s, -1)
    %q: f32[3, 2] = add_.Tensor(%t, %t)
    return %t, %x
  })");
}

TEST(Functionalize, ChainOfThreeViews) {
  check(R"(graph "t"(%x: f32[2, 3, 4]) {
    %p: f32[4, 2, 3] = permute(%x, dims=[2, 0, 1])
    %s: f32[2, 2, 3] = slice.Tensor(%p, dim=0, start=1, end=3)
    %c: f32[2, 3] = select.int(%s, dim=0, index=1)
    %r: f32[2, 3] = mul_.Tensor(%c, 10)
    return %p, %s, %c
  })");
}

TEST(Functionalize, TwoAliasesSeeEachOther) {
  check(R"(graph "t"(%x: f32[4]) {
    %a: f32[2, 2] = view(%x, size=[2, 2])
    %b: f32[2] = slice.Tensor(%x, dim=0, start=1, end=3)
    %r: f32[2] = mul_.Tensor(%b, 5)
    %s: f32[2, 2] = add_.Tensor(%a, 100)
    %u: f32[2] = add.Tensor(%b, %r)
    return %u, %a, %x
  })");
}

TEST(Functionalize, SplitResultsAreViews) {
  check(R"(graph "t"(%x: f32[6]) {
    %a: f32[2], %b: f32[2], %c: f32[2] = split.Tensor(%x, split_size=2)
    %r: f32[2] = add_.Tensor(%b, 7)
    %s: f32[2] = mul_.Tensor(%c, %b)
    return %a, %b, %c
  })");
}

TEST(Functionalize, OldValuesKeepWhatTheyHeld) {
  check(R"(graph "t"(%x: f32[3]) {
    %y: f32[3] = mul.Tensor(%x, 2)
    %r: f32[3] = add_.Tensor(%x, 1)
    %z: f32[3] = mul.Tensor(%x, 2)
    return %y, %z
  })");
}

TEST(Functionalize, InPlaceResultsKeepTheirDtype) {
  auto f = check(R"(graph "t"(%x: i64[3], %y: f32[3]) {
    %c: i64[3] = copy_(%x, %y)
    return %c
  })");
  EXPECT_EQ(f->outputs[0].value->type.dtype, DType::I64);
}

TEST(Functionalize, CopyFillAndZero) {
  check(R"(graph "t"(%x: f32[2, 3], %y: f32[3]) {
    %a: f32[3] = select.int(%x, dim=0, index=0)
    %b: f32[3] = copy_(%a, %y)
    %c: f32[2] = select.int(%x, dim=1, index=1)
    %d: f32[2] = zero_(%c)
    %e: f32[2] = select.int(%x, dim=1, index=2)
    %f: f32[2] = fill_.Scalar(%e, value=9)
    return %b, %x
  })");
}

TEST(Functionalize, ContiguousIsAnAliasOnlyOfRowMajorTensors) {
  check(R"(graph "t"(%x: f32[2, 3]) {
    %t: f32[3, 2] = transpose.int(%x, dim0=0, dim1=1)
    %c: f32[3, 2] = contiguous(%t)
    %d: f32[2, 3] = contiguous(%x)
    %r: f32[3, 2] = mul_.Tensor(%c, 2)
    %s: f32[2, 3] = add_.Tensor(%d, 1)
    return %x, %c, %t
  })");
}

TEST(Functionalize, ReshapeOfATransposedTensorIsACopy) {
  check(R"(graph "t"(%x: f32[2, 3]) {
    %t: f32[3, 2] = transpose.int(%x, dim0=0, dim1=1)
    %c: f32[6] = reshape(%t, shape=[6])
    %r: f32[6] = mul_.Tensor(%c, 2)
    %d: f32[3, 2] = reshape(%x, shape=[3, 2])
    %s: f32[3, 2] = add_.Tensor(%d, 1)
    return %x, %c
  })");
}

// Nobody knows the sizes at hand, and no program is right for all: a copy would lose the write without a word.
TEST(Functionalize, WritesToWhatIsAViewAtSomeSizesAreRefused) {
  const auto text = [](const std::string& sizes, const std::string& written) {
    return "graph \"t\"(%x: f32[s0, s1]) symbols(s0 in 2..100, " + sizes + R"() {
    %a: f32[s0, s1] = add.Tensor(%x, 1)
    %c: f32[s0, 2] = slice.Tensor(%a, dim=1, start=0, end=2)
    %f: f32[2*s0] = reshape(%c, shape=[2*s0])
    %m: f32[2*s0] = mul_.Tensor()" +
           written + R"(, 2)
    return %a, %f
  })";
  };
  const std::string copies = text("s1 in 3..100", "%f");  // for certain
  const auto g = parse(copies);
  EXPECT_NE(functionalize(*g), nullptr);
  try {
    functionalize(*parse(text("s1 in 2..100", "%f")));
    ADD_FAILURE() << "a view at some sizes was written";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("reshape"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("clone()"), std::string::npos) << e.what();
  }
  std::string elsewhere = text("s1 in 2..100", "%z");  // what nobody sees through the view
  elsewhere.replace(elsewhere.find("    %m"), 4, "    %z: f32[2*s0] = clone(%f)\n    ");
  EXPECT_NE(functionalize(*parse(elsewhere)), nullptr);
}

TEST(Functionalize, CompositesThatReturnTheirArgumentAreAliases) {
  check(R"(graph "t"(%x: f32[3]) {
    %s: f32[3] = to.dtype(%x, dtype=f32)
    %r: f32[3] = add_.Tensor(%s, 1)
    return %x
  })");
}

TEST(Functionalize, KeyValueCache) {
  auto f = check(R"(graph "t"(%cache: f32[2, 4, 3], %pos: i64[1], %k: f32[2, 1, 3]) {
    %c: f32[2, 4, 3] = index_copy_(%cache, dim=1, index=%pos, source=%k)
    %y: f32[2, 4, 3] = mul.Tensor(%c, 2)
    return %y
  })");
  EXPECT_EQ(f->outputs[0].mutates, 0);
}

TEST(Functionalize, WritingAnExpandedTensorIsRefused) {
  auto g = parse(R"(graph "t"(%x: f32[3]) {
    %e: f32[2, 3] = expand(%x, size=[2, 3])
    %r: f32[2, 3] = add_.Tensor(%e, 1)
    return %r
  })");
  EXPECT_THROW(functionalize(*g), UserError);
}

TEST(Functionalize, TrainingBatchNormUpdatesItsStatistics) {
  auto g = parse(R"(graph "t"(%x: f32[4, 2], buffer %mean: f32[2], buffer %var: f32[2]) {
    %y: f32[4, 2] = batch_norm(%x, none, none, %mean, %var, training=true, momentum=0.5, eps=0.0, cudnn_enabled=false)
    return %y
  })");
  Tensor mean = Tensor::of({0, 0}, {2}), var = Tensor::of({1, 1}, {2});
  g->inputs[1].data = mean;
  g->inputs[2].data = var;
  auto f = functionalize(*g);
  ASSERT_TRUE(f);
  verify(*f, "after functionalize");
  std::vector<Tensor> in = {Tensor::of({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2})};
  EXPECT_EQ(interpret(*f, in).size(), 1u);
  EXPECT_EQ(mean.to_vector(), (std::vector<double>{2, 2.5}));
}

}  // namespace
}  // namespace toroid::graph
