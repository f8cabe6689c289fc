// Loop bodies: text form, verifier, interpreter, builder.
#include <gtest/gtest.h>

#include <cmath>

#include "base/check.h"
#include "base/index_fault.h"
#include "loop/node.h"

namespace toroid::loop {
namespace {

constexpr const char* kBody = R"(loop (i0: s0, r r0: 3) {
  v0: f32 = load %0 [3*i0 + r0]
  v1: i64 = load %1 [i0]
  v2: i64 = index [i0 + 1]
  v3: bool = Lt v1 v2
  v4: f32 = load %0 [v1] if v3
  v5: f32 = const -1.5
  v6: f32 = Select v3 v4 v5
  v7: f32 = Add v0 v6
  v8: f32 = reduce max v7
  store %2 [i0] v8 add if v3
}
)";

TEST(LoopText, PrintsWhatItReads) {
  Nest p = parse(kBody);
  verify(p.domain, p.body, "parse");
  std::string text = to_string(p.domain, p.body);
  Nest again = parse(text);
  EXPECT_EQ(to_string(again.domain, again.body), text);
  EXPECT_EQ(p.body.steps.size(), 10u);
  EXPECT_EQ(p.body.steps[9].mode, StoreMode::Add);
  EXPECT_EQ(p.body.steps[9].mask, 3);
  EXPECT_EQ(p.body.steps[4].mask, 3);
  EXPECT_EQ(p.body.steps[5].value.f, -1.5);
  EXPECT_TRUE(p.domain.vars[1].reduction);
}

// A size may be called like a variable or a value of the loop, and two variables may be called alike.
TEST(LoopText, TellsSymbolsApartWhateverTheyAreCalled) {
  for (const std::string name :
       {"i0", "r0", "v0", "v1", "r", "part", "i0_2", "batch size", "", "]", "a,b", "(", "'", "\\", "größe", "x\ny"}) {
    const Expr size = sym::symbol(name, 0, sym::kInf), other = sym::symbol("n", 0, sym::kInf);
    Nest p;
    for (const char* variable : {"i0", "i0", "part", "v1", "r", "x.outer", ""})
      p.domain.vars.push_back({sym::loop_symbol(variable, size + 1), p.domain.vars.size() == 6});
    BodyBuilder b(p.body);
    const S at = b.load(0, DType::I64, size * 2 + p.domain.vars[0].symbol), one = b.load(0, DType::I64, p.domain.vars[1].symbol);
    Expr index = b.as_index(at, 0, 9) * size + b.as_index(one, 0, 9) + sym::floor_div(size, other + 1);
    for (size_t k = 0; k < p.domain.vars.size(); ++k) index = index + p.domain.vars[k].symbol * static_cast<int64_t>(k + 2);
    b.store(1, DType::F32, index, b.load(2, DType::F32, index));
    verify(p.domain, p.body, "test");
    const std::string text = to_string(p.domain, p.body);
    const Nest again = parse(text);
    verify(again.domain, again.body, "test");
    EXPECT_EQ(to_string(again.domain, again.body), text);
    // The same symbols at the same places.
    std::vector<Expr> stored[2];
    for (int which : {0, 1})
      sym::for_each_symbol((which ? again : p).body.steps.back().index, [&](const Expr& s) { stored[which].push_back(s); });
    ASSERT_EQ(stored[0].size(), stored[1].size()) << text;
    for (size_t k = 0; k < stored[0].size(); ++k) {
      const sym::Node &before = *stored[0][k].node(), &after = *stored[1][k].node();
      EXPECT_EQ(before.symbol, after.symbol) << text;
      if (!sym::is_loop_var(before)) {
        EXPECT_TRUE(sym::same_symbol(before, after)) << text;
      } else {
        for (size_t v = 0; v < p.domain.vars.size(); ++v)
          EXPECT_EQ(stored[0][k] == p.domain.vars[v].symbol, stored[1][k] == again.domain.vars[v].symbol) << text;
      }
    }
  }
}

