// Which loops over inputs become one node, and that results stay the same.
#include "sched/foreach.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::sched {
namespace {

using program::Program;

// Whose loops over one variable have one key each operation.
struct Foreach : target::Target {
  Foreach() : Target({}) {}
  std::string foreach_key(const program::Node& n) const override {
    return n.domain.vars.size() == 1 ? std::to_string(n.body.steps.size()) : "";
  }
  bool foreach_takes(const program::Node&, size_t) const override { return true; }
};

// Two parameters of 8 elements, read as halves in the forward pass, and updated; `between` stands behind the first cast.
Program step_of(bool updates, const std::string& between, const char* narrow = "bf16") {
  std::string text = "program \"p\" {\n";
  for (int k = 0; k < 2; ++k) text += fmt::format("buffer %{} \"p{}\": f32[8] input\n", k, k);
  for (int k = 2; k < 4; ++k) text += fmt::format("buffer %{} \"half{}\": {}[8] temporary\n", k, k, narrow);
  text += "buffer %4 \"out\": f32[8] output\nin %0 user \"p0\": f32[8]\nin %1 user \"p1\": f32[8]\nout %4: f32[8]\n";
  const std::string head = "loops parts [0] # \"n\"\nloop (i0: 8) {\n";
  const auto cast = [&](int from, int to) {
    return head + fmt::format("v0: f32 = load %{} [i0]\nv1: {} = Cast v0\nstore %{} [i0] v1\n}}\n", from, narrow, to);
  };
  text += cast(0, 2) + between + cast(1, 3) + head +
          fmt::format(
              "v0: {0} = load %2 [i0]\nv1: f32 = Cast v0\nv2: {0} = load %3 [i0]\nv3: f32 = Cast v2\nv4: f32 = Mul v1 v3\nstore %4 "
              "[i0] v4\n}}\n",
              narrow);
  for (int k = 0; updates && k < 2; ++k)
    text += head +
            fmt::format(
                "v0: f32 = load %{0} [i0]\nv1: f32 = load %4 [i0]\nv2: f32 = Sub v0 v1\nv3: f32 = Mul v2 v2\nstore %{0} [i0] v3\n}}\n", k);
  Program p = program::parse(text + "}\n");
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

std::vector<double> results_of_step(const Program& p) {
  std::vector<Tensor> in;
  for (int k = 0; k < 2; ++k) in.push_back(Tensor::of({1.01, 2.02, -3, 0.5, 7, 1e-3, -2, 4}, {8}, DType::F32));
  std::vector<double> out = program::interpret(p, in)[0].to_vector();
  for (auto& t : in)
    for (double v : t.to_vector()) out.push_back(v);
  return out;
}

TEST(Foreach, JoinsWhatNarrowsInputsThatAreUpdated) {
  const std::string writes = "loops parts [0] # \"n\"\nloop (i0: 8) {\nv0: f32 = const 2\nstore %1 [i0] v0\n}\n";
  const struct {
    const char* name;
    Program program;
    size_t nodes;
  } cases[] = {{"updated", step_of(true, ""), 3},
               {"only read: what is narrowed need not all be held at once", step_of(false, ""), 3},
               {"written between them", step_of(true, writes), 5},
               {"no fewer bytes", step_of(true, "", "f32"), 4}};
  for (auto& c : cases) {
    const Program made = join_updates(c.program, Foreach());
    program::verify(made, program::Stage::Scheduled, c.name);
    EXPECT_EQ(made.nodes.size(), c.nodes) << c.name;
    EXPECT_EQ(results_of_step(made), results_of_step(c.program)) << c.name;
  }
}

}  // namespace
}  // namespace toroid::sched
