// Which loops over rows take over sums of columns, and that results stay the same but for the order of additions.
#include "sched/rows_and_columns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "samples.h"
#include "sched/targets.h"

namespace toroid::sched::rows {
namespace {

using program::Program;

// Four blocks of rows, the last of which is a part of one.
constexpr int64_t kRows = 38, kColumns = 24, kWorkers = 4;

std::string node(const char* name, int number, const std::string& head, const std::string& steps) {
  return fmt::format("loops parts [{1}] # \"{0}\"\n{2} {{\n{3}}}\n", name, number, head, steps);
}
std::string over_rows(const std::string& steps, const std::string& head = fmt::format("loop (i0: {}, r i1: {})", kRows, kColumns)) {
  return node("by_rows", 0, head, steps);
}
std::string over_columns(const std::string& steps, int number = 1,
                         const std::string& head = fmt::format("loop (r i0: {}, i1: {})", kRows, kColumns)) {
  return node("by_columns", number, head, steps);
}

// Each row of %0 less its mean, in %4; the sum of the row in %7.
const std::string kRowsOf = fmt::format(
    "v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = reduce sum v0\nv2: f32 = const {0}\nv3: f32 = Div v1 v2\nv4: f32 = Sub v0 v3\n"
    "v5: bf16 = Cast v4\nstore %4 [{0}*i0 + i1] v5\nstore %7 [i0] v1\n",
    kColumns);
const std::string kSum = fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = reduce sum v0\nstore %5 [i1] v1\n", kColumns);
// Of products with other memory, and with numbers of rows and columns.
const std::string kGradients = fmt::format(
    "v0: f32 = load %0 [{0}*i0 + i1]\nv1: bf16 = load %1 [{0}*i0 + i1]\nv2: f32 = Cast v1\nv3: f32 = load %7 [i0]\nv4: f32 = Sub v2 v3\n"
    "v5: f32 = Mul v0 v4\nv6: f32 = reduce sum v5\nv7: f32 = reduce sum v0\nv8: f32 = load %2 [i1]\nv9: f32 = Mul v6 v8\n"
    "store %5 [i1] v9\nstore %6 [i1] v7\n",
    kColumns);
const std::string kOfResult =
    fmt::format("v0: bf16 = load %4 [{0}*i0 + i1]\nv1: f32 = Cast v0\nv2: f32 = reduce sum v1\nstore %6 [i1] v2\n", kColumns);
// What is left of a gradient, beside sums of columns.
const std::string kStores = fmt::format(
    "v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = load %7 [i0]\nv2: f32 = load %2 [i1]\nv3: f32 = Mul v0 v1\nv4: f32 = Mul v3 v2\n"
    "v5: bf16 = Cast v4\nstore %4 [{0}*i0 + i1] v5\nv7: f32 = reduce sum v3\nstore %5 [i1] v7\n",
    kColumns);

// Elements that a loop over columns leaves for rows, in %8; a sum of them in %5.
const std::string kLeaves = fmt::format(
    "v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = load %2 [i1]\nv2: f32 = Mul v0 v1\nstore %8 [{0}*i0 + i1] v2\nv4: f32 = reduce sum v2\n"
    "store %5 [i1] v4\n",
    kColumns);
// A fold of each row of these.
std::string folds(const char* kind, const std::string& to) {
  return fmt::format("v0: f32 = load %8 [{0}*i0 + i1]\nv1: f32 = reduce {1} v0\nstore {2} [i0] v1\n", kColumns, kind, to);
}
// What becomes of them by what is known of their rows, in place; a sum of it in %6.
const std::string kInPlace = fmt::format(
    "v0: f32 = load %8 [{0}*i0 + i1]\nv1: f32 = load %7 [i0]\nv2: f32 = Sub v0 v1\nstore %8 [{0}*i0 + i1] v2\nv4: f32 = reduce sum v2\n"
    "store %6 [i1] v4\n",
    kColumns);
const std::string kRounds =
    node("rounds", 8, fmt::format("loop (i0: {})", kRows* kColumns), "v0: f32 = load %8 [i0]\nv1: bf16 = Cast v0\nstore %4 [i0] v1\n");

std::string zeros(int buffer, int64_t count = kColumns) {
  return node("zeros", 9, fmt::format("loop (i0: {})", count), fmt::format("v0: f32 = const 0\nstore %{} [i0] v0\n", buffer));
}

Program program_of(const std::string& nodes) {
  const Program p = program::parse(fmt::format(
      "program \"p\" {{\nbuffer %0 \"x\": f32[{2}] input\nbuffer %1 \"y\": bf16[{2}] input\nbuffer %2 \"w\": f32[{1}] input\n"
      "buffer %3 \"n\": f32[{0}] input\nbuffer %4 \"z\": bf16[{2}] output\nbuffer %5 \"s\": f32[{1}] output\nbuffer %6 \"t\": f32[{1}] "
      "output\nbuffer %7 \"u\": f32[{0}] temporary\nbuffer %8 \"v\": f32[{2}] temporary\nin %0 user \"x\": f32[{2}]\nin %1 user \"y\": bf16[{2}]\nin %2 user \"w\": f32[{1}]\n"
      "in %3 user \"n\": f32[{0}]\nout %4: bf16[{2}]\nout %5: f32[{1}]\nout %6: f32[{1}]\n{3}}}\n",
      kRows, kColumns, kRows * kColumns, nodes));
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

std::vector<std::vector<double>> results_of(const Program& p,
                                            const std::vector<int64_t>& sizes = {kRows * kColumns, kRows* kColumns, kColumns, kRows}) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<double> values(static_cast<size_t>(sizes[i]));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>((k * (7 + 4 * i) + k / 5) % 31) / 8 - 1;
    inputs.push_back(Tensor::of(values, std::vector{static_cast<int64_t>(values.size())}, p.buffers[i].dtype));
  }
  std::vector<std::vector<double>> out;
  for (auto& t : program::interpret(p, inputs)) out.push_back(t.to_vector());
  return out;
}

size_t sums_in(const Program& p) {
  size_t count = 0;
  for (auto& n : p.nodes) count += static_cast<size_t>(std::count_if(n.body.steps.begin(), n.body.steps.end(), loop::stores_sum));
  return count;
}

const Answering kTakes("", kWorkers), kRefuses("it does not", kWorkers);

struct Case {
  const char* name;
  size_t loops, sums;  // whose columns are summed with rows; how many sums of them there are
  std::string nodes;
  size_t gone = 0;  // nodes
};

const Case kJoined[] = {
    {"sums of what both read", 1, 1, zeros(6) + over_rows(kRowsOf) + over_columns(kSum)},
    {"gradients", 1, 2, over_rows(kRowsOf) + over_columns(kGradients)},
    {"of what the first one stores, rounded", 1, 1, zeros(5) + over_rows(kRowsOf) + over_columns(kOfResult)},
    {"two loops, one of whose sums both have", 2, 2,
     over_rows(kRowsOf) + over_columns(kGradients) +
         over_columns(fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = reduce sum v0\nv2: f32 = load %6 [i1]\nv3: f32 = Add v1 v2\n"
                                  "store %6 [i1] v3\n",
                                  kColumns),
                      2)},
    {"a store of each element", 1, 1,
     zeros(6) + over_rows(fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = reduce max v0\nstore %7 [i0] v1\n", kColumns)) +
         over_columns(kStores)},
    {"columns before rows", 1, 1, zeros(6) + over_columns(kSum) + over_rows(kRowsOf)},
    {"columns that leave elements for rows, which a third loop rounds", 2, 1,
     zeros(6) + over_columns(kLeaves) + over_rows(folds("max", "%7")) + kRounds, 1},
    {"the same, and what follows from both in place", 3, 2,
     over_columns(kLeaves) + over_rows(folds("max", "%7")) + over_columns(kInPlace, 2) + kRounds, 1},
    {"the same, and a function of each element, which stays", 1, 1,
     zeros(6) + over_columns(kLeaves) + over_rows(folds("max", "%7")) +
         node("function", 8, fmt::format("loop (i0: {})", kRows* kColumns),
              "v0: f32 = load %8 [i0]\nv1: f32 = Exp v0\nv2: bf16 = Cast v1\nstore %4 [i0] v2\n")},
    {"rows in two loops", 4, 2,
     over_columns(kLeaves) + over_rows(folds("max", "%3")) +
         node("more", 4, fmt::format("loop (i0: {}, r i1: {})", kRows, kColumns), folds("min", "%7")) + over_columns(kInPlace, 2) + kRounds,
     2},
    {"columns in two variables", 1, 1,
     zeros(6) + over_rows(kRowsOf) +
         over_columns(fmt::format("v0: f32 = load %0 [{1}*i0 + {0}*i2 + i1]\nv1: f32 = reduce sum v0\nstore %5 [i1] v1\n", kColumns,
                                  kRows / 2 * kColumns),
                      1, fmt::format("loop (r i0: 2, r i2: {}, i1: {})", kRows / 2, kColumns))},
    {"rows in two variables", 1, 1,
     zeros(6) +
         over_rows(fmt::format("v0: f32 = load %0 [{1}*i0 + {0}*i2 + i1]\nv1: f32 = reduce sum v0\nv2: f32 = Sub v0 v1\nv3: bf16 = Cast "
                               "v2\nstore %4 [{1}*i0 + {0}*i2 + i1] v3\n",
                               kColumns, kRows / 2 * kColumns),
                   fmt::format("loop (i0: 2, i2: {}, r i1: {})", kRows / 2, kColumns)) +
         over_columns(kSum)},
    {"loops in another order", 1, 1,
     zeros(6) + over_rows(kRowsOf) + over_columns(kSum, 1, fmt::format("loop (i1: {}, r i0: {})", kColumns, kRows))},
};

TEST(RowsAndColumns, WhereTheyMeet) {
  for (auto& c : kJoined) {
    SCOPED_TRACE(c.name);
    const Program given = program_of(c.nodes);
    Program made = given;
    EXPECT_EQ(rows_and_columns(made, kTakes, 1, 1).size(), c.loops);
    EXPECT_EQ(sums_in(made), c.sums);
    EXPECT_EQ(made.nodes.size(), given.nodes.size() - c.gone);
    program::verify(made, program::Stage::Scheduled, "rows_and_columns");
    const auto before = results_of(given), after = results_of(made);
    EXPECT_EQ(before[0], after[0]);
    for (size_t out : {1, 2})
      for (size_t k = 0; k < before[out].size(); ++k)
        EXPECT_NEAR(after[out][k], before[out][k], 2e-5 * (1 + std::abs(before[out][k]))) << "output " << out << ", column " << k;
    const std::string text = program::to_string(made);
    EXPECT_EQ(program::to_string(program::parse(text)), text);
  }
}

TEST(RowsAndColumns, NumbersOfRowsStayInRegisters) {
  Program made = program_of(over_rows(kRowsOf) + over_columns(kGradients));
  EXPECT_EQ(rows_and_columns(made, kTakes, 1, 1).size(), 1u);
  for (auto& n : made.nodes)
    for (int b : program::writes(n)) EXPECT_NE(b, 7) << "which nobody reads any more";
}

const Case kApart[] = {
    {"a maximum of columns", 0, 0,
     zeros(6) + over_rows(kRowsOf) +
         over_columns(fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = reduce max v0\nstore %5 [i1] v1\n", kColumns))},
    {"distances from a mean of columns", 0, 0,
     zeros(6) + over_rows(kRowsOf) +
         over_columns(fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = reduce sum v0\nv2: f32 = Sub v0 v1\nv3: f32 = Mul v2 v2\n"
                                  "v4: f32 = reduce sum v3\nstore %5 [i1] v4\n",
                                  kColumns))},
    {"other memory alone", 0, 0,
     zeros(6) + over_rows(kRowsOf) +
         over_columns(
             fmt::format("v0: bf16 = load %1 [{0}*i0 + i1]\nv1: f32 = Cast v0\nv2: f32 = reduce sum v1\nstore %5 [i1] v2\n", kColumns))},
    {"other elements", 0, 0,
     zeros(6) + over_rows(kRowsOf) +
         over_columns(fmt::format("v0: f32 = load %0 [{0}*i1 + i0]\nv1: f32 = reduce sum v0\nstore %5 [i1] v1\n", kRows))},
    {"what both read is written between them", 0, 0, zeros(6) + over_rows(kRowsOf) + zeros(0, kRows* kColumns) + over_columns(kSum)},
    {"what the second reads is written between them", 0, 0, over_rows(kRowsOf) + zeros(2) + zeros(7, kRows) + over_columns(kGradients)},
    {"what columns before rows are for is read between them", 0, 0,
     zeros(6) + over_columns(kSum) +
         node("reader", 3, fmt::format("loop (i0: {})", kColumns), "v0: f32 = load %5 [i0]\nstore %6 [i0] v0\n") + over_rows(kRowsOf)},
    {"sums of columns that rows read", 0, 0,
     zeros(6) + over_columns(kSum) +
         over_rows(fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = load %5 [i1]\nv2: f32 = Sub v0 v1\nv3: f32 = reduce sum v2\n"
                               "v4: f32 = Sub v0 v3\nv5: bf16 = Cast v4\nstore %4 [{0}*i0 + i1] v5\n",
                               kColumns))},
    {"other elements than those that are left", 0, 0,
     zeros(6) + over_columns(kLeaves) +
         over_rows(fmt::format("v0: f32 = load %0 [{0}*i0 + i1]\nv1: f32 = load %8 [{1}*i1 + i0]\nv2: f32 = Mul v0 v1\nv3: f32 = reduce "
                               "sum v2\nstore %7 [i0] v3\n",
                               kColumns, kRows)) +
         kRounds},
    {"memory that rows read elsewhere, in place", 0, 0,
     node("left", 5, fmt::format("loop (i0: {})", kRows* kColumns), "v0: f32 = load %0 [i0]\nstore %8 [i0] v0\n") + zeros(5) +
         over_rows(fmt::format("v0: f32 = load %8 [{0}*i0 + i1]\nv1: f32 = load %8 [i1]\nv2: f32 = Mul v0 v1\nv3: f32 = reduce sum v2\n"
                               "store %7 [i0] v3\n",
                               kColumns)) +
         over_columns(kInPlace) + kRounds},
    {"old contents, which rows write over later", 0, 0,
     zeros(5) + node("ones", 3, fmt::format("loop (i0: {})", kRows* kColumns), "v0: bf16 = const 1\nstore %4 [i0] v0\n") +
         over_columns(kOfResult) + over_rows(kRowsOf)},
};

TEST(RowsAndColumns, WhereTheyDoNot) {
  for (auto& c : kApart) {
    SCOPED_TRACE(c.name);
    const Program given = program_of(c.nodes);
    Program made = given;
    EXPECT_TRUE(rows_and_columns(made, kTakes, 1, 1).empty());
    EXPECT_EQ(program::to_string(made), program::to_string(given));
  }
}

TEST(RowsAndColumns, WhereItIsWorthIt) {
  const Program given = program_of(zeros(6) + over_rows(kRowsOf) + over_columns(kSum));
  const int64_t bytes = kRows * kColumns * static_cast<int64_t>(sizeof(float));
  const auto lines_of = [&](const target::Target& target, int64_t least_bytes, int64_t least_rows) {
    Program made = given;
    const auto lines = rows_and_columns(made, target, least_bytes, least_rows);
    if (lines.empty() || &target == &kRefuses) {
      EXPECT_EQ(program::to_string(made), program::to_string(given));
    }
    return lines;
  };
  EXPECT_EQ(lines_of(kTakes, bytes, kRows / kWorkers).size(), 1u);
  EXPECT_EQ(lines_of(kTakes, bytes + 1, 1).size(), 0u);
  EXPECT_EQ(lines_of(kTakes, 1, kRows / kWorkers + 1).size(), 0u);
  const auto refused = lines_of(kRefuses, 1, 1);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0], "by_rows for by_columns: columns are not summed with rows, as it does not");
}