TEST(LoopText, RejectsMalformedText) {
  for (const char* text :
       {"", "loop", "loop (i0: 3) {", "loop (i0: 3) { v1: f32 = const 1 }", "loop (i0: 3) { v0: f32 = Add v0 v0 }",
        "loop (i0: 3) { v0: f99 = const 1 }", "loop (i0: 3) { v0: f32 = Frob }", "loop (i0: 3) { v0: f32 = load %0 [i0 }",
        "loop (i0: 3) { v0: f32 = const x }", "loop (i0: 3, i0: 4) { }", "loop (i0: 3) { v0: f32 = reduce most v0 }", "loop (i0: 3) { } x",
        "loop (i0: 3) { store %0 [i0] v7 }", "loop (i0: 3) { v0: f32 = load %0 [v9] }"})
    EXPECT_THROW(parse(text), UserError) << text;
}

TEST(LoopVerify, FindsBrokenBodies) {
  auto broken = [](const std::function<void(Nest&)>& change) {
    Nest p = parse(kBody);
    change(p);
    EXPECT_THROW(verify(p.domain, p.body, "test"), InternalError);
  };
  broken([](Nest& p) { p.body.steps[7].args[0] = 9; });
  broken([](Nest& p) { p.body.steps[7].args[1] = 1; });
  broken([](Nest& p) { p.body.steps[7].args[1] = -1; });
  broken([](Nest& p) { p.body.steps[4].mask = 0; });
  broken([](Nest& p) { p.body.steps[7].dtype = DType::F64; });
  broken([](Nest& p) { p.body.steps[9].dtype = DType::I64; });
  broken([](Nest& p) { p.domain.vars.pop_back(); });
  broken([](Nest& p) { p.body.steps[8].reduction = Reduction::Any; });
  broken([](Nest& p) { p.body.steps[0].index = sym::loop_symbol("elsewhere", 4); });
  broken([](Nest& p) { p.body.steps[2].dtype = DType::I32; });
}

template <class T>
std::byte* bytes(std::vector<T>& v) {
  return reinterpret_cast<std::byte*>(v.data());
}

TEST(LoopInterpret, MasksIndirectionAndAccumulation) {
  Nest p = parse(kBody);
  std::vector<float> x = {1, 2, 3, 4, 9, 5}, y = {100, 200};
  std::vector<int64_t> at = {5, 1};
  std::vector<Buffer> buffers = {
      {0, "x", DType::F32, 6, BufferKind::Input}, {1, "at", DType::I64, 2, BufferKind::Input}, {2, "y", DType::F32, 2, BufferKind::Output}};
  interpret(p.domain, p.body, buffers, {bytes(x), bytes(at), bytes(y)}, [](const sym::Node&) { return 2; });
  // Row 0: 5 < 1 is false, so nothing is stored; row 1: max(4, 9, 5) + x[1].
  EXPECT_EQ(y, (std::vector<float>{100, 200 + 9 + 2}));
}

TEST(LoopEliminateDead, ChecksStay) {
  Nest p = parse(R"(loop (i0: 5) {
  v0: i64 = load %0 [i0]
  v1: i64 = check %2 v0 below [1] site 0
  v2: f32 = load %1 [0]
  v3: f32 = Exp v2
  store %3 [i0] v2
}
)");
  eliminate_dead(p.body);
  ASSERT_EQ(p.body.steps.size(), 4u) << to_string(p.domain, p.body);
  EXPECT_EQ(p.body.steps[1].step, Step::Check);
}

