// Gradients by tensors that functions of control flow capture: each use of a tensor counts, wherever it is first read.
#include <gtest/gtest.h>

#include "front/control_flow_harness.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/train/data.h"
#include "toroid/train/trainer.h"

namespace toroid::control {
namespace {

using test::contains;
using test::user_error;

// A function of x, the captured w and what else the case captures: the tensor that a region computes with.
using Loss = std::function<Tensor(const std::function<Tensor()>& weight, const Tensor& x)>;

// Each kind of region; x is [3, 2], the weight [2, 2].
const std::vector<std::pair<std::string, Loss>>& regions() {
  static const auto& all = *new std::vector<std::pair<std::string, Loss>>{
      {"scan",
       [](auto& weight, auto& x) {
         const auto [h, ys] = scan(
             [&](const Tensor& h, const Tensor& row) {
               const Tensor next = tanh(matmul(h, weight()) + row);
               return std::pair(next, next * row);
             },
             zeros({1, 2}), unsqueeze(x, 1));
         return sum(h) + sum(ys * ys);
       }},
      {"map", [](auto& weight, auto& x) { return sum(map([&](const Tensor& row) { return sin(matmul(row, weight())); }, x)); }},
      {"cond",
       [](auto& weight, auto& x) {
         return sum(cond(
             sum(x) > -100, [&] { return matmul(x, weight()); }, [&] { return x - sum(weight()); }));
       }},
      {"a loop in a branch",
       [](auto& weight, auto& x) {
         return sum(cond(
             sum(x) < -100, [&] { return x * 2; },
             [&] {
               return map(
                   [&](const Tensor& row) {
                     return cond(
                         sum(row) > 0, [&] { return matmul(row, weight()) * row; }, [&] { return matmul(weight(), row); });
                   },
                   x);
             }));
       }},
      {"beside while_loop",
       [](auto& weight, auto& x) {
         const Tensor rounds = while_loop([](const Tensor& i) { return i < 3; }, [](const Tensor& i) { return i + 1; }, number(0));
         return sum(map([&](const Tensor& row) { return matmul(row, weight()) * to(rounds, DType::F32); }, x));
       }},
  };
  return all;
}

// What the region reads of w.
using Uses = std::function<Tensor(const Tensor& w, const Loss& region, const Tensor& x)>;
const std::vector<std::pair<std::string, Uses>>& uses() {
  static const auto& all = *new std::vector<std::pair<std::string, Uses>>{
      {"a leaf", [](auto& w, auto& region, auto& x) { return region([&] { return w; }, x); }},
      {"a view of a leaf", [](auto& w, auto& region, auto& x) { return region([&] { return transpose(w, 0, 1); }, x); }},
      {"a view from outside",
       [](auto& w, auto& region, auto& x) {
         const Tensor turned = transpose(w, 0, 1);
         return region([&] { return turned; }, x);
       }},
      {"used before", [](auto& w, auto& region, auto& x) { return sum(w * w) * 0.5 + region([&] { return w; }, x); }},
      {"used behind",
       [](auto& w, auto& region, auto& x) {
         const Tensor part = region([&] { return w; }, x);
         return part + sum(exp(w));
       }},
      {"in two regions",
       [](auto& w, auto& region, auto& x) { return region([&] { return w; }, x) + region([&] { return w * w; }, x * 0.5); }},
  };
  return all;
}

// By each function that gives gradients: the value where there is one, and gradients by x and w.
using Gradients = std::function<List(const std::function<Tensor()>& loss, const Tensor& w)>;
const std::vector<std::pair<std::string, Gradients>>& ways() {
  static const auto& all = *new std::vector<std::pair<std::string, Gradients>>{
      {"value_and_gradients",
       [](auto& loss, auto& w) {
         const auto [value, by] = value_and_gradients(loss, {w});
         return List{value, by[0]};
       }},
      {"vjp",
       [](auto& loss, auto& w) {
         const Tensor seed = Tensor::full({}, 2);
         const auto [values, by] = vjp([&] { return List{loss()}; }, std::span(&w, 1), std::span(&seed, 1));
         return List{values[0], by[0] / 2};
       }},
      {"grad",
       [](auto& loss, auto& w) {
         return List{loss(), grad([&](const Tensor&) { return loss(); })(w)};
       }},
      {"a gradient in a function that is differentiated",
       [](auto& loss, auto& w) {
         const auto square = [&] {
           const Tensor inner = value_and_gradients(loss, {w}).second[0];
           return sum(inner * inner) + sum(w);
         };
         const auto [value, by] = value_and_gradients(square, {w});
         return List{value, by[0]};
       }},
  };
  return all;
}

// Both as a plain tensor and as a parameter of a module; compiled with x as an argument and as a capture, with sizes fixed and open.
TEST(CapturedGradients, AreThoseOfEagerCalls) {
  const Tensor x = sin(test::counting({3, 2})), leaf = Tensor::of({.5, .1, -.2, .3}, {2, 2});
  nn::Linear module(2, 2, {.bias = false});
  copy_(module.weight, leaf);
  for (auto& [region, body] : regions())
    for (auto& [use, loss] : uses())
      for (auto& [way, gradients] : ways())
        for (const Tensor* w : {&leaf, static_cast<const Tensor*>(&module.weight)}) {
          const std::string what = region + ", " + use + ", " + way + (w == &leaf ? "" : ", of a module");
          SCOPED_TRACE(what);
          const auto run = [&](const Tensor& x) { return gradients([&] { return loss(*w, body, x); }, *w); };
          const List want = run(x);
          double size = 0;
          for (double v : want[1].to_vector()) size += std::abs(v);
          EXPECT_GT(size, 0.01);
          for (bool dynamic : {false, true})
            expect_near(compile(run, test::by_reference({.fullgraph = true, .dynamic = dynamic}))(x), want, dynamic ? "dynamic" : "static");
          expect_near(compile([&] { return run(x); }, test::by_reference({.fullgraph = true}))(), want, "with everything captured");
        }
}

// Through kernels, too, and where a graph break comes before: what an earlier segment made is one tensor in and out of regions.
TEST(CapturedGradients, InKernelsAndBehindGraphBreaks) {
  const Tensor leaf = Tensor::of({.5, .1, -.2, .3}, {2, 2});
  for (auto& [region, body] : regions()) {
    const auto run = [&](const Tensor& x) {
      const Tensor w = leaf * 2;
      if (sum(x).item() > 1e6) return List{x};
      const auto [value, by] = value_and_gradients([&] { return body([&] { return w; }, x) + sum(w * w) + sum(x * x); }, {w, x});
      return List{value, by[0], by[1]};
    };
    for (bool dynamic : {false, true}) {
      const auto compiled = compile(run, {.dynamic = dynamic});
      for (int64_t rows : {3, 5, 4}) {
        const Tensor x = sin(test::counting({rows, 2}));
        expect_near(compiled(x), run(x), region);
      }
    }
  }
  // The size that is open is that of what the regions capture.
  const auto open = [](const Tensor& x) {
    const Tensor w = cos(x);
    if (sum(x).item() > 1e6) return List{x};
    const auto [value, by] =
        value_and_gradients([&] { return sum(map([&](const Tensor& row) { return row * sum(w * x, 0); }, w)) + sum(w * x); }, {w, x});
    return List{value, by[0], by[1]};
  };
  const auto compiled = compile(open, {.dynamic = true});
  for (int64_t rows : {3, 5, 4}) {
    const Tensor x = sin(test::counting({rows, 2}));
    expect_near(compiled(x), open(x), "open");
  }
}

// A module whose parameters regions alone read: its compiled step and its Trainer move them as eager steps do.
TEST(CapturedGradients, TrainARecurrentModule) {
  struct Recurrent : nn::Module {
    nn::Linear in{2, 3}, hidden{3, 3}, out{3, 1};
    Recurrent() {
      add_child("in", in), add_child("hidden", hidden), add_child("out", out);
      double k = 0;
      for (Tensor& p : parameters()) copy_(p, sin(test::counting(p.sizes()) + k++) * 0.5);
    }
    Tensor loss(const Tensor& x) {
      const auto [h, all] = scan(
          [&](const Tensor& h, const Tensor& step) {
            const Tensor next = tanh(in.forward(step) + hidden.forward(h));
            return std::pair(next, out.forward(next));
          },
          zeros({x.size(0), 3}), transpose(x, 0, 1));
      return mean(all * all);
    }
  };
  const Tensor samples = cos(test::counting({4, 5, 2}));
  const auto trained = [&](auto&& steps) {
    Recurrent m;
    train::SGD optimizer(m.parameters(), {.lr = 0.1});
    steps(m, optimizer);
    return m.parameters();
  };
  const auto step = [&](Recurrent& m, train::Optimizer& optimizer) {
    auto [value, gradients] = value_and_gradients([&] { return m.loss(samples); }, optimizer.parameters());
    optimizer.step(gradients);
    return value;
  };
  const List start = Recurrent().parameters();
  const List eager = trained([&](auto& m, auto& optimizer) {
    for (int i = 0; i < 3; ++i) step(m, optimizer);
  });
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_GT(sum(abs(eager[i] - start[i])).item(), 1e-4) << i;
  expect_near(trained([&](auto& m, auto& optimizer) {
                const auto compiled = compile([&] { return step(m, optimizer); });
                for (int i = 0; i < 3; ++i) compiled();
              }),
              eager, "a compiled step");
  expect_near(trained([&](auto& m, auto& optimizer) {
                const train::TensorData data({samples});
                train::Trainer trainer(m, [&](const train::Batch& batch) { return m.loss(batch[0]); }, optimizer, data,
                                       {.steps = 3, .batch_size = 4, .shuffle = false});
                trainer.run();
              }),
              eager, "a Trainer");
}

// A compiled function that gets as an argument what it reads by its own variable, too, has two tensors of it.
TEST(CapturedGradients, OfAnArgumentThatIsCapturedAreRefused) {
  const Tensor w = ones({2});
  const auto run = [&](const Tensor& given) {
    return value_and_gradients([&] { return sum(given * 2) + sum(map([&](const Tensor& t) { return t * 3; }, w)); }, {given}).second[0];
  };
  EXPECT_EQ(run(w).to_vector(), (Values{5, 5}));
  EXPECT_PRED2(contains, user_error([&] { compile(run)(w); }), "tensor 0 by which it is differentiated is an argument");
  EXPECT_EQ(compile(run)(w + 0).to_vector(), (Values{2, 2}));
}

}  // namespace
}  // namespace toroid::control
