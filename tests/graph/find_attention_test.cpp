// Attention that is written out: what is found, what only looks like it, and that results stay what they were.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "graph/interpreter.h"
#include "graph/pass_runs.h"
#include "graph/passes/conditions.h"
#include "graph/passes/passes.h"
#include "ops/reference.h"

namespace toroid::graph {
namespace {

TEST(FindAttention, WrittenOutByExporters) {
  const char* head = R"(graph "t"(%q: f32[2, 3, 4, 8], %k: f32[2, 3, 5, 8], %v: f32[2, 3, 5, 6], %m: bool[2, 1, 4, 5]) {
    %zero: f32[] = scalar_tensor(s=0.0, dtype=f32)
    %low: f32[] = scalar_tensor(s=-inf, dtype=f32)
    %bias: f32[2, 1, 4, 5] = where.self(%m, %zero, %low)
    %qs: f32[2, 3, 4, 8] = mul.Scalar(%q, other=0.5)
    %q3: f32[6, 4, 8] = view(%qs, size=[6, 4, 8])
    %kt: f32[2, 3, 8, 5] = permute(%k, dims=[0, 1, 3, 2])
    %ks: f32[2, 3, 8, 5] = mul.Scalar(%kt, other=0.25)
    %kc: f32[2, 3, 8, 5] = clone(%ks)
    %k3: f32[6, 8, 5] = view(%kc, size=[6, 8, 5])
    %p: f32[6, 4, 5] = bmm(%q3, %k3)
    %p4: f32[2, 3, 4, 5] = view(%p, size=[2, 3, 4, 5])
    %s: f32[2, 3, 4, 5] = add.Tensor(%p4, %bias)
    %soft: f32[2, 3, 4, 5] = _softmax(%s, dim=-1, half_to_float=false)
)";
  const char* safe = R"(    %eq: bool[2, 3, 4, 5] = eq.Scalar(%s, other=-inf)
    %some: bool[2, 3, 4, 5] = logical_not(%eq)
    %any: bool[2, 3, 4, 1] = any.dim(%some, dim=-1, keepdim=true)
    %none: bool[2, 3, 4, 1] = logical_not(%any)
    %zeros: f32[2, 3, 4, 5] = full_like(%soft, fill_value=0)
    %w: f32[2, 3, 4, 5] = where.self(%none, %zeros, %soft)
)";
  const auto rest = [](const std::string& weights, const std::string& more = "") {
    return "    %w3: f32[6, 4, 5] = view(" + weights + ", size=[6, 4, 5])\n    %v3: f32[6, 5, 6] = view(%v, size=[6, 5, 6])\n" +
           "    %o: f32[6, 4, 6] = bmm(%w3, %v3)\n    return %o" + more + "\n}";
  };
  auto g = parse(head + std::string(safe) + rest("%w"));
  auto after = run("dce", *run("find_attention", *g));
  EXPECT_EQ(after->nodes[after->nodes.size() - 2]->op->name, "scaled_dot_product_attention");
  EXPECT_NE(body(*after).find(" %m 0.0 false 0.125 false"), std::string::npos) << body(*after);
  std::vector<Tensor> inputs;
  for (auto sizes : std::vector<std::vector<int64_t>>{{2, 3, 4, 8}, {2, 3, 5, 8}, {2, 3, 5, 6}}) {
    Tensor t = Tensor::empty(sizes, DType::F32);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i * 37 % 23) / 11 - 1;
    inputs.push_back(t);
  }
  Tensor mask = Tensor::full(std::vector<int64_t>{2, 1, 4, 5}, 1, DType::Bool);
  for (int i : {1, 5, 6, 7, 8, 9, 13}) mask.data<bool>()[i] = false;  // among them a whole row
  inputs.push_back(mask);
  const auto want = interpret(*g, inputs)[0].to_vector(), got = interpret(*after, inputs)[0].to_vector();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;

  // Rows that are masked as a whole would be NaN, somebody else wants the weights, the softmax runs over another dimension.
  EXPECT_EQ(run("find_attention", *parse(head + rest("%soft"))), nullptr);
  EXPECT_EQ(run("find_attention", *parse(head + std::string(safe) + rest("%w", ", %w"))), nullptr);
  std::string other = head + std::string(safe) + rest("%w");
  other.replace(other.find("_softmax(%s, dim=-1"), 19, "_softmax(%s, dim=-2");
  EXPECT_EQ(run("find_attention", *parse(other)), nullptr);
  // Heads of any width.
  other = std::regex_replace(head + std::string(safe) + rest("%w"), std::regex("\\b8\\b"), "s0");
  other.replace(other.find(") {"), 3, ") symbols(s0 in 2..64) {");
  EXPECT_EQ(run("find_attention", *parse(other)), nullptr);
}

