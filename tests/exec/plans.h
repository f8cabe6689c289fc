// Small plans, made by hand.
#pragma once

#include <algorithm>

#include "exec/run/executable.h"
#include "ops/table.h"

namespace toroid::exec {

// bufs: in, out; params: elements. Tasks of 16 elements.
inline void add_one(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int) {
  auto* in = static_cast<const float*>(bufs[0]);
  auto* out = static_cast<float*>(bufs[1]);
  for (int64_t i = begin * 16; i < std::min(end * 16, params[0]); ++i) out[i] = in[i] + 1;
}

// What the plans here name.
inline Store& store() {
  static Store s;
  return s;
}
inline std::string native(KernelFunction f) { return store().kernels.add(f); }

class Runnable : public Executable {
 public:
  explicit Runnable(const Plan& plan) : Executable(plan, store()) {}
};

inline Launch add_one_launch(int from, int to, const Expr& n) {
  Launch l;
  l.name = "add_one";
  l.kernel = native(add_one);
  l.buffers = {from, to};
  l.params = {n};
  l.written = {false, true};
  l.tasks = sym::ceil_div(n, 16);
  return l;
}

// x + length of the chain, as so many launches. Sizes from 1 to 1000; their product with `unit` is the size of all buffers.
inline Plan chain(int length, bool record, int64_t unit = 1) {
  Plan p;
  p.name = "chain";
  p.options = CompileOptions::of_process();
  p.record = record;
  Expr s = sym::symbol("s0", 1, 1000), n = s * unit;
  p.symbols.emplace_back(s, false);
  for (int i = 0; i <= length; ++i) {
    BufferRole role = i == 0 ? BufferRole::Input : i == length ? BufferRole::Output : BufferRole::Temporary;
    p.buffers.push_back({"b" + std::to_string(i), DType::F32, n, role, {}});
  }
  for (int i = 0; i < length; ++i) p.steps.push_back(add_one_launch(i, i + 1, n));
  std::vector<Expr> sizes{s};
  if (unit > 1) sizes.push_back(unit);
  p.inputs.push_back({"x", {DType::F32, sizes, {}}, 0, 0, {}, false});
  p.outputs.push_back({length, {DType::F32, sizes, {}}, -1, "step.cpp:7"});
  return p;
}

// The step `at` of a chain becomes a call of reference code.
inline Plan with_host_call(Plan p, size_t at) {
  const Launch l = std::get<Launch>(p.steps[at]);
  HostCall h;
  h.name = "unique";
  h.where = "model.cpp:12";
  const HostCall::View from{l.buffers[0], DType::F32, 0, {l.params[0]}, {1}}, to{l.buffers[1], DType::F32, 0, {l.params[0]}, {1}};
  h.inputs = {from};
  h.outputs = {to};
  h.op = &ops::get("add.Tensor");
  h.args = {0, Expr(1), Expr(1)};
  p.steps[at] = std::move(h);
  return p;
}

}  // namespace toroid::exec
