// Classifies the held-back fifth of the UCI handwritten digits with a small network that PyTorch trained and exported.
// Usage: toroid_demo_digits [FOLDER]    FOLDER holds digits.pt2 and labelled.safetensors (default: where the sources are)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "toroid/error.h"
#include "toroid/model.h"

using namespace toroid;

namespace {

// Median microseconds of one image, over repeated runs of the whole set.
double us_per_image(Model& model, const Tensor& images) {
  std::vector<double> times;
  for (int i = 0; i < 32; ++i) {
    auto start = std::chrono::steady_clock::now();
    model.run({images});
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 16, times.end());
  return times[16] / static_cast<double>(images.sizes()[0]);
}

// How many rows of `scores` have their largest number where the label says.
int count_right(const Tensor& scores, const Tensor& labels) {
  int right = 0;
  int64_t classes = scores.sizes()[1];
  for (int64_t i = 0; i < scores.sizes()[0]; ++i) {
    const float* row = scores.data<float>() + i * classes;
    right += std::max_element(row, row + classes) - row == labels.data<int64_t>()[i];
  }
  return right;
}

int demo(const std::string& folder) {
  auto data = load_tensors(folder + "/labelled.safetensors");
  const Tensor &images = data.at("images"), &labels = data.at("labels");
  Model model = Model::load(folder + "/digits.pt2");
  Model eager = Model::load(folder + "/digits.pt2", {.fusion = Fusion::None});
  const auto& s = model.summary();
  std::printf("compiled digits.pt2 in %.0f ms (%zu of %zu kernels were not in the cache)\n", s.compile_ms, s.kernels_compiled, s.kernels);
  std::printf("kernels: %zu before fusion, %zu after\n", eager.summary().kernels, s.kernels);
  Tensor scores = model.run({images})[0];
  std::printf("accuracy: %d/%lld\n", count_right(scores, labels), static_cast<long long>(labels.numel()));
  double one_at_a_time = us_per_image(eager, images), compiled = us_per_image(model, images);
  std::printf("one operation at a time: %.2f us an image\ncompiled:                %.2f us an image (%.1fx)\n", one_at_a_time, compiled,
              one_at_a_time / compiled);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return demo(argc > 1 ? argv[1] : TOROID_EXAMPLE_DIR);
  } catch (const Error& e) {
    std::fprintf(stderr, "toroid_demo_digits: %s\n", e.what());
    return 2;
  }
}
