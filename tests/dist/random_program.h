// Programs with collectives for tests of their order.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "dist/bits.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"

namespace toroid::test {

inline CompileConfig config_of(Mode mode, bool overlaps) {
  CompileConfig config;
  config.mode = mode;
  config.fullgraph = true;
  config.options["tune_database"] = "none";
  if (!overlaps) config.options["disable_passes"] = "overlap_collectives";
  return config;
}

// A program of some values that are made of each other at random, by all collectives and by what is computed beside them.
inline std::vector<Tensor> random_program(unsigned seed, const Tensor& x, const Tensor& w) {
  using namespace distributed;
  std::mt19937 draw(seed);
  std::vector<Tensor> values{x, w};
  const auto one = [&] { return values[draw() % values.size()]; };
  for (int i = 0; i < 14; ++i) {
    const Tensor a = one(), b = one();
    switch (draw() % 8) {
      case 0:
        values.push_back(all_reduce(a, draw() % 2 ? "sum" : "max"));
        break;
      case 1:
        values.push_back(slice(all_gather(a), 0, 0, x.size(0)));
        break;
      case 2:
        values.push_back(broadcast(a, 1) - b);
        break;
      case 3:
        values.push_back(matmul(a, b) * (1.0 / 512));
        break;
      case 4:
        values.push_back(relu(a) - b * 0.5);
        break;
      case 5:
        values.push_back(a * (1.0 / 16) + sum(b, 1, true) * 0.001);
        break;
      case 6:
        values.push_back(tanh(a));
        break;
      default:
        values.push_back(flip(a, {0}) + all_reduce(b, "avg"));
    }
  }
  return {values[values.size() - 1], values[values.size() - 2], values[values.size() / 2]};
}

// A random program with collectives beside other work, and the same one after the other, on matrices of so many rows: equal bits. Of two
// ranks, each of which calls it with its own device.
inline void expect_equal_bits(unsigned seed, int64_t side, DType dtype, const Device& own) {
  const auto brought = [&](int64_t shift) {
    Tensor x = Tensor::empty({side, side}, DType::F32);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<float>()[i] = static_cast<float>((i * 7 + shift + distributed::rank() * 5) % 23 - 11) / 16;
    return to(x, dtype).to(own);
  };
  const auto fn = [&](const Tensor& x, const Tensor& w) { return random_program(seed, x, w); };
  const Mode mode = seed % 2 ? Mode::ReduceOverhead : Mode::Default;
  auto beside = compile(fn, config_of(mode, true)), apart = compile(fn, config_of(mode, false));
  for (int64_t round = 0; round < 4; ++round) {
    const Tensor x = brought(round), w = brought(100);
    const auto want = apart(x, w), found = beside(x, w);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(bits_of(want[i]) == bits_of(found[i]))
          << "seed " << seed << ", round " << round << ", result " << i << ", rank " << distributed::rank();
  }
}

}  // namespace toroid::test
