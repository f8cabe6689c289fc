// Each pass: the text before and what is left of it after; results stay what they were.
#include "graph/passes/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/options.h"
#include "graph/inplace.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/pass_runs.h"
#include "log_scope.h"
#include "toroid/log.h"

namespace toroid::graph {
namespace {

TEST(Dce, DropsWhatNothingNeeds) {
  auto g = parse(R"(graph "t"(%x: f32[2], constant %k: f32[2]) {
    %a: f32[2] = add.Tensor(%x, %k)
    %b: f32[2] = neg(%x)
    return %b, (input 0 <- %b)
  })");
  auto after = run("dce", *g);
  EXPECT_EQ(body(*after), "b = neg %x\nreturn b b");
  EXPECT_EQ(after->inputs.size(), 1u) << "unused constants go, too";
  EXPECT_EQ(run("dce", *after), nullptr);
}

// Linear layers as exporters and PyTorch's compiler write them.
TEST(MergeLinear, JoinsProductsWithTransposedWeights) {
  for (const char* transposed : {"t(%w)", "permute(%w, dims=[1, 0])", "permute(%w, dims=[-1, -2])", "transpose.int(%w, dim0=0, dim1=1)"}) {
    std::string text = R"(graph "t"(%x: f32[2, 3], constant %w: f32[4, 3], constant %u: f32[4, 3]) {
    %a: f32[3, 4] = )" +
                       std::string(transposed) + R"(
    %b: f32[3, 4] = )" +
                       std::regex_replace(transposed, std::regex("%w"), "%u") + R"(
    %m: f32[2, 4] = mm(%x, %a)
    %n: f32[2, 4] = mm(%x, %b)
    return %m, %n
})";
    auto g = parse(text);
    for (auto& in : g->inputs)
      if (in.kind == graph::InputKind::Constant) in.data = Tensor::full(std::vector<int64_t>{4, 3}, 1, DType::F32);
    auto after = run("merge_linear", *g);
    ASSERT_NE(after, nullptr) << transposed;
    EXPECT_EQ(std::count_if(after->nodes.begin(), after->nodes.end(), [](auto& n) { return n->op->name == "mm"; }), 1) << transposed;
  }
}

TEST(Simplify, TranspositionsHaveOneName) {
  auto g = parse("graph \"t\"(%x: f32[2, 3]) {\n  %a: f32[3, 2] = t(%x)\n  return %a\n}");
  EXPECT_EQ(body(*run("simplify", *g)), "permute = permute %x [1, 0]\nreturn permute");
  EXPECT_EQ(run("simplify", *run("simplify", *g)), nullptr);
}

TEST(Cse, MergesEqualNodes) {
  auto g = parse(R"(graph "t"(%x: f32[2]) {
    %a: f32[2] = add.Tensor(%x, 0.0)
    %b: f32[2] = add.Tensor(%x, -0.0)
    %c: f32[2] = add.Tensor(%x, 0.0)
    %d: f32[2] = mul.Tensor(%a, %c)
    return %b, %d
  })");
  EXPECT_EQ(body(*run("cse", *g)), "a = add.Tensor %x 0.0 1\nb = add.Tensor %x -0.0 1\nd = mul.Tensor %a %a\nreturn b d");
}

TEST(Simplify, RemovesWhatChangesNothing) {
  auto g = parse(R"(graph "t"(%x: f32[2, 3]) {
    %a: f32[2, 3] = clone(%x)
    %b: f32[2, 3] = view(%a, size=[2, 3])
    %c: f32[2, 3] = sub.Tensor(%b, 0)
    %d: f32[2, 3] = _to_copy(%c, dtype=f32)
    %e: f32[2, 3] = expand(%d, size=[2, 3])
    %f: f32[2, 3] = mul.Tensor(%e, 1)
    %g: f32[2, 3] = permute(%f, dims=[0, 1])
    %h: f32[2, 3] = slice.Tensor(%g)
    %i: f32[2, 3] = mul.Tensor(%h, 2)
    return %i
  })");
  EXPECT_EQ(body(*run("simplify", *g)), "i = mul.Tensor %x 2\nreturn i");
}

