// Branches and loops: compiled blocks give what the interpreter gives.
#include <fmt/core.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/options.h"
#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "toroid/random.h"

namespace toroid {
namespace {

using compiler::CompiledModel;

CompiledModel compiled(const std::string& text, const ModelOptions& options = {}) {
  return front::compile_model(graph::parse(text), options);
}

// Runs twice: the second time in memory that the first has used.
void check(const std::string& text, const std::vector<Tensor>& inputs, const ModelOptions& options = {}) {
  ScopedOption verify("verify_passes", "1");
  auto want = graph::interpret(*graph::parse(text), inputs);
  auto m = compiled(text, options);
  for (int run = 0; run < 2; ++run) {
    auto got = m.run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].sizes(), want[i].sizes());
      auto a = got[i].to_vector(), b = want[i].to_vector();
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-5 * (1 + std::abs(b[k]))) << "result " << i << " run " << run;
    }
  }
}

Tensor number(int64_t v, DType t = DType::I64) { return Tensor::of({static_cast<double>(v)}, {}, t); }
Tensor truth(bool v) { return number(v, DType::Bool); }

const exec::Plan& block_plan(CompiledModel& m, size_t which) {
  for (auto& s : m.executable().plan().steps) {
    if (auto* b = std::get_if<exec::Branch>(&s)) return *b->blocks[which].plan;
    if (auto* l = std::get_if<exec::Loop>(&s)) return *l->blocks[which].plan;
  }
  throw std::runtime_error("no control flow");
}

TEST(ControlFlow, BranchesAreFusedInside) {
  const std::string text = R"(graph "c"(%p: bool[], %x: f32[33, 20]) {
    %h: f32[33, 20] = tanh(%x)
    %c: f32[33, 20], %d: f32[33, 20] = cond(%p, [%h, %x]) {
      graph "then"(%a: f32[33, 20], %b: f32[33, 20]) {
        %r: f32[33, 20] = mul.Tensor(%a, 2)
        %s: f32[33, 20] = exp(%r)
        %t: f32[33, 20] = add.Tensor(%s, %b)
        return %t, %b
      }
    } {
      graph "else"(%a: f32[33, 20], %b: f32[33, 20]) {
        return %b, %a
      }
    }
    %y: f32[33, 20] = add.Tensor(%c, %h)
    return %y, %c, %d
  })";
  Tensor x = test::counting({33, 20});
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead})
    for (bool p : {true, false}) check(text, {truth(p), x}, {.mode = mode});
  auto m = compiled(text);
  EXPECT_EQ(m.report().blocks, 2u);
  EXPECT_EQ(m.report().host_calls, 0u);
  EXPECT_EQ(block_plan(m, 0).steps.size(), 1u);
  EXPECT_EQ(block_plan(m, 1).steps.size(), 0u);
}

const char* const kPowers = R"(graph "w"(%i: i64[], %x: f32[8], %z: f32[8], %n: i64[]) {
  %j: i64[], %y: f32[8], %a: f32[8], %b: f32[8], %same: f32[8] = while_loop([%i, %x, %x, %z, %z], [%n]) {
    graph "go on"(%i: i64[], %x: f32[8], %a: f32[8], %b: f32[8], %same: f32[8], %n: i64[]) {
      %r: bool[] = lt.Tensor(%i, %n)
      return %r
    }
  } {
    graph "body"(%i: i64[], %x: f32[8], %a: f32[8], %b: f32[8], %same: f32[8], %n: i64[]) {
      %s: i64[] = add.Tensor(%i, 1)
      %t: f32[8] = mul.Tensor(%x, 2)
      %u: f32[8] = add.Tensor(%t, %same)
      return %s, %u, %b, %a, %same
    }
  }
  return %j, %y, %a, %b, %same
})";

TEST(ControlFlow, LoopsCarryTensors) {
  Tensor x = test::counting({8}), z = Tensor::full(std::vector<int64_t>{8}, 0.5);
  for (int64_t n : {0, 1, 2, 5}) check(kPowers, {number(0), x, z, number(n)});
  EXPECT_EQ(x.to_vector(), test::counting({8}).to_vector()) << "operands are not overwritten";
}

