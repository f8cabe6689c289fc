// The interface in C on memory of the caller, in a process of its own (runtime/own_memory.c).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

void run_on_own_memory(const std::string& package, const std::string& output) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "test_own_memory";
  EXPECT_EQ(std::system(("TOROID_LOGS=all timeout 300 " + program + " " + package + " > " + output + " 2>&1").c_str()), 0)
      << read_file(output);
}

// Recorded calls, whose memory is a private pool's, with a state that each session copies.
TEST(OwnMemory, AllOfItComesBack) {
  const test::TempFolder folder;
  const Tensor x = Tensor::full(std::vector<int64_t>{8, 64}, 1), w = Tensor::full(std::vector<int64_t>{64, 64}, 0.25),
               state = Tensor::full(std::vector<int64_t>{64}, 0);
  for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
    for (const bool keeps : {false, true}) {
      PackageOptions o;
      o.model.mode = mode;
      save_package(
          [=](const std::vector<Tensor>& in) {
            const Tensor y = softmax(matmul(in[0], w), 1);
            if (!keeps) return std::vector<Tensor>{matmul(y, w)};
            Tensor s = state;
            add_(s, sum(y, {0}) * 0.0);
            return std::vector<Tensor>{matmul(y, w) + s};
          },
          {x}, folder / "m.tpk", o);
      run_on_own_memory((folder / "m.tpk") + (records_calls(mode) ? " logs" : ""), folder / "out");
    }
}

}  // namespace
}  // namespace toroid
