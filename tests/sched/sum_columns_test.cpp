// Which loops get the sums of columns from the template that computes them, and that results stay the same but for the order of additions.
#include "sched/sum_columns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/points.h"
#include "program/verify.h"
#include "sched/targets.h"
#include "toroid/error.h"

namespace toroid::sched::summed {
namespace {

using program::Program;

// Two whole blocks of rows and a part of one.
constexpr int64_t kRows = 150, kColumns = 16, kDepth = 4, kImages = 3, kHeight = 10, kWidth = 5;
static_assert(kImages * kHeight * kWidth == kRows && kRows % program::kSummedRows != 0);

std::string product(const char* dtype = "bf16", const std::string& value = "v1") {
  return fmt::format(
      "gemm [{0}, {1}, {2}] a=%0 {3}[0, {2}, 1] b=%1 {3}[0, {1}, 1] in f32 parts [0] # \"product\"\n"
      "loop (i0: {0}, i1: {1}) {{\nv0: f32 = accumulate\nv1: {3} = Cast v0\nstore %4 [{1}*i0 + i1] {4}\n}}\n",
      kRows, kColumns, kDepth, dtype, value);
}

// Of one pixel each, whose channels are innermost.
std::string convolution() {
  return fmt::format(
      "convolution [{0}, {1}, {2}, {3}] -> [{4}, {2}, {3}] kernel 1x1 stride 1x1 pad 0x0 dilation 1x1 groups 1 input=%0 bf16[0, {5}, 1, {6}, "
      "{1}] weight=%1 bf16[0, 1, {4}, {4}, {4}] less 0 in f32 parts [0] # \"convolution\"\n"
      "loop (i0: {0}, i1: {4}, i2: {2}, i3: {3}) {{\nv0: f32 = accumulate\nv1: bf16 = Cast v0\nstore %4 [{7}*i0 + i1 + {8}*i2 + {4}*i3] "
      "v1\n}}\n",
      kImages, kDepth, kHeight, kWidth, kColumns, kHeight * kWidth * kDepth, kWidth * kDepth, kHeight * kWidth * kColumns,
      kWidth * kColumns);
}

// A loop that folds columns; its value v1 is an element of the result in f32, v2 one of %2.
std::string folding(const std::string& steps, int number = 1, const char* dtype = "bf16",
                    const std::string& head = fmt::format("loop (r i0: {}, i1: {})", kRows, kColumns)) {
  return fmt::format("loops parts [{0}] # \"reader_{0}\"\n{1} {{\nv0: {2} = load %4 [{3}*i0 + i1]\nv1: f32 = Cast v0\n{4}}}\n", number,
                     head, dtype, kColumns, steps);
}

const std::string kSum = "v2: f32 = reduce sum v1\nstore %5 [i1] v2\n";
const std::string kMoments = fmt::format(
    "v2: f32 = reduce sum v1\nv3: f32 = const {}\nv4: f32 = Div v2 v3\nv5: f32 = Sub v1 v4\nv6: f32 = Mul v5 v5\nv7: f32 = reduce sum v6\n"
    "store %5 [i1] v4\nv9: f32 = Div v7 v3\nstore %6 [i1] v9\n",
    kRows);
// Of gradients: their sum, and the sum of them times the distances of others from a number of the column.
const std::string kGradients = fmt::format(
    "v2: bf16 = load %2 [{}*i0 + i1]\nv3: f32 = Cast v2\nv4: f32 = load %3 [i1]\nv5: f32 = const 8\nv6: f32 = Div v4 v5\nv7: f32 = Sub v3 "
    "v6\nv8: f32 = Mul v1 v7\nv9: f32 = reduce sum v8\nv10: f32 = reduce sum v1\nv11: f32 = Mul v9 v4\nstore %5 [i1] v11\nstore %6 [i1] v10\n",
    kColumns);

std::string zeros(int buffer, int64_t count = kColumns) {
  return fmt::format("loops parts [9] # \"zeros\"\nloop (i0: {}) {{\nv0: f32 = const 0\nstore %{} [i0] v0\n}}\n", count, buffer);
}

Program program_of(const std::string& nodes, const char* dtype = "bf16") {
  const Program p = program::parse(fmt::format(
      "program \"p\" {{\nbuffer %0 \"a\": {5}[{3}] input\nbuffer %1 \"b\": {5}[{4}] input\nbuffer %2 \"x\": bf16[{2}] input\n"
      "buffer %3 \"mean\": f32[{1}] input\nbuffer %4 \"y\": {5}[{2}] output\nbuffer %5 \"s\": f32[{1}] output\nbuffer %6 \"t\": f32[{1}] "
      "output\nin %0 user \"a\": {5}[{3}]\nin %1 user \"b\": {5}[{4}]\nin %2 user \"x\": bf16[{2}]\nin %3 user \"mean\": f32[{1}]\n"
      "out %4: {5}[{2}]\nout %5: f32[{1}]\nout %6: f32[{1}]\n{6}}}\n",
      kRows, kColumns, kRows * kColumns, kRows * kDepth, kDepth * kColumns, dtype, nodes));
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

std::vector<std::vector<double>> results_of(const Program& p) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<double> values(static_cast<size_t>(p.buffers[i].numel.constant()));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>((k * (7 + 4 * i) + k / 5) % 31) / 8 - (i == 0 ? 1 : 2);
    inputs.push_back(Tensor::of(values, std::vector{static_cast<int64_t>(values.size())}, p.buffers[i].dtype));
  }
  std::vector<std::vector<double>> out;
  for (auto& t : program::interpret(p, inputs)) out.push_back(t.to_vector());
  return out;
}

void expect_near(const Program& given, const Program& made) {
  const auto before = results_of(given), after = results_of(made);
  EXPECT_EQ(before[0], after[0]);
  for (size_t out : {1, 2})
    for (size_t c = 0; c < before[out].size(); ++c)
      EXPECT_NEAR(after[out][c], before[out][c], 2e-5 * (1 + std::abs(before[out][c]))) << "output " << out << ", column " << c;
}

size_t sums_in(const Program& p) {
  size_t count = 0;
  for (auto& n : p.nodes) count += static_cast<size_t>(std::count_if(n.body.steps.begin(), n.body.steps.end(), loop::stores_sum));
  return count;
}

const Answering kTakes(""), kRefuses("it does not");

struct Case {
  const char* name;
  size_t loops, sums;  // whose sums the template computes; how many it leaves
  std::string nodes;
  const char* dtype = "bf16";
};

const Case kSummed[] = {
    {"sums", 1, 1, zeros(6) + product() + folding(kSum)},
    {"mean and variance", 1, 2, product() + folding(kMoments)},
    {"of f16", 1, 2, product("f16") + folding(kMoments, 1, "f16"), "f16"},
    {"gradients, of other memory, too", 1, 2, product() + folding(kGradients)},
    {"two loops, one of whose sums both have", 2, 2,
     product() + folding(kSum) +
         folding("v2: f32 = Mul v1 v1\nv3: f32 = reduce sum v2\nv4: f32 = reduce sum v1\nv5: f32 = Add v3 v4\nstore %6 [i1] v5\n", 2)},
    {"loops in another order", 1, 1,
     zeros(6) + product() + folding(kSum, 1, "bf16", fmt::format("loop (i1: {}, r i0: {})", kColumns, kRows))},
    {"f32, whose distances are no matter", 1, 1, zeros(6) + product("f32") + folding(kSum, 1, "f32"), "f32"},
    {"what follows from sums, and writes over what it reads", 1, 1,
     zeros(5) + zeros(6) + product() + folding("v2: f32 = reduce sum v1\nv3: f32 = load %5 [i1]\nv4: f32 = Add v2 v3\nstore %5 [i1] v4\n")},
    {"pixels of a convolution", 1, 2,
     convolution() +
         fmt::format("loops parts [1] # \"reader\"\nloop (r i0: {0}, i1: {1}, r i2: {2}, r i3: {3}) {{\nv0: bf16 = load %4 [{4}*i0 + i1 + "
                     "{5}*i2 + {1}*i3]\nv1: f32 = Cast v0\n{6}}}\n",
                     kImages, kColumns, kHeight, kWidth, kHeight* kWidth* kColumns, kWidth* kColumns, kMoments)},
};

TEST(SumColumns, WhereTheTemplateHasThem) {
  for (auto& c : kSummed) {
    SCOPED_TRACE(c.name);
    const Program given = program_of(c.nodes, c.dtype);
    Program made = given;
    EXPECT_EQ(sum_columns(made, kTakes, 1, 1).size(), c.loops);
    EXPECT_EQ(sums_in(made), c.sums);
    EXPECT_EQ(made.buffers.size(), given.buffers.size() + c.sums);
    program::verify(made, program::Stage::Scheduled, "sum_columns");
    expect_near(given, made);
    const std::string text = program::to_string(made);
    EXPECT_EQ(program::to_string(program::parse(text)), text);
    for (auto& n : made.nodes)
      if (n.is_loop()) {
        EXPECT_LE(loop::reduction_size(n.domain).constant(), 3) << "blocks of rows";
      }
  }
}

const Case kElsewhere[] = {
    {"rows in two parts", 0, 0,
     zeros(6) + product() +
         fmt::format(
             "loops parts [1] # \"reader\"\nloop (i0: 2, r i2: {0}, i1: {1}) {{\nv0: bf16 = load %4 [{2}*i0 + {1}*i2 + i1]\nv1: f32 "
             "= Cast v0\nv2: f32 = reduce sum v1\nstore %5 [i1] v2\n}}\n",
             kRows / 2, kColumns, kRows / 2 * kColumns)},
    {"sums of rows", 0, 0,
     zeros(5) + zeros(6) + product() +
         fmt::format("loops parts [1] # \"reader\"\nloop (i0: {0}, r i1: {0}) {{\nv0: bf16 = load %4 [{0}*i0 + i1]\nv1: f32 = Cast v0\nv2: "
                     "f32 = reduce sum v1\nstore %5 [i0] v2\n}}\n",
                     kColumns)},
    {"a maximum", 0, 0, zeros(6) + product() + folding("v2: f32 = reduce max v1\nstore %5 [i1] v2\n")},
    {"a sum behind a maximum", 0, 0,
     zeros(6) + product() + folding("v2: f32 = reduce max v1\nv3: f32 = Sub v1 v2\nv4: f32 = reduce sum v3\nstore %5 [i1] v4\n")},
    {"exponentials, which are dear", 0, 0, zeros(6) + product() + folding("v2: f32 = Exp v1\nv3: f32 = reduce sum v2\nstore %5 [i1] v3\n")},
    {"distances to the mean of what is not rounded", 0, 0, product("f32") + folding(kMoments, 1, "f32"), "f32"},
    {"the result is written again", 0, 0,
     zeros(6) + product() + fmt::format("loops parts [3] # \"again\"\nloop (i0: 4) {{\nv0: bf16 = const 1\nstore %4 [i0] v0\n}}\n") +
         folding(kSum)},
    {"other memory is written between them", 0, 0, product() + zeros(3) + folding(kGradients)},
    {"the loop writes what it sums", 0, 0,
     product() + zeros(5) + zeros(6) + folding("v2: f32 = load %5 [i1]\nv3: f32 = Mul v1 v2\nv4: f32 = reduce sum v3\nstore %5 [i1] v4\n")},
    {"other elements of the result", 0, 0,
     zeros(6) + product() +
         folding(
             fmt::format("v2: bf16 = load %4 [{} - {}*i0 + i1]\nv3: f32 = Cast v2\nv4: f32 = Mul v1 v3\nv5: f32 = reduce sum v4\nstore %5 "
                         "[i1] v5\n",
                         (kRows - 1) * kColumns, kColumns))},
};

TEST(SumColumns, NowhereElse) {
  for (auto& c : kElsewhere) {
    SCOPED_TRACE(c.name);
    const Program given = program_of(c.nodes, c.dtype);
    Program made = given;
    EXPECT_TRUE(sum_columns(made, kTakes, 1, 1).empty());
    EXPECT_EQ(program::to_string(made), program::to_string(given));
  }
}

TEST(SumColumns, NotOfFewRowsOrWhereTheTargetRefuses) {
  const Program given = program_of(zeros(6) + product() + folding(kSum));
  for (auto [bytes, rows] : {std::pair{kRows * kColumns * 2 + 1, int64_t{1}}, std::pair{int64_t{1}, kRows + 1}}) {
    Program made = given;
    EXPECT_TRUE(sum_columns(made, kTakes, bytes, rows).empty());
    EXPECT_EQ(sums_in(made), 0u);
  }
  Program made = given;
  const auto lines = sum_columns(made, kRefuses, 1, 1);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("it does not"), std::string::npos) << lines[0];
  EXPECT_EQ(program::to_string(made), program::to_string(given));
  Program library = given;
  library.nodes[1].by = program::Implementation::CublasLt;
  EXPECT_TRUE(sum_columns(library, kTakes, 1, 1).empty());
  Program apart = given;
  apart.apart = {{0, 1}};
  EXPECT_TRUE(sum_columns(apart, kTakes, 1, 1).empty());
}