// The same made tensor in two places must not become the memory of two results of a later step.
TEST(ControlFlow, CarriedTensorsMayBecomeOne) {
  const std::string text = R"(graph "w"(%i: i64[], %x: f32[8], %z: f32[8]) {
    %j: i64[], %y: f32[8], %a: f32[8], %b: f32[8] = while_loop([%i, %x, %x, %z], tensors[]) {
      graph "go on"(%i: i64[], %x: f32[8], %a: f32[8], %b: f32[8]) {
        %r: bool[] = lt.Scalar(%i, 6)
        return %r
      }
    } {
      graph "body"(%i: i64[], %x: f32[8], %a: f32[8], %b: f32[8]) {
        %s: i64[] = add.Tensor(%i, 1)
        %t: f32[8] = add.Tensor(%x, %b)
        return %s, %t, %x, %x
      }
    }
    return %j, %y, %a, %b
  })";
  check(text, {number(0), test::counting({8}), Tensor::full(std::vector<int64_t>{8}, 0.5)});
}

TEST(ControlFlow, ScansStackWhatEachStepGives) {
  for (int64_t n : {0, 1, 6}) {
    const std::string text = fmt::format(R"(graph "s"(%i: f32[4], %xs: f32[4, {0}], %w: f32[4]) {{
      %t: f32[{0}, 4] = permute(%xs, dims=[1, 0])
      %c: f32[4], %y: f32[{0}, 4], %z: f32[{0}, 4], %q: f32[{0}] = scan([%i], [%t], [%w]) {{
        graph "step"(%a: f32[4], %b: f32[4], %w: f32[4]) {{
          %r: f32[4] = add.Tensor(%a, %b)
          %u: f32[4] = mul.Tensor(%r, %w)
          %v: f32[] = sum(%u)
          return %u, %u, %b, %v
        }}
      }}
      return %c, %y, %z, %q
    }})",
                                         n);
    check(text, {test::counting({4}), test::counting({4, n}), Tensor::full(std::vector<int64_t>{4}, 0.5)});
  }
}

TEST(ControlFlow, NestsAndKnowsTheSizesAround) {
  const std::string text = R"(graph "n"(%p: bool[], %x: f32[s0, 3], %n: i64[]) symbols(s0 in 2..inf) {
    %c: f32[s0, 3] = cond(%p, [%x, %n]) {
      graph "then"(%a: f32[s0, 3], %n: i64[]) {
        %i: i64[] = full([], fill_value=0, dtype=i64)
        %j: i64[], %y: f32[s0, 3] = while_loop([%i, %a], [%n]) {
          graph "go on"(%i: i64[], %b: f32[s0, 3], %n: i64[]) {
            %r: bool[] = lt.Tensor(%i, %n)
            return %r
          }
        } {
          graph "body"(%i: i64[], %b: f32[s0, 3], %n: i64[]) {
            %k: i64[] = add.Tensor(%i, 1)
            %o: f32[s0, 1] = full([s0, 1], fill_value=1.5, dtype=f32)
            %t: f32[s0, 3] = add.Tensor(%b, %o)
            return %k, %t
          }
        }
        return %y
      }
    } {
      graph "else"(%a: f32[s0, 3], %n: i64[]) {
        %e: i64[s0] = arange(s0)
        %u: i64[s0, 1] = unsqueeze(%e, dim=1)
        %t: f32[s0, 3] = sub.Tensor(%a, %u)
        return %t
      }
    }
    return %c
  })";
  for (int64_t rows : {2, 9})
    for (bool p : {true, false}) check(text, {truth(p), test::counting({rows, 3}), number(4)});
  EXPECT_EQ(compiled(text).report().blocks, 4u);
}

