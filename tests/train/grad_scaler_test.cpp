// GradScaler against what torch.amp.GradScaler wrote down.
#include "toroid/train/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "toroid/compile.h"
#include "toroid/ops.h"
#include "toroid/weights.h"
#include "train/harness.h"

namespace toroid::train {
namespace {

double number(const std::map<std::string, ConfigValue>& values, const std::string& key) {
  const ConfigValue& v = values.at(key);
  return std::holds_alternative<int64_t>(v) ? static_cast<double>(std::get<int64_t>(v)) : std::get<double>(v);
}

void expect_scales_of_pytorch(bool compiled) {
  const auto known = load_config(std::string(TOROID_SOURCE_DIR) + "/tests/data/training/grad_scaler.json");
  int cases = 0;
  for (; known.count("cases." + std::to_string(cases) + ".init_scale"); ++cases) {
    const std::string c = "cases." + std::to_string(cases) + ".";
    GradScaler scaler({.init_scale = number(known, c + "init_scale"),
                       .growth_factor = number(known, c + "growth_factor"),
                       .backoff_factor = number(known, c + "backoff_factor"),
                       .growth_interval = std::get<int64_t>(known.at(c + "growth_interval"))});
    const auto step = [&](const Tensor& gradient) {
      auto [unscaled, is_finite] = scaler.unscale(std::vector<Tensor>{gradient});
      scaler.update(is_finite);
      return unscaled[0];
    };
    auto program = compile(step, {.fullgraph = true});
    const double bad[] = {INFINITY, NAN, -INFINITY};
    int k = 0;
    for (; known.count("finite." + std::to_string(k)); ++k) {
      const bool is_finite = number(known, "finite." + std::to_string(k)) != 0;
      const Tensor gradient = Tensor::of({0, is_finite ? 0 : bad[k % 3]}, {2});
      compiled ? program(gradient) : step(gradient);
      EXPECT_EQ(scaler.get_scale().item(), number(known, c + "scales." + std::to_string(k))) << c << k;
      EXPECT_EQ(scaler.state()[1].second.item(), number(known, c + "trackers." + std::to_string(k))) << c << k;
    }
    EXPECT_EQ(k, 18);
    EXPECT_EQ(program.report().compiles, compiled ? 1 : 0);
  }
  EXPECT_EQ(cases, 3);
}

TEST(GradScaling, GrowsAndShrinksAsPyTorchDoes) { expect_scales_of_pytorch(false); }
TEST(GradScaling, GrowsAndShrinksAsPyTorchDoesCompiled) { expect_scales_of_pytorch(true); }

TEST(GradScaling, ScalesInF32AndUnscalesInTheGradientsDtype) {
  const GradScaler scaler({.init_scale = 65536});
  const Tensor scaled = scaler.scale(Tensor::of({3}, {1}, DType::F16));
  EXPECT_EQ(scaled.dtype(), DType::F32);
  EXPECT_EQ(scaled.item(), 3 * 65536.0);
  const auto [unscaled, is_finite] = scaler.unscale(std::vector<Tensor>{Tensor::of({65504}, {1}, DType::F16), Tensor::of({65536}, {1})});
  EXPECT_EQ(unscaled[0].dtype(), DType::F16);
  EXPECT_NEAR(unscaled[0].item(), 0.9995, 1e-3);
  EXPECT_EQ(unscaled[1].item(), 1);
  EXPECT_EQ(is_finite.item(), 1);
}

TEST(GradScaling, OptionsOutOfRangeAreRefused) {
  EXPECT_REFUSED(GradScaler({.init_scale = 0}), "init_scale must be positive, not 0");
  EXPECT_REFUSED(GradScaler({.init_scale = NAN}), "init_scale must be positive");
  EXPECT_REFUSED(GradScaler({.growth_factor = 1}), "growth_factor must be above 1");
  EXPECT_REFUSED(GradScaler({.backoff_factor = 1}), "backoff_factor must be between 0 and 1");
  EXPECT_REFUSED(GradScaler({.growth_interval = 0}), "growth_interval must be at least 1");
}

TEST(GradScaling, AllFiniteSeesEachElementOfEachTensor) {
  const Tensor good = filled({3}, 1);
  EXPECT_EQ(all_finite(std::vector<Tensor>{good, good}).item(), 1);
  for (const double bad : {double(INFINITY), double(-INFINITY), double(NAN)})
    EXPECT_EQ(all_finite(std::vector<Tensor>{good, Tensor::of({1, 1, bad}, {3})}).item(), 0) << bad;
  EXPECT_EQ(all_finite(std::vector<Tensor>{}).item(), 1);
}

}  // namespace
}  // namespace toroid::train
