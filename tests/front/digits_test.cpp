// The demo's network on the held-back handwritten digits.
#include <gtest/gtest.h>

#include <algorithm>

#include "toroid/model.h"

namespace toroid {
namespace {

TEST(Digits, AccuracyComesFromTheLabels) {
  std::string folder = std::string(TOROID_SOURCE_DIR) + "/examples/digits/";
  auto data = load_tensors(folder + "labelled.safetensors");
  const Tensor& labels = data.at("labels");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    Model model = Model::load(folder + "digits.pt2", {.mode = mode});
    Tensor scores = model.run({data.at("images")})[0];
    auto right = [&](int64_t shift) {
      int64_t count = 0, n = scores.sizes()[0], classes = scores.sizes()[1];
      for (int64_t i = 0; i < n; ++i) {
        const float* row = scores.data<float>() + i * classes;
        count += std::max_element(row, row + classes) - row == labels.data<int64_t>()[(i + shift) % n];
      }
      return count;
    };
    EXPECT_EQ(right(0), 359);
    EXPECT_LT(right(1), 100) << "labels of other images must not fit";
  }
}

}  // namespace
}  // namespace toroid
