// `toroid bisect` from outside, on kernels as they are and on edited ones.
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/harness.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace test;

TEST(BisectCommand, NamesTheOperationOfAWrongKernel) {
  const fs::path folder = make_temp_dir();
  const std::string call = "bisect " + std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/core.pt2";
  const Outcome good = toroid_command(call, "TOROID_COMPILE_DEBUG=1 TOROID_DEBUG_DIR=" + folder.string());
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_EQ(good.text.rfind("all ", 0), 0u) << good.text;
  fs::path kernels;
  for (auto& entry : fs::recursive_directory_iterator(folder)) {  // norms with another epsilon
    if (entry.path().extension() != ".c") continue;
    kernels = entry.path().parent_path();
    std::string text = read_file(entry.path());
    for (size_t at; (at = text.find("1e-05f")) != std::string::npos;) text.replace(at, 6, "1e-02f");
    write_file_atomic(entry.path(), text);
  }
  const Outcome wrong = toroid_command(call, "TOROID_KERNEL_DIR=" + kernels.string());
  EXPECT_EQ(wrong.code, 1) << wrong.text;
  EXPECT_NE(wrong.text.find(" = native_layer_norm ("), std::string::npos) << wrong.text;
  EXPECT_NE(wrong.text.find("result 0 has an error of "), std::string::npos) << wrong.text;
  EXPECT_NE(wrong.text.find(" operations are beyond what rounding explains, the first is %native_layer_norm;"), std::string::npos)
      << wrong.text;
  const Outcome json = toroid_command(call + " --json", "TOROID_KERNEL_DIR=" + kernels.string());
  EXPECT_EQ(json.code, 1) << json.text;
  EXPECT_NE(json.text.find("\"op\":\"native_layer_norm\""), std::string::npos) << json.text;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace toroid