// -0. + 0. is 0., of floats.
TEST(Simplify, KeepsWhatChangesTheSignOfAZero) {
  for (const char* kept : {"add.Tensor(%x, 0)", "add.Tensor(%x, 0.0)", "sub.Tensor(%x, -0.0)"})
    EXPECT_EQ(run("simplify", *parse("graph \"t\"(%x: f32[2]) {\n  %a: f32[2] = " + std::string(kept) + "\n  return %a\n}")), nullptr)
        << kept;
  for (const char* dropped : {"add.Tensor(%x, -0.0)", "sub.Tensor(%x, 0)", "sub.Tensor(%x, 0.0)"})
    EXPECT_EQ(body(*run("simplify", *parse("graph \"t\"(%x: f32[2]) {\n  %a: f32[2] = " + std::string(dropped) + "\n  return %a\n}"))),
              "return x");
  EXPECT_EQ(body(*run("simplify", *parse("graph \"t\"(%x: i64[2]) {\n  %a: i64[2] = add.Tensor(%x, 0)\n  return %a\n}"))), "return x");
}

TEST(Simplify, KeepsWhatChangesTheDtype) {
  auto g = parse("graph \"t\"(%x: i64[2]) {\n  %a: f32[2] = add.Tensor(%x, 0.0)\n  return %a\n}");
  EXPECT_EQ(run("simplify", *g), nullptr);
}

// As the gradient of a weight is.
TEST(Simplify, TransposesOfProductsAreProductsOfTransposes) {
  auto g = graph::parse(R"(graph "g"(%x: f32[40, 30], %y: f32[40, 20]) {
  %t: f32[30, 40] = permute(%x, dims=[1, 0])
  %m: f32[30, 20] = mm(%t, %y)
  %p: f32[20, 30] = permute(%m, dims=[1, 0])
  return %p
})");
  auto after = run("dce", *run("simplify", *g));
  EXPECT_EQ(after->nodes.back()->op->name, "mm");
  EXPECT_EQ(after->nodes.back()->results[0]->type.sizes, (std::vector<Expr>{20, 30}));
}

TEST(Simplify, MergesChains) {
  auto g = parse(R"(graph "t"(%x: f32[2, 3, 4]) {
    %a: f32[6, 4] = view(%x, size=[6, 4])
    %b: f32[24] = view(%a, size=[24])
    %p: f32[4, 2, 3] = permute(%x, dims=[2, 0, 1])
    %q: f32[2, 3, 4] = permute(%p, dims=[1, 2, 0])
    %r: f32[3, 4, 2] = permute(%p, dims=[2, 0, 1])
    %s: f64[2, 3, 4] = _to_copy(%x, dtype=f64)
    %t: f16[2, 3, 4] = _to_copy(%s, dtype=f16)
    return %b, %q, %r, %t
  })");
  auto after = run("dce", *run("simplify", *g));
  EXPECT_EQ(body(*after),
            "view = view %x [24]\npermute = permute %x [1, 2, 0]\n_to_copy = _to_copy %x f16 none none none false none\nreturn view x "
            "permute _to_copy");
}

TEST(Simplify, NeighboursGivenByAConstantAreASlice) {
  const auto simplified = [](std::vector<double> at, std::vector<int64_t> sizes) {
    const std::string n = sizes.empty() ? "" : std::to_string(sizes[0]), comma = n.empty() ? "" : ", ";
    auto g = parse("graph \"t\"(%x: f32[2, 8, 3], constant %i: i64[" + n + "]) {\n %y: f32[2, " + n + comma +
                   "3] = index.Tensor(%x, [none, %i])\n return %y\n}");
    g->inputs[1].data = Tensor::of(at, sizes, DType::I64);
    auto after = run("simplify", *g);
    return after ? body(*after) : "";
  };
  EXPECT_EQ(simplified({-1}, {}), "select = select.int %x 1 7\nreturn select");
  EXPECT_EQ(simplified({0}, {1}), "slice = slice.Tensor %x 1 0 1 1\nreturn slice");
  EXPECT_EQ(simplified({2, 3, 4}, {3}), "slice = slice.Tensor %x 1 2 5 1\nreturn slice");
  EXPECT_EQ(simplified({2, 4}, {2}), "");
  EXPECT_EQ(simplified({8}, {1}), "") << "out of range, as the run says";
}