TEST(ControlFlow, SizesFromDataInsideAndAround) {
  const std::string text = R"(graph "u"(%p: bool[], %x: f32[10]) symbols(u0 unbacked in 0..inf) {
    %m: bool[10] = gt.Scalar(%x, 2.0)
    %some: f32[u0] = masked_select(%x, %m)
    %c: f32[u0], %d: f32[] = cond(%p, [%some, %x]) {
      graph "then"(%a: f32[u0], %x: f32[10]) symbols(u1 unbacked in 0..inf) {
        %m: bool[10] = lt.Scalar(%x, 2.0)
        %few: f32[u1] = masked_select(%x, %m)
        %s: f32[] = sum(%few)
        %r: f32[u0] = add.Tensor(%a, %s)
        return %r, %s
      }
    } {
      graph "else"(%a: f32[u0], %x: f32[10]) {
        %o: f32[u0] = full([u0], fill_value=3.0, dtype=f32)
        %t: f32[u0] = mul.Tensor(%a, %o)
        %s: f32[] = sum(%t)
        return %t, %s
      }
    }
    return %c, %d
  })";
  for (bool p : {true, false})
    for (double last : {-1.0, 8.0}) check(text, {truth(p), Tensor::of({1, 2, 3, 4, 5, -6, 7, 0, 0, last}, {10})});
}

TEST(ControlFlow, DrawsAreTheInterpreters) {
  const std::string text = R"(graph "r"(%i: i64[], %x: f32[100]) {
    %u: f32[100] = rand_like(%x)
    %j: i64[], %y: f32[100] = while_loop([%i, %u], tensors[]) {
      graph "go on"(%i: i64[], %a: f32[100]) {
        %r: bool[] = lt.Scalar(%i, 4)
        return %r
      }
    } {
      graph "body"(%i: i64[], %a: f32[100]) {
        %k: i64[] = add.Tensor(%i, 1)
        %d: f32[100] = dropout(%a, p=0.25, train=true)
        return %k, %d
      }
    }
    %v: f32[100] = rand_like(%x)
    return %y, %v
  })";
  auto m = compiled(text);
  std::vector<Tensor> inputs = {number(0), test::counting({100})};
  manual_seed(6);
  auto got = m.run(inputs);
  manual_seed(6);
  auto want = graph::interpret(*graph::parse(text), inputs);
  EXPECT_EQ(got[1].to_vector(), want[1].to_vector());
  for (size_t k = 0; k < 100; ++k) EXPECT_NEAR(got[0].to_vector()[k], want[0].to_vector()[k], 1e-6);
  EXPECT_EQ(default_generator().state().offset, 600);
  EXPECT_EQ(block_plan(m, 0).steps.size(), 1u) << "counter and dropout share a launch";
}

// What is fused around a call that draws must not bring it before, or behind, another one that draws.
TEST(ControlFlow, DrawsKeepTheirOrder) {
  const std::string text = R"(graph "o"(%xs: f32[3, 4], %x: f32[4]) {
    %m: f32[4] = mul.Tensor(%x, 2)
    %ys: f32[3, 4] = scan(tensors[], [%xs], [%m]) {
      graph "combine"(%a: f32[4], %m: f32[4]) {
        %u: f32[4] = rand_like(%a)
        %r: f32[4] = mul.Tensor(%u, %m)
        return %r
      }
    }
    %u: f32[4] = rand_like(%x)
    %v: f32[4] = mul.Tensor(%u, %x)
    %w: f32[4] = add.Tensor(%v, 1)
    return %ys, %w
  })";
  auto m = compiled(text);
  const std::vector<Tensor> inputs = {test::counting({3, 4}), test::counting({4})};
  manual_seed(6);
  const auto got = m.run(inputs);
  manual_seed(6);
  const auto want = graph::interpret(*graph::parse(text), inputs);
  for (size_t i : {0, 1})
    for (size_t k = 0; k < want[i].to_vector().size(); ++k) EXPECT_NEAR(got[i].to_vector()[k], want[i].to_vector()[k], 1e-6);
}

