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

// What holds the tensors goes on with the new elements: optimizers, views, other names.
TEST(Module, LoadStateWritesInPlace) {
  auto m = two_layers();
  m->requires_grad();
  const auto before = m->state();
  const Tensor weight = before.at("0.weight"), row = select(weight.detach(), 0, 1);
  const Tensor given = counting({4, 3});
  m->load_state({{"0.weight", given}}, false);
  EXPECT_EQ(m->state().at("0.weight").impl(), weight.impl());
  EXPECT_EQ(weight.to_vector(), given.to_vector());
  EXPECT_EQ(row.to_vector(), (std::vector<double>{3, 4, 5}));
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
  fill_(given, 9);
  EXPECT_EQ(weight.to_vector()[11], 11) << "the given tensor stays the caller's";
  m->load_state(m->state());
  EXPECT_EQ(weight.to_vector()[11], 11);
}

// Of a module's own tensors under other names, which are written too.
TEST(Module, LoadStateExchangesOwnTensors) {
  Sequential s;
  auto &a = s.add<Linear>(1, 2, false), &b = s.add<Linear>(1, 2, false);
  fill_(a.weight, 1), fill_(b.weight, 2);
  s.load_state({{"0.weight", b.weight}, {"1.weight", a.weight}});
  EXPECT_EQ(a.weight.to_vector(), (std::vector<double>{2, 2}));
  EXPECT_EQ(b.weight.to_vector(), (std::vector<double>{1, 1}));
  EXPECT_NE(a.weight.impl(), b.weight.impl());
}

// Two modules have one set of weights, and what a file has is not copied.
TEST(Module, LoadStateSharesWithModulesWithoutMemory) {
  auto whole = two_layers();
  Sequential shape;
  shape.add<Linear>(3, 4, true, Init::shapes_only());
  shape.add<ReLU>();
  shape.add<Linear>(4, 2, false, Init::shapes_only());
  shape.load_state(whole->state());
  for (auto& [name, t] : shape.state()) EXPECT_EQ(t.impl(), whole->state().at(name).impl());
  const Tensor given = counting({4});
  shape.load_state({{"0.bias", given}}, false);  // which has memory now
  EXPECT_EQ(whole->state().at("0.bias").to_vector(), given.to_vector());
  Linear scalar_like(1, 1, true, Init::shapes_only());
  EXPECT_TRUE(Init::is_shape_only(scalar_like.bias));
  EXPECT_FALSE(Init::is_shape_only(shape.state().at("0.bias")));
}

TEST(Module, TiedParametersHaveTheirFirstName) {
  Tied m;
  EXPECT_EQ(names_of(m.named_parameters()), Names{"words.weight"});
  EXPECT_EQ(m.parameters().size(), 1u);
  EXPECT_EQ(m.state().size(), 2u);
}

// A slip of copy and paste would lose weights of a checkpoint.
TEST(Module, NamesAreGivenOnce) {
  struct Open : nn::Module {
    using Module::add_buffer, Module::add_child, Module::add_parameter;
  };
  Open m;
  Linear a(2, 2), b(2, 2);
  Tensor t = ones({1}), none;
  m.add_child("a", a), m.add_parameter("t", t), m.add_parameter("none", none), m.add_buffer("seen", t);
  const auto refused = [&](const char* name, const char* kind) {
    const std::string told = std::string("the module has a ") + kind + " \"" + name + "\" already";
    EXPECT_TRUE(contains(user_error([&] { m.add_child(name, b); }), "add_child: " + told));
    EXPECT_TRUE(contains(user_error([&] { m.add_parameter(name, t); }), "add_parameter: " + told));
    EXPECT_TRUE(contains(user_error([&] { m.add_buffer(name, t); }), "add_buffer: " + told));
  };
  refused("a", "child"), refused("t", "parameter"), refused("none", "parameter"), refused("seen", "buffer");
  EXPECT_EQ(m.state().size(), 4u);
}

// A head that is exchanged for fine-tuning: the name is the new one's once the former one is gone, and nobody looks at what is gone.
TEST(Module, AChildThatIsDestroyedLeavesItsNameToTheNext) {
  struct Net : Module {
    std::unique_ptr<Linear> body = std::make_unique<Linear>(2, 2), head = std::make_unique<Linear>(2, 3);
    Net() { add_child("body", *body), add_child("head", *head); }
    void set_head(std::unique_ptr<Linear> next) {
      head = std::move(next);
      add_child("head", *head);
    }
  };
  Net net;
  Scope outer;
  outer.adopt("net", net);
  net.train();
  net.set_head(std::make_unique<Linear>(2, 5));
  EXPECT_TRUE(net.head->is_training());
  EXPECT_EQ(names_of(outer.named_parameters()), (Names{"net.body.weight", "net.body.bias", "net.head.weight", "net.head.bias"}));
  EXPECT_EQ(net.head->weight.sizes(), (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(net.head->path(), "net.head");
  net.head = std::make_unique<Linear>(2, 7);
  const std::function<void()> uses[] = {[&] { outer.parameters(); }, [&] { net.state(); },          [&] { net.train(); },
                                        [&] { net.to(DType::F64); }, [&] { net.named_children(); }, [&] { net.load_state({}, false); }};
  for (auto& use : uses) EXPECT_TRUE(contains(user_error(use), "the child \"head\" of the module \"net\" has been destroyed"));
  net.set_head(std::move(net.head));
  EXPECT_EQ(net.parameters()[2].sizes(), (std::vector<int64_t>{7, 2}));
}

TEST(Module, ListsRefuseAnIndexThatIsOutOfRange) {
  ModuleList<Linear> list;
  EXPECT_EQ(user_error([&] { list[0]; }), "ModuleList: there is no item 0; it has 0");
  list.emplace(2, 2), list.emplace(2, 2);
  EXPECT_EQ(user_error([&] { list[7]; }), "ModuleList: there is no item 7; it has 2, 0 to 1");
  EXPECT_EQ(user_error([&] { (*two_layers())[3]; }), "Sequential: there is no item 3; it has 3, 0 to 2");
}

TEST(Module, SequentialTakesLayers) {
  Sequential s(std::make_unique<Linear>(3, 4), std::make_unique<ReLU>(), std::make_unique<Linear>(4, 2, false));
  EXPECT_EQ(names_of(s.named_parameters()), names_of(two_layers()->named_parameters()));
  EXPECT_EQ(s[2].parameters()[0].sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(s.forward(ones({1, 3})).sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(contains(user_error([] { Sequential(std::unique_ptr<Linear>()); }), "layer 0 is null"));
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
