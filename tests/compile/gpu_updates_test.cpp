// Many parameters that one launch updates, from gradients that lie in other orders, on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "toroid/compile.h"
#include "toroid/device.h"
#include "toroid/nn/init.h"
#include "toroid/ops.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

// A parameter, and the order of dimensions in which its gradient lies.
struct Updated {
  Tensor parameter, state, gradient;
  std::vector<int64_t> order;
};

// Drawn sizes that make whole tiles, vectors and neither, each with a permutation.
std::vector<Updated> drawn(uint64_t seed, DType dtype) {
  std::mt19937_64 random(seed);
  const auto draw = [&](auto list) { return list[random() % list.size()]; };
  const nn::Init init(seed);
  std::vector<Updated> all;
  for (int k = 0; k < 24; ++k) {
    std::vector<int64_t> sizes, given;
    for (size_t d = 0, rank = 1 + random() % 4; d < rank; ++d) {
      const bool small = rank > 2 && d > 1;
      sizes.push_back(small ? draw(std::vector<int64_t>{1, 2, 3, 5}) : draw(std::vector<int64_t>{1, 8, 16, 24, 64, 128, 192, 7, 65}));
    }
    Updated u;
    u.order.resize(sizes.size());
    std::iota(u.order.begin(), u.order.end(), 0);
    std::shuffle(u.order.begin(), u.order.end(), random);
    given.resize(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) given[static_cast<size_t>(u.order[d])] = sizes[d];
    u.parameter = init.normal(sizes, 0, 1), u.state = init.normal(sizes, 0, 1);
    u.gradient = to(init.normal(given, 0, 1), dtype);
    all.push_back(std::move(u));
  }
  return all;
}

void update(std::vector<Updated>& all) {
  for (auto& u : all) {
    const Tensor gradient = to(permute(u.gradient, u.order), DType::F32);
    copy_(u.state, u.state * 0.5 + gradient);
    copy_(u.parameter, u.parameter - u.state * 0.25);
  }
}

TEST(GpuUpdates, OfParametersWhoseGradientsLieAcross) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (uint64_t seed = 1; seed <= 6; ++seed)
    for (DType dtype : {DType::F32, DType::BF16}) {
      std::vector<Updated> here = drawn(seed, dtype), there = here;
      for (auto& u : there)
        for (Tensor* t : {&u.parameter, &u.state, &u.gradient}) *t = t->to(Device::cuda());
      auto step = compile([&] { update(there); }, {.fullgraph = true});
      for (int round = 0; round < 2; ++round) step(), update(here);
      for (size_t k = 0; k < here.size(); ++k)
        for (auto member : {&Updated::parameter, &Updated::state}) {
          const std::vector<double> want = (here[k].*member).to_vector(), got = (there[k].*member).to_vector();
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], 1e-5) << "seed " << seed << ", parameter " << k << ", element " << i;
        }
    }
}

}  // namespace
}  // namespace toroid
