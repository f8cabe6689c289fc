// Scans of long rows by their definition, in pieces, are those of the operation.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/interpreter.h"
#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::program {
namespace {

// Rows of 33000 elements: three pieces.
constexpr const char* kScan = R"(program "scan" {
buffer %0 "x": f32[66000] input
buffer %1 "totals": f64[6] temporary
buffer %2 "y": f32[66000] output
in %0 user "x": f32[2, 33000]
out %2: f32[2, 33000]
scan of totals [2, 33000] input=%0 f32[0, 33000, 1] totals=%1 f64[0, 3, 1] values=none # "y"
scan of rows [2, 33000] input=%0 f32[0, 33000, 1] totals=%1 f64[0, 3, 1] values=%2 f32[0, 33000, 1] # "y"
}
)";

TEST(ProgramScan, IsThatOfTheOperation) {
  const Program p = parse(kScan);
  verify(p, Stage::Scheduled, "reading it");
  Tensor x = Tensor::full(std::vector<int64_t>{2, 33000}, 0);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>((i * 7919) % 33001) / 64 - 200;
  x.data<float>()[33000 + 20000] = std::nanf("");
  const auto graph = graph::parse("graph \"g\"(%x: f32[2, 33000]) {\n  %y: f32[2, 33000] = logcumsumexp(%x, 1)\n  return %y\n}");
  const auto got = interpret(p, {{x}}).at(0).to_vector(), want = graph::interpret(*graph, {{x}}).at(0).to_vector();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_TRUE((std::isnan(got[i]) && std::isnan(want[i])) || std::fabs(got[i] - want[i]) <= 1e-4)
        << i << ": " << got[i] << " " << want[i];
  EXPECT_TRUE(std::isnan(want.back()) && !std::isnan(want[53000 - 1]));
}

TEST(ProgramScan, TextIsReadBack) {
  EXPECT_EQ(to_string(parse(kScan)), kScan);
  std::string wrong = kScan;
  wrong.replace(wrong.find("of totals"), 9, "of piles!");
  EXPECT_THROW(parse(wrong), UserError);
}

}  // namespace
}  // namespace toroid::program