TEST(Simplify, ProbabilitiesNeedNoLogarithms) {
  const auto decomposed = [](const std::string& rest) {
    return parse(R"(graph "t"(%x: f32[2, 3], %other: f32[2, 3]) {
    %amax: f32[2, 1] = amax(%x, dim=[1], keepdim=true, or_lowest=true)
    %s: f32[2, 3] = sub.Tensor(%x, %amax)
    %e: f32[2, 3] = exp(%s)
    %sum: f32[2, 1] = sum.dim_IntList(%e, dim=[1], keepdim=true)
    %log: f32[2, 1] = log(%sum)
)" + rest + "\n}");
  };
  auto g = decomposed("%l: f32[2, 3] = sub.Tensor(%s, %log)\n%p: f32[2, 3] = exp(%l)\nreturn %p");
  auto after = run("dce", *run("simplify", *g));
  EXPECT_EQ(body(*after),
            "amax = amax %x [1] true true\ns = sub.Tensor %x %amax 1\ne = exp %s\nsum = sum.dim_IntList %e [1] true none\n"
            "div = div.Tensor %e %sum\nreturn div");
  const std::vector<Tensor> inputs = {Tensor::of({0, 1, 2, -300, 0, 300}, {2, 3}), Tensor::full(std::vector<int64_t>{2, 3}, 1)};
  const auto want = interpret(*g, inputs)[0].to_vector(), got = interpret(*after, inputs)[0].to_vector();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-7) << i;

  // Others read the logarithms, also through what simplify takes away.
  EXPECT_EQ(run("simplify", *decomposed("%l: f32[2, 3] = sub.Tensor(%s, %log)\n%p: f32[2, 3] = exp(%l)\nreturn %p, %l")), nullptr);
  auto copied = run("simplify", *decomposed("%l: f32[2, 3] = sub.Tensor(%s, %log)\n%c: f32[2, 3] = clone(%l)\n%p: f32[2, 3] = exp(%c)\n"
                                            "return %p, %l"));
  EXPECT_EQ(body(*copied).find("div.Tensor"), std::string::npos);
  // Of something else, or a multiple.
  EXPECT_EQ(run("simplify", *decomposed("%l: f32[2, 3] = sub.Tensor(%other, %log)\n%p: f32[2, 3] = exp(%l)\nreturn %p")), nullptr);
  EXPECT_EQ(run("simplify", *decomposed("%l: f32[2, 3] = sub.Tensor(%s, %log, alpha=2)\n%p: f32[2, 3] = exp(%l)\nreturn %p")), nullptr);
}

// Without a maximum that is taken out (of the same rows), exp(x) may be infinite, and so the quotient NaN where exp of the difference is 0.
TEST(Simplify, ProbabilitiesThatMayOverflowStay) {
  EXPECT_EQ(run("simplify", *parse(R"(graph "t"(%x: f32[2, 3]) {
    %e: f32[2, 3] = exp(%x)
    %sum: f32[2, 1] = sum.dim_IntList(%e, dim=[1], keepdim=true)
    %log: f32[2, 1] = log(%sum)
    %l: f32[2, 3] = sub.Tensor(%x, %log)
    %p: f32[2, 3] = exp(%l)
    return %p
  })")),
            nullptr);
  EXPECT_EQ(run("simplify", *parse(R"(graph "t"(%x: f32[2, 3]) {
    %amax: f32[1, 3] = amax(%x, dim=[0], keepdim=true)
    %s: f32[2, 3] = sub.Tensor(%x, %amax)
    %e: f32[2, 3] = exp(%s)
    %sum: f32[2, 1] = sum.dim_IntList(%e, dim=[1], keepdim=true)
    %log: f32[2, 1] = log(%sum)
    %l: f32[2, 3] = sub.Tensor(%s, %log)
    %p: f32[2, 3] = exp(%l)
    return %p
  })")),
            nullptr);
}

TEST(Simplify, LossyCastsStay) {
  auto g = parse(R"(graph "t"(%x: f32[2]) {
    %s: f16[2] = _to_copy(%x, dtype=f16)
    %t: f32[2] = _to_copy(%s, dtype=f32)
    return %t
  })");
  EXPECT_EQ(run("simplify", *g), nullptr);
}

