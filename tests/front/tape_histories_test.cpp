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
      const size_t kind = below(15);
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
        case 11:
          no_grad([&] { add_(mul_(target, 0.5), any()); });
          break;
        case 12:
          no_grad([&] { copy_(select(target, 1, static_cast<int64_t>(below(kColumns))), select(any(), 1, 1)); });
          break;
        case 13:
          mul_(target.detach(), any().detach());
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

struct Program {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& y)> call;  // of two tensors of 4 x 6
};

const Program kPrograms[] = {
    {"matmul", [](const Tensor& x, const Tensor& y) { return matmul(x, transpose(y, 0, 1)); }},
    {"broadcast", [](const Tensor& x, const Tensor& y) { return x * select(y, 0, 1) + sum(y, 1, true) / (1 + exp(x)); }},
    {"numbers", [](const Tensor& x, const Tensor& y) { return pow(x * x + 1.0, 1.5) - 2.0 / (y * y + 1) + (3 - x) * 2; }},
    {"softmax", [](const Tensor& x, const Tensor& y) { return softmax(x * 3, -1) * log_softmax(y, 0); }},
    {"activations", [](const Tensor& x, const Tensor& y) { return gelu(x) + relu(y) * sigmoid(x) + silu(y); }},
    {"layer_norm", [](const Tensor& x, const Tensor& y) { return layer_norm(x, {6}, select(y, 0, 0), select(y, 0, 1)); }},
    {"conv2d",
     [](const Tensor& x, const Tensor& y) {
       return conv2d(reshape(x, {1, 1, 4, 6}), reshape(slice(y, 1, 0, 1), {1, 1, 2, 2}));
     }},
    {"attention",
     [](const Tensor& x, const Tensor& y) {
       return scaled_dot_product_attention(reshape(x, {1, 2, 4, 3}), reshape(y, {1, 2, 4, 3}), reshape(x + y, {1, 2, 4, 3}), {}, 0.0, true);
     }},
    {"cross_entropy",
     [](const Tensor& x, const Tensor& y) {
       return cross_entropy(x, Tensor::of({0, 2, 1, 5}, {4}, DType::I64)) * sum(y);
     }},
    {"reductions", [](const Tensor& x, const Tensor& y) { return amax(x, 1, true) * var(y, {0}) + logsumexp(y, {0}) + prod(x); }},
    {"joined",
     [](const Tensor& x, const Tensor& y) {
       return cat({x, exp(y), x * y}, 0) * 2;
     }},
    {"parts",
     [](const Tensor& x, const Tensor& y) { return slice(split(x, 2, 0)[1], 1, 0, 4) * contiguous(transpose(split(y, 2, 1)[0], 0, 1)); }},
    {"indexed",
     [](const Tensor& x, const Tensor& y) {
       const Tensor rows = Tensor::of({3, 0, 0}, {3}, DType::I64), places = Tensor::of({1, 2, 5, 0, 0, 4}, {3, 2}, DType::I64);
       return index_select(slice(x, 1, 0, 2), 0, rows) * gather(y, 1, places);
     }},
    {"sorted", [](const Tensor& x, const Tensor& y) { return std::get<0>(sort(x, 1)) * std::get<0>(topk(y, 6, 1)); }},
    {"scans", [](const Tensor& x, const Tensor& y) { return cumsum(x, 1) * cumprod(y, 0); }},
    {"chosen", [](const Tensor& x, const Tensor& y) { return where(x > y, x * 2, y) + clamp(x, -0.5, 0.5) + maximum(x, y); }},
    {"views",
     [](const Tensor& x, const Tensor& y) {
       return as_strided(x, {3, 3}, {2, 1}, 1) * expand(slice(slice(y, 0, 0, 1), 1, 0, 3), std::vector<SymInt>{3, 3});
     }},
    {"solved", [](const Tensor& x, const Tensor& y) { return linalg_solve(matmul(x, transpose(x, 0, 1)) + eye(4), y); }},
    {"dropout in evaluation", [](const Tensor& x, const Tensor& y) { return dropout(x, 0.5, false) * y; }},
    {"batch_norm",
     [](const Tensor& x, const Tensor& y) { return batch_norm(x, select(y, 0, 0), select(y, 0, 1), zeros({6}), ones({6}), true); }},
    {"converted", [](const Tensor& x, const Tensor& y) { return to(to(x, DType::F64) * 2, DType::F32) * to(y, DType::F64); }},
};

TEST(TapeHistories, OfATableOfPrograms) {
  const ByReference no_kernels;
  std::mt19937 random(3);
  std::vector<double> values;
  for (int i = 0; i < 48; ++i) values.push_back(static_cast<double>(random() % 1000) / 500 - 1);
  const Tensor x = Tensor::of(std::span(values).first(24), std::vector<int64_t>{4, 6}),
               y = Tensor::of(std::span(values).last(24), std::vector<int64_t>{4, 6});
  for (auto& p : kPrograms) try {
      const Tensor a = clone(x).requires_grad_(), b = clone(y).requires_grad_();
      const Tensor result = p.call(a, b);
      Tensor cotangent = sin(arange(result.numel()) + 1.0);
      cotangent = to(reshape(cotangent, std::vector<SymInt>(result.sizes().begin(), result.sizes().end())), result.dtype());
      result.backward(cotangent);
      const auto expected =
          vjp([&] { return std::vector<Tensor>{p.call(x, y)}; }, std::vector<Tensor>{x, y}, std::vector<Tensor>{cotangent});
      expect_same(result.detach(), expected.first[0], p.name);
      expect_same(a.grad(), expected.second[0], fmt::format("{}, by x", p.name));
      expect_same(b.grad(), expected.second[1], fmt::format("{}, by y", p.name));
    } catch (const Error& e) {
      ADD_FAILURE() << p.name << ": " << e.what();
    }
}

}  // namespace
}  // namespace toroid::tape_histories
