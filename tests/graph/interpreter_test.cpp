// Running graphs: symbols, checks of the inputs, write back, control flow.
#include "graph/interpreter.h"

#include <gtest/gtest.h>

#include "graph/control_flow.h"

namespace toroid::graph {
namespace {

std::vector<Tensor> run(const std::string& text, std::vector<Tensor> inputs) {
  auto g = parse(text);
  verify(*g, "as written");
  return interpret(*g, inputs);
}

std::string refusal(const std::string& text, std::vector<Tensor> inputs) {
  try {
    run(text, std::move(inputs));
  } catch (const UserError& e) {
    return e.what();
  }
  return "accepted";
}

const char* const kDynamic = R"(graph "d"(%x: f32[s0, 2], %y: f32[s0]) symbols(s0 in 2..8) {
  %a: f32[2, s0] = permute(%x, dims=[1, 0])
  %b: f32[2, s0] = add.Tensor(%a, %y)
  %c: f32[2*s0] = view(%b, size=[2*s0])
  return %c
})";

TEST(Interpreter, BindsSymbols) {
  auto out = run(kDynamic, {Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2}), Tensor::of({10, 20, 30}, {3})});
  EXPECT_EQ(out[0].to_vector(), (std::vector<double>{11, 23, 35, 12, 24, 36}));
}

TEST(Interpreter, RefusesUnfitInputs) {
  Tensor x = Tensor::full(std::vector<int64_t>{3, 2}, 1), y = Tensor::full(std::vector<int64_t>{4}, 1);
  EXPECT_NE(refusal(kDynamic, {x, y}).find("input 1 (\"y\") has size 4 in dimension 0; s0 = 3 is expected"), std::string::npos);
  EXPECT_NE(refusal(kDynamic, {x}).find("takes 2 inputs"), std::string::npos);
  EXPECT_NE(refusal(kDynamic, {y, y}).find("1 dimensions; 2 are expected"), std::string::npos);
  EXPECT_NE(refusal(kDynamic, {x, Tensor::full(std::vector<int64_t>{3}, 1, DType::I32)}).find("dtype i32"), std::string::npos);
  EXPECT_NE(refusal(kDynamic, {Tensor::full(std::vector<int64_t>{1, 2}, 1), Tensor::full(std::vector<int64_t>{1}, 1)}).find("2 <= s0 <= 8"),
            std::string::npos);
}

TEST(Interpreter, ChecksGuards) {
  const char* text = "graph \"g\"(%x: f32[s0]) symbols(s0 in 0..9) guards(s0 != 3) {\n  return %x\n}";
  EXPECT_NE(refusal(text, {Tensor::full(std::vector<int64_t>{3}, 1)}).find("s0 != 3"), std::string::npos);
  EXPECT_EQ(refusal(text, {Tensor::full(std::vector<int64_t>{4}, 1)}), "accepted");
}

TEST(Interpreter, SolvesForASymbolThatIsNowhereAlone) {
  const char* text = "graph \"g\"(%x: f32[2*s0 + 1]) symbols(s0 in 0..9) {\n  %y: f32[s0] = full([s0], fill_value=1.0)\n  return %y\n}";
  EXPECT_EQ(run(text, {Tensor::full(std::vector<int64_t>{7}, 1)})[0].numel(), 3);
}

TEST(Interpreter, WritesMutatedInputsBackAfterReading) {
  Tensor a = Tensor::of({1, 2}, {2}), b = Tensor::of({3, 4}, {2});
  auto out = run("graph \"swap\"(%a: f32[2], %b: f32[2]) {\n  return (input 0 <- %b), (input 1 <- %a), %a, none\n}", {a, b});
  EXPECT_EQ(a.to_vector(), (std::vector<double>{3, 4}));
  EXPECT_EQ(b.to_vector(), (std::vector<double>{1, 2}));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].to_vector(), (std::vector<double>{1, 2})) << "a result holds what was there before";
  EXPECT_FALSE(out[1].defined());
}

TEST(Interpreter, Cond) {
  const char* text = R"(graph "c"(%p: bool[], %x: f32[2]) {
    %c: f32[2] = cond(%p, [%x]) {
      graph "then"(%a: f32[2]) {
        %r: f32[2] = mul.Tensor(%a, 2)
        return %r
      }
    } {
      graph "else"(%a: f32[2]) {
        %r: f32[2] = neg(%a)
        return %r
      }
    }
    return %c
  })";
  Tensor x = Tensor::of({1, 2}, {2});
  EXPECT_EQ(run(text, {Tensor::of({1}, {}, DType::Bool), x})[0].to_vector(), (std::vector<double>{2, 4}));
  EXPECT_EQ(run(text, {Tensor::of({0}, {}, DType::Bool), x})[0].to_vector(), (std::vector<double>{-1, -2}));
}

TEST(Interpreter, WhileLoop) {
  const char* text = R"(graph "w"(%i: i64[], %x: f32[2], %n: i64[]) {
    %j: i64[], %y: f32[2] = while_loop([%i, %x], [%n]) {
      graph "go on"(%a: i64[], %b: f32[2], %m: i64[]) {
        %r: bool[] = lt.Tensor(%a, %m)
        return %r
      }
    } {
      graph "body"(%a: i64[], %b: f32[2], %m: i64[]) {
        %s: i64[] = add.Tensor(%a, 1)
        %t: f32[2] = mul.Tensor(%b, 2)
        return %s, %t
      }
    }
    return %j, %y
  })";
  auto out = run(text, {Tensor::of({0}, {}, DType::I64), Tensor::of({1, 3}, {2}), Tensor::of({5}, {}, DType::I64)});
  EXPECT_EQ(out[0].item(), 5);
  EXPECT_EQ(out[1].to_vector(), (std::vector<double>{32, 96}));
}

TEST(Interpreter, ScanStacksWhatEachStepGives) {
  const char* text = R"(graph "s"(%i: f32[2], %x: f32[3, 2]) {
    %c: f32[2], %y: f32[3, 2] = scan([%i], [%x], tensors[]) {
      graph "step"(%a: f32[2], %b: f32[2]) {
        %r: f32[2] = add.Tensor(%a, %b)
        return %r, %r
      }
    }
    return %c, %y
  })";
  auto out = run(text, {Tensor::of({0, 0}, {2}), Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2})});
  EXPECT_EQ(out[0].to_vector(), (std::vector<double>{9, 12}));
  EXPECT_EQ(out[1].to_vector(), (std::vector<double>{1, 2, 4, 6, 9, 12}));
}

TEST(Interpreter, RegionsMustFit) {
  const char* text = R"(graph "c"(%p: bool[], %x: f32[2]) {
    %c: f32[2] = cond(%p, [%x]) {
      graph "then"(%a: f32[2]) {
        return %a
      }
    } {
      graph "else"(%a: f32[3]) {
        return %a
      }
    }
    return %c
  })";
  EXPECT_NE(refusal(text, {}).find("f32[2] where f32[3] is expected"), std::string::npos);
}

TEST(Interpreter, InPlaceGraphsAreRefused) {
  EXPECT_NE(refusal("graph \"t\"(%x: f32[2]) {\n  %y: f32[2] = add_.Tensor(%x, 1)\n  return %y\n}", {Tensor::of({1, 2}, {2})})
                .find("functionalize"),
            std::string::npos);
}

}  // namespace
}  // namespace toroid::graph
