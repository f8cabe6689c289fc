// Names, state and modes of modules.
#include <set>

#include "nn/harness.h"

namespace toroid::nn {
namespace {

using namespace test;

std::vector<std::string> names_of(const NamedTensors& list) {
  std::vector<std::string> out;
  for (auto& [name, t] : list) out.push_back(name);
  return out;
}
using Names = std::vector<std::string>;

std::unique_ptr<Sequential> two_layers() {
  auto s = std::make_unique<Sequential>();
  s->add<Linear>(3, 4);
  s->add<ReLU>();
  s->add<Linear>(4, 2, false);
  return s;
}

TEST(Module, NamesParametersByPathInOrder) {
  EXPECT_EQ(names_of(two_layers()->named_parameters()), (Names{"0.weight", "0.bias", "2.weight"}));
  EXPECT_EQ(two_layers()->parameter_count(), 3 * 4 + 4 + 4 * 2);
}

TEST(Module, BuffersAreStateButNoParameters) {
  BatchNorm2d b(5);
  EXPECT_EQ(names_of(b.named_parameters()), (Names{"weight", "bias"}));
  EXPECT_EQ(names_of(b.named_buffers()), (Names{"running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(b.state().size(), 5u);
}

TEST(Module, LoadsItsOwnState) {
  auto a = two_layers(), b = two_layers();
  Tensor x = counting({2, 3}, 0.1);
  EXPECT_GT(error_of(b->forward(x), a->forward(x)), 1e-3);
  b->load_state(a->state());
  EXPECT_EQ(b->forward(x).to_vector(), a->forward(x).to_vector());
}

struct Tied : nn::Module {
  nn::Embedding words{5, 3};
  nn::Linear head{3, 5, false};
  Tied() {
    add_child("words", words), add_child("head", head);
    head.weight = words.weight;
  }
};

// Members that are one tensor stay one, whichever of its names a state has.
TEST(Module, LoadStateKeepsTies) {
  const Tensor given = counting({5, 3});
  const std::map<std::string, Tensor> states[] = {
      {{"words.weight", given}, {"head.weight", clone(given)}}, {{"words.weight", given}}, {{"head.weight", given}}};
  for (auto& state : states) {
    Tied m;
    m.load_state(state);
    EXPECT_EQ(m.words.weight.to_vector(), given.to_vector());
    EXPECT_EQ(m.head.weight.impl(), m.words.weight.impl());
    EXPECT_EQ(m.parameters().size(), 1u);
  }
  Tied m;
  const std::vector<double> before = m.head.weight.to_vector();
  EXPECT_EQ(
      user_error([&] {
        m.load_state({{"words.weight", given}, {"head.weight", given + 1}});
      }),
      "load_state: the tensors do not fit the module: 1 that do not fit: head.weight (which is words.weight here, given with other contents)");
  EXPECT_EQ(m.head.weight.to_vector(), before);
}

TEST(Module, LoadStateConvertsTheDtype) {
  Linear l(2, 2, false);
  l.load_state({{"weight", Tensor::of({1, 2, 3, 4}, {2, 2}, DType::F64)}});
  EXPECT_EQ(l.weight.dtype(), DType::F32);
  EXPECT_EQ(l.weight.to_vector(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(Module, LoadStateNamesEveryProblemAndChangesNothing) {
  auto m = two_layers();
  auto before = m->state();
  auto state = before;
  state.erase("0.bias");
  state["0.wieght"] = before["0.weight"];
  state["2.weight"] = counting({2, 5});
  EXPECT_EQ(user_error([&] { m->load_state(state); }),
            "load_state: the tensors do not fit the module: 1 that do not fit: 2.weight (given [2, 5], the module has [2, 4]); 1 missing: "
            "0.bias; 1 that the module does not have: 0.wieght");
  for (auto& [name, t] : m->state()) EXPECT_EQ(t.impl(), before[name].impl());
}

TEST(Module, LoadStateCanIgnoreNames) {
  auto m = two_layers();
  m->load_state({{"0.bias", Tensor::full(std::vector<int64_t>{4}, 7)}, {"other", counting({1})}}, false);
  EXPECT_EQ(m->state()["0.bias"].to_vector(), (std::vector<double>(4, 7)));
}

TEST(Module, TrainReachesChildren) {
  Sequential s;
  auto& d = s.add<Dropout>(0.5);
  EXPECT_FALSE(d.is_training());
  s.train();
  EXPECT_TRUE(d.is_training());
  s.eval();
  Tensor x = counting({4});
  EXPECT_EQ(s.forward(x).impl(), x.impl());
}

TEST(Module, IsCompiledByItself) {
  auto m = two_layers();
  auto f = compile(*m, by_reference());
  const Tensor x = counting({2, 3}, 0.1);
  EXPECT_LT(error_of(f(x), m->forward(x)), 1e-5);
  m->load_state(two_layers()->state());  // seen by the next call
  EXPECT_LT(error_of(f(x), m->forward(x)), 1e-5);
  MultiheadAttention attention(4, 2);
  auto g = compile(attention, by_reference());
  const Tensor q = counting({1, 3, 4}, 0.1);
  EXPECT_LT(error_of(g(q, q, q), attention.forward(q, q, q)), 1e-5);
}

TEST(Module, ConvertsFloatsOnly) {
  BatchNorm2d b(2);
  b.to(DType::BF16);
  EXPECT_EQ(b.weight.dtype(), DType::BF16);
  EXPECT_EQ(b.num_batches_tracked.dtype(), DType::I64);
}

TEST(Init, EqualSeedsGiveEqualTensors) {
  Init a(5), b(5), c(6);
  auto first = a.normal({3, 5}, 0, 1).to_vector();
  EXPECT_EQ(first, b.normal({3, 5}, 0, 1).to_vector());
  EXPECT_NE(first, c.normal({3, 5}, 0, 1).to_vector());
  EXPECT_NE(first, a.normal({3, 5}, 0, 1).to_vector());
  manual_seed(3);
  Linear l(4, 4);
  manual_seed(3);
  EXPECT_EQ(l.weight.to_vector(), Linear(4, 4).weight.to_vector());
}

TEST(Init, MomentsAreRight) {
  Init init(1);
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    Init typed(1, dtype);
    auto v = typed.normal({100000}, 1, 2).to_vector();
    double mean = 0, square = 0;
    for (double x : v) mean += x / 1e5, square += x * x / 1e5;
    EXPECT_NEAR(mean, 1, 0.03);
    EXPECT_NEAR(square - mean * mean, 4, 0.08);
  }
  auto u = init.kaiming_uniform({400, 100}, 100).to_vector();
  EXPECT_NEAR(*std::max_element(u.begin(), u.end()), 0.1, 1e-3);
  EXPECT_NEAR(*std::min_element(u.begin(), u.end()), -0.1, 1e-3);
  EXPECT_GT(std::set<double>(u.begin(), u.end()).size(), 39000u);
}

TEST(Init, ThreadsDoNotChangeTheNumbers) {
  Init a(2), b(2);
  auto large = a.uniform({3 << 20}, 0, 1);
  auto small = b.uniform({1000}, 0, 1).to_vector();
  for (size_t i = 0; i < small.size(); ++i) ASSERT_EQ(large.data<float>()[i], static_cast<float>(small[i]));
}

TEST(Init, RefusesAbsurdSizes) {
  EXPECT_TRUE(contains(user_error([] { Linear(-1, 4); }), "negative size"));
  EXPECT_TRUE(contains(user_error([] { Linear(int64_t{1} << 40, int64_t{1} << 40, true, Init::shapes_only()); }), "2^46"));
}

}  // namespace
}  // namespace toroid::nn
