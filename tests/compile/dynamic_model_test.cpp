// One compile of a model with symbolic batch and sequence serves all sizes in its range.
#include <gtest/gtest.h>

#include "base/options.h"
#include "compile/model.h"
#include "errors.h"
#include "graph/interpreter.h"
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
    auto model = compiler::CompiledModel::compile(import::load_model(path), {.mode = mode});
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

TEST(DynamicModel, RefusesSizesOutsideItsRange) {
  auto model =
      compiler::CompiledModel::compile(import::load_model(std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2"));
  EXPECT_THROW(model.run(std::vector<Tensor>{ramp(65, 4, 90), ramp(65, 4, 2)}), UserError);
  EXPECT_THROW(model.run(std::vector<Tensor>{ramp(2, 4, 90), ramp(2, 5, 2)}), UserError);
}

}  // namespace
}  // namespace toroid
