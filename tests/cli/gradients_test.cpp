// Gradients, optimizers and schedules that PyTorch wrote down, by `toroid verify`.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "cli/harness.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace test;

const fs::path kGradients = fs::path(TOROID_SOURCE_DIR) / "tests/data/gradients";

TEST(VerifyGradients, OfOperationsAreThoseOfPyTorch) {
  const auto out = toroid_command("verify --backend interpreter --known " + (kGradients / "known.txt").string() + " " +
                                  (kGradients / "ops.tar.zst").string());
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("497 passed, 0 failed, 0 refused, 3 are known not to pass"), std::string::npos) << out.text;
}

// And their losses and parameters over ten steps of AdamW.
TEST(VerifyGradients, OfModelsAreThoseOfPyTorch) {
  for (const char* backend : {"interpreter", "compiled"}) {
    const auto out = toroid_command(std::string("verify --backend ") + backend + " " + (kGradients / "models").string());
    EXPECT_EQ(out.text, "2 passed, 0 failed, 0 refused\n") << backend;
  }
}

TEST(VerifyGradients, OptimizersAndSchedulesAreThoseOfPyTorch) {
  const fs::path folder = make_temp_dir();
  fs::copy(kGradients / "optimizers", folder / "optimizers", fs::copy_options::recursive);
  fs::copy_file(kGradients / "schedules.json", folder / "schedules.json");
  EXPECT_EQ(toroid_command("verify " + folder.string()).text, "14 passed, 0 failed, 0 refused\n");
  fs::remove_all(folder);
}

// Gradients of what a model does not have, and a rate that is wrong.
TEST(VerifyGradients, MissesAreFound) {
  const fs::path folder = make_temp_dir();
  fs::copy(kGradients / "models/gru", folder / "gru", fs::copy_options::recursive);
  fs::copy_file(kGradients / "models/cnn/grad.safetensors", folder / "gru/grad.safetensors", fs::copy_options::overwrite_existing);
  fs::copy_file(kGradients / "schedules.json", folder / "schedules.json");
  std::string text = read_file(folder / "schedules.json");
  text.replace(text.find("0.05"), 4, "0.06");
  std::ofstream(folder / "schedules.json") << text;
  const auto out = toroid_command("verify --backend interpreter " + folder.string());
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("the model has no such input"), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("StepLR: the rate of step 7 is 0.05, expected 0.06"), std::string::npos) << out.text;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace toroid
