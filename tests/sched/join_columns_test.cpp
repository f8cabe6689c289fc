// Which sums of columns become one loop, and that results stay the same to the last bit.
#include "sched/join_columns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::sched::columns {
namespace {

using program::Program;

constexpr int64_t kRows = 38, kColumns = 24;

std::string node(const std::string& head, const std::string& steps, int number) {
  return fmt::format("loops parts [{1}] # \"n{1}\"\n{0} {{\n{2}}}\n", head, number, steps);
}
// The sum of each column of a buffer, in another one.
std::string sums(int from, int to, int number, const std::string& head = fmt::format("loop (r i0: {}, i1: {})", kRows, kColumns)) {
  return node(head,
              fmt::format("v0: f32 = load %{1} [{0}*i0 + i1]\nv1: f32 = reduce sum v0\nv2: f32 = load %{2} [i1]\nv3: f32 = const 0.5\n"
                          "v4: f32 = Mul v2 v3\nv5: f32 = Add v1 v4\nstore %{2} [i1] v5\n",
                          kColumns, from, to),
              number);
}
std::string copy(int from, int to, int64_t count, int number) {
  return node(fmt::format("loop (i0: {})", count), fmt::format("v0: f32 = load %{} [i0]\nstore %{} [i0] v0\n", from, to), number);
}

// %0 to %2: elements; %3 to %6: outputs of columns, written first.
Program program_of(const std::string& nodes) {
  std::string first;
  for (int b = 3; b <= 6; ++b) first += copy(7, b, kColumns, b);
  std::string text = "program \"p\" {\n";
  for (int b = 0; b <= 2; ++b) text += fmt::format("buffer %{} \"x{}\": f32[{}] input\n", b, b, kRows * kColumns);
  for (int b = 3; b <= 6; ++b) text += fmt::format("buffer %{} \"s{}\": f32[{}] output\n", b, b, kColumns);
  text += fmt::format("buffer %7 \"w\": f32[{}] input\nbuffer %8 \"t\": f32[{}] temporary\n", kColumns, kRows * kColumns);
  for (int b : {0, 1, 2, 7}) text += fmt::format("in %{0} user \"x{0}\": f32[{1}]\n", b, b == 7 ? kColumns : kRows * kColumns);
  for (int b = 3; b <= 6; ++b) text += fmt::format("out %{}: f32[{}]\n", b, kColumns);
  const Program p = program::parse(text + first + nodes + "}\n");
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

std::vector<std::vector<double>> results_of(const Program& p) {
  std::vector<Tensor> inputs;
  for (int b : {0, 1, 2, 7}) {
    std::vector<double> values(static_cast<size_t>(b == 7 ? kColumns : kRows * kColumns));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>((k * static_cast<size_t>(7 + b) + k / 5) % 31) / 8 - 1;
    inputs.push_back(Tensor::of(values, std::vector{static_cast<int64_t>(values.size())}, DType::F32));
  }
  std::vector<std::vector<double>> out;
  for (auto& t : program::interpret(p, inputs)) out.push_back(t.to_vector());
  return out;
}

struct Case {
  const char* name;
  size_t joined;
  std::string nodes;
};

const std::string kTwoVariables = fmt::format("loop (r i2: 2, r i3: {}, i1: {})", kRows / 2, kColumns);

const Case kCases[] = {
    {"of three tensors", 2, sums(0, 3, 10) + sums(1, 4, 11) + sums(2, 5, 12)},
    {"four at most", 3, sums(0, 3, 10) + sums(1, 4, 11) + sums(2, 5, 12) + sums(0, 6, 13)},
    {"past what they do not need", 1, sums(0, 3, 10) + copy(1, 8, kRows* kColumns, 11) + copy(7, 5, kColumns, 12) + sums(2, 4, 13)},
    {"rows in two variables", 1,
     sums(0, 3, 10) + node(kTwoVariables,
                           fmt::format("v0: f32 = load %1 [{}*i2 + {}*i3 + i1]\nv1: f32 = reduce sum v0\nstore %4 [i1] v1\n",
                                       kRows / 2 * kColumns, kColumns),
                           11)},
    {"with what it stores of each element", 1,
     sums(0, 3, 10) + node(fmt::format("loop (r i0: {}, i1: {})", kRows, kColumns),
                           fmt::format("v0: f32 = load %1 [{0}*i0 + i1]\nstore %8 [{0}*i0 + i1] v0\nv2: f32 = reduce sum v0\nstore %4 [i1] "
                                       "v2\n",
                                       kColumns),
                           11)},
    {"of what is written between them", 0, sums(0, 3, 10) + copy(1, 8, kRows* kColumns, 11) + sums(8, 4, 12)},
    {"whose result is read between them", 0, sums(0, 3, 10) + copy(4, 5, kColumns, 11) + sums(1, 4, 12)},
    {"of which one needs the other", 0, sums(0, 3, 10) + sums(1, 3, 11)},
    {"a maximum", 0,
     sums(0, 3, 10) + node(fmt::format("loop (r i0: {}, i1: {})", kRows, kColumns),
                           fmt::format("v0: f32 = load %1 [{}*i0 + i1]\nv1: f32 = reduce max v0\nstore %4 [i1] v1\n", kColumns), 11)},
    {"of rows", 0,
     sums(0, 3, 10) + node(fmt::format("loop (i1: {}, r i0: {})", kColumns, kRows),
                           fmt::format("v0: f32 = load %1 [{}*i1 + i0]\nv1: f32 = reduce sum v0\nstore %4 [i1] v1\n", kRows), 11)},
    {"of fewer rows", 0,
     sums(0, 3, 10) + node(fmt::format("loop (r i0: {}, i1: {})", kRows - 1, kColumns),
                           fmt::format("v0: f32 = load %1 [{}*i0 + i1]\nv1: f32 = reduce sum v0\nstore %4 [i1] v1\n", kColumns), 11)},
};

TEST(JoinColumns, WhereTheyDoNotNeedEachOther) {
  for (auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const Program given = program_of(c.nodes);
    Program made = given;
    EXPECT_EQ(join_columns(made).size(), c.joined);
    EXPECT_EQ(made.nodes.size(), given.nodes.size() - c.joined);
    program::verify(made, program::Stage::Scheduled, "join_columns");
    EXPECT_EQ(results_of(made), results_of(given));
    const std::string text = program::to_string(made);
    EXPECT_EQ(program::to_string(program::parse(text)), text);
  }
}

TEST(JoinColumns, WhereTheyAreSmall) {
  const Program given = program_of(sums(0, 3, 10) + sums(1, 4, 11));
  const int64_t bytes = kRows * kColumns * static_cast<int64_t>(sizeof(float));
  for (const int64_t most : {bytes, bytes - 1}) {
    Program made = given;
    EXPECT_EQ(join_columns(made, most).size(), most == bytes ? 1u : 0u);
  }
}

}  // namespace
}  // namespace toroid::sched::columns