TEST(Freeze, AndFold) {
  auto g = parse(R"(graph "t"(%x: f32[2], param %w: f32[2], buffer %b: f32[2]) {
    %a: f32[2] = mul.Tensor(%w, 2)
    %k: f32[2] = full([2], fill_value=3.0)
    %c: f32[2] = add.Tensor(%a, %k)
    %y: f32[2] = mul.Tensor(%x, %c)
    %z: f32[2] = add.Tensor(%b, %k)
    return (input 2 <- %z), %y
  })");
  g->inputs[1].data = Tensor::of({1, 2}, {2});
  g->inputs[2].data = Tensor::of({0, 0}, {2});
  EXPECT_EQ(run("constant_fold", *g), nullptr) << "parameters are not constants before freezing";
  auto after = run("dce", *run("constant_fold", *run("freeze", *g)));
  EXPECT_EQ(body(*after), "k = full [2] 3.0 none none none none\ny = mul.Tensor %x %constant_1\nz = add.Tensor %b %k 1\nreturn z y");
  EXPECT_EQ(after->inputs[2].data.to_vector(), (std::vector<double>{5, 7}));
  EXPECT_EQ(after->outputs[0].mutates, 1) << "w is gone, so that b comes second";
}

TEST(ConstantFold, LargeResultsStay) {
  auto g = parse(R"(graph "t"(constant %w: f32[1, 1]) {
    %a: f32[1024, 1024] = expand(%w, size=[1024, 1024])
    %b: f32[1024, 1024] = mul.Tensor(%a, 2)
    return %b
  })");
  g->inputs[0].data = Tensor::of({1}, {1, 1});
  auto after = run("constant_fold", *g);
  EXPECT_TRUE(after == nullptr) << to_string(*after);
}

TEST(Decompose, LeavesNoComposite) {
  auto g = parse(R"(graph "t"(%x: f32[2, 3], %w: f32[4, 3], %b: f32[4]) {
    %y: f32[2, 4] = linear(%x, %w, %b)  @ "model.py:7"
    return %y
  })");
  std::vector<Tensor> in = {Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3}), Tensor::of({1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, {4, 3}),
                            Tensor::of({0, 0, 0, 1}, {4})};
  auto after = run("decompose", *g);
  for (auto& n : after->nodes) {
    EXPECT_EQ(n->op->decompose, nullptr) << n->op->name;
    EXPECT_EQ(n->where, "model.py:7");
  }
  EXPECT_EQ(interpret(*after, in)[0].to_vector(), interpret(*g, in)[0].to_vector());
}

TEST(FoldConvBn, GivesTheSameNumbers) {
  auto g = parse(
      R"(graph "t"(%x: f32[1, 2, 3, 3], param %w: f32[2, 2, 1, 1], param %g: f32[2], param %b: f32[2], buffer %m: f32[2], buffer %v: f32[2]) {
    %c: f32[1, 2, 3, 3] = conv2d(%x, %w)
    %n: f32[1, 2, 3, 3] = batch_norm(%c, %g, %b, %m, %v, training=false, momentum=0.1, eps=1e-05, cudnn_enabled=true)
    return %n
  })");
  g->inputs[1].data = Tensor::of({1, 2, 3, 4}, {2, 2, 1, 1});
  g->inputs[2].data = Tensor::of({0.5, 2}, {2});
  g->inputs[3].data = Tensor::of({1, -1}, {2});
  g->inputs[4].data = Tensor::of({3, 4}, {2});
  g->inputs[5].data = Tensor::of({4, 0.25}, {2});
  std::vector<Tensor> in = {Tensor::of({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1}, {1, 2, 3, 3})};
  auto after = run("dce", *run("fold_conv_bn", *run("freeze", *g)));
  ASSERT_EQ(after->nodes.size(), 1u) << to_string(*after);
  auto a = interpret(*g, in)[0].to_vector(), b = interpret(*after, in)[0].to_vector();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
}

