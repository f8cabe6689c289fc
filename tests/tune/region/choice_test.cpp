// Decisions as text, and what they do to programs.
#include "tune/region/choice.h"

#include <gtest/gtest.h>

#include "errors.h"
#include "tune/programs.h"

namespace toroid::tune {
namespace {

TEST(Choice, TextAndBack) {
  const Choice all[] = {
      {},
      {{{0, {"gemm_wgmma", {{"block_m", 128}, {"split", 2}}}}}, {}},
      {{{0, {"alternative one shot", {}}}, {3, {"cublaslt", {{"algo", 1}}}}}, {{0, 1}, {0, 2}}},
      {{}, {{4, 5}}},
      {{{1, {"alternative ring", {{"to", 9}}}}, {1, {"alternative tree", {{"from", 10}}}}}, {}},
      {{{0, {"alternative variant 2 (split=4, by=tree)", {}}}}, {}},
  };
  for (auto& d : all) EXPECT_EQ(parse_choice(to_string(d)), d) << to_string(d);
  EXPECT_EQ(to_string(all[0]), "default");
  EXPECT_EQ(to_string(all[2]), "0: alternative one shot(); 3: cublaslt(algo=1); apart 0-1, 0-2");
  EXPECT_EQ(to_string(all[4]), "1: alternative ring(to=9); 1: alternative tree(from=10)");
}

TEST(Choice, BadTextIsAnErrorThatSaysWhatIsWrong) {
  for (const char* text : {"", "0: gemm", "x: gemm()", "0 gemm()", "apart 1", "apart a-b", "0: gemm(block=)", "0: gemm(block_m=12x)"})
    EXPECT_THROW(parse_choice(text), UserError) << text;
  EXPECT_NE(test::error_of<UserError>([] { parse_choice("0: gemm(block=x)"); }).find("a value that is no number"), std::string::npos);
}

TEST(Choice, ForAnotherProgramIsAnError) {
  const program::Program p = chain_of_loops(2);
  EXPECT_NE(test::error_of<UserError>([&] {
              apply(p, {{{7, {"gemm", {}}}}, {}}, {0, 1});
            }).find("made for another one"),
            std::string::npos);
  EXPECT_NE(test::error_of<UserError>([&] {
              apply(p, {{{0, {"alternative a", {}}}}, {}}, {0, 1});
            }).find("has no alternatives"),
            std::string::npos);
  EXPECT_NE(test::error_of<UserError>([&] {
              apply(p, {{{0, {"decompose_k", {{"splits", 2}}}}}, {}}, {0, 1});
            }).find("it is no product"),
            std::string::npos);
}

TEST(Choice, NodesThatAreApartAreNotJoined) {
  const program::Program p = chain_of_loops(3);
  EXPECT_EQ(sched::fuse(p).nodes.size(), 1u);
  const program::Program cut = sched::fuse(apply(p, {{}, {{0, 1}, {0, 2}}}, {0, 1, 2}));
  ASSERT_EQ(cut.nodes.size(), 2u);
  EXPECT_EQ(cut.nodes[0].parts, std::vector<int>{0});
  EXPECT_EQ(cut.nodes[1].parts, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace toroid::tune
