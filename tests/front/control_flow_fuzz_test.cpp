// Random nestings of cond, while_loop, scan and map with random bodies: called as they are, by the interpreter, compiled with known and
// open sizes, and differentiated, they must agree.
#include <gtest/gtest.h>

#include <random>

#include "base/options.h"
#include "front/control_flow_harness.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/grad.h"
#include "toroid/random.h"

namespace toroid::control {
namespace {

// A function of matrices of equal sizes, which calls others of its kind in branches and loops. It is a tree that is drawn once, so that all
// calls do the same.
class RandomProgram {
 public:
  struct Traits {
    bool while_loops = true, draws = true, writes = true;
  };

  RandomProgram(std::mt19937& random, const Traits& traits, int depth = 3) {
    const size_t n = 1 + random() % 3;
    for (size_t i = 0; i < n; ++i) {
      Step s{static_cast<Kind>(random() % (depth > 0 ? kKinds : kPlainKinds)), random(), {}};
      if ((s.kind == Kind::While && !traits.while_loops) || (s.kind == Kind::Dropout && !traits.draws) ||
          (s.kind == Kind::Write && !traits.writes))
        s.kind = Kind::Mix;
      for (int k = 0; s.kind > Kind::Dropout && k < 2; ++k) s.parts.emplace_back(random, traits, depth - 1);
      steps_.push_back(std::move(s));
    }
  }

  // around: tensors of the functions around this one, which it captures. All values stay within [-1, 1] or so.
  Tensor operator()(const Tensor& x, const List& around) const {
    Tensor y = x;
    List all = around;
    for (const Step& s : steps_) {
      y = run(s, y, all);
      all.push_back(y);
    }
    return y;
  }

  std::string text() const {
    std::string out;
    for (const Step& s : steps_) {
      out += kNames[static_cast<size_t>(s.kind)];
      if (s.parts.empty()) continue;
      out += '(';
      for (auto& p : s.parts) out += p.text() + "; ";
      out += ')';
    }
    return out;
  }

 private:
  enum class Kind { Mix, Tanh, Matmul, Softmax, Write, View, NoGrad, Dropout, Cond, While, Scan, Map, Checkpoint };
  static constexpr size_t kPlainKinds = 8, kKinds = 13;
  static constexpr const char* kNames[] = {"mix ",     "tanh ", "matmul ", "softmax ", "write ", "view ",     "no_grad ",
                                           "dropout ", "cond",  "while",   "scan",     "map",    "checkpoint"};
  struct Step {
    Kind kind;
    uint64_t seed;
    std::vector<RandomProgram> parts;
  };

  static Tensor run(const Step& s, const Tensor& x, const List& around) {
    const Tensor other = around[s.seed % around.size()];
    const auto first = [&](const Tensor& t) { return s.parts[0](t, around); };
    const auto second = [&](const Tensor& t) {
      List more = around;
      more.push_back(t);
      return s.parts[1](t * 0.75, more);
    };
    switch (s.kind) {
      case Kind::Mix:
        return s.seed % 3 ? x * 0.5 - other * 0.25 : where(other > 0, x, -x);
      case Kind::Tanh:
        return tanh(x + other);
      case Kind::Matmul:
        return matmul(matmul(x, transpose(other, 0, 1)), x) / (1 + sum(x * x));
      case Kind::Softmax:
        return softmax(x, s.seed % 2) - other * 0.125;
      case Kind::Write: {
        const Tensor own = clone(x);
        mul_(own[s.seed % 2], other[0]);
        add_(own, 0.125);
        return tanh(own);
      }
      case Kind::View:
        return reshape(transpose(x, 0, 1), {x.size(0), x.size(1)}) + ones({x.size(0), 1}, DType::F64) * 0.0625;
      case Kind::NoGrad: {
        const NoGrad none;
        return sin(x) * other;
      }
      case Kind::Dropout:
        return dropout(x, 0.25, true) * 0.75;
      case Kind::Cond: {
        const Tensor p = sum(s.seed % 2 ? x : other) > 0;
        if (s.seed % 3 == 0) return cond(p, first, second, x);
        if (s.seed % 3 == 1)
          return cond(
              p, [&] { return first(x); }, [&] { return other; });
        const auto [a, b] = cond(
            p, [&](const std::map<int, Tensor>& m) { return std::pair(first(m.at(2)), m.at(5)); },
            [&](const std::map<int, Tensor>& m) { return std::pair(m.at(5), second(m.at(2))); }, std::map<int, Tensor>{{2, x}, {5, other}});
        return (a + b) * 0.5;
      }
      case Kind::While: {
        const auto [i, y] =
            while_loop([&](const Tensor& i, const Tensor& t) { return logical_and(i < static_cast<int64_t>(s.seed % 4), sum(t) < 50); },
                       [&](const Tensor& i, const Tensor& t) { return std::tuple(i + 1, tanh(first(t) + second(t))); },
                       std::tuple(zeros({}, DType::I64), x));
        return y + i.to(DType::F64) * 0.0625;
      }
      case Kind::Scan: {
        const auto [last, all] =
            scan([&](const Tensor& h, const Tensor& row) { return std::pair(tanh(first(h) + row), std::pair(row * h[0], second(h)[0])); },
                 other, x, {.dim = 0, .reverse = s.seed % 2 == 0});
        return (all.first + all.second) * 0.25 + last * 0.5;
      }
      case Kind::Map:
        return transpose(map([&](const Tensor& column) { return column * first(x * 0.5)[0][0] + second(other)[1][0]; }, x, 1), 0, 1);
      case Kind::Checkpoint:
        return checkpoint([&] { return first(x); });
    }
    return x;
  }