TEST(ControlFlow, WeightsAreConstantsOfBlocks) {
  auto g = graph::parse(R"(graph "w"(%i: i64[], %x: f32[64, 128], param %w: f32[128, 128]) {
    %j: i64[], %y: f32[64, 128] = while_loop([%i, %x], [%w]) {
      graph "go on"(%i: i64[], %a: f32[64, 128], %w: f32[128, 128]) {
        %r: bool[] = lt.Scalar(%i, 3)
        return %r
      }
    } {
      graph "body"(%i: i64[], %a: f32[64, 128], %w: f32[128, 128]) {
        %k: i64[] = add.Tensor(%i, 1)
        %b: f32[64, 128] = linear(%a, %w, bias=none)
        %c: f32[64, 128] = tanh(%b)
        return %k, %c
      }
    }
    return %y
  })");
  Tensor w = Tensor::empty({128, 128}, DType::F32);
  for (int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = static_cast<float>((i * 37 % 101) - 50) / 500;
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::Parameter) in.data = w;
  Tensor x = Tensor::full(std::vector<int64_t>{64, 128}, 0.25);
  auto want = graph::interpret(*g, std::vector{number(0), x})[0].to_vector();
  auto m = front::compile_model(graph::clone(*g));
  auto got = m.run(std::vector{number(0), x})[0].to_vector();
  for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-4);
  EXPECT_EQ(m.executable().plan().inputs.size(), 2u) << "the packed weights are the block's";
}

TEST(ControlFlow, WritesResultsToInputs) {
  const std::string text = R"(graph "b"(%p: bool[], %x: f32[4], %state: f32[4]) {
    %c: f32[4] = cond(%p, [%x, %state]) {
      graph "then"(%a: f32[4], %s: f32[4]) {
        %k: f32[4] = clone(%s)
        %r: f32[4] = add_.Tensor(%k, %a)
        return %r
      }
    } {
      graph "else"(%a: f32[4], %s: f32[4]) {
        return %s
      }
    }
    %n: f32[4] = mul.Tensor(%c, 2)
    return (input 2 <- %c), %n
  })";
  auto m = compiled(text);
  Tensor x = test::counting({4}), state = Tensor::full(std::vector<int64_t>{4}, 1);
  EXPECT_EQ(m.run(std::vector{truth(true), x, state})[0].to_vector(), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(state.to_vector(), (std::vector<double>{1, 2, 3, 4}));
  m.run(std::vector{truth(false), x, state});
  EXPECT_EQ(state.to_vector(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(ControlFlow, RegionsThatWriteTheirInputsAreRefused) {
  std::string error = test::user_error([] {
    compiled(R"(graph "c"(%p: bool[], %x: f32[4]) {
      %c: f32[4] = cond(%p, [%x]) {
        graph "then"(%a: f32[4]) {
          %r: f32[4] = add_.Tensor(%a, 1)
          return %r
        }
      } {
        graph "else"(%a: f32[4]) {
          return %a
        }
      }  @ "model.py:7"
      return %c
    })");
  });
  EXPECT_TRUE(test::contains(error, "cond (model.py:7): the region \"then\" writes to its input \"a\"")) << error;
}

TEST(ControlFlow, RunsFromManyThreads) {
  auto m = compiled(kPowers);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      for (int i = 0; i < 30; ++i) {
        auto out = m.run(std::vector{number(0), test::counting({8}), Tensor::full(std::vector<int64_t>{8}, 0), number(n)});
        wrong += out[0].item() != static_cast<double>(n) || out[1].to_vector()[3] != 3.0 * static_cast<double>(1 << n);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ControlFlow, RegionsFile) {
  std::ifstream file(std::string(TOROID_SOURCE_DIR) + "/tests/data/graph/regions.txt");
  std::stringstream text;
  text << file.rdbuf();
  for (bool p : {true, false}) check(text.str(), {truth(p), test::counting({2}), test::counting({2}), test::counting({3, 2})});
}

}  // namespace
}  // namespace toroid
