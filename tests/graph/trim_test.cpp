// Slices and selections move up through what works row by row; the numbers stay the same to the bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/options.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/random_graph.h"
#include "samples.h"

namespace toroid::graph {
namespace {

std::string typed_body(const Graph& g) {
  std::string out;
  for (auto& n : g.nodes) {
    out += n->results[0]->name + ": " + to_string(n->results[0]->type) + " = " + n->op->name;
    for (auto& a : n->args) out += " " + to_string(a);
    out += "\n";
  }
  return out;
}

std::unique_ptr<Graph> trimmed(const Graph& g) {
  auto after = trim(g);
  if (!after) return nullptr;
  verify(*after, "after trim");
  EXPECT_EQ(after->guards.size(), g.guards.size());
  if (auto rest = dce(*after)) return rest;
  return after;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  auto x = a.contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

void expect_same(const Graph& before, const Graph& after, uint64_t seed = 1) {
  auto inputs = random_inputs(before, seed);
  auto want = interpret(before, inputs), got = interpret(after, inputs);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(want[i], got[i])) << to_string(before) << to_string(after);
}

// Multiplications and additions of all products and attention.
int64_t flops(const Graph& g) {
  int64_t total = 0;
  for (auto& n : g.nodes) {
    auto operand = [&](size_t i) -> const std::vector<Expr>& { return std::get<Value*>(n->args[i])->type.sizes; };
    Expr count = 0;
    if (n->op->name == "mm" || n->op->name == "bmm") count = n->results[0]->type.numel() * operand(0).back();
    if (n->op->name == "scaled_dot_product_attention") {
      const Expr& keys = operand(1)[operand(1).size() - 2];
      count = n->results[0]->type.numel() * keys + std::get<Value*>(n->args[0])->type.numel() * keys;
    }
    total += 2 * count.constant();
  }
  return total;
}

TEST(Trim, LastRowOfACausalLayer) {
  auto g = parse(R"(graph "t"(%x: f32[1, 8, 6], %q: f32[6, 6], %k: f32[6, 6], %v: f32[6, 6], %up: f32[6, 24], %down: f32[24, 6]) {
    %x2: f32[8, 6] = view(%x, size=[8, 6])
    %qm: f32[8, 6] = mm(%x2, %q)
    %km: f32[8, 6] = mm(%x2, %k)
    %vm: f32[8, 6] = mm(%x2, %v)
    %q4: f32[1, 8, 2, 3] = view(%qm, size=[1, 8, 2, 3])
    %qh: f32[1, 2, 8, 3] = permute(%q4, dims=[0, 2, 1, 3])
    %k4: f32[1, 8, 2, 3] = view(%km, size=[1, 8, 2, 3])
    %kh: f32[1, 2, 8, 3] = permute(%k4, dims=[0, 2, 1, 3])
    %v4: f32[1, 8, 2, 3] = view(%vm, size=[1, 8, 2, 3])
    %vh: f32[1, 2, 8, 3] = permute(%v4, dims=[0, 2, 1, 3])
    %a: f32[1, 2, 8, 3] = scaled_dot_product_attention(%qh, %kh, %vh, is_causal=true)
    %ap: f32[1, 8, 2, 3] = permute(%a, dims=[0, 2, 1, 3])
    %am: f32[1, 8, 6] = view(%ap, size=[1, 8, 6])
    %r: f32[1, 8, 6] = add.Tensor(%x, %am)
    %r2: f32[8, 6] = view(%r, size=[8, 6])
    %u: f32[8, 24] = mm(%r2, %up)
    %s: f32[8, 24] = silu(%u)
    %d: f32[8, 6] = mm(%s, %down)
    %d3: f32[1, 8, 6] = view(%d, size=[1, 8, 6])
    %y: f32[1, 8, 6] = add.Tensor(%r, %d3)
    %last: f32[1, 6] = select.int(%y, dim=1, index=-1)
    return %last
  })");
  auto after = trimmed(*g);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(typed_body(*after),
            "x2: f32[8, 6] = view %x [8, 6]\n"
            "narrow: f32[1, 6] = narrow %x2 0 7 1\n"
            "qm: f32[1, 6] = mm %narrow %q\n"
            "km: f32[8, 6] = mm %x2 %k\n"
            "vm: f32[8, 6] = mm %x2 %v\n"
            "view: f32[1, 1, 2, 3] = view %qm [1, 1, 2, 3]\n"
            "permute: f32[1, 2, 1, 3] = permute %view [0, 2, 1, 3]\n"
            "k4: f32[1, 8, 2, 3] = view %km [1, 8, 2, 3]\n"
            "kh: f32[1, 2, 8, 3] = permute %k4 [0, 2, 1, 3]\n"
            "v4: f32[1, 8, 2, 3] = view %vm [1, 8, 2, 3]\n"
            "vh: f32[1, 2, 8, 3] = permute %v4 [0, 2, 1, 3]\n"
            "a: f32[1, 2, 1, 3] = scaled_dot_product_attention %permute %kh %vh none 0.0 false none false\n"
            "permute_1: f32[1, 1, 2, 3] = permute %a [0, 2, 1, 3]\n"
            "view_1: f32[1, 1, 6] = view %permute_1 [1, 1, 6]\n"
            "narrow_1: f32[1, 1, 6] = narrow %x 1 7 1\n"
            "r: f32[1, 1, 6] = add.Tensor %narrow_1 %view_1 1\n"
            "view_2: f32[1, 6] = view %r [1, 6]\n"
            "u: f32[1, 24] = mm %view_2 %up\n"
            "s: f32[1, 24] = silu %u\n"
            "d: f32[1, 6] = mm %s %down\n"
            "view_3: f32[1, 1, 6] = view %d [1, 1, 6]\n"
            "y: f32[1, 1, 6] = add.Tensor %r %view_3 1\n"
            "view_4: f32[1, 6] = view %y [1, 6]\n");
  expect_same(*g, *after);
  // q, up and down of one row instead of eight, k and v of all; scores and sums of one row of two heads.
  EXPECT_EQ(flops(*g), 2 * (3 * 8 * 36 + 2 * 8 * 6 * 24 + 2 * 2 * 8 * 8 * 3));
  EXPECT_EQ(flops(*after), 2 * (36 + 2 * 8 * 36 + 2 * 6 * 24 + 2 * 2 * 8 * 3));
}

TEST(Trim, ProductsOfHalvesInF32) {
  auto g = parse(R"(graph "t"(%x: bf16[2, 8, 4], %y: bf16[2, 4, 5], %m: f16[9, 4], %w: f16[4, 6]) {
    %p: f32[2, 8, 5] = bmm.dtype(%x, %y, out_dtype=f32)
    %last: f32[2, 5] = select.int(%p, dim=1, index=7)
    %q: f32[9, 6] = mm.dtype(%m, %w, out_dtype=f32)
    %some: f32[3, 6] = slice.Tensor(%q, dim=0, start=2, end=5)
    return %last, %some
  })");
  auto after = trimmed(*g);
  ASSERT_NE(after, nullptr);
  EXPECT_NE(typed_body(*after).find("f32[2, 1, 5] = bmm.dtype"), std::string::npos) << typed_body(*after);
  EXPECT_NE(typed_body(*after).find("f32[3, 6] = mm.dtype"), std::string::npos) << typed_body(*after);
  expect_same(*g, *after);
}

