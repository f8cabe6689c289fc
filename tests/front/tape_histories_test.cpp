// The tape against the gradients of functions: the same programs, drawn by chance or from a table, called both ways.
#include <gtest/gtest.h>

#include <random>

#include "front/eager.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/ops.h"

namespace toroid::tape_histories {
namespace {

// All operations by the reference evaluator, for a while: the histories are about the tape, not about kernels.
struct ByReference {
  ByReference() { front::EagerDispatcher::instance().set_backend(front::find_backend("reference")); }
  ~ByReference() { front::EagerDispatcher::instance().set_backend({}); }
};

constexpr int64_t kRows = 2, kColumns = 3;

Tensor numbers(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values;
  for (int64_t i = 0; i < kRows * kColumns; ++i) values.push_back(static_cast<double>(random() % 200) / 100 - 1);
  return Tensor::of(values, std::vector<int64_t>{kRows, kColumns});
}

// A program of operations, views, writes, detach() and NoGrad on tensors of 2 x 3, drawn from a seed. It runs the same way wherever it is
// called. What was read by an operation that needs it for its gradient is not written afterwards: reads of such tensors take a clone.
class History {
 public:
  explicit History(uint32_t seed) : seed_(seed) {}

  Tensor run(const std::vector<Tensor>& leaves) const {
    std::mt19937 random(seed_);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    std::vector<Tensor> made, detached;  // what shares memory with others and is detached is read, and not written
    for (auto& t : leaves) made.push_back(t * 1.5);
    made.push_back(zeros({kRows, kColumns}));
    const auto any = [&] {
      const size_t i = below(made.size() + detached.size());
      return clone(i < made.size() ? made[i] : detached[i - made.size()]);
    };
    for (int step = 0; step < 8; ++step) {
      const size_t kind = below(12);
      const Tensor target = made[below(made.size())];
      switch (kind) {
        case 0:
          made.push_back(tanh(any()) * any());
          break;
        case 1:
          made.push_back(any() + mean(any(), 1, true));
          break;
        case 2:  // a view that stays
          made.push_back(reshape(transpose(transpose(target, 0, 1), 0, 1), {kRows, kColumns}));
          break;
        case 3:
          detached.push_back(target.detach());
          break;
        case 4:
          made.push_back(no_grad([&] { return target * 2; }));
          break;
        case 5:
          mul_(target, any());
          break;
        case 6:
          add_(select(target, 0, static_cast<int64_t>(below(kRows))), select(any(), 0, 0));
          break;
        case 7:
          copy_(select(target, 1, static_cast<int64_t>(below(kColumns))), select(any(), 1, 1));
          break;
        case 8:
          mul_(transpose(target, 0, 1), 0.5);
          break;
        case 9:
          tanh_(slice(target, 1, 1, kColumns));
          break;
        case 10:
          copy_(target, any() * 0.5);
          break;
        default:
          made.push_back(clone(sigmoid(any())));
      }
    }
    Tensor loss = sum(any() * any());
    for (auto& t : made) loss = loss + sum(clone(t) * numbers(seed_ + 7));
    return loss;
  }

 private:
  const uint32_t seed_;
};

void expect_same(const Tensor& of_tape, const Tensor& expected, const std::string& what) {
  const auto e = expected.to_vector();
  const auto g = of_tape.defined() ? of_tape.to_vector() : std::vector<double>(e.size());
  ASSERT_EQ(g.size(), e.size()) << what;
  for (size_t i = 0; i < e.size(); ++i) ASSERT_NEAR(g[i], e[i], 1e-4 * (1 + std::abs(e[i]))) << what << ", element " << i;
}

TEST(TapeHistories, AreThoseOfTheFunction) {
  const ByReference no_kernels;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const History history(seed);
    const std::vector<Tensor> plain{numbers(seed), numbers(seed + 1000)};
    const std::vector<Tensor> leaves{numbers(seed).requires_grad_(), numbers(seed + 1000).requires_grad_()};
    const auto [value, expected] = value_and_gradients([&] { return history.run(plain); }, plain);
    const Tensor loss = history.run(leaves);
    ASSERT_NEAR(loss.item(), value.item(), 1e-4 * (1 + std::abs(value.item()))) << "seed " << seed;
    loss.backward();
    for (size_t i = 0; i < leaves.size(); ++i) expect_same(leaves[i].grad(), expected[i], fmt::format("seed {}, leaf {}", seed, i));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace toroid::tape_histories
