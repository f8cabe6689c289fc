// One compile of a model with symbolic batch and sequence serves all sizes in its range.
#include <gtest/gtest.h>

#include "base/options.h"
#include "errors.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/recorder.h"
#include "import/load_model.h"

namespace toroid {
namespace {

Tensor ramp(int64_t batch, int64_t sequence, int64_t modulus) {
  Tensor t = Tensor::empty({batch, sequence}, DType::I64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = (i * 7 + 3) % modulus;
  return t;
}

TEST(DynamicModel, OneCompileServesEverySize) {
  std::string path = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2";
  auto reference = import::load_model(path);
  const ScopedOption database("tune_database", "none"), region("tune_region_ms", "5"), whole("tune_whole_ms", "20");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead, Mode::MaxAutotune}) {
    auto model = front::compile_model(import::load_model(path), {.mode = mode});
    for (auto& r : model.report().tuning.regions) EXPECT_TRUE(test::contains(r.source, "timed at s")) << r.label << ": " << r.source;
    for (auto [batch, sequence] : {std::pair<int64_t, int64_t>{1, 2}, {1, 64}, {3, 5}, {2, 16}, {7, 33}, {64, 2}, {17, 64}}) {
      Tensor ids = ramp(batch, sequence, 90), mask = ramp(batch, sequence, 3);
      for (int64_t b = 0; b < batch; ++b) mask.data<int64_t>()[b * sequence] = 1;
      std::vector<Tensor> inputs = {ids, mask};
      auto got = model.run(inputs), want = graph::interpret(*reference, inputs);
      ASSERT_EQ(got[0].sizes(), want[0].sizes());
      auto x = got[0].to_vector(), y = want[0].to_vector();
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << batch << " x " << sequence << ", element " << i;
    }
  }
}

// Sizes that the program reads from a tensor: what is computed with them comes after they are known, and states about them hold.
TEST(DynamicModel, NumbersFromDataBecomeSizes) {
  std::string path = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/numbers_from_data/core.pt2";
  auto reference = import::load_model(path);
  auto model = front::compile_model(import::load_model(path));
  Tensor x = Tensor::empty({4, 4}, DType::F32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i);
  for (double rows : {0, 1, 4}) {
    std::vector<Tensor> inputs = {x, Tensor::of({-1}, {}, DType::I64), Tensor::of({rows}, {}, DType::I64)};
    auto got = model.run(inputs), want = graph::interpret(*reference, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].sizes(), want[i].sizes()) << "output " << i;
      EXPECT_EQ(got[i].to_vector(), want[i].to_vector()) << "output " << i;
    }
  }
  for (double rows : {-1, 5}) {
    std::vector<Tensor> inputs = {x, Tensor::of({-1}, {}, DType::I64), Tensor::of({rows}, {}, DType::I64)};
    EXPECT_THROW(model.run(inputs), UserError) << rows;
  }
}

// No input has the symbol itself as a size.
// Numbers that follow from open sizes are operands as others are: kernels compute them, for every dtype.
TEST(DynamicModel, NumbersThatFollowFromSizes) {
  const std::string text = R"(graph "n"(%x: f32[s0, s1], %n: i64[], %h: bf16[s1]) symbols(s0 in 0..inf, s1 in 1..inf) {
  %a: f32[s0, s1] = add.Tensor(%x, s0)
  %b: f32[s0, s1] = div.Tensor(%a, s1)
  %c: i64[] = add.Tensor(%n, s0*s1)
  %d: i64[] = div.Tensor_mode(%c, s1 + 1, rounding_mode="floor")
  %e: bool[s0, s1] = lt.Scalar(%b, s0)
  %f: bf16[s1] = mul.Tensor(%h, s1)
  return %b, %c, %d, %e, %f
})";
  const auto reference = graph::parse(text);
  auto model = front::compile_model(graph::parse(text));
  EXPECT_EQ(model.report().host_calls, 0u);
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{3, 4}, {1, 1}, {0, 5}, {17, 2}}) {
    std::vector<Tensor> inputs = {Tensor::full({rows, columns}, 2.5, DType::F32), Tensor::full({}, 40, DType::I64),
                                  Tensor::full({columns}, 3, DType::BF16)};
    const auto got = model.run(inputs), want = graph::interpret(*reference, inputs);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(got[i].to_vector(), want[i].to_vector()) << "result " << i << " of " << rows << " rows";
  }
}

// A divisor that may be 0 is looked at, also where it is a number.
TEST(DynamicModel, ADivisorThatIsASizeOfNothing) {
  auto model = front::compile_model(graph::parse(R"(graph "n"(%x: f32[s0, 3], %n: i64[2]) symbols(s0 in 0..inf) {
  %d: i64[2] = div.Tensor_mode(%n, s0, rounding_mode="floor")
  return %d
})"));
  const Tensor n = Tensor::full({2}, 7, DType::I64);
  EXPECT_EQ(model.run(std::vector<Tensor>{Tensor::full({2, 3}, 0, DType::F32), n})[0].to_vector()[0], 3);
  EXPECT_TRUE(test::contains(test::user_error([&] { model.run(std::vector<Tensor>{Tensor::full({0, 3}, 0, DType::F32), n}); }), "zero"));
}

TEST(DynamicModel, SizesMayBeExpressionsAlone) {
  graph::Graph g;
  Expr s = sym::symbol("s0", 2, 8);
  g.symbols.push_back({s, false});
  graph::Recorder recorder(g);
  Tensor x = recorder.proxy(g.add_input({DType::F32, {2 * s}, {}}, graph::InputKind::User, "x"));
  {
    DispatchScope scope(recorder);
    g.outputs.push_back({recorder.value_of(ops::call1("neg", {x})), {}, -1});
  }
  auto model = front::compile_model(graph::clone(g));
  EXPECT_EQ(model.run(std::vector<Tensor>{Tensor::empty({6}, DType::F32)})[0].sizes(), std::vector<int64_t>{6});
  for (int64_t size : {2, 7, 18}) EXPECT_THROW(model.run(std::vector<Tensor>{Tensor::empty({size}, DType::F32)}), UserError) << size;
}

TEST(DynamicModel, RefusesSizesOutsideItsRange) {
  auto model = front::compile_model(import::load_model(std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2"));
  EXPECT_THROW(model.run(std::vector<Tensor>{ramp(65, 4, 90), ramp(65, 4, 2)}), UserError);
  EXPECT_THROW(model.run(std::vector<Tensor>{ramp(2, 4, 90), ramp(2, 5, 2)}), UserError);
}

}  // namespace
}  // namespace toroid
