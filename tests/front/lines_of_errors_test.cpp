// Mistakes in calls that are no operations are told with the caller's line, too.
#include <gtest/gtest.h>

#include "errors.h"
#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

struct Mistake {
  const char* name;
  int line;
  std::function<void()> make;
};

void expect_lines(const std::vector<Mistake>& mistakes) {
  for (auto& m : mistakes) {
    const std::string what = test::user_error(m.make);
    EXPECT_TRUE(test::contains(what, fmt::format("lines_of_errors_test.cpp:{}", m.line))) << m.name << ": " << what;
  }
}

TEST(LinesOfErrors, OfWhatIsNoOperation) {
  const Tensor x = Tensor::full({2, 3}, 1);
  Tensor ints = Tensor::full({2}, 1, DType::I64), leaf = Tensor::full({3}, 1), none;
  leaf.requires_grad_();
  const Tensor y = leaf * 2;
  nn::Linear layer(4, 2);
  const std::vector<Mistake> mistakes{
      {"requires_grad_ of integers", __LINE__, [&] { ints.requires_grad_(); }},
      {"requires_grad_ of what follows", __LINE__, [&] { Tensor(y).requires_grad_(false); }},
      {"requires_grad_ of nothing", __LINE__, [&] { none.requires_grad_(); }},
      {"retain_grad", __LINE__, [&] { x.retain_grad(); }},
      {"register_hook", __LINE__, [&] { x.register_hook([](const Tensor& g) { return g; }); }},
      {"an empty hook", __LINE__, [&] { leaf.register_hook(nullptr); }},
      {"set_grad", __LINE__, [&] { leaf.set_grad(x); }},
      {"grad of nothing", __LINE__, [&] { none.grad(); }},
      {"mark_dynamic, a dimension", __LINE__, [&] { mark_dynamic(x, 2); }},
      {"mark_dynamic, a range", __LINE__, [&] { mark_dynamic(x, 0, 5, 4); }},
      {"mark_static", __LINE__, [&] { mark_static(x, 7); }},
      {"by integers", __LINE__, [&] { value_and_gradients([&] { return sum(x); }, {ints}); }},
      {"by nothing", __LINE__, [&] { value_and_gradients([&] { return sum(x); }, {none}); }},
      {"of no number", __LINE__, [&] { value_and_gradients([&] { return x * 2; }, {x}); }},
      {"cotangents", __LINE__, [&] { vjp([&] { return std::vector{x * 2}; }, std::span(&x, 1), std::span(&x, 0)); }},
      {"a layer", __LINE__, [&] { layer(x); }},
  };
  expect_lines(mistakes);
}

// Of a number the operand knows its line.
TEST(LinesOfErrors, OfATensorWhereANumberBelongs) {
  const Tensor x = Tensor::full({2, 2}, 1), i = Tensor::full({2}, 0, DType::I64), number = Tensor::full({}, 2);
  expect_lines({
      {"elu", __LINE__, [&] { elu(x, number); }},
      {"hardtanh", __LINE__, [&] { hardtanh(x, number, 2); }},
      {"softplus", __LINE__, [&] { softplus(x, 1, number); }},
      {"celu", __LINE__, [&] { celu(x, number); }},
      {"threshold", __LINE__, [&] { threshold(x, 0, number); }},
      {"addmm", __LINE__, [&] { addmm(x, x, x, number); }},
      {"addcmul", __LINE__, [&] { addcmul(x, x, x, number); }},
      {"index_add", __LINE__, [&] { index_add(x, 0, i, x, number); }},
      {"index_add_", __LINE__, [&] { index_add_(to(x, DType::F64), 0, i, x, number); }},
      {"multi_margin_loss", __LINE__, [&] { multi_margin_loss(x, i, number); }},
      {"only numbers", __LINE__, [&] { fmax(1, 2); }},
  });
}

}  // namespace
}  // namespace toroid
