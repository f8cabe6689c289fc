// Trains a small network on the UCI handwritten digits from random weights, and tries it on the fifth of them that it has not seen. A step
// (forward, loss, backward, optimizer) is one compiled program.
// Usage: toroid_demo_train_digits [FOLDER]   FOLDER holds training.safetensors and labelled.safetensors (default: where the sources are)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>

#include "toroid/compile.h"
#include "toroid/error.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/random.h"
#include "toroid/train/optimizers.h"
#include "toroid/train/schedules.h"

using namespace toroid;

namespace {

// Images [n, 1, 8, 8] to the scores of the ten digits.
class DigitsNet : public nn::Module {
 public:
  DigitsNet() {
    add_child("conv1", conv1);
    add_child("conv2", conv2);
    add_child("fc1", fc1);
    add_child("fc2", fc2);
  }
  Tensor forward(const Tensor& images) {
    const Tensor x = max_pool2d(relu(conv2.forward(relu(conv1.forward(images)))), 2);
    return fc2.forward(relu(fc1.forward(flatten(x, 1))));
  }

 private:
  nn::Conv2d conv1{1, 16, 3, {.padding = {1, 1}}}, conv2{16, 32, 3, {.padding = {1, 1}}};
  nn::Linear fc1{512, 64}, fc2{64, 10};
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int demo(const std::string& training, const std::string& held_back) {
  constexpr int64_t kBatch = 64, kEpochs = 25;
  const auto data = load_tensors(training + "/training.safetensors"), unseen = load_tensors(held_back + "/labelled.safetensors");
  const Tensor images = to(data.at("images"), DType::F32) / 16, labels = to(data.at("labels"), DType::I64);
  const int64_t count = images.sizes()[0], batches = count / kBatch;

  manual_seed(0);
  DigitsNet net;
  train::AdamW optimizer(net.parameters(), {.lr = 2e-3});
  const train::Schedule rate = train::cosine_annealing_lr(2e-3, kEpochs * batches);
  auto step = compile(
      [&](const Tensor& rows) {
        const Tensor x = index_select(images, 0, rows), y = index_select(labels, 0, rows);
        auto [loss, gradients] = value_and_gradients([&] { return cross_entropy(net.forward(x), y); }, optimizer.parameters());
        optimizer.step(gradients);
        return loss;
      },
      {.fullgraph = true, .name = "step"});

  const auto start = std::chrono::steady_clock::now();
  std::vector<double> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(0);
  double first_step = 0;
  for (int64_t epoch = 0, k = 0; epoch < kEpochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    double sum = 0;
    for (int64_t b = 0; b < batches; ++b, ++k) {
      optimizer.set_learning_rate(rate(k));
      const std::span<const double> rows(order.data() + b * kBatch, kBatch);
      sum += step(Tensor::of(rows, std::vector<int64_t>{kBatch}, DType::I64)).item();
      if (k == 0) first_step = seconds_since(start);
    }
    if (epoch % 5 == 0 || epoch + 1 == kEpochs)
      std::printf("epoch %2lld: loss %.4f\n", static_cast<long long>(epoch + 1), sum / static_cast<double>(batches));
  }
  const double all = seconds_since(start);
  std::printf("trained in %.1f s: the first step %.1f s (with its compile), each other %.2f ms, %lld images an epoch\n", all, first_step,
              1e3 * (all - first_step) / static_cast<double>(kEpochs * batches - 1), static_cast<long long>(batches * kBatch));

  const Tensor guess = argmax(net.forward(unseen.at("images")), 1);
  const auto got = guess.to_vector(), expected = unseen.at("labels").to_vector();
  const auto right = std::inner_product(got.begin(), got.end(), expected.begin(), 0, std::plus<>(), std::equal_to<>());
  std::printf("accuracy on what it has not seen: %d/%zu\n", right, expected.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return demo(argc > 1 ? argv[1] : TOROID_EXAMPLE_DIR, argc > 1 ? argv[1] : TOROID_EXAMPLE_DIR "/../digits");
  } catch (const Error& e) {
    std::fprintf(stderr, "toroid_demo_train_digits: %s\n", e.what());
    return 2;
  }
}
