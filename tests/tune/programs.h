// Small programs, written by hand, for the tests of tuning.
#pragma once

#include <fmt/format.h>

#include "loop/node.h"
#include "program/region.h"
#include "sched/fuse.h"

namespace toroid::tune {

constexpr int64_t kPoints = 64;

inline program::Node loop_node(const std::string& text, int number) {
  loop::Nest nest = loop::parse(text);
  program::Node n;
  n.domain = nest.domain, n.body = nest.body;
  n.parts = {number};
  n.origins = {"n" + std::to_string(number)};
  return n;
}

// %to [i] = op %from [i]
inline program::Node unary(const std::string& op, int from, int to, int number) {
  return loop_node(
      fmt::format("loop (i0: {}) {{\n v0: f32 = load %{} [i0]\n v1: f32 = {} v0\n store %{} [i0] v1\n}}", kPoints, from, op, to), number);
}

inline void add_input(program::Program& p, const std::string& name, int64_t points = kPoints) {
  const int b = p.new_buffer(name, DType::F32, points, loop::BufferKind::Input);
  p.inputs.push_back({b, {DType::F32, {points}, {}}, graph::InputKind::User, {}, name});
}

inline void set_output(program::Program& p, int buffer) {
  p.buffers[static_cast<size_t>(buffer)].kind = loop::BufferKind::Output;
  p.outputs.push_back({buffer, {DType::F32, {p.buffers[static_cast<size_t>(buffer)].numel}, {}}, -1, {}, {}});
}

// Square roots of square roots ...
inline program::Program chain_of_loops(int count) {
  program::Program p;
  add_input(p, "x");
  for (int i = 0; i < count; ++i) {
    p.new_buffer("t" + std::to_string(i), DType::F32, kPoints, loop::BufferKind::Temporary);
    p.nodes.push_back(unary("Sqrt", i, i + 1, i));
  }
  set_output(p, count);
  return p;
}

// out [m, n] = the product of %a and %b, rows without gaps.
inline program::Node product(int a, int b, int out, int64_t m, int64_t n, int64_t k, int number) {
  program::Node node =
      loop_node(fmt::format("loop (j0: {}, j1: {}) {{\n v0: f32 = accumulate\n store %{} [j0*{} + j1] v0\n}}", m, n, out, n), number);
  program::Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.a = {a, DType::F32, 0, {k, 1}};
  g.b = {b, DType::F32, 0, {n, 1}};
  node.problem = g;
  return node;
}

// Of two inputs, which is what the program gives.
inline program::Program one_product() {
  program::Program p;
  add_input(p, "a");
  add_input(p, "b");
  p.new_buffer("ab", DType::F32, kPoints, loop::BufferKind::Temporary);
  p.nodes.push_back(product(0, 1, 2, 8, 8, 8, 0));
  set_output(p, 2);
  return p;
}

// One below the other, on inputs of their own.
inline program::Program two_programs(program::Program a, const program::Program& b) {
  const int buffers = static_cast<int>(a.buffers.size()), inputs = static_cast<int>(a.inputs.size());
  const int nodes = static_cast<int>(a.nodes.size());
  for (auto buffer : b.buffers) {
    buffer.id += buffers;
    a.buffers.push_back(std::move(buffer));
  }
  for (auto n : b.nodes) {
    program::renumber_buffers(n, [&](int buffer) { return buffer + buffers; });
    for (int& part : n.parts) part += nodes;
    a.nodes.push_back(std::move(n));
  }
  for (auto in : b.inputs) in.buffer += buffers, a.inputs.push_back(std::move(in));
  for (auto out : b.outputs) {
    out.buffer += buffers;
    if (out.mutates >= 0) out.mutates += inputs;
    a.outputs.push_back(std::move(out));
  }
  return a;
}

}  // namespace toroid::tune