TEST(FoldConvBn, OfTransposedConvolutions) {
  auto g = parse(R"(graph "t"(%x: f32[1, 4, 3], param %w: f32[4, 3, 2], param %g: f32[6], buffer %m: f32[6], buffer %v: f32[6]) {
    %c: f32[1, 6, 6] = conv_transpose1d(%x, %w, stride=[2], groups=2)
    %n: f32[1, 6, 6] = batch_norm(%c, %g, %g, %m, %v, training=false, momentum=0.1, eps=1e-05, cudnn_enabled=true)
    return %n
  })");
  auto numbers = [](std::vector<int64_t> sizes, double step) {
    Tensor t = Tensor::full(sizes, 0);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(1 + step * static_cast<double>(i));
    return t;
  };
  g->inputs[1].data = numbers({4, 3, 2}, 0.25);
  for (size_t i = 2; i < 5; ++i) g->inputs[i].data = numbers({6}, 0.5 * static_cast<double>(i));
  const std::vector<Tensor> in = {numbers({1, 4, 3}, -0.125)};
  auto after = run("dce", *run("fold_conv_bn", *run("freeze", *g)));
  ASSERT_EQ(after->nodes.size(), 1u) << to_string(*after);
  auto a = interpret(*g, in)[0].to_vector(), b = interpret(*after, in)[0].to_vector();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
}

std::string padded(const char* pad, const char* sizes, const char* results) {
  return fmt::format(R"(graph "t"(%x: f32[1, 2, 6, 5], %w: f32[3, 2, 3, 3]) {{
    %p: f32[{}] = constant_pad_nd(%x, pad={})
    %c: f32[{}] = convolution(%p, %w, none, stride=[1, 1], padding=[0, 1], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1)
    return %c
  }})",
                     sizes, pad, results);
}

TEST(FoldPadding, ZerosBeforeAConvolutionAreItsPadding) {
  auto g = parse(padded("[2, 2, 1, 1]", "1, 2, 8, 9", "1, 3, 6, 9"));
  std::vector<std::string> said;
  const test::LogScope lines([&](Artifact, std::string_view line) { said.emplace_back(line); });
  std::unique_ptr<Graph> after;
  {
    const ScopedOption logs("logs", "graph");
    after = run("fold_padding", *g);
  }
  EXPECT_EQ(body(*after), "convolution = convolution %x %w none [1, 1] [1, 3] [1, 1] false [0, 0] 1\nreturn convolution");
  EXPECT_EQ(said, (std::vector<std::string>{"fold_padding: c reads the input of p and pads it itself, by [1, 3]"}));
  std::vector<Tensor> in = {Tensor::empty({1, 2, 6, 5}, DType::F32), Tensor::empty({3, 2, 3, 3}, DType::F32)};
  for (Tensor& t : in)
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i % 7 - 3);
  EXPECT_EQ(interpret(*after, in)[0].to_vector(), interpret(*g, in)[0].to_vector());
  EXPECT_EQ(run("fold_padding", *after), nullptr);
}

TEST(FoldPadding, OtherPaddingStays) {
  EXPECT_EQ(run("fold_padding", *parse(padded("[1, 2, 1, 1]", "1, 2, 8, 8", "1, 3, 6, 8"))), nullptr) << "more after than before";
  EXPECT_EQ(run("fold_padding", *parse(padded("[-1, -1, 1, 1]", "1, 2, 8, 3", "1, 3, 6, 3"))), nullptr) << "a cut";
  EXPECT_EQ(run("fold_padding", *parse(padded("[1, 1, 0, 0, 0, 0, 1, 1]", "3, 2, 6, 7", "3, 3, 4, 7"))), nullptr) << "images of zeros";
  EXPECT_EQ(run("fold_padding", *parse(padded("[1, 1], value=0.5", "1, 2, 6, 7", "1, 3, 4, 7"))), nullptr) << "no zeros";
  std::string text = padded("[1, 1]", "1, 2, 6, 7", "1, 3, 4, 7");
  EXPECT_NE(run("fold_padding", *parse(text)), nullptr);
  text.replace(text.find("return %c"), 9, "return %c, %p");
  EXPECT_EQ(run("fold_padding", *parse(text)), nullptr) << "others read it";
}