// Batches share columns, rows of an open number have blocks of an open number.
TEST(SumColumns, NotOfBatchesOrOpenSizes) {
  const Program p = program_of(zeros(6) + product() + folding(kSum));
  const program::Node& node = p.nodes[1];
  ASSERT_TRUE(program::sums_place(node));
  program::Node batched = node;
  std::get<program::Gemm>(batched.problem).batch = {2};
  batched.domain.vars.insert(batched.domain.vars.begin(), {sym::loop_symbol("batch", 2), false});
  EXPECT_FALSE(program::sums_place(batched));
  program::Node open = node;
  const Expr rows = sym::symbol("rows", 1, 1 << 20);
  std::get<program::Gemm>(open.problem).m = rows;
  open.domain.vars[0].symbol = sym::loop_symbol("row", rows);
  EXPECT_FALSE(program::sums_place(open));
}

TEST(SumColumns, HaveOnePlace) {
  Program p = program_of(zeros(6) + product() + folding(kSum));
  sum_columns(p, kTakes, 1, 1);
  ASSERT_EQ(sums_in(p), 1u);
  const auto refused = [&](const std::function<void(loop::Statement&)>& change) {
    Program other = p;
    for (auto& s : other.nodes[1].body.steps)
      if (loop::stores_sum(s)) change(s);
    EXPECT_THROW(program::verify(other, program::Stage::Scheduled, "a change"), InternalError);
  };
  refused([](loop::Statement& s) { s.index = s.index + 1; });
  refused([](loop::Statement& s) { s.index = 0; });
  refused([](loop::Statement& s) { s.buffer = 5; });
  Program of_loop = p;
  of_loop.nodes[2].body.steps.back().mode = loop::StoreMode::Sum;
  EXPECT_THROW(program::verify(of_loop, program::Stage::Scheduled, "a change"), InternalError);
}

}  // namespace
}  // namespace toroid::sched::summed