TEST(LoopInterpret, ChecksGiveWhatIsInside) {
  const std::string text = R"(loop (i0: 5) {
  v0: i64 = load %0 [i0]
  v1: i64 = index [i0]
  v2: i64 = const 4
  v3: bool = Lt v1 v2
  v4: i64 = check %2 v0 below [s0] site 5 if v3
  v5: f32 = load %1 [v4]
  store %3 [i0] v5
}
)";
  Nest p = parse(text);
  verify(p.domain, p.body, "parse");
  EXPECT_EQ(to_string(p.domain, p.body), text);
  std::vector<int64_t> at = {2, 7, -1, 1, 100}, faults(kIndexFaultWords, 0);
  std::vector<float> x = {1, 2, 4}, y(5, 0);
  const std::vector<Buffer> buffers = {{0, "at", DType::I64, 5, BufferKind::Input},
                                       {1, "x", DType::F32, 3, BufferKind::Input},
                                       {2, "faults", DType::I64, kIndexFaultWords, BufferKind::Faults},
                                       {3, "y", DType::F32, 5, BufferKind::Output}};
  interpret(p.domain, p.body, buffers, {bytes(at), bytes(x), bytes(faults), bytes(y)}, [](const sym::Node&) { return 3; });
  EXPECT_EQ(y, (std::vector<float>{4, 1, 1, 2, 1}));
  EXPECT_EQ(std::vector<int64_t>(faults.begin(), faults.begin() + 4), (std::vector<int64_t>{IndexFault::kFound, 5, 7, 3}))
      << "the first one";
  p.body.steps[4].args[0] = 3;
  EXPECT_THROW(verify(p.domain, p.body, "test"), InternalError) << "a check of a bool";
}

TEST(LoopInterpret, SoftmaxNeedsThreePasses) {
  Nest p = parse(R"(loop (i0: 2, r r0: 4) {
    v0: f32 = load %0 [4*i0 + r0]
    v1: f32 = reduce max v0
    v2: f32 = Sub v0 v1
    v3: f32 = Exp v2
    v4: f32 = reduce sum v3
    v5: f32 = Div v3 v4
    store %0 [4*i0 + r0] v5
  })");
  EXPECT_EQ(pass_of(p.domain, p.body), (std::vector<int>{1, 1, 2, 2, 2, 3, 3}));
  std::vector<float> x = {1, 2, 3, 4, 0, 0, 0, 0};
  interpret(p.domain, p.body, {{0, "x", DType::F32, 8, BufferKind::Temporary}}, {bytes(x)}, [](const sym::Node&) { return 0; });
  double sum = std::exp(-3.) + std::exp(-2.) + std::exp(-1.) + 1;
  EXPECT_NEAR(x[0], std::exp(-3.) / sum, 1e-6);
  EXPECT_NEAR(x[3], 1 / sum, 1e-6);
  EXPECT_EQ(x[6], 0.25f);
}

