// Plans with sizes that only their runs determine: all that holds of other plans holds of them.
#include <gtest/gtest.h>

#include "base/index_fault.h"
#include "errors.h"
#include "exec/plans.h"
#include "exec/run/executable.h"

namespace toroid::exec {
namespace {

using test::contains;
using test::user_error;

HostCall::View row_major(int buffer, DType dtype, std::vector<Expr> sizes, const Expr& offset = 0) {
  HostCall::View v{buffer, dtype, offset, std::move(sizes), {}};
  Expr stride = 1;
  for (size_t d = v.sizes.size(); d-- > 0; stride = stride * v.sizes[d]) v.strides.insert(v.strides.begin(), stride);
  return v;
}

// bufs: in, out; params: elements.
void add_one_to_indices(void* const* bufs, const int64_t* params, int64_t, int64_t, int) {
  for (int64_t i = 0; i < params[0]; ++i) static_cast<int64_t*>(bufs[1])[i] = static_cast<const int64_t*>(bufs[0])[i] + 1;
}

int add_buffer(Plan& p, DType dtype, const Expr& numel, BufferRole role) {
  p.buffers.push_back({"b" + std::to_string(p.buffers.size()), dtype, numel, role, {}});
  return static_cast<int>(p.buffers.size()) - 1;
}

// Of x, f32[8] (buffer 0), one more than the positions that are not zero, i64[u0, 1] (buffer 2): a call of nonzero and a launch.
Plan positions(bool record = false) {
  Plan p;
  p.name = "positions";
  p.options = CompileOptions::of_process();
  p.record = record;
  const Expr u = sym::symbol("u0", 0, sym::kInf - 1);
  p.symbols.emplace_back(u, true);
  add_buffer(p, DType::F32, 8, BufferRole::Input);
  add_buffer(p, DType::I64, u, BufferRole::Temporary);
  add_buffer(p, DType::I64, u, BufferRole::Output);
  p.steps.push_back(HostCall{"nonzero", &ops::get("nonzero"), {0}, {row_major(0, DType::F32, {8})}, {row_major(1, DType::I64, {u, 1})}});
  Launch l = add_one_launch(1, 2, u);
  l.kernel = native(add_one_to_indices), l.serial = true;
  p.steps.push_back(l);
  p.inputs.push_back({"x", {DType::F32, {8}, {}}, 0, 0});
  p.outputs.push_back({2, {DType::I64, {u, 1}, {}}});
  return p;
}

// Eight elements, of which the first `count` are not zero.
Tensor with_nonzeros(int64_t count) {
  Tensor t = Tensor::full(std::vector<int64_t>{8}, 0);
  for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = 3;
  return t;
}

std::vector<Tensor> run_late(Executable& e, int64_t count = 3) { return e.run(std::vector<Tensor>{with_nonzeros(count)}); }

TEST(LateSizes, AnyNumberOfElements) {
  Runnable e(positions());
  for (int64_t count : {3, 8, 0, 1, 8}) {
    const Tensor t = run_late(e, count).at(0);
    std::vector<double> want;
    for (int64_t i = 1; i <= count; ++i) want.push_back(static_cast<double>(i));
    EXPECT_EQ(t.sizes(), (std::vector<int64_t>{count, 1}));
    EXPECT_EQ(t.to_vector(), want);
  }
}

TEST(LateSizes, AnObserverIsToldOfEachStep) {
  Runnable e(positions());
  std::vector<std::string> steps;
  e.observe([&](const std::string& step, int64_t ns) {
    steps.push_back(step);
    EXPECT_GE(ns, 0);
  });
  EXPECT_EQ(run_late(e).at(0).to_vector(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(steps, (std::vector<std::string>{"nonzero", "add_one"}));
  e.observe(nullptr);
  run_late(e);
  EXPECT_EQ(steps.size(), 2u);
}

TEST(LateSizes, CallsAreCounted) {
  Runnable e(positions(true));
  const Tensor apart = Tensor::full(std::vector<int64_t>{16}, 1).as_strided(std::vector<int64_t>{8}, std::vector<int64_t>{2});
  run_late(e);
  e.run(std::vector<Tensor>{apart});
  const CaptureCounters c = e.captures().counters;
  EXPECT_EQ(std::tuple(c.calls, c.skipped, c.warmups, c.recordings, c.graph_launches), std::tuple(2, 2, 0, 0, 0));
  EXPECT_EQ(std::tuple(c.host_launches, c.host_calls, c.input_copies), std::tuple(2, 2, 1));
}

// Who gets a constant, or state, as a result may write to it.
TEST(LateSizes, WhatTheProgramKeepsIsCopied) {
  Plan p = positions();
  const TensorType type{DType::F32, {4}, {}};
  const int constant = add_buffer(p, DType::F32, 4, BufferRole::Constant), state = add_buffer(p, DType::F32, 4, BufferRole::Input);
  p.buffers[static_cast<size_t>(constant)].constant = store().constants.add(Tensor::full(std::vector<int64_t>{4}, 5));
  p.inputs.push_back({"state", type, state, -1, store().constants.add(Tensor::full(std::vector<int64_t>{4}, 6))});
  p.outputs.push_back({constant, type});
  p.outputs.push_back({state, type});
  Runnable e(p);
  for (int call = 0; call < 3; ++call) {
    const auto out = run_late(e);
    EXPECT_EQ(out.at(1).to_vector(), std::vector<double>(4, 5)) << "call " << call;
    EXPECT_EQ(out.at(2).to_vector(), std::vector<double>(4, 6)) << "call " << call;
    for (size_t i : {1, 2}) out[i].data<float>()[0] = -1;
  }
}

TEST(LateSizes, AnInputThatIsAResultKeepsItsLayout) {
  Plan p = positions();
  const TensorType columns{DType::F32, {2, 3}, {1, 2}};
  const int buffer = add_buffer(p, DType::F32, 6, BufferRole::Input);
  p.inputs.push_back({"columns", columns, buffer, 1});
  p.outputs.push_back({buffer, columns});
  Runnable e(p);
  const Tensor row = Tensor::of(std::vector<double>{0, 1, 2, 3, 4, 5}, std::vector<int64_t>{6}, DType::F32);
  const Tensor given = row.as_strided(std::vector<int64_t>{2, 3}, std::vector<int64_t>{1, 2});
  EXPECT_EQ(e.run(std::vector<Tensor>{with_nonzeros(2), given}).at(1).to_vector(), given.to_vector());
}

// A call on the host that writes a part of a buffer leaves the rest.
TEST(LateSizes, ResultsOfCallsGoToTheirPartOfABuffer) {
  Plan p = positions();
  const int whole = add_buffer(p, DType::F32, 16, BufferRole::Output);
  for (int64_t part : {0, 1})
    p.steps.push_back(HostCall{"add.Tensor",
                               &ops::get("add.Tensor"),
                               {0, Expr(part + 1), Expr(1)},
                               {row_major(0, DType::F32, {8})},
                               {row_major(whole, DType::F32, {8}, part * 8)}});
  p.outputs.push_back({whole, {DType::F32, {16}, {}}});
  Runnable e(p);
  std::vector<double> want;
  for (double part : {1, 2})
    for (int i = 0; i < 8; ++i) want.push_back(part + (i < 3 ? 3 : 0));
  EXPECT_EQ(run_late(e).at(1).to_vector(), want);
}

// A row like that of nonzero with another kernel.
ops::Op nonzero_by(void (*kernel)(ops::KernelCall&)) {
  ops::Op op = ops::get("nonzero");
  op.formula = nullptr;
  op.kernel = kernel;
  return op;
}

TEST(LateSizes, ACallThatReturnsWhatItWasGivenGivesACopy) {
  static const ops::Op same = nonzero_by([](ops::KernelCall& c) { c.outputs[0] = c.tensor("self"); });
  Plan p = positions();
  const int buffer = add_buffer(p, DType::F32, 8, BufferRole::Output);
  p.steps.push_back(HostCall{"same", &same, {0}, {row_major(0, DType::F32, {8})}, {row_major(buffer, DType::F32, {8})}});
  p.outputs.push_back({buffer, {DType::F32, {8}, {}}});
  Runnable e(p);
  const Tensor x = with_nonzeros(2);
  const Tensor got = e.run(std::vector<Tensor>{x}).at(1);
  x.data<float>()[0] = 100;
  EXPECT_EQ(got.to_vector(), with_nonzeros(2).to_vector());
}

TEST(LateSizes, AResultOfOtherSizesThanThePlanSaysIsAnError) {
  static const ops::Op wider = nonzero_by([](ops::KernelCall& c) {
    c.outputs[0] = Tensor::full(std::vector<int64_t>{2, 3}, 0, DType::I64);
  });
  Plan p = positions();
  std::get<HostCall>(p.steps[0]).op = &wider;
  Runnable e(p);
  EXPECT_TRUE(contains(test::error_of<InternalError>([&] { run_late(e); }), "result 0 of nonzero has sizes [2, 3], [2, 1] are expected"));
}

// Finds an index out of range where more than two positions were found. bufs: the record, in, out.
void report_third(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread) {
  add_one_to_indices(bufs + 1, params, begin, end, thread);
  auto* const fault = static_cast<IndexFault*>(bufs[0]);
  if (params[0] < 3) return;
  fault->site = 0, fault->index = 50, fault->size = 3;
  fault->state = IndexFault::kFound;
}

// The step that found it ends the call, and the next call begins with an empty record.
TEST(LateSizes, IndicesOutOfRangeEndTheCall) {
  Plan p = positions();
  const int faults = add_buffer(p, DType::I64, 8, BufferRole::Faults);
  auto& l = std::get<Launch>(p.steps[1]);
  l.kernel = native(report_third), l.buffers = {faults, 1, 2}, l.written = {false, false, true};
  static int calls = 0;
  static const ops::Op counted = nonzero_by([](ops::KernelCall& c) {
    ++calls;
    c.outputs[0] = Tensor::full(std::vector<int64_t>{1, 1}, 0, DType::I64);
  });
  p.steps.push_back(HostCall{"counted", &counted, {0}, {row_major(0, DType::F32, {8})}, {}});
  p.sites = {{"embedding", "model.cpp:3", -1, true}};
  Runnable e(p);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(run_late(e, 2).at(0).to_vector(), (std::vector<double>{1, 2}));
    EXPECT_TRUE(contains(user_error([&] { run_late(e, 3); }), "embedding: index 50 is out of range"));
    EXPECT_EQ(calls, round + 1) << "no step after it runs";
  }
}

std::vector<const void*> scratch_seen;
void note_scratch(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread) {
  scratch_seen.push_back(bufs[2]);
  add_one_to_indices(bufs, params, begin, end, thread);
}

TEST(LateSizes, ScratchMemoryServesTheNextCall) {
  Plan p = positions();
  auto& l = std::get<Launch>(p.steps[1]);
  l.kernel = native(note_scratch), l.scratch_bytes_per_thread = 1 << 16;
  Runnable e(p);
  scratch_seen.clear();
  std::vector<Tensor> others;  // memory that was freed is not found again at its address by chance
  for (int call = 0; call < 4; ++call) {
    run_late(e);
    others.push_back(Tensor::full(std::vector<int64_t>{(1 << 14) * threads_of(p.options)}, 0));
  }
  for (auto* s : scratch_seen) EXPECT_EQ(s, scratch_seen.at(0));
}

}  // namespace
}  // namespace toroid::exec