  std::vector<Step> steps_;
};

// Doubles, so that no rounding decides a branch.
Tensor inputs(int64_t rows, int64_t columns, double phase) { return sin(test::counting({rows, columns}, DType::F64) * 1.7 + phase); }

TEST(ControlFlowFuzz, AllWaysAgree) {
  const ScopedOption verify("verify_passes", "1");
  std::mt19937 random(20);
  int nested = 0;
  for (int program = 0; program < 40; ++program) {
    const RandomProgram f(random, {});
    const std::string text = f.text();
    SCOPED_TRACE("program " + std::to_string(program) + ": " + text);
    nested += text.find('(') != text.npos;
    const Tensor captured = inputs(3, 2, 0.9);
    const auto fn = [&](const Tensor& x, const Tensor& w) { return List{f(x, {w, x * 0.5, captured})}; };
    const auto seeded = [&](const auto& g, const Tensor& x, const Tensor& w) {
      manual_seed(program);
      return g(x, w);
    };
    const Tensor x = inputs(3, 2, program), w = inputs(3, 2, program + 0.5);
    const List eager = seeded(fn, x, w);
    const auto offset = default_generator().state().offset;
    const auto expect_same = [&](const auto& g, const char* what) {
      ASSERT_NO_FATAL_FAILURE(expect_near(seeded(g, x, w), eager, what));
      EXPECT_EQ(default_generator().state().offset, offset) << what;
    };
    expect_same(compile(fn, test::by_reference({.fullgraph = true})), "by the interpreter");
    const auto compiled = compile(fn, {.mode = program % 2 ? Mode::ReduceOverhead : Mode::Default, .fullgraph = true});
    for (int call = 0; call < 2; ++call) expect_same(compiled, "compiled");
    if (HasFailure()) return;
  }
  EXPECT_GT(nested, 20);
}

TEST(ControlFlowFuzz, OpenSizesAgree) {
  const ScopedOption verify("verify_passes", "1");
  std::mt19937 random(21);
  for (int program = 0; program < 25; ++program) {
    const RandomProgram f(random, {.draws = false});
    SCOPED_TRACE("program " + std::to_string(program) + ": " + f.text());
    const auto fn = [&](const Tensor& x, const Tensor& w) { return List{f(x, {w, x * 0.5})}; };
    const auto compiled = compile(fn, {.fullgraph = true, .dynamic = true});
    for (auto [rows, columns] : {std::pair(3, 2), std::pair(4, 3), std::pair(2, 2)}) {
      const Tensor x = inputs(rows, columns, program), w = inputs(rows, columns, program + 0.5);
      ASSERT_NO_FATAL_FAILURE(expect_near(compiled(x, w), fn(x, w), "open sizes"));
    }
  }
}

TEST(ControlFlowFuzz, GradientsAgree) {
  const ScopedOption verify("verify_passes", "1");
  std::mt19937 random(22);
  for (int program = 0; program < 25; ++program) {
    const RandomProgram f(random, {.while_loops = false, .draws = false}, 2);
    SCOPED_TRACE("program " + std::to_string(program) + ": " + f.text());
    const auto loss = [&](const Tensor& x, const Tensor& w) { return sum(f(x, {w, x * 0.5}) * inputs(3, 2, 0.1)); };
    const auto gradients = [&](const Tensor& x, const Tensor& w) {
      auto [value, by] = value_and_gradients([&] { return loss(x, w); }, {x, w});
      return List{value, by[0], by[1]};
    };
    const Tensor x = inputs(3, 2, program), w = inputs(3, 2, program + 0.5);
    const auto backward = [&](const auto& g) {
      Tensor p = x.detach(), q = w.detach();
      p.requires_grad_(), q.requires_grad_();
      const Tensor value = g(p, q);
      if (value.requires_grad()) value.backward();
      const auto of = [](const Tensor& t) { return t.grad().defined() ? t.grad() : t.detach() * 0; };
      return List{value.detach(), of(p), of(q)};
    };
    const List want = backward(loss);
    ASSERT_NO_FATAL_FAILURE(expect_near(gradients(x, w), want, "value_and_gradients"));
    ASSERT_NO_FATAL_FAILURE(expect_near(compile(gradients, {.fullgraph = true, .dynamic = program % 2 == 0})(x, w), want, "compiled"));
    ASSERT_NO_FATAL_FAILURE(expect_near(backward(compile(loss, {.fullgraph = true})), want, "backward() of a compiled function"));
  }
}

}  // namespace
}  // namespace toroid::control
