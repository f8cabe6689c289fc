// Each pass over programs by one example: tests/data/programs/<pass>.txt becomes <pass>.expected.txt, which means the same.
// TOROID_TEST_UPDATE=1 writes what the passes give instead.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "program/dead_code.h"
#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "sched/absorb.h"
#include "sched/channels_last.h"
#include "sched/decompose_k.h"
#include "sched/decompose_mm.h"
#include "sched/factor_sums.h"
#include "sched/fuse.h"
#include "sched/layout.h"
#include "sched/mm_plus_mm.h"
#include "sched/pair.h"
#include "sched/recompute.h"
#include "sched/share.h"
#include "sched/split.h"
#include "sched/sum_columns.h"

namespace toroid::sched {
namespace {

using program::Program;

// Lets every product compute its rows, have a second operand and sum its columns.
struct Willing : target::Target {
  Willing() : Target({}) {}
  std::string producer_refusal(const program::Node& product) const override { return recompute_refusal(product, 1); }
  std::string pair_refusal(const program::Node&) const override { return ""; }
  std::string sums_refusal(const program::Node&, const program::Program&) const override { return ""; }
};

struct Pass {
  const char* name;
  Program (*run)(Program);
};

constexpr Pass kPasses[] = {
    {"fuse", [](Program p) { return fuse(std::move(p)); }},
    {"fuse_adds", [](Program p) { return fuse(std::move(p)); }},
    {"fuse_template_adds", [](Program p) { return fuse(std::move(p)); }},
    {"absorb", [](Program p) { return absorb_producers(std::move(p), Willing()); }},
    {"split", [](Program p) { return split_reductions(std::move(p), 2); }},
    {"split_checks", [](Program p) { return split_reductions(std::move(p), 2); }},
    {"pair", [](Program p) { return pair_products(std::move(p), Willing()); }},
    {"share", [](Program p) { return share_launches(std::move(p)); }},
    {"decompose_k",
     [](Program p) {
       decompose_k(p, 0, 2);
       return p;
     }},
    {"decompose_mm",
     [](Program p) {
       for (auto& n : p.nodes) decompose_mm(n);
       return p;
     }},
    {"mm_plus_mm",
     [](Program p) {
       mm_plus_mm(p, 1);
       return p;
     }},
    {"pad_mm",
     [](Program p) {
       lay_out(p, 0, {"pad_mm", {{"a", 8}, {"b", 8}}});
       return p;
     }},
    {"channels_last",
     [](Program p) {
       channels_last(p, 0, {"channels_last", {{"multiple", 4}}});
       return p;
     }},
    {"factor_sums",
     [](Program p) {
       factor_sums(p);
       return p;
     }},
    {"recompute",
     [](Program p) {
       recompute(p, 1024);
       return p;
     }},
    {"sum_columns",
     [](Program p) {
       sum_columns(p, Willing(), 1, 1);
       return p;
     }},
    {"dead_code",
     [](Program p) {
       program::eliminate_dead(p);
       return p;
     }},
};

// Results on small numbers; constants have some, too.
std::vector<Tensor> results_of(Program p) {
  std::vector<Tensor> inputs;
  for (auto& in : p.inputs) {
    std::vector<int64_t> sizes;
    for (auto& s : in.type.sizes) sizes.push_back(s.maybe_constant().value_or(5));
    Tensor t = Tensor::full(sizes, 0, in.type.dtype);
    const Tensor numbers = t.dtype() == DType::F32 ? t : Tensor::full(sizes, 0);
    for (int64_t i = 0; i < numbers.numel(); ++i)
      numbers.data<float>()[i] = in.type.dtype == DType::I64 ? 0 : static_cast<float>((i * 7 + 3) % 17 - 8) / 8;
    copy_elements(numbers, t);
    if (in.kind == graph::InputKind::User)
      inputs.push_back(t);
    else
      in.data = t;
  }
  return program::interpret(p, inputs);
}

class PassText : public testing::TestWithParam<Pass> {};

TEST_P(PassText, GivesWhatIsExpected) {
  const Pass& pass = GetParam();
  const std::string stem = std::string(TOROID_SOURCE_DIR "/tests/data/programs/") + pass.name;
  const Program given = program::parse(read_file(stem + ".txt"));
  program::verify(given, program::Stage::Scheduled, "reading it");
  const Program made = pass.run(given);
  program::verify(made, program::Stage::Scheduled, pass.name);
  const std::string text = program::to_string(made);
  EXPECT_NE(text, program::to_string(given)) << "the pass did nothing";
  const auto before = results_of(given), after = results_of(made);
  for (size_t i = 0; i < before.size(); ++i) {
    const auto x = before[i].to_vector(), y = after.at(i).to_vector();
    ASSERT_EQ(x.size(), y.size());
    for (size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-5 * (1 + std::abs(x[k]))) << "element " << k << " of result " << i;
  }
  if (std::getenv("TOROID_TEST_UPDATE")) std::ofstream(stem + ".expected.txt") << text;
  EXPECT_EQ(text, read_file(stem + ".expected.txt"));
}

INSTANTIATE_TEST_SUITE_P(Sched, PassText, testing::ValuesIn(kPasses), [](auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace toroid::sched