// A softmax of [2, 3] along dimension 1, and its largest elements; the text in place of the last dimensions, the operations and dtypes.
std::string largest(const char* folded = "dim=[1]", const char* result = "2", const char* size = "3",
                    const char* sum = "dim=[1], keepdim=true", const char* subtracted = "%m", const char* dtype = "f32",
                    const char* symbols = "") {
  return fmt::format(R"(graph "t"(%x: {5}[2, {2}], %z: {5}[2, 1]) {6} {{
    %m: {5}[2, 1] = amax(%x, dim=[1], keepdim=true, or_lowest=true)
    %s: {5}[2, {2}] = sub.Tensor(%x, {4})
    %e: {5}[2, {2}] = exp(%s)
    %t: {5}[2, 1] = sum.dim_IntList(%e, {3})
    %p: {5}[2, {2}] = div.Tensor(%e, %t)
    %l: {5}[{1}] = amax(%p, {0})
    return %l
  }})",
                     folded, result, size, sum, subtracted, dtype, symbols);
}

TEST(LargestProbability, IsTheInverseOfTheSum) {
  auto g = parse(largest());
  std::vector<std::string> said;
  const test::LogScope lines([&](Artifact, std::string_view line) { said.emplace_back(line); });
  std::unique_ptr<Graph> after;
  {
    const ScopedOption logs("logs", "graph");
    after = run("largest_probability", *g);
  }
  EXPECT_EQ(said, (std::vector<std::string>{"largest_probability: l is 1 / t"}));
  after = run("dce", *after);
  EXPECT_EQ(body(*after), R"(m = amax %x [1] true true
s = sub.Tensor %x %m 1
e = exp %s
t = sum.dim_IntList %e [1] true none
reciprocal = reciprocal %t
squeeze = squeeze.dims %reciprocal [1]
return squeeze)");
  EXPECT_EQ(run("largest_probability", *after), nullptr);
  const double inf = INFINITY, nan = NAN;
  for (const auto& x : {std::vector<double>{-1, 2, 0.5, 7, 7, 7}, {inf, 1, 2, -inf, 0, -inf}, {-inf, -inf, -inf, nan, 1, 0}}) {
    const std::vector<Tensor> in = {Tensor::of(x, std::vector<int64_t>{2, 3}), Tensor::of({0, 0}, {2, 1})};
    const Tensor before = interpret(*g, in)[0], now = interpret(*after, in)[0];
    EXPECT_EQ(to_string(now), to_string(before));
  }
  EXPECT_NE(run("largest_probability", *parse(largest("dim=[-1], keepdim=true", "2, 1"))), nullptr);
  EXPECT_NE(run("largest_probability", *parse(largest("dim=[1]", "2", "s0", "dim=[1], keepdim=true", "%m", "f32", "symbols(s0 in 1..9)"))),
            nullptr);
}

TEST(LargestProbability, OfANumberIsOne) {
  auto g = parse(R"(graph "t"(%x: f32[]) {
    %m: f32[] = amax(%x, dim=[0], keepdim=true)
    %s: f32[] = sub.Tensor(%x, %m)
    %e: f32[] = exp(%s)
    %t: f32[] = sum.dim_IntList(%e, dim=[0], keepdim=true)
    %p: f32[] = div.Tensor(%e, %t)
    %l: f32[] = amax(%p, dim=[-1])
    return %l
  })");
  const std::vector<Tensor> in = {Tensor::of({3}, {})};
  EXPECT_EQ(interpret(*run("largest_probability", *g), in)[0].item(), 1);
}

