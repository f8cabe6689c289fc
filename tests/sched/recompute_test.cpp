// Which temporaries are computed again where they are read, and that results stay the same, bit by bit.
#include "sched/recompute.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "samples.h"

namespace toroid::sched {
namespace {

using program::Program;

constexpr int64_t kChainRows = 24, kChainColumns = 16, kChainAll = kChainRows * kChainColumns;

// %0 "x" and %1 "y" [24, 16] and %2 "m" [16] are inputs, %3 ... %3 + temporaries - 1 are temporaries of x's size, then come the outputs.
struct Chain {
  int temporaries, outputs;
  std::string nodes;
  const char* dtype = "f32";   // of x
  const char* stored = "f32";  // of temporaries
  const char* second = "f32";  // of the second one
};

Program chain_of(const Chain& t) {
  std::string text =
      fmt::format("program \"p\" {{\nbuffer %0 \"x\": {0}[{1}] input\nbuffer %1 \"y\": f32[{1}] input\nbuffer %2 \"m\": f32[{2}] input\n",
                  t.dtype, kChainAll, kChainColumns);
  int next = 3;
  for (int k = 0; k < t.temporaries; ++k)
    text += fmt::format("buffer %{} \"t{}\": {}[{}] temporary\n", next++, k, k == 1 ? t.second : t.stored, kChainAll);
  const int first = next;
  for (int k = 0; k < t.outputs; ++k) text += fmt::format("buffer %{} \"o{}\": f32[{}] output\n", next++, k, kChainAll);
  text += fmt::format("in %0 user \"x\": {0}[{1}, {2}]\nin %1 user \"y\": f32[{1}, {2}]\nin %2 user \"m\": f32[{2}]\n", t.dtype, kChainRows,
                      kChainColumns);
  for (int k = 0; k < t.outputs; ++k) text += fmt::format("out %{}: f32[{}, {}]\n", first + k, kChainRows, kChainColumns);
  std::string nodes = t.nodes;
  const std::string loop = "loop (", head = "loops parts [0] # \"n\"\n";
  for (size_t at = nodes.find(loop); at != nodes.npos; at = nodes.find(loop, at + head.size() + loop.size())) nodes.insert(at, head);
  Program p = program::parse(text + nodes + "}\n");
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

Tensor small_numbers(std::vector<int64_t> sizes, DType dtype, int64_t step) {
  std::vector<double> values(static_cast<size_t>(sizes[0] * (sizes.size() > 1 ? sizes[1] : 1)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(static_cast<int64_t>(i) * step % 31 - 15) / 8;
  return Tensor::of(values, std::move(sizes), dtype);
}

std::vector<std::vector<double>> bits_of(const Program& p) {
  const std::vector<Tensor> inputs = {small_numbers({kChainRows, kChainColumns}, p.buffers[0].dtype, 7),
                                      small_numbers({kChainRows, kChainColumns}, DType::F32, 11),
                                      small_numbers({kChainColumns}, DType::F32, 5)};
  std::vector<std::vector<double>> out;
  for (auto& t : program::interpret(p, inputs)) out.push_back(t.to_vector());
  return out;
}

std::string centred_by(const char* x = "f32", int stored = 3) {
  return fmt::format(
      "loop (i0: 24, i1: 16) {{\nv0: {} = load %0 [16*i0 + i1]\nv1: f32 = Cast v0\nv2: f32 = load %2 [i1]\nv3: f32 = Sub v1 v2\nstore %{} "
      "[16*i0 + i1] v3\n}}\n",
      x, stored);
}
std::string reader(const std::string& load, int out, const std::string& head = "loop (i0: 24, i1: 16)") {
  return fmt::format("{} {{\n{}v1: f32 = Exp v0\nstore %{} [16*i0 + i1] v1\n}}\n", head, load, out);
}
const std::string kPlain = "v0: f32 = load %3 [16*i0 + i1]\n";

struct Recomputed {
  const char* name;
  size_t recomputed;
  Chain text;
};

const Recomputed kRecomputed[] = {
    {"two readers of a narrower input", 1, {1, 2, centred_by("bf16") + reader(kPlain, 4) + reader(kPlain, 5), "bf16"}},
    {"one reader, which loads it as it is", 1, {1, 1, centred_by("bf16") + reader(kPlain, 4), "bf16"}},
    {"readers in another order of loops",
     1,
     {1, 2, centred_by() + reader(kPlain, 4) + reader("v0: f32 = load %3 [16*i0 + i1]\n", 5, "loop (i1: 16, i0: 24)")}},
    {"a reader of other elements", 1, {1, 1, centred_by("bf16") + reader("v0: f32 = load %3 [-16*i0 - i1 + 383]\n", 4), "bf16"}},
    {"a reader that would have to divide for the column",
     0,
     {1, 1, centred_by("bf16") + "loop (i0: 384) {\nv0: f32 = load %3 [i0]\nv1: f32 = Exp v0\nstore %4 [i0] v1\n}\n", "bf16"}},
    {"a function of it is dear",
     0,
     {1, 2, "loop (i0: 384) {\nv0: f32 = load %0 [i0]\nv1: f32 = Exp v0\nstore %3 [i0] v1\n}\n" + reader(kPlain, 4) + reader(kPlain, 5)}},
    {"what it is made of is larger",
     0,
     {1, 2,
      "loop (i0: 384) {\nv0: f32 = load %0 [i0]\nv1: f32 = load %1 [i0]\nv2: f32 = Add v0 v1\nstore %3 [i0] v2\n}\n" + reader(kPlain, 4) +
          reader(kPlain, 5)}},
    {"under a mask",
     0,
     {1, 1,
      centred_by("bf16") +
          "loop (i0: 24, i1: 16) {\nv0: i64 = index [i1]\nv1: i64 = const 3\nv2: bool = Lt v0 v1\nv3: f32 = load %3 [16*i0 + "
          "i1] if v2\nstore %4 [16*i0 + i1] v3\n}\n",
      "bf16"}},
    {"rounded on its way: rounded again",
     1,
     {1, 1,
      "loop (i0: 24, i1: 16) {\nv0: bf16 = load %0 [16*i0 + i1]\nv1: f32 = Cast v0\nv2: f32 = load %2 [i1]\nv3: f32 = Mul v1 v2\nv4: bf16 = "
      "Cast v3\nstore %3 [16*i0 + i1] v4\n}\n"
      "loop (i0: 24, i1: 16) {\nv0: bf16 = load %3 [16*i0 + i1]\nv1: f32 = Cast v0\nv2: f32 = Exp v1\nstore %4 [16*i0 + i1] v2\n}\n",
      "bf16", "bf16"}},
    {"read many times an element",
     0,
     {1, 1,
      centred_by("bf16") +
          "loop (i0: 24, i1: 16, r r0: 16) {\nv0: f32 = load %3 [16*i0 + r0]\nv1: f32 = reduce sum v0\nstore %4 [16*i0 + i1] v1\n}\n",
      "bf16"}},
    {"what is loaded is written between them",
     0,
     {1, 1, centred_by() + "loop (i0: 384) {\nv0: f32 = const 1\nstore %0 [i0] v0\n}\n" + reader(kPlain, 4)}},
    {"made of a temporary that would be held in its place",
     1,
     {2, 1,
      "loop (i0: 384) {\nv0: f32 = load %0 [i0]\nv1: f32 = Exp v0\nstore %4 [i0] v1\n}\n"
      "loop (i0: 384) {\nv0: f32 = load %4 [i0]\nv1: f32 = Neg v0\nstore %3 [i0] v1\n}\n" +
          reader(kPlain, 5)}},
};

// A loop whose first result is dear, and stored; its second follows from it by the numbers of a row.
std::string dear_and_product(const std::string& stored, const std::string& mask = "") {
  return "loop (i0: 24, i1: 16) {\nv0: f32 = load %0 [16*i0 + i1]\nv1: f32 = Exp v0\nv2: bf16 = Cast v1\nv3: i64 = const 3\nv4: i64 = index [i1]\n"
         "v5: bool = Lt v4 v3\nstore %4 [16*i0 + i1] " +
         stored + mask + "\nv7: f32 = load %2 [i1]\nv8: f32 = Mul v1 v7\nstore %3 [16*i0 + i1] v8\n}\n";
}

const Recomputed kReadBack[] = {
    {"what it follows from is stored beside it", 1, {2, 1, dear_and_product("v1") + reader(kPlain, 5)}},
    {"and read by others, too",
     1,
     {2, 2, dear_and_product("v1") + reader(kPlain, 5) + reader("v0: f32 = load %4 [-16*i0 - i1 + 383]\n", 6)}},
    {"stored under a mask", 0, {2, 1, dear_and_product("v1", " if v5") + reader(kPlain, 5)}},
    {"written again between them",
     0,
     {2, 1, dear_and_product("v1") + "loop (i0: 384) {\nv0: f32 = const 1\nstore %4 [i0] v0\n}\n" + reader(kPlain, 5)}},
};

void expect_recomputed(std::span<const Recomputed> cases) {
  for (auto& c : cases) {
    const Program given = chain_of(c.text);
    Program made = given;
    EXPECT_EQ(recompute(made, 256).size(), c.recomputed) << c.name;
    program::verify(made, program::Stage::Scheduled, c.name);
    EXPECT_EQ(bits_of(given), bits_of(made)) << c.name;
    if (c.recomputed == 0) {
      EXPECT_EQ(made.buffers.size(), given.buffers.size()) << c.name;
    }
  }
}

TEST(Recompute, ReadsBackWhatIsStoredBesideIt) { expect_recomputed(kReadBack); }

// A loop whose result follows from the sums of its rows, which it stores nowhere, or only one of them.
std::string distance_from_mean(const std::string& x = "f32", const std::string& more = "") {
  return "loop (i0: 24, r i1: 16) {\nv0: " + x +
         " = load %0 [16*i0 + i1]\nv1: f32 = Cast v0\nv2: f32 = reduce sum v1\nv3: f32 = const 16\nv4: f32 = Div v2 v3\n"
         "v5: f32 = Sub v1 v4\nv6: f32 = reduce max v1\nv7: f32 = Mul v5 v6\nstore %3 [16*i0 + i1] v7\n" +
         more + "}\n";
}

std::string zeros(int buffer) { return fmt::format("loop (i0: 384) {{\nv0: f32 = const 0\nstore %{} [i0] v0\n}}\n", buffer); }

const Recomputed kWithRows[] = {
    {"sums of rows get a place", 1, {1, 1, distance_from_mean() + reader(kPlain, 4)}},
    {"those that have one keep it", 1, {1, 2, zeros(5) + distance_from_mean("bf16", "store %5 [i0] v6\n") + reader(kPlain, 4), "bf16"}},
    {"columns of it are folded",
     1,
     {1, 1,
      zeros(4) + distance_from_mean() +
          "loop (r i0: 24, i1: 16) {\nv0: f32 = load %3 [16*i0 + i1]\nv1: f32 = reduce sum v0\nstore %4 [i1] v1\n}\n"}},
    {"what the rows are of is written between them",
     0,
     {1, 1, distance_from_mean() + "loop (i0: 384) {\nv0: f32 = const 1\nstore %0 [i0] v0\n}\n" + reader(kPlain, 4)}},
    {"rows that are as large as what follows from them",
     0,
     {1, 1,
      "loop (i0: 24, i1: 16, r r0: 2) {\nv0: f32 = load %0 [8*i0 + r0]\nv1: f32 = reduce sum v0\nv2: f32 = load %2 [i1]\nv3: f32 = Mul v1 v2\n"
      "store %3 [16*i0 + i1] v3\n}\n" +
          reader(kPlain, 4)}},
};

TEST(Recompute, KeepsRowsToReadThemBack) { expect_recomputed(kWithRows); }

// The loop was fused of one that stores a half and one that reads it: what follows is rounded once more.
TEST(Recompute, ReadsBackHalves) {
  const Program given = chain_of({2, 1, dear_and_product("v2") + reader(kPlain, 5), "f32", "f32", "bf16"});
  Program made = given;
  EXPECT_EQ(recompute(made, 256).size(), 1u);
  program::verify(made, program::Stage::Scheduled, "halves");
  const auto before = bits_of(given), after = bits_of(made);
  size_t rounded = 0;
  for (size_t i = 0; i < before[0].size(); ++i) {
    EXPECT_NEAR(std::log(after[0][i]), std::log(before[0][i]), 0x1p-7 * std::abs(std::log(before[0][i])) + 1e-6) << i;
    rounded += after[0][i] != before[0][i];
  }
  EXPECT_GT(rounded, 0u);
}

TEST(Recompute, TakesWhatIsCheapAndMovesLess) {
  for (auto& c : kRecomputed) {
    const Program given = chain_of(c.text);
    Program made = given;
    const auto lines = recompute(made, 256);
    EXPECT_EQ(lines.size(), c.recomputed) << c.name;
    program::verify(made, program::Stage::Scheduled, c.name);
    EXPECT_EQ(bits_of(given), bits_of(made)) << c.name;
    Program small = given;
    EXPECT_TRUE(recompute(small, kChainAll * 8).empty()) << c.name << ": too small";
  }
}

// Chains of loops over what was there before, of all that a loop may do with it: results keep their bits.
TEST(Recompute, RandomProgramsKeepTheirBits) {
  size_t recomputed = 0;
  for (unsigned seed = 0; seed < test::samples(300u); ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    constexpr int kTemporaries = 4, kOutputs = 2;
    std::string nodes;
    for (int k = 0; k < kTemporaries + kOutputs; ++k) {
      const auto source = [&] { return k == 0 ? pick(2) : pick(4) == 0 ? pick(2) : 3 + pick(std::min(k, kTemporaries)); };
      const bool flat = pick(4) == 0;
      const std::string place = flat ? "i0" : pick(5) == 0 ? "-16*i0 + i1 + 368" : "16*i0 + i1";
      std::string body = fmt::format("v0: f32 = load %{} [{}]\nv1: f32 = load %{} [{}]\nv2: f32 = load %2 [{}]\n", source(), place,
                                     source(), pick(3) == 0 && !flat ? "16*i0 + i1" : place, flat ? "3" : "i1");
      const char* ops[] = {"Add v0 v2", "Mul v1 v2", "Sub v0 v1", "Exp v2", "Max v0 v1"};
      body += fmt::format("v3: f32 = {}\n", ops[pick(5)]);
      if (pick(3) == 0 && !flat) {
        nodes += fmt::format("loop (i0: 24, r i1: 16) {{\n{}v4: f32 = reduce max v3\nv5: f32 = Mul v4 v0\nstore %{} [16*i0 + i1] v5\n}}\n",
                             body, 3 + k);
      } else {
        nodes += fmt::format("loop ({}) {{\n{}store %{} [{}] v3\n}}\n",
                             flat      ? "i0: 384"
                             : pick(2) ? "i0: 24, i1: 16"
                                       : "i1: 16, i0: 24",
                             body, 3 + k, flat ? "i0" : "16*i0 + i1");
      }
    }
    const Program given = chain_of({kTemporaries, kOutputs, nodes});
    Program made = given;
    recomputed += recompute(made, 256).size();
    program::verify(made, program::Stage::Scheduled, "recompute");
    ASSERT_EQ(bits_of(given), bits_of(made)) << "seed " << seed << "\n" << program::to_string(given) << "\n" << program::to_string(made);
  }
  EXPECT_GT(recomputed, test::samples(60u)) << "the programs have little that is computed again";
}

}  // namespace
}  // namespace toroid::sched
