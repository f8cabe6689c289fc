// Weights of compiled programs: joined, packed and let go.
#include <gtest/gtest.h>

#include <deque>

#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "toroid/nn.h"
#include "trace/tracer.h"

namespace toroid {
namespace {

constexpr int64_t kInner = 96;

// Three products of x, with weights of so many rows.
std::unique_ptr<graph::Graph> three_products(std::deque<nn::Linear>& layers, const Tensor& x) {
  trace::Tracer tracer("products", nullptr);
  std::vector<Tensor> results;
  {
    Tensor input = tracer.argument(x, "x", {});
    trace::Tracer::Scope scope(&tracer);
    for (auto& l : layers) results.push_back(l.forward(input));
  }
  return std::move(tracer.finish(std::move(results)).graph);
}

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    auto a = got[i].to_vector(), b = want[i].to_vector();
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4) << "result " << i << ", element " << k;
  }
}

TEST(Weights, ProductsOfOneInputAreJoinedWhateverTheirSizes) {
  for (int64_t m : {1, 7, 64})
    for (std::vector<int64_t> rows : {std::vector<int64_t>{128, 256, 192}, {100, 30, 71}, {64, 10, 64}}) {
      std::deque<nn::Linear> layers;
      for (int64_t n : rows) layers.emplace_back(kInner, n, true, nn::Init(static_cast<uint64_t>(n)));
      Tensor x = nn::Init(1).normal({m, kInner}, 0, 1);
      auto graph = three_products(layers, x);
      auto want = graph::interpret(*graph, std::vector<Tensor>{x});
      auto model = front::compile_model(std::move(graph));
      for (int run = 0; run < 2; ++run) expect_near(model.run(std::vector<Tensor>{x}), want);
    }
}

TEST(Weights, PackedOnesAreNotKeptTwice) {
  std::deque<nn::Linear> layers;
  for (int i = 0; i < 3; ++i) layers.emplace_back(kInner, 128, true, nn::Init(static_cast<uint64_t>(i)));
  Tensor x = nn::Init(1).normal({64, kInner}, 0, 1);
  auto model = front::compile_model(three_products(layers, x));
  for (auto& in : model.executable().plan().inputs) EXPECT_TRUE(in.user >= 0 || in.type.sizes.size() == 1) << in.name;
}

// Packing goes on behind the caller's back: what it reads and writes must outlive models that are dropped or run at once.
TEST(Weights, ModelsMayGoWhileTheirWeightsArePacked) {
  Tensor x = nn::Init(1).normal({16, 1024}, 0, 1);
  for (int round = 0; round < 4; ++round) {
    std::deque<nn::Linear> layers;
    for (int i = 0; i < 3; ++i) layers.emplace_back(1024, 1024, true, nn::Init(static_cast<uint64_t>(i)));
    auto graph = three_products(layers, x);
    const bool run = round % 2;
    auto want = run ? graph::interpret(*graph, std::vector<Tensor>{x}) : std::vector<Tensor>();
    auto model = front::compile_model(std::move(graph));
    layers.clear();
    if (run) expect_near(model.run(std::vector<Tensor>{x}), want);
    EXPECT_TRUE(model.report().packing.valid());
  }
}

}  // namespace
}  // namespace toroid
