// Programs as text: what is printed is read back, and what cannot be read is refused with its place.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "errors.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::program {
namespace {

const std::filesystem::path kPrograms = TOROID_SOURCE_DIR "/tests/data/programs";

// A program of one loop, whose pieces tests put other things in the place of.
std::string with(const std::string& from, const std::string& to) {
  std::string text =
      "program \"p\" symbols(s0 in 1..9) {\nbuffer %0 \"x\": f32[s0] input\nbuffer %1 \"y\": f32[s0] output\nin %0 user \"x\": f32[s0]\n"
      "out %1: f32[s0]\nloops # \"abs\"\nloop (i0: s0) {\n  v0: f32 = load %0 [i0]\n  v1: f32 = Abs v0\n  store %1 [i0] v1\n}\n}\n";
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ProgramText, ReadsBackAsItIs) {
  int count = 0;
  for (auto& entry : std::filesystem::directory_iterator(kPrograms)) {
    const std::string text = read_file(entry.path());
    SCOPED_TRACE(entry.path().string());
    const Program p = parse(text);
    EXPECT_EQ(to_string(p), text);
    ++count;
    EXPECT_EQ(to_string(parse(to_string(p, false)), false), to_string(p, false));
  }
  EXPECT_GT(count, 10);
}

TEST(ProgramText, HoldsWhatItSays) {
  const Program p = parse(read_file(kPrograms / "kinds.txt"));
  ASSERT_EQ(p.nodes.size(), 6u);
  EXPECT_TRUE(p.symbols[1].unbacked);
  EXPECT_EQ(p.inputs[2].name, "table \"of\" rows");
  EXPECT_EQ(p.inputs[4].draws, p.symbols[0].expr * 8);
  EXPECT_EQ(p.outputs[2].mutates, 3);
  EXPECT_EQ(p.sites[1], (IndexSite{"take", "", -1, true}));
  EXPECT_TRUE(std::get<Sort>(p.nodes[0].problem).descending);
  EXPECT_EQ(p.nodes[1].origins, (std::vector<std::string>{"embedding", "add"}));
  EXPECT_EQ(p.nodes[1].where, "model.cpp:3");
  EXPECT_EQ(p.nodes[1].body.steps[1].step, loop::Step::Check);
  EXPECT_EQ(sym::bounds(p.nodes[1].body.steps[2].index).hi, 4 * 2 + 3) << "of what is known of the value";
  EXPECT_TRUE(std::get<Attention>(p.nodes[2].problem).causal);
  EXPECT_EQ(std::get<Extern>(p.nodes[4].problem).blocks.size(), 2u);
  const auto& open = std::get<Open>(p.nodes[5].problem);
  EXPECT_EQ(open.alternatives.at(0).options, (OptionValues{{"gemm_backends", "template"}}));
  EXPECT_EQ(open.alternatives[0].graph->nodes.size(), 1u);
  EXPECT_EQ(open.refused.at(0).reason, "takes no f32");
  EXPECT_EQ(p.apart, (std::vector<std::pair<int, int>>{{0, 1}}));
  const Program library = parse(read_file(kPrograms / "library.txt"));
  EXPECT_EQ(library.nodes[0].by, Implementation::OneDnn);
  EXPECT_EQ(library.nodes[1].config.at("block_n"), 64);
  EXPECT_EQ(library.nodes[1].options->at(0).second, "template");
}

// Sums are written in the order in which variables were made, whatever order the domain has.
TEST(ProgramText, KeepsTheOrderOfVariables) {
  const Expr first = sym::loop_symbol("a", 4), second = sym::loop_symbol("b", 3);
  for (const bool turned : {false, true}) {
    loop::Nest nest;
    nest.domain.vars = {{first, false}, {second, false}};
    if (turned) std::swap(nest.domain.vars[0], nest.domain.vars[1]);
    loop::BodyBuilder b(nest.body);
    b.store(1, DType::F32, first + second * 4, b.load(0, DType::F32, first + second * 4));
    const std::string text = loop::to_string(nest.domain, nest.body);
    EXPECT_EQ(text.find("order (a, b)") != std::string::npos, turned) << text;
    const loop::Nest again = loop::parse(text);
    EXPECT_EQ(loop::to_string(again.domain, again.body), text);
  }
}

TEST(ProgramText, SaysWhatItExpectedAndWhere) {
  struct Case {
    std::string text, says;
  };
  const Case cases[] = {
      {"", "line 1, column 1: expected \"program\""},
      {with("loops #", "loops"), "line 6, column 7: expected \"#\""},
      {with("f32[s0] input", "f32[s0] inputs"), "line 2, column 24: expected a kind of buffer"},
      {with("f32[s0] input", "f99[s0] input"), "line 2, column 16: "},
      {with("f32[s0] input", "f32[s1] input"), "line 2, column 20: the symbol \"s1\" is not declared"},
      {with("f32[s0] input", "f32[s0, 2] input"), "line 2, column 19: 1 sizes are expected"},
      {with("s0 in 1..9", "s0 in 9..1"), "line 1, column 21: the range is empty"},
      {with("s0 in 1..9", "s0 in 1..9, s0 in 1..9"), "the symbol s0 is declared twice"},
      {with("out %1", "out %99999999999"), "line 5, column 6: the number is too large"},
      {with("loops # \"abs\"", "loop # \"abs\""), "line 6, column 1: expected a buffer, an input, an output or a node"},
      {with("loops # \"abs\"", "loops # \"abs"), "line 6, column 13: a string ends in the same line"},
      {with("loops # \"abs\"", "loops as \"x\" # \"abs\""), "is no configuration of a template"},
      {with("loops # \"abs\"", "gemm [1, 2] a=none"), "line 6, column 6: at least m, n and k are expected"},
      {with("loops # \"abs\"", "call nosuch()"), "line 6, column 6: there is no operation \"nosuch\""},
      {with("loops # \"abs\"", "sort [] first"), "line 6, column 6: the length of a row is expected"},
      {with("Abs v0", "Abs v1"), "v1 is used before it is defined"},
      {with("Abs v0", "Absolute v0"), "line 9, column 13: "},
      {with("store %1 [i0]", "store %1 [i0"), "expected \"]\""},
      {with("load %0 [i0]", "load %0 [i0 + (2 + i0)]"), "parentheses belong only to functions"},
      {with("load %0 [i0]", "load %0 [i0] where v0 in 0..1"), "v0 is used before it is defined"},
      {with("(i0: s0)", "(i0: s0) order (i1)"), "line 7, column 15: the order must list each variable once"},
      {with("v0: f32 = load", "v0: c64 = load"), "line 8, column 7: loops compute no complex numbers"},
      {with("}\n}\n", "}\n"), "line 12, column 1: "},
      {with("}\n}\n", "}\n}\nx"), "line 13, column 1: expected the end of the text"},
  };
  for (auto& c : cases) {
    const std::string said = test::user_error([&] { parse(c.text); });
    EXPECT_NE(said.find(c.says), std::string::npos) << "expected: " << c.says << "\nsaid: " << said << "\n" << c.text;
  }
}

TEST(ProgramText, HasALimitOfDepth) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "program \"p\" {\nchoose silu () -> () # \"s\"\nalternative \"a\" key \"\" options() ";
  EXPECT_NE(test::user_error([&] { parse(text); }).find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace toroid::program