TEST(LargestProbability, OfOtherQuotientsIsFoundAmongAll) {
  EXPECT_EQ(run("largest_probability", *parse(largest("dim=[0]", "3"))), nullptr) << "of columns";
  EXPECT_EQ(run("largest_probability", *parse(largest("dim=[]", ""))), nullptr) << "of all rows";
  EXPECT_EQ(run("largest_probability", *parse(largest("dim=[1]", "2", "3", "dim=[1], keepdim=true", "%z"))), nullptr) << "of other numbers";
  EXPECT_EQ(run("largest_probability", *parse(largest("dim=[1]", "2", "3", "dim=[1], keepdim=true", "%m, alpha=2"))), nullptr);
  EXPECT_EQ(run("largest_probability", *parse(largest("dim=[1]", "2", "s0", "dim=[1], keepdim=true", "%m", "f32", "symbols(s0 in 0..9)"))),
            nullptr)
      << "where there may be none, amax says so";
  std::string compared = largest();
  compared.replace(compared.find("return %l"), 9, "return %l, %p");
  EXPECT_EQ(run("largest_probability", *parse(compared)), nullptr) << "whoever asks which is the largest wants the same bits";
  compared.replace(compared.find("return %l, %p"), 13, "%a: i64[2] = argmax(%p, dim=1)\n    return %l, %a");
  EXPECT_NE(run("largest_probability", *parse(compared)), nullptr);
  std::string twice = largest();  // the same quotients a second time, compared with the largest of the first ones
  twice.replace(
      twice.find("return %l"), 9,
      "%q: f32[2, 3] = div.Tensor(%e, %t)\n    %u: f32[2, 1] = unsqueeze(%l, 1)\n    %c: bool[2, 3] = eq.Tensor(%q, %u)\n    return %c");
  EXPECT_EQ(run("largest_probability", *run("cse", *parse(twice))), nullptr);
  const auto after = run_passes(parse(twice), pipeline(kInference));
  EXPECT_NE(body(*after).find("div.Tensor %e %t"), std::string::npos) << "in the order of the table, too\n" << body(*after);
  EXPECT_EQ(body(*after).find("reciprocal"), std::string::npos);
  std::string wide = largest();
  const std::string sum = "%t: f32[2, 1] = sum.dim_IntList(%e, dim=[1], keepdim=true)";
  wide.replace(wide.find(sum), sum.size(), "%t: f64[2, 1] = sum.dim_IntList(%e, dim=[1], keepdim=true, dtype=f64)");
  wide.replace(wide.find("%p: f32"), 7, "%p: f64");
  wide.replace(wide.find("%l: f32"), 7, "%l: f64");
  EXPECT_EQ(run("largest_probability", *parse(wide)), nullptr) << "exponentials are rounded to another dtype than their sum";
}

TEST(StoreWeights, OfProductsAndConvolutionsAlone) {
  auto g = parse(R"(graph "t"(%x: f32[1, 2, 3, 3], %y: f32[4, 2]) {
    %w: f32[4, 2, 1, 1] = full([4, 2, 1, 1], fill_value=3.0)
    %c: f32[1, 4, 3, 3] = conv2d(%x, %w)
    %k: f32[3, 2] = full([3, 2], fill_value=2.0)
    %t: f32[2, 3] = t(%k)
    %m: f32[4, 3] = mm(%y, %t)
    %s: f32[4, 3] = full([4, 3], fill_value=0.5)
    %o: f32[4, 3] = add.Tensor(%m, %s)
    return %c, %o
  })");
  auto after = run("store_weights", *g);
  EXPECT_EQ(body(*after), R"(c = conv2d %x %constant none [1, 1] [0, 0] [1, 1] 1
t = t %constant_1
m = mm %y %t
s = full [4, 3] 0.5 none none none none
o = add.Tensor %m %s 1
return c o)")
      << "what loops read is made on the spot, and views stay views";
  EXPECT_EQ(after->inputs[3].data.to_vector(), std::vector<double>(6, 2));
  EXPECT_EQ(run("store_weights", *after), nullptr);
}

TEST(StoreWeights, LetsNormalisationsFold) {
  auto g = parse(R"(graph "t"(%x: f32[1, 2, 3, 3]) {
    %w: f32[4, 2, 1, 1] = full([4, 2, 1, 1], fill_value=3.0)
    %b: f32[4] = full([4], fill_value=1.0)
    %v: f32[4] = full([4], fill_value=4.0)
    %c: f32[1, 4, 3, 3] = conv2d(%x, %w)
    %n: f32[1, 4, 3, 3] = batch_norm(%c, %b, %b, %b, %v, training=false, momentum=0.1, eps=0.0, cudnn_enabled=true)
    return %n
  })");
  auto after = run("dce", *run("fold_conv_bn", *run("store_weights", *g)));
  ASSERT_EQ(after->nodes.size(), 1u) << to_string(*after);
  EXPECT_EQ(after->inputs[1].data.to_vector(), std::vector<double>(8, 1.5));
  EXPECT_EQ(after->inputs[2].data.to_vector(), std::vector<double>(4, 0.5));
}

