// Which temporaries take the memory of others, and that results stay the same.
#include "sched/reuse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::sched {
namespace {

using program::Program;

constexpr int64_t kSide = 512;  // f32: 1 MiB

// %0 "x" [512, 512] is the input, %1 and %2 are temporaries of its size, %3 the result. The first node makes %1 of %0.
Program chain(const std::string& second, const std::string& third, const char* dtype = "f32") {
  const std::string n = std::to_string(kSide * kSide);
  std::string text = "program \"p\" {\nbuffer %0 \"x\": f32[" + n + "] input\nbuffer %1 \"a\": f32[" + n +
                     "] temporary\nbuffer %2 \"b\": " + std::string(dtype) + "[" + n + "] temporary\nbuffer %3 \"y\": f32[" + n +
                     "] output\n";
  text += "in %0 user \"x\": f32[512, 512]\nout %3: f32[512, 512]\n";
  text += "loops parts [0] # \"a\"\nloop (i0: 262144) {\nv0: f32 = load %0 [i0]\nv1: f32 = Exp v0\nstore %1 [i0] v1\n}\n";
  const Program p = program::parse(text + second + third + "}\n");
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

std::vector<double> result_of(const Program& p) {
  std::vector<double> values(static_cast<size_t>(kSide * kSide));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 31) / 31;
  return program::interpret(p, std::vector<Tensor>{Tensor::of(values, std::vector<int64_t>{kSide, kSide})})[0].to_vector();
}

struct Case {
  const char *name, *second;
  int reused;
  const char* dtype = "f32";
};

const Case kCases[] = {
    {"each element", "loop (i0: 262144) {\nv0: f32 = load %1 [i0]\nv1: f32 = Sqrt v0\nstore %2 [i0] v1\n}\n", 1},
    {"another element", "loop (i0: 262144) {\nv0: f32 = load %1 [-i0 + 262143]\nv1: f32 = Sqrt v0\nstore %2 [i0] v1\n}\n", 0},
    {"of another dtype", "loop (i0: 262144) {\nv0: f32 = load %1 [i0]\nv1: f64 = Cast v0\nstore %2 [i0] v1\n}\n", 0, "f64"},
    {"a row that was folded before",
     "loop (i0: 512, r r0: 512) {\nv0: f32 = load %1 [i0*512 + r0]\nv1: f32 = reduce sum v0\nv2: f32 = load %1 [i0*512 + r0]\nv3: f32 = Div v2 v1\nstore %2 "
     "[i0*512 + r0] v3\n}\n",
     1},
    {"a row by the sum of a column",
     "loop (i0: 512, r r0: 512) {\nv0: f32 = load %1 [r0*512 + i0]\nv1: f32 = reduce sum v0\nv2: f32 = load %1 [i0*512 + r0]\nv3: f32 = Div v2 v1\nstore %2 "
     "[i0*512 + r0] v3\n}\n",
     0},
};

constexpr const char* kThird =
    "loops parts [2] # \"y\"\nloop (i0: 262144) {\nv0: {} = load %2 [-i0 + 262143]\nv1: f32 = Cast v0\nstore %3 [i0] v1\n}\n";

std::string third(const char* dtype) {
  std::string text = kThird;
  text.replace(text.find("{} ="), 2, dtype);
  if (std::string_view(dtype) == "f32") text.replace(text.find("v1: f32 = Cast v0\nstore %3 [i0] v1"), 35, "store %3 [i0] v0");
  return text;
}

TEST(Reuse, OfWhatTheLastReaderWritesElementByElement) {
  for (auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const Program before = chain(std::string("loops parts [1] # \"b\"\n") + c.second, third(c.dtype), c.dtype);
    Program p = before;
    EXPECT_EQ(reuse_temporaries(p), c.reused);
    program::verify(p, program::Stage::Scheduled, "reuse");
    if (c.reused) {
      EXPECT_EQ(result_of(p), result_of(before));
    }
    EXPECT_EQ(reuse_temporaries(p), 0);
  }
}

// The temporary lies in the output's memory from the beginning.
TEST(Reuse, OutputsHoldWhatTheyAreMadeOf) {
  const std::string second = "loops parts [1] # \"b\"\nloop (i0: 262144) {\nv0: f32 = load %1 [-i0 + 262143]\nstore %2 [i0] v0\n}\n";
  const Program before =
      chain(second, "loops parts [2] # \"y\"\nloop (i0: 262144) {\nv0: f32 = load %2 [i0]\nv1: f32 = Sqrt v0\nstore %3 [i0] v1\n}\n");
  Program p = before;
  EXPECT_EQ(reuse_temporaries(p), 1);
  EXPECT_EQ(program::writes(p.nodes[1]), std::vector<int>{3});
  EXPECT_EQ(result_of(p), result_of(before));
}

TEST(Reuse, NotOfWhatIsReadLater) {
  const std::string second =
      "loops parts [1] # \"b\"\nloop (i0: 262144) {\nv0: f32 = load %1 [i0]\nv1: f32 = Sqrt v0\nstore %2 [i0] v1\n}\n";
  Program p = chain(
      second,
      "loops parts [2] # \"y\"\nloop (i0: 262144) {\nv0: f32 = load %1 [-i0 + 262143]\nv1: f32 = load %2 [-i0 + 262143]\nv2: f32 = Add v0 v1\nstore %3 [i0] "
      "v2\n}\n");
  EXPECT_EQ(reuse_temporaries(p), 0);
}

// Products whose epilogue adds what is there, and those that multiply it.
TEST(Reuse, InEpiloguesOfProducts) {
  const auto product = [](const char* a) {
    return fmt::format(
        "gemm [512, 512, 512] a={} f32[0, 512, 1] b=%0 f32[0, 512, 1] in f32 parts [1] # \"b\"\nloop (i0: 512, i1: 512) {{\nv0: f32 = accumulate\nv1: f32 = "
        "load %1 [i0*512 + i1]\nv2: f32 = Add v0 v1\nstore %2 [i0*512 + i1] v2\n}}\n",
        a);
  };
  Program adds = chain(product("%0"), third("f32")), multiplies = chain(product("%1"), third("f32"));
  EXPECT_EQ(reuse_temporaries(adds), 1);
  EXPECT_EQ(reuse_temporaries(multiplies), 0);
}

}  // namespace
}  // namespace toroid::sched