TEST(LoopInterpret, ScansTakeTheLastOfEqualElementsAndNan) {
  Nest p = parse(R"(loop (r r0: 2, r r1: 3) {
    v0: f32 = load %0 [3*r0 + r1]
    v1: f32 = scan sum v0
    v2: f32 = scan max v0
    v3: i64 = scan argmax v0
    v4: i64 = scan argmin v0
    v5: f32 = reduce max v1
    v6: f32 = Sub v1 v5
    store %1 [3*r0 + r1] v6
    store %2 [3*r0 + r1] v2
    store %3 [3*r0 + r1] v3
    store %4 [3*r0 + r1] v4
  })");
  verify(p.domain, p.body, "parse");
  EXPECT_EQ(pass_of(p.domain, p.body), (std::vector<int>{1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1}));
  std::vector<Buffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back({i, "", i < 3 ? DType::F32 : DType::I64, 6, BufferKind::Temporary});
  std::vector<float> x = {2, 1, 2, -1, -1, 0}, sums(6), most(6);
  std::vector<int64_t> at_most(6), at_least(6);
  auto run = [&] {
    interpret(p.domain, p.body, buffers, {bytes(x), bytes(sums), bytes(most), bytes(at_most), bytes(at_least)},
              [](const sym::Node&) { return 0; });
  };
  run();
  EXPECT_EQ(sums, (std::vector<float>{-3, -2, 0, -1, -2, -2}));  // less their maximum, which a second pass subtracts
  EXPECT_EQ(most, (std::vector<float>{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(at_most, (std::vector<int64_t>{0, 0, 2, 2, 2, 2}));
  EXPECT_EQ(at_least, (std::vector<int64_t>{0, 1, 1, 3, 4, 4}));
  x = {2, NAN, 5, NAN, 1, 0};
  run();
  EXPECT_EQ(at_most, (std::vector<int64_t>{0, 1, 1, 3, 3, 3}));
  EXPECT_EQ(at_least, (std::vector<int64_t>{0, 1, 1, 3, 3, 3}));
  EXPECT_TRUE(std::isnan(most[4]));
}

TEST(LoopVerify, ScansNeedSomethingToRunOver) {
  auto check = [](const std::string& text) {
    Nest p = parse(text);
    verify(p.domain, p.body, "test");
  };
  EXPECT_NO_THROW(check("loop (r r0: 4) { v0: f32 = load %0 [r0] v1: f32 = scan logsumexp v0 store %1 [r0] v1 }"));
  for (const char* text : {"loop (i0: 4) { v0: f32 = load %0 [i0] v1: f32 = scan sum v0 store %1 [i0] v1 }",
                           "loop (r r0: 4) { v0: bool = load %0 [r0] v1: bool = scan any v0 store %1 [r0] v1 }",
                           "loop (r r0: 4) { v0: i32 = load %0 [r0] v1: i32 = scan logsumexp v0 store %1 [r0] v1 }",
                           "loop (r r0: 4) { v0: f32 = load %0 [r0] v1: f32 = reduce logsumexp v0 store %1 [0] v1 }"})
    EXPECT_THROW(check(text), InternalError) << text;
}

TEST(LoopInterpret, ReductionsOfNothingAndNan) {
  Nest p = parse(
      "loop (r r0: s0) {\n v0: f32 = load %0 [r0]\n v1: f32 = reduce max v0\n v2: i64 = reduce argmax v0\n v3: f32 = reduce prod v0\n "
      "store %1 [0] v1\n store %2 [0] v2\n store %3 [0] v3\n}");
  std::vector<Buffer> buffers = {{0, "x", DType::F32, 4, BufferKind::Input},
                                 {1, "", DType::F32, 1, BufferKind::Output},
                                 {2, "", DType::I64, 1, BufferKind::Output},
                                 {3, "", DType::F32, 1, BufferKind::Output}};
  std::vector<float> x = {1, 7, NAN, 9}, m(1), q(1);
  std::vector<int64_t> at(1);
  auto run = [&](int64_t n) {
    interpret(p.domain, p.body, buffers, {bytes(x), bytes(m), bytes(at), bytes(q)}, [n](const sym::Node&) { return n; });
  };
  run(4);
  EXPECT_TRUE(std::isnan(m[0]));
  EXPECT_EQ(at[0], 2);
  run(2);
  EXPECT_EQ(m[0], 7);
  EXPECT_EQ(at[0], 1);
  run(0);
  EXPECT_EQ(m[0], -INFINITY);
  EXPECT_EQ(q[0], 1);
  EXPECT_THROW(run(5), InternalError);  // behind the end of the buffer
}

TEST(LoopBuilder, SharesStepsAndFoldsConstants) {
  Body body;
  BodyBuilder b(body);
  Expr i = sym::loop_symbol("i", 8);
  S x = b.load(0, DType::F32, i), y = b.load(0, DType::F32, i);
  EXPECT_EQ(x.id, y.id);
  S two = lit(x, 1) + lit(x, 1);
  EXPECT_EQ(body.steps[static_cast<size_t>(two.id)].op, ScalarOp::Const);
  EXPECT_EQ(body.steps[static_cast<size_t>(two.id)].value.f, 2);
  S unused = exp(x);
  b.store(1, DType::F32, i, x * two);
  eliminate_dead(body);
  for (auto& s : body.steps) EXPECT_NE(s.op, ScalarOp::Exp);
  EXPECT_GE(unused.id, 0);
  verify(Domain{{{i, false}}}, body, "test");
}

}  // namespace
}  // namespace toroid::loop