TEST(WidenProducts, ReadAsF32AloneAlsoThroughViews) {
  auto g = parse(R"(graph "t"(%x: bf16[2, 3, 4], %y: bf16[2, 4, 5], %m: f16[3, 4], %n: f16[4, 2]) {
    %p: bf16[2, 3, 5] = bmm(%x, %y)
    %v: bf16[6, 5] = view(%p, size=[6, 5])
    %t: bf16[5, 6] = permute(%v, dims=[1, 0])
    %w: f32[5, 6] = _to_copy(%t, dtype=f32)
    %q: f16[3, 2] = mm(%m, %n)
    %e: f16[2, 3, 2] = expand(%q, size=[2, 3, 2])
    %u: f32[2, 3, 2] = _to_copy(%e, dtype=f32)
    return %w, %u
  })");
  auto after = run("widen_products", *g);
  EXPECT_EQ(body(*after),
            "bmm = bmm.dtype %x %y f32\nview = view %bmm [6, 5]\npermute = permute %view [1, 0]\nmm = mm.dtype %m %n f32\n"
            "expand = expand %mm [2, 3, 2] false\nreturn permute expand");
  EXPECT_EQ(run("widen_products", *after), nullptr);
}

TEST(WidenProducts, NotWhereOthersReadThemOrGradientsKeepThem) {
  const auto with = [](const std::string& nodes, const std::string& outputs) {
    return parse("graph \"t\"(%x: bf16[3, 4], %y: bf16[4, 5], %z: f32[3, 5]) {\n  %p: bf16[3, 5] = mm(%x, %y)\n" + nodes + "  return " +
                 outputs + "\n}");
  };
  const std::string view = "  %v: bf16[15] = view(%p, size=[15])\n", wide = "  %w: f32[15] = _to_copy(%v, dtype=f32)\n";
  EXPECT_NE(run("widen_products", *with(view + wide, "%w")), nullptr);
  EXPECT_EQ(run("widen_products", *with(view + wide, "%w, %p")), nullptr);
  EXPECT_EQ(run("widen_products", *with(view + wide, "%w, %v")), nullptr);
  EXPECT_EQ(run("widen_products", *with(view + wide + "  %o: bf16[15] = neg(%v)\n", "%w, %o")), nullptr);
  EXPECT_EQ(run("widen_products", *with("  %w: f64[3, 5] = _to_copy(%p, dtype=f64)\n", "%w")), nullptr);
  EXPECT_EQ(run("widen_products", *with(view + wide + "  %s: f32[3, 5] = prims.gradient_seed(%z)\n", "%w, %s")), nullptr);
}

TEST(InplaceChains, CacheThatIsReadOnlyAfterwards) {
  auto g = parse(R"(graph "t"(buffer %cache: f32[4, 3], %pos: i64[1], %k: f32[1, 3]) {
    %c: f32[4, 3] = index_copy(%cache, dim=0, index=%pos, source=%k)
    %y: f32[4, 3] = mul.Tensor(%c, 2)
    return (input 0 <- %c), %y
  })");
  auto chains = inplace_chains(*g);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].writes.size(), 1u);
}

TEST(InplaceChains, NotWhenTheOldContentsAreReadLater) {
  auto g = parse(R"(graph "t"(buffer %cache: f32[4, 3], %pos: i64[1], %k: f32[1, 3]) {
    %old: f32[12] = view(%cache, size=[12])
    %c: f32[4, 3] = index_copy(%cache, dim=0, index=%pos, source=%k)
    %y: f32[12] = mul.Tensor(%old, 2)
    return (input 0 <- %c), %y
  })");
  EXPECT_TRUE(inplace_chains(*g).empty());
}

TEST(RunPasses, ReportsAndObeysTheOffSwitch) {
  const char* text = "graph \"t\"(%x: f32[2]) {\n  %a: f32[2] = clone(%x)\n  %b: f32[2] = sub_.Tensor(%a, 0)\n  return %b\n}";
  CompileOptions options;
  options.set("verify_passes", "1");
  PassReport report;
  auto rows = pipeline(kLoops);
  EXPECT_EQ(body(*run_passes(parse(text), rows, &report, options)), "return x");
  EXPECT_EQ(report.passes.size(), rows.size());
  options.set("disable_passes", "simplify");
  EXPECT_EQ(run_passes(parse(text), rows, nullptr, options)->nodes.size(), 2u);
  EXPECT_THROW(find_pass("simplifi"), UserError);
}

}  // namespace
}  // namespace toroid::graph
