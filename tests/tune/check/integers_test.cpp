// Integers that choices are compared on: legal where they index, and as different as they may be.
#include "tune/check/integers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "errors.h"
#include "tune/programs.h"

namespace toroid::tune {
namespace {

void add_integers(program::Program& p, const std::string& name, const Expr& points, DType t = DType::I64) {
  const int b = p.new_buffer(name, t, points, loop::BufferKind::Input);
  p.inputs.push_back({b, {t, {points}, {}}, graph::InputKind::User, {}, name});
}

// %0: indices, %1: what they index, %2: the result. wrapped: what is made of v0, an index, as v5 (select).
const char* const kWrap =
    " v1: i64 = const 0\n v2: bool = Lt v0 v1\n v3: i64 = index [{0}]\n v4: i64 = Add v0 v3\n v5: i64 = Select v2 v4 v0\n";

program::Program gather(const Expr& rows, const std::string& extent) {
  program::Program p;
  add_integers(p, "ids", 64);
  p.new_buffer("table", DType::F32, rows * 8, loop::BufferKind::Input);
  p.inputs.push_back({1, {DType::F32, {rows * 8}, {}}, graph::InputKind::User, {}, "table"});
  p.new_buffer("out", DType::F32, 512, loop::BufferKind::Temporary);
  p.nodes.push_back(loop_node(fmt::format("loop (i0: 64, i1: 8) {{\n v0: i64 = load %0 [i0]\n{} v6: f32 = load %1 [v5*8 + i1]\n"
                                          " store %2 [i0*8 + i1] v6\n}}",
                                          fmt::format(fmt::runtime(kWrap), extent)),
                              0));
  set_output(p, 2);
  return p;
}

TEST(Integers, IndicesCoverWhatTheyIndexAndNoMore) {
  for (int64_t rows : {1, 2, 7, 1000, 30522}) {
    const Integers i = integers_of_inputs(gather(rows, std::to_string(rows)), {}, 1).at(0);
    EXPECT_EQ(i.low, 0);
    EXPECT_EQ(i.high, rows - 1);
    EXPECT_FALSE(i.distinct);
  }
}

TEST(Integers, OpenSizesBoundThemToo) {
  const Expr s = sym::symbol("s0", 1, sym::kInf);
  program::Program p = gather(s, "5");
  p.nodes[0] = loop_node("loop (i0: 64, i1: 8) {\n v0: i64 = load %0 [i0]\n v1: f32 = load %1 [v0*8 + i1]\n store %2 [i0*8 + i1] v1\n}", 0);
  for (int64_t size : {1, 2, 77}) EXPECT_LT(integers_of_inputs(p, {{"s0", size}}, 1).at(0).high, size);
  EXPECT_GT(integers_of_inputs(p, {{"s0", 770}}, 1).at(0).high, 100);
}

// Through memory, sums and differences.
TEST(Integers, WhatIsMadeOfThemIsFollowed) {
  program::Program p;
  add_integers(p, "ids", 64, DType::I32);
  add_input(p, "table", 100);
  p.new_buffer("moved", DType::I64, 64, loop::BufferKind::Temporary);
  p.new_buffer("out", DType::F32, 64, loop::BufferKind::Temporary);
  p.nodes.push_back(loop_node(
      "loop (i0: 64) {\n v0: i32 = load %0 [i0]\n v1: i64 = Cast v0\n v2: i64 = const 3\n v3: i64 = Mul v1 v2\n v4: i64 = const 10\n"
      " v5: i64 = Add v3 v4\n store %2 [i0] v5\n}",
      0));
  p.nodes.push_back(loop_node("loop (i0: 64) {\n v0: i64 = load %2 [i0]\n v1: f32 = load %1 [v0]\n store %3 [i0] v1\n}", 1));
  set_output(p, 3);
  const Integers i = integers_of_inputs(p, {}, 1).at(0);
  EXPECT_EQ(i.low, 0);
  EXPECT_LE(3 * i.high + 10, 99);
  EXPECT_GE(i.high, 10) << "not less than needs be";
}

TEST(Integers, PlacesThatAreWrittenAreDistinct) {
  program::Program p;
  add_integers(p, "positions", 40);
  add_input(p, "values", 40);
  p.new_buffer("out", DType::F32, 50, loop::BufferKind::Temporary);
  p.nodes.push_back(loop_node("loop (i0: 40) {\n v0: i64 = load %0 [i0]\n v1: f32 = load %1 [i0]\n store %2 [v0] v1\n}", 0));
  set_output(p, 2);
  const Integers i = integers_of_inputs(p, {}, 1).at(0);
  EXPECT_TRUE(i.distinct);
  const auto drawn = generate_input(p.inputs[0].type, 1, {}, Device::cpu(), i).to_vector();
  EXPECT_EQ(std::set<double>(drawn.begin(), drawn.end()).size(), 40u);
  EXPECT_LT(*std::max_element(drawn.begin(), drawn.end()), 50);
  EXPECT_EQ(narrow_integers(p, {}, 1), std::vector<Integers>()) << "indices alone";
}

// An index of 64 x 32 writes rows of 64 x 32, whichever way it lies in memory: no element is written twice.
TEST(Integers, PlacesAreDistinctAlongTheDimensionThatIsWritten) {
  for (const char* place : {"i0*32 + i1", "i1*64 + i0"}) {
    program::Program p;
    add_integers(p, "rows", 64 * 32);
    add_input(p, "values", 64 * 32);
    p.new_buffer("out", DType::F32, 64 * 32, loop::BufferKind::Temporary);
    p.nodes.push_back(loop_node(fmt::format("loop (i0: 64, i1: 32) {{\n v0: i64 = load %0 [{0}]\n v1: f32 = load %1 [{0}]\n"
                                            " store %2 [v0*32 + i1] v1\n}}",
                                            place),
                                0));
    set_output(p, 2);
    const Integers i = integers_of_inputs(p, {}, 1).at(0);
    EXPECT_EQ(i.high, 63);
    const auto drawn = generate_input(p.inputs[0].type, 1, {}, Device::cpu(), i).to_vector();
    const bool is_by_rows = place[1] == '0';
    for (size_t column = 0; column < 32; ++column) {
      std::set<double> rows;
      for (size_t k = 0; k < 64; ++k) rows.insert(drawn[is_by_rows ? k * 32 + column : column * 64 + k]);
      EXPECT_EQ(rows.size(), 64u) << place << ", column " << column;
    }
  }
}

// values: v0 op v1 of two inputs.
program::Program arithmetic(const std::string& op, DType t) {
  program::Program p;
  add_integers(p, "a", 64, t);
  add_integers(p, "b", 64, t);
  const std::string_view n = name_of(t);
  p.new_buffer("out", t, 64, loop::BufferKind::Temporary);
  p.nodes.push_back(loop_node(
      fmt::format("loop (i0: 64) {{\n v0: {0} = load %0 [i0]\n v1: {0} = load %1 [i0]\n v2: {0} = {1} v0 v1\n store %2 [i0] v2\n}}", n, op),
      0));
  set_output(p, 2);
  return p;
}

TEST(Integers, OthersAreWideAndOverflowNowhere) {
  for (DType t : {DType::I8, DType::U8, DType::I16, DType::I32, DType::I64})
    for (const char* op : {"Add", "Sub", "Mul"}) {
      const auto i = integers_of_inputs(arithmetic(op, t), {}, 1);
      EXPECT_GE(i[0].high, 100) << name_of(t) << op;
      EXPECT_EQ(i[0].low < 0, t != DType::U8);
      if (t == DType::I32) {
        EXPECT_LT(i[0].high * i[1].high, int64_t{1} << 31);
      }
      EXPECT_EQ(narrow_integers(arithmetic(op, t), {}, 1).at(0), (Integers{.low = 0, .high = 1}));
    }
  EXPECT_LT(integers_of_inputs(arithmetic("Mul", DType::I32), {}, 1 << 20).at(0).high, 1 << 6) << "long sums of products";
}

TEST(Integers, LongProductsOf64BitsDoNotOverflow) {
  program::Program p;
  add_integers(p, "a", 64);
  p.new_buffer("out", DType::I64, 64, loop::BufferKind::Temporary);
  std::string text = "loop (i0: 64) {\n v0: i64 = load %0 [i0]\n v1: i64 = Mul v0 v0\n v2: i64 = Mul v1 v1\n v3: i64 = Mul v2 v2\n";
  p.nodes.push_back(loop_node(text + " store %1 [i0] v3\n}", 0));
  const int64_t most = integers_of_inputs(p, {}, 1).at(0).high;
  EXPECT_LT(8 * std::log2(static_cast<double>(most)), 63);
  EXPECT_GT(most, 100) << "but no narrower than need be";
}

TEST(Integers, ShiftsAreByWhatANumberHasBitsFor) {
  const auto i = integers_of_inputs(arithmetic("Shl", DType::I32), {}, 1);
  EXPECT_GT(i[0].high, 1 << 20) << "all bits count";
  EXPECT_GE(i[1].low, 0);
  EXPECT_LE(i[1].high, 31);
}

TEST(Integers, ProductsOfManyKeepToOneBit) {
  program::Program p;
  add_integers(p, "a", 64);
  p.new_buffer("out", DType::I64, 1, loop::BufferKind::Temporary);
  p.nodes.push_back(loop_node("loop (r r0: 64) {\n v0: i64 = load %0 [r0]\n v1: i64 = reduce prod v0\n store %1 [0] v1\n}", 0));
  set_output(p, 1);
  EXPECT_EQ(integers_of_inputs(p, {}, 64).at(0), (Integers{.low = 0, .high = 1}));
}

}  // namespace
}  // namespace toroid::tune