// A row in the middle sees the keys up to its own; several rows see them by a mask; the first sees itself alone.
TEST(Trim, CausalRows) {
  for (auto [start, end, want] :
       {std::tuple{2, 3, "[1, 2, 3, 4]"}, {3, 5, "[1, 2, 5, 4]"}, {0, 1, "[1, 2, 1, 4]"}, {9, 10, "[1, 2, 10, 4]"}}) {
    auto g = parse(fmt::format(R"(graph "t"(%q: f32[1, 2, 10, 4], %k: f32[1, 2, 10, 4], %v: f32[1, 2, 10, 4]) {{
      %kk: f32[1, 2, 10, 4] = neg(%k)
      %a: f32[1, 2, 10, 4] = scaled_dot_product_attention(%q, %kk, %v, is_causal=true)
      %s: f32[1, 2, {2}, 4] = slice.Tensor(%a, dim=2, start={0}, end={1})
      return %s
    }})",
                               start, end, end - start));
    auto after = trimmed(*g);
    ASSERT_NE(after, nullptr);
    EXPECT_NE(typed_body(*after).find(fmt::format("kk: f32{} = neg", want)), std::string::npos) << typed_body(*after);
    EXPECT_EQ(typed_body(*after).find("ge.Tensor") != std::string::npos, end - start > 1) << "a mask where rows see different keys";
    EXPECT_EQ(typed_body(*after).find("true"), std::string::npos) << typed_body(*after);
    expect_same(*g, *after);
  }
}

