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
