// Long rows with few results run in two stages, and their results are the interpreter's.
#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"

namespace toroid {
namespace {

TEST(LongReductions, AllKinds) {
  Tensor x = Tensor::empty({512, 3, 200}, DType::F32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i * 7919 % 10007) / 5000 - 1;
  for (const char* node :
       {"%y: f32[] = sum(%x)", "%y: f32[] = amax(%x)", "%y: f32[] = mean(%x)", "%y: i64[] = argmax(%x)", "%y: i64[] = argmin(%x)",
        "%y: f32[3] = sum.dim_IntList(%x, [0, 2])", "%y: f32[1, 3, 1] = amin(%x, [0, 2], true)"}) {
    const std::string text = std::string("graph \"g\"(%x: f32[512, 3, 200]) {\n  ") + node + "\n  return %y\n}";
    auto model = front::compile_model(graph::parse(text));
    EXPECT_EQ(model.report().kernels, ThreadPool::global().size() > 1 ? 2u : 1u) << node;
    const std::vector<Tensor> inputs = {x};
    const auto got = model.run(inputs)[0].to_vector(), want = graph::interpret(*graph::parse(text), inputs)[0].to_vector();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * (10 + std::fabs(want[i]))) << node;
  }
}

}  // namespace
}  // namespace toroid