// Rows of several sequences, joined with them in one dimension; the class token and a second one.
TEST(Trim, RowsOfEachSequence) {
  auto g = parse(R"(graph "t"(%x: f32[3, 8, 6], %w: f32[6, 4], %b: f32[4]) {
    %x2: f32[24, 6] = view(%x, size=[24, 6])
    %m: f32[24, 4] = mm(%x2, %w)
    %y: f32[24, 4] = add.Tensor(%m, %b)
    %y3: f32[3, 8, 4] = view(%y, size=[3, 8, 4])
    %e: f32[3, 8, 4] = exp(%y3)
    %z: f32[3, 8, 1] = sum.dim_IntList(%e, dim=[2], keepdim=true)
    %p: f32[3, 8, 4] = div.Tensor(%e, %z)
    %first: f32[3, 4] = select.int(%p, dim=1, index=0)
    %second: f32[3, 4] = select.int(%p, dim=1, index=1)
    return %first, %second
  })");
  auto after = trimmed(*g);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(flops(*after) * 4, flops(*g));
  EXPECT_NE(typed_body(*after).find("m: f32[6, 4] = mm"), std::string::npos) << typed_body(*after);
  EXPECT_NE(typed_body(*after).find("p: f32[3, 2, 4] = div"), std::string::npos) << typed_body(*after);
  expect_same(*g, *after);
}

TEST(Trim, WhatIsReadWholeStays) {
  // By an output, by too much of it, by rows that are far apart, along what is summed, by draws and by sizes not known to be larger.
  for (const char* rest : {"%s: f32[1, 4] = slice.Tensor(%r, dim=0, start=0, end=1)\n return %s, %r",
                           "%s: f32[5, 4] = slice.Tensor(%r, dim=0, start=0, end=5)\n return %s",
                           "%s: f32[4] = select.int(%r, dim=0, index=0)\n %u: f32[4] = select.int(%r, dim=0, index=7)\n return %s, %u",
                           "%c: f32[8, 4] = cumsum(%x, dim=0)\n %s: f32[4] = select.int(%c, dim=0, index=0)\n return %s",
                           "%c: f32[8, 4] = rand_like(%r)\n %s: f32[4] = select.int(%c, dim=0, index=0)\n return %s"}) {
    auto g = parse(std::string("graph \"t\"(%x: f32[8, 4]) {\n %r: f32[8, 4] = relu(%x)\n ") + rest + "\n}");
    EXPECT_EQ(trim(*g), nullptr) << rest;
  }
}

// Only what is for the slice alone is cut; the shared operand stays whole.
TEST(Trim, SharedOperandIsComputedOnce) {
  auto g = parse(R"(graph "t"(%x: f32[8, 4]) {
    %r: f32[8, 4] = relu(%x)
    %e: f32[8, 4] = exp(%r)
    %s: f32[1, 4] = slice.Tensor(%e, dim=0, start=6, end=7)
    return %s, %r
  })");
  auto after = trimmed(*g);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(typed_body(*after), "r: f32[8, 4] = relu %x\nnarrow: f32[1, 4] = narrow %r 0 6 1\ne: f32[1, 4] = exp %narrow\n");
  expect_same(*g, *after);
}

