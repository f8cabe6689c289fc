// Nodes that a template computes, with memory and what they must leave in it: for tests of configurations on CPUs and GPUs.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/scalar.h"
#include "program/program.h"

namespace toroid::codegen {

// A node, what its buffers hold, and what it must leave in the last one.
struct Case {
  DType dtype = DType::F32;
  program::Node node = {};
  program::Program program = {};
  std::vector<std::vector<std::byte>> memory;
  std::vector<int> constants;
  std::vector<double> expected;

  int add(int64_t numel, loop::BufferKind kind = loop::BufferKind::Input) {
    if (kind == loop::BufferKind::Constant) constants.push_back(static_cast<int>(memory.size()));
    uint32_t state = static_cast<uint32_t>(memory.size()) + 1;
    memory.emplace_back(static_cast<size_t>(numel) * size_of(dtype));
    for (int64_t i = 0; i < numel; ++i) {
      state = state * 1664525u + 1013904223u;
      store_number(memory.back().data() + static_cast<size_t>(i) * size_of(dtype), dtype,
                   Number::of(static_cast<int32_t>(state) * 0x1p-31));
    }
    return program.new_buffer("b", dtype, numel, kind);
  }
  double at(int buffer, int64_t i) const {
    return load_number(memory[static_cast<size_t>(buffer)].data() + static_cast<size_t>(i) * size_of(dtype), dtype).as_double();
  }
  // The largest difference of the last buffer from what it must hold; infinity where it holds no number.
  double worst() const {
    double most = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::fabs(at(static_cast<int>(memory.size()) - 1, static_cast<int64_t>(i)) - expected[i]);
      most = std::isfinite(difference) ? std::max(most, difference) : INFINITY;
    }
    return most;
  }
  // Fills it with what is no number.
  void forget() { std::fill(memory.back().begin(), memory.back().end(), std::byte{0xff}); }

  // Domain and body of the node: variables, and statements whose last value, v<last>, is stored to the last buffer.
  void set_body(const std::string& variables, const std::string& statements, int last, const std::string& place) {
    const loop::Nest nest = loop::parse(fmt::format("loop ({}) {{\n{}\n v{}: {} = Cast v{}\n store %{} [{}] v{}\n}}", variables, statements,
                                                    last + 1, name_of(dtype), last, memory.size() - 1, place, last + 1));
    node.domain = nest.domain, node.body = nest.body;
  }
};

// a [m, k] times b' [n, k], plus a bias. weights: b is a constant, which is packed.
inline Case product(int64_t m, int64_t n, int64_t k, bool weights, DType t = DType::F32) {
  Case c;
  c.dtype = t;
  c.add(m * k);
  c.add(n * k, weights ? loop::BufferKind::Constant : loop::BufferKind::Input);
  c.add(n);
  c.add(m * n, loop::BufferKind::Output);
  program::Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.a = {0, t, 0, {k, 1}}, g.b = {1, t, 0, {1, k}};
  c.node.problem = g;
  c.set_body(fmt::format("i0: {}, i1: {}", m, n),
             fmt::format(" v0: f32 = accumulate\n v1: {} = load %2 [i1]\n v2: f32 = Cast v1\n v3: f32 = Add v0 v2", name_of(t)), 3,
             fmt::format("i0*{} + i1", n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = c.at(2, j);
      for (int64_t l = 0; l < k; ++l) sum += (c.at(0, i * k + l)) * c.at(1, j * k + l);
      c.expected.push_back(sum);
    }
  return c;
}

// Channels last; three by three or one by one.
inline Case convolution(int64_t in, int64_t out, int64_t size, int64_t kernel, int64_t groups, DType t = DType::F32) {
  Case c;
  c.dtype = t;
  const int64_t group_in = in / groups, group_out = out / groups, pad = kernel / 2;
  c.add(size * size * in);
  c.add(out * group_in * kernel * kernel, loop::BufferKind::Constant);
  c.add(size * size * out, loop::BufferKind::Output);
  program::Convolution p;
  p.n = 1, p.groups = groups, p.in_channels = in, p.out_channels = out;
  p.in_h = p.in_w = p.out_h = p.out_w = size;
  p.kernel_h = p.kernel_w = kernel, p.pad_h = p.pad_w = pad;
  p.input = {0, t, 0, {size * size * in, 1, size * in, in}};
  p.weight = {1, t, 0, {group_in * kernel * kernel, kernel * kernel, kernel, 1}};
  c.node.problem = p;
  c.set_body(fmt::format("i0: 1, i1: {0}, i2: {1}, i3: {1}", out, size), " v0: f32 = accumulate", 0,
             fmt::format("i2*{} + i3*{} + i1", size * out, out));
  for (int64_t y = 0; y < size; ++y)
    for (int64_t x = 0; x < size; ++x)
      for (int64_t o = 0; o < out; ++o) {
        double sum = 0;
        for (int64_t r = 0; r < kernel; ++r)
          for (int64_t s = 0; s < kernel; ++s) {
            const int64_t h = y + r - pad, w = x + s - pad;
            if (h < 0 || h >= size || w < 0 || w >= size) continue;
            for (int64_t i = 0; i < group_in; ++i)
              sum +=
                  (c.at(0, (h * size + w) * in + o / group_out * group_in + i)) * c.at(1, ((o * group_in + i) * kernel + r) * kernel + s);
          }
        c.expected.push_back(sum);
      }
  return c;
}

inline Case attention(int64_t heads, int64_t queries, int64_t keys, int64_t depth, DType t = DType::F32) {
  Case c;
  c.dtype = t;
  c.add(heads * queries * depth);
  c.add(heads * keys * depth);
  c.add(heads * keys * depth);
  c.add(heads * queries * depth, loop::BufferKind::Output);
  program::Attention a;
  a.batch = 1, a.heads = a.kv_heads = heads, a.queries = queries, a.keys = keys, a.head_dim = a.value_dim = depth;
  a.q = {0, t, 0, {heads * queries * depth, queries * depth, depth, 1}};
  a.k = a.v = {1, t, 0, {heads * keys * depth, keys * depth, depth, 1}};
  a.v.buffer = 2;
  a.scale = 0.25;
  c.node.problem = a;
  c.set_body(fmt::format("i0: 1, i1: {}, i2: {}, i3: {}", heads, queries, depth), " v0: f32 = accumulate", 0,
             fmt::format("(i1*{} + i2)*{} + i3", queries, depth));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < queries; ++i) {
      std::vector<double> p;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < depth; ++d) score += (c.at(0, (h * queries + i) * depth + d)) * c.at(1, (h * keys + j) * depth + d);
        p.push_back(std::exp(score / 4));
      }
      const double total = std::accumulate(p.begin(), p.end(), 0.0);
      for (int64_t d = 0; d < depth; ++d) {
        double value = 0;
        for (int64_t j = 0; j < keys; ++j) value += p[static_cast<size_t>(j)] * c.at(2, (h * keys + j) * depth + d);
        c.expected.push_back(value / total);
      }
    }
  return c;
}

}  // namespace toroid::codegen
