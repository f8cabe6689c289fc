// Which changes of variables reach a trace that has read them.
#include "tensor/watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "toroid/tensor.h"

namespace toroid {
namespace {

// `x[0] = y` would change a temporary handle and no element.
static_assert(std::is_assignable_v<Tensor&, const Tensor&> && std::is_assignable_v<Tensor&, Tensor>);
static_assert(!std::is_assignable_v<Tensor, const Tensor&> && !std::is_assignable_v<Tensor, Tensor>);

Tensor one() { return Tensor::full(std::vector<int64_t>{2}, 1); }

// What a trace has read when `read` runs in it.
template <class F>
WatchedReads reads_of(F&& read) {
  WatchedReads reads;
  {
    WatchedReads::Scope scope(&reads);
    read();
  }
  reads.settle();
  return reads;
}

TEST(Watch, EveryChangeOfAVariableIsSeenAndNoOther) {
  struct Case {
    const char* what;
    bool stands;
    std::function<void(std::unique_ptr<Tensor>&)> change;
  };
  const Case cases[] = {
      {"nothing", true, [](auto&) {}},
      {"a copy", true, [](auto& t) { Tensor copy = *t; }},
      {"a copy that is assigned", true,
       [](auto& t) {
         Tensor copy(*t);
         copy = one();
       }},
      {"the same tensor", true, [](auto& t) { *t = Tensor(*t); }},
      {"itself", true, [](auto& t) { *t = *&*t; }},
      {"elements", true, [](auto& t) { t->template data<float>()[0] = 3; }},
      {"another tensor", false, [](auto& t) { *t = one(); }},
      {"another tensor while a copy of the old one lives", false,
       [](auto& t) {
         Tensor old = *t;
         *t = one();
       }},
      {"undefined", false, [](auto& t) { *t = {}; }},
      {"moved from", false, [](auto& t) { Tensor taken = std::move(*t); }},
      {"moved to itself", true,
       [](auto& t) {
         Tensor& same = *t;
         same = std::move(*t);
       }},
      {"moved from by an assignment", false,
       [](auto& t) {
         Tensor other;
         other = std::move(*t);
       }},
      {"a tensor moved to it", false, [](auto& t) { *t = one(); }},
      {"swapped", false,
       [](auto& t) {
         Tensor other = one();
         std::swap(*t, other);
       }},
      {"destroyed", false, [](auto& t) { t.reset(); }},
  };
  for (auto& c : cases)
    for (bool defined : {true, false}) {
      if (!defined && (c.what == std::string("elements") || c.what == std::string("undefined"))) continue;
      auto t = std::make_unique<Tensor>(defined ? one() : Tensor());
      const WatchedReads reads = reads_of([&] { Tensor copy = *t; });
      EXPECT_EQ(reads.size(), 1u) << c.what;
      c.change(t);
      EXPECT_EQ(reads.stand(), c.stands) << c.what << (defined ? "" : ", of an undefined tensor");
    }
}

TEST(Watch, VariablesOfTheTraceItselfAreForgotten) {
  const Tensor outside = one();
  const WatchedReads reads = reads_of([&] {
    Tensor local = outside, second = local;
    std::vector<Tensor> list(3, local);
    list.push_back(list[0]);
  });
  EXPECT_EQ(reads.size(), 1u);
  EXPECT_TRUE(reads.stand());
}

TEST(Watch, AContainerThatGrowsMovesItsTensors) {
  std::vector<Tensor> list{one()};
  list.shrink_to_fit();
  const WatchedReads reads = reads_of([&] { Tensor t = list[0]; });
  list.reserve(100);
  EXPECT_FALSE(reads.stand());
}

TEST(Watch, SeveralTracesAndLaterOnesAreTold) {
  Tensor t = one();
  const WatchedReads a = reads_of([&] { (void)t.defined(); }), b = reads_of([&] { (void)t.sizes(); });
  t = one();
  EXPECT_FALSE(a.stand());
  EXPECT_FALSE(b.stand());
  const uint64_t before = WatchedReads::changes();
  const WatchedReads c = reads_of([&] { Tensor copy = t; });
  EXPECT_TRUE(c.stand());
  t = one();
  EXPECT_FALSE(c.stand());
  EXPECT_GT(WatchedReads::changes(), before);
}

TEST(Watch, NumbersAreFollowedToo) {
  Watched<bool> flag = false;
  const WatchedReads reads = reads_of([&] { EXPECT_FALSE(flag); });
  flag = false;
  EXPECT_TRUE(reads.stand());
  flag = true;
  EXPECT_FALSE(reads.stand());
}

}  // namespace
}  // namespace toroid