// Loops drawn over elements (%0, %3 to %5), rows (%6, %7) and columns (%8, %9), which read what others wrote, write it in place and
// write over it.
class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}

  Program program() {
    std::string text = "program \"p\" {\n", ends;
    const auto buffer = [&](int b, int64_t count, const char* kind) {
      text += fmt::format("buffer %{0} \"b{0}\": f32[{1}] {2}\n", b, count, kind);
      if (kind[0] == 'o') ends += fmt::format("out %{}: f32[{}]\n", b, count);
    };
    for (int b = 0; b <= 2; ++b) {
      const int64_t count = b == 0 ? kRows * kColumns : b == 1 ? kRows : kColumns;
      buffer(b, count, "input");
      ends += fmt::format("in %{0} user \"b{0}\": f32[{1}]\n", b, count);
    }
    for (int b = 3; b <= 5; ++b) buffer(b, kRows * kColumns, "temporary");
    for (int b = 6; b <= 7; ++b) buffer(b, kRows, "output");
    for (int b = 8; b <= 9; ++b) buffer(b, kColumns, "output");
    for (int b = 10; b <= 12; ++b) buffer(b, kRows * kColumns, "output");
    std::string nodes;
    for (int b = 3; b <= 9; ++b) {
      const auto [from, count] = b <= 5 ? std::pair{0, kRows * kColumns} : b <= 7 ? std::pair{1, kRows} : std::pair{2, kColumns};
      nodes += copy(from, b, count, b % 3);
    }
    for (int i = 0; i < 7; ++i) nodes += loop(i);
    for (int b = 3; b <= 5; ++b) nodes += copy(b, b + 7, kRows * kColumns, 0);
    const Program p = program::parse(text + ends + nodes + "}\n");
    program::verify(p, program::Stage::Scheduled, "parse");
    return p;
  }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  static std::string copy(int from, int to, int64_t count, int by) {
    return node("copy", 20 + to, fmt::format("loop (i0: {})", count),
                fmt::format("v0: f32 = load %{} [i0]\nv1: f32 = const {}\nv2: f32 = Sub v0 v1\nstore %{} [i0] v2\n", from, by, to));
  }

  // One over columns, over rows or over elements: half of an element less what is known of its row and its column.
  std::string loop(int i) {
    const int kind = draw(5), from = draw(4), to = 3 + draw(3);
    const std::string element = fmt::format("[{}*i0 + i1]", kColumns);
    std::string steps = fmt::format(
        "v0: f32 = load %{} {}\nv1: f32 = const 0.5\nv2: f32 = Mul v0 v1\nv3: f32 = load %{} [i0]\n"
        "v4: f32 = Sub v2 v3\nv5: f32 = load %{} [i1]\nv6: f32 = Sub v4 v5\n",
        from == 0 ? 0 : 2 + from, element, 6 + draw(2), 8 + draw(2));
    const bool stores = kind == 4 || draw(3) > 0;
    if (kind == 4) return node("light", 40 + i, fmt::format("loop (i0: {}, i1: {})", kRows, kColumns), steps + store(to, element, 6));
    if (kind < 2) {
      int next = 7;
      if (stores) steps += store(to, element, 6), ++next;
      steps += fmt::format("v{}: f32 = reduce sum v6\nv{}: f32 = const 0.0625\nv{}: f32 = Mul v{} v{}\n", next, next + 1, next + 2, next,
                           next + 1);
      return node("columns", 40 + i, fmt::format("loop (r i0: {}, i1: {})", kRows, kColumns), steps + store(8 + draw(2), "[i1]", next + 2));
    }
    steps += fmt::format("v7: f32 = reduce {} v6\nv8: f32 = const 0.0625\nv9: f32 = Mul v7 v8\n", kind == 2 ? "sum" : "max");
    if (stores) steps += fmt::format("v10: f32 = Sub v6 v9\n") + store(to, element, 10);
    return node("rows", 40 + i, fmt::format("loop (i0: {}, r i1: {})", kRows, kColumns), steps + store(6 + draw(2), "[i0]", 9));
  }
  static std::string store(int to, const std::string& at, int value) { return fmt::format("store %{} {} v{}\n", to, at, value); }

  std::mt19937 random_;
};

TEST(RowsAndColumns, OfDrawnLoops) {
  const unsigned count = test::samples(300u);
  size_t joined = 0;
  for (unsigned seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Program given = Drawn(seed).program();
    Program made = given;
    joined += rows_and_columns(made, kTakes, 1, 1).size();
    program::verify(made, program::Stage::Scheduled, "rows_and_columns");
    const auto before = results_of(given, {kRows * kColumns, kRows, kColumns}),
               after = results_of(made, {kRows * kColumns, kRows, kColumns});
    for (size_t out = 0; out < before.size(); ++out)
      for (size_t k = 0; k < before[out].size(); ++k)
        ASSERT_NEAR(after[out][k], before[out][k], 1e-4 * (1 + std::abs(before[out][k])))
            << "output " << out << ", element " << k << "\n"
            << program::to_string(given) << program::to_string(made);
  }
  EXPECT_GT(joined, count / 2);
}

}  // namespace
}  // namespace toroid::sched::rows