TEST(Trim, LastRowOfAnOpenLength) {
  auto g = parse(R"(graph "t"(%ids: i64[2, s0], %table: f32[9, 4], %w: f32[4, 6]) symbols(s0 in 2..64) {
    %x: f32[2, s0, 4] = index.Tensor(%table, [%ids])
    %x2: f32[2*s0, 4] = view(%x, size=[2*s0, 4])
    %m: f32[2*s0, 6] = mm(%x2, %w)
    %m3: f32[2, s0, 6] = view(%m, size=[2, s0, 6])
    %m4: f32[2, s0, 2, 3] = view(%m3, size=[2, s0, 2, 3])
    %h: f32[2, 2, s0, 3] = permute(%m4, dims=[0, 2, 1, 3])
    %a: f32[2, 2, s0, 3] = scaled_dot_product_attention(%h, %h, %h, is_causal=true)
    %last: f32[2, 2, 3] = select.int(%a, dim=2, index=-1)
    return %last
  })");
  auto after = trimmed(*g);
  ASSERT_NE(after, nullptr);
  EXPECT_NE(typed_body(*after).find("a: f32[2, 2, 1, 3] = scaled_dot_product_attention %narrow %h %h none 0.0 false"), std::string::npos)
      << typed_body(*after);
  auto only = parse(R"(graph "t"(%ids: i64[2, s0], %table: f32[9, 4], %w: f32[4, 6]) symbols(s0 in 2..64) {
    %x: f32[2, s0, 4] = index.Tensor(%table, [%ids])
    %x2: f32[2*s0, 4] = view(%x, size=[2*s0, 4])
    %m: f32[2*s0, 6] = mm(%x2, %w)
    %m3: f32[2, s0, 6] = view(%m, size=[2, s0, 6])
    %last: f32[2, 6] = select.int(%m3, dim=1, index=-1)
    return %last
  })");
  auto row = trimmed(*only);
  ASSERT_NE(row, nullptr);
  EXPECT_NE(typed_body(*row).find("x: f32[2, 1, 4] = index.Tensor"), std::string::npos) << typed_body(*row);
  EXPECT_NE(typed_body(*row).find("m: f32[2, 6] = mm"), std::string::npos) << typed_body(*row);
  for (uint64_t seed : {1, 2, 3}) expect_same(*g, *after, seed), expect_same(*only, *row, seed);
}

// What is read of random graphs is cut at random; the passes before bring them into the form that the pass sees.
TEST(Trim, RandomGraphsKeepTheirBits) {
  CompileOptions options;
  options.set("verify_passes", "1");
  int changed = 0;
  for (uint64_t seed = 0; seed < test::samples<uint64_t>(400); ++seed) {
    auto drawn = random_graph(seed, {.nodes = 14, .in_place = false, .control_flow = seed % 4 == 0});
    {
      Rebuild out(*drawn);
      for (auto& n : drawn->nodes) out.copy(*n);
      std::vector<Tensor> parts;
      for (size_t i = 0; i < drawn->outputs.size(); ++i) {
        Value* v = drawn->outputs[i].value;
        Tensor t = v ? out.at(v) : Tensor();
        for (size_t d = 0; v && d < v->type.sizes.size(); ++d) {
          auto size = v->type.sizes[d].maybe_constant();
          const uint64_t way = (seed * 31 + i * 7 + d * 3) % 4;
          if (way == 0 || !size || *size < 2) continue;
          const int64_t at = static_cast<int64_t>((seed + d) % static_cast<uint64_t>(*size));
          t = ops::call1("slice.Tensor", {t, Expr(static_cast<int64_t>(d)), Expr(at), Expr(at + 1)});
        }
        parts.push_back(t);
      }
      auto g = out.finish();
      for (size_t i = 0; i < parts.size(); ++i)
        if (parts[i].defined()) g->outputs[i].value = out.recorder().value_of(parts[i]);
      drawn = std::move(g);
    }
    std::vector<PassRow> rows;
    for (auto& row : pipeline({.templates = seed % 2 == 0})) {
      if (row.name == std::string_view("trim")) break;
      rows.push_back(row);
    }
    auto before = run_passes(std::move(drawn), rows, nullptr, options);
    auto after = trimmed(*before);
    if (!after) continue;
    ++changed;
    auto inputs = random_inputs(*before, seed);
    std::vector<Tensor> want;
    try {
      want = interpret(*before, inputs);
    } catch (const UserError&) {  // such as an index into a dimension that came out empty
      continue;
    }
    auto got = interpret(*after, inputs);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(same_bits(want[i], got[i])) << "seed " << seed << "\n" << to_string(*before) << to_string(*after);
  }
  EXPECT_GT(changed, test::samples(200));
}

}  // namespace
}  // namespace toroid::graph