// As PyTorch writes out attention of halves with a mask that is expanded: widened, and rounded at the end. Tensors keep their dtype where
// something else reads the result as it was, or one of them was no half.
TEST(FindAttention, OfHalvesThatAreWidened) {
  const auto text = [](const std::string& dtype_of_v, const std::string& dtype_of_mask, const std::string& end) {
    return R"(graph "t"(%q: f16[1, 3, 4, 8], %k: f16[1, 3, 5, 8], %v: )" + dtype_of_v + "[1, 3, 5, 6], %m: " + dtype_of_mask +
           R"([1, 1, 4, 5]) {
    %qf: f32[1, 3, 4, 8] = _to_copy(%q, dtype=f32)
    %kf: f32[1, 3, 5, 8] = _to_copy(%k, dtype=f32)
    %vf: f32[1, 3, 5, 6] = _to_copy(%v, dtype=f32)
    %qs: f32[1, 3, 4, 8] = mul.Scalar(%qf, other=0.5)
    %kt: f32[1, 3, 8, 5] = transpose.int(%kf, dim0=-2, dim1=-1)
    %ks: f32[1, 3, 8, 5] = mul.Scalar(%kt, other=0.25)
    %qe: f32[1, 3, 4, 8] = expand(%qs, size=[1, 3, 4, 8])
    %q3: f32[3, 4, 8] = view(%qe, size=[3, 4, 8])
    %k3: f32[3, 8, 5] = view(%ks, size=[3, 8, 5])
    %p: f32[3, 4, 5] = bmm(%q3, %k3)
    %p4: f32[1, 3, 4, 5] = view(%p, size=[1, 3, 4, 5])
    %s: f32[1, 3, 4, 5] = add.Tensor(%p4, %m)
    %soft: f32[1, 3, 4, 5] = _softmax(%s, dim=-1, half_to_float=false)
    %eq: bool[1, 3, 4, 5] = eq.Scalar(%s, other=-inf)
    %all: bool[1, 3, 4, 1] = all.dim(%eq, dim=-1, keepdim=true)
    %zeros: f32[1, 3, 4, 5] = zeros_like(%soft)
    %w: f32[1, 3, 4, 5] = where.self(%all, %zeros, %soft)
    %w3: f32[3, 4, 5] = view(%w, size=[3, 4, 5])
    %v3: f32[3, 5, 6] = view(%vf, size=[3, 5, 6])
    %o: f32[3, 4, 6] = bmm(%w3, %v3)
    %o4: f32[1, 3, 4, 6] = view(%o, size=[1, 3, 4, 6])
)" + end + "}";
  };
  const std::string rounded = "    %h: f16[1, 3, 4, 6] = _to_copy(%o4, dtype=f16)\n    return %h\n";
  auto g = parse(text("f16", "f16", rounded));
  auto after = run("dce", *run("simplify", *run("find_attention", *g)));
  EXPECT_EQ(after->nodes.back()->op->name, "scaled_dot_product_attention") << body(*after);
  EXPECT_NE(body(*after).find(" %q %k %v %m 0.0 false 0.125 false"), std::string::npos) << body(*after);
  std::vector<Tensor> inputs;
  for (auto sizes : std::vector<std::vector<int64_t>>{{1, 3, 4, 8}, {1, 3, 5, 8}, {1, 3, 5, 6}, {1, 1, 4, 5}}) {
    Tensor t = Tensor::empty(sizes, DType::F32);
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<float>()[i] = inputs.size() == 3 ? (i > 5 && i % 7 ? 0 : -INFINITY) : static_cast<float>(i * 37 % 23) / 11 - 1;
    inputs.push_back(ops::evaluate(*ops::table().find("_to_copy"), {t, DType::F16})[0]);
  }
  const auto want = interpret(*g, inputs)[0].to_vector(), got = interpret(*after, inputs)[0].to_vector();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-3) << i;
  EXPECT_EQ(want[0], 0) << "the first row is masked as a whole";

  for (const auto& other : {text("f32", "f16", rounded), text("f16", "f32", rounded), text("f16", "f16", "    return %o4\n"),
                            text("f16", "f16", "    %h: f16[1, 3, 4, 6] = _to_copy(%o4, dtype=f16)\n    return %h, %o\n"),
                            text("f16", "f16", "    %h: bf16[1, 3, 4, 6] = _to_copy(%o4, dtype=bf16)\n    return %h\n")})
    EXPECT_EQ(run("find_attention", *parse(other)), nullptr) << other;
}

// Masks that exporters make of positions.
TEST(FindAttention, MasksThatKeepAllScoresGo) {
  const auto text = [](const std::string& condition, const std::string& mask) {
    return R"(graph "t"(%q: f32[1, 2, 4, 8], %k: f32[1, 2, 5, 8], %v: f32[1, 2, 5, 8], %x: i64[4]) {
    %p: i64[4] = arange(4)
    %i: i64[4] = add.Tensor(%p, 0)
    %c: bool[4] = )" +
           condition + R"(
    %u: bool[4, 1] = unsqueeze(%c, dim=1)
    %e: bool[1, 1, 4, 5] = expand(%u, size=[1, 1, 4, 5])
    %zero: f32[] = scalar_tensor(s=0.0, dtype=f32)
    %low: f32[] = scalar_tensor(s=-inf, dtype=f32)
    %w: f32[1, 1, 4, 5] = where.self(%e, %zero, %low)
    %y: f32[1, 2, 4, 8] = scaled_dot_product_attention(%q, %k, %v, )" +
           mask + R"()
    return %y
})";
  };
  for (const char* mask : {"%e", "%w"}) {
    auto after = run("find_attention", *parse(text("ge.Scalar(%i, other=0)", mask)));
    ASSERT_NE(after, nullptr) << mask;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(after->nodes.back()->args[3])) << body(*after);
    for (const char* condition : {"ge.Scalar(%i, other=1)", "ge.Scalar(%x, other=0)", "lt.Scalar(%i, other=3)"})
      EXPECT_EQ(run("find_attention", *parse(text(condition, mask))), nullptr) << condition << " " << mask;
  }
}

// Whatever is said to hold does.
TEST(Conditions, OfCountedNumbers) {
  int held = 0;
  for (const char* count : {"arange(5)", "arange.start(2, 7)", "arange.start_step(-4, 6, 2)", "arange.start_step(9, 4, -1)",
                            "arange.start_step(0.5, 5.5, 1, dtype=i64)", "arange.start(2147483640, 2147483645)",
                            "prims.iota(length=5, start=-3, step=3, dtype=i64)"})
    for (const char* change : {"add.Tensor(%i, 9223372036854775800)", "add.Tensor(%i, 3)", "add.Tensor(%i, 3, alpha=-2)",
                               "sub.Tensor(%i, 2)", "mul.Tensor(%i, -1)"})
      for (const char* relation : {"ge", "gt", "le", "lt", "eq", "ne"})
        for (const char* other : {"-9", "-1", "0", "1", "4", "6", "7", "10", "11", "20"})
          for (const char* with : {"%c", "full(size=[5], fill_value=true, dtype=bool)", "full(size=[5], fill_value=false, dtype=bool)"}) {
            const auto g = parse(fmt::format(
                "graph \"t\"() {{\n  %i: i64[5] = {}\n  %a: i64[5] = {}\n  %c: bool[5] = {}.Scalar(%a, other={})\n  %f: bool[5] = {}\n"
                "  %b: bool[5] = bitwise_and.Tensor(%c, %f)\n  return %b\n}}",
                count, change, relation, other, with == std::string("%c") ? "clone(%c)" : with));
            const auto values = interpret(*g, {})[0].to_vector();
            const bool holds = always_holds(g->outputs[0].value),
                       all = std::all_of(values.begin(), values.end(), [](double v) { return v != 0; });
            held += holds;
            EXPECT_TRUE(all || !holds) << to_string(*g);
          }
  EXPECT_GT(held, 100);
}

}  // namespace
}  // namespace toroid::graph
