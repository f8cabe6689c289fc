// Runs that an error ends, and inputs that a program writes as a whole.
#include <gtest/gtest.h>

#include "errors.h"
#include "exec/plans.h"
#include "exec/run/executable.h"
#include "toroid/error.h"

namespace toroid::exec {
namespace {

using test::user_error;

Tensor full(int64_t n, double value) { return Tensor::full(std::vector<int64_t>{n}, value); }

// A chain of five, whose step in the middle throws while *fails.
Plan failing_chain(const std::shared_ptr<bool>& fails) {
  Plan p = with_host_call(chain(5, true), 2);
  static std::shared_ptr<bool> now;
  static const ops::Op row = [] {
    ops::Op op = ops::get("add.Tensor");
    op.formula = nullptr;
    op.kernel = [](ops::KernelCall& c) {
      if (*now) throw UserError("the step fails");
      const Tensor x = c.tensor("self");
      for (int64_t i = 0; i < x.numel(); ++i) c.outputs[0].data<float>()[i] = x.data<float>()[i] + 1;
    };
    return op;
  }();
  now = fails;
  std::get<HostCall>(p.steps[2]).op = &row;
  return p;
}

TEST(EndedRuns, RecordingsServeTheCallsAfterAnError) {
  const auto fails = std::make_shared<bool>(false);
  Runnable e(failing_chain(fails));
  const Tensor x = full(64, 1);
  const auto call = [&] { return e.run(std::vector<Tensor>{x}).at(0).to_vector()[63]; };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(), 6);
  std::vector<std::unique_ptr<Lane>> others;  // a lane that is lost is not found again at its address by chance
  for (int i = 0; i < 4; ++i) {
    *fails = true;
    EXPECT_EQ(user_error(call), "the step fails");
    others.push_back(std::make_unique<Lane>());
    *fails = false;
    EXPECT_EQ(call(), 6);
  }
  const CaptureReport r = e.captures();
  EXPECT_EQ(r.counters.recordings, 1) << "the lane and its recording are found again";
  EXPECT_EQ(r.recordings.size(), 1u);
}

TEST(EndedRuns, AnErrorWhileACallIsRecordedLeavesNoRecording) {
  const auto fails = std::make_shared<bool>(false);
  Runnable e(failing_chain(fails));
  const Tensor x = full(64, 1);
  const auto call = [&] { return e.run(std::vector<Tensor>{x}).at(0).to_vector()[63]; };
  EXPECT_EQ(call(), 6);  // warms up
  *fails = true;
  EXPECT_EQ(user_error(call), "the step fails");
  EXPECT_TRUE(e.captures().recordings.empty());
  *fails = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(), 6);
  EXPECT_EQ(e.captures().recordings.size(), 1u);
  EXPECT_EQ(e.captures().counters.recordings, 1);
}

// What is marked static elsewhere is recorded anew; the former recording is cleared before.
TEST(EndedRuns, AnErrorWhileACallIsRecordedAgainLeavesNoHalfOfIt) {
  const auto fails = std::make_shared<bool>(false);
  Runnable e(failing_chain(fails));
  const Tensor x = full(64, 1), y = full(64, 2);
  mark_static_address(x);
  mark_static_address(y);
  const auto call = [&](const Tensor& t) { return e.run(std::vector<Tensor>{t}).at(0).to_vector()[63]; };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(x), 6);
  *fails = true;
  EXPECT_EQ(user_error([&] { call(y); }), "the step fails");
  *fails = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(y), 7);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(x), 6);
}

// x = y + 1, in the memory of x, or, with `apart`, by a buffer of its own; then the former x + 1 is a result.
Plan whole_write(bool record, bool apart) {
  Plan p;
  p.name = "whole write";
  p.record = record;
  const Expr n = 8;
  const TensorType type{DType::F32, {n}, {}};
  for (BufferRole role : {BufferRole::Input, BufferRole::Input, BufferRole::Output, BufferRole::Output})
    p.buffers.push_back({"b", DType::F32, n, role, {}});
  if (!apart) p.buffers.resize(2);
  p.steps.push_back(add_one_launch(1, apart ? 2 : 0, n));
  if (apart) p.steps.push_back(add_one_launch(0, 3, n));
  for (auto& s : p.steps) std::get<Launch>(s).written = {false, true};
  p.inputs.push_back({"x", type, 0, 0, {}, true});
  p.inputs.push_back({"y", type, 1, 1, {}, false});
  p.outputs.push_back({.buffer = apart ? 2 : -1, .type = type, .mutates = 0});
  if (apart) p.outputs.push_back({.buffer = 3, .type = type});
  return p;
}

TEST(WholeWrites, WhatIsReadAfterwardsIsStillThere) {
  for (bool record : {false, true}) {
    Runnable e(whole_write(record, true));
    for (int i = 0; i < 4; ++i) {
      const Tensor x = full(8, 10), y = full(8, i);
      const Tensor former = e.run(std::vector<Tensor>{x, y}).at(0);
      EXPECT_EQ(former.to_vector(), std::vector<double>(8, 11));
      EXPECT_EQ(x.to_vector(), std::vector<double>(8, i + 1));
    }
  }
}

TEST(WholeWrites, InputsThatLieElsewhereOrAmongEachOtherAreCopied) {
  for (bool record : {false, true}) {
    Runnable e(whole_write(record, false));
    for (int i = 0; i < 4; ++i) {
      const Tensor wide = full(16, 0), y = full(8, 4);
      const auto half = [&](int64_t first) { return wide.as_strided(std::vector<int64_t>{8}, std::vector<int64_t>{2}, first); };
      e.run(std::vector<Tensor>{half(0), y});
      EXPECT_EQ(half(0).to_vector(), std::vector<double>(8, 5));
      EXPECT_EQ(half(1).to_vector(), std::vector<double>(8, 0));
      e.run(std::vector<Tensor>{half(1), half(0)});
      EXPECT_EQ(half(0).to_vector(), std::vector<double>(8, 5));
      EXPECT_EQ(half(1).to_vector(), std::vector<double>(8, 6));
    }
  }
}

TEST(WholeWrites, InputsInEachOtherAreRefused) {
  const Tensor row = full(24, 1);
  const auto part = [&](int64_t first, int64_t step) { return row.as_strided(std::vector<int64_t>{8}, std::vector<int64_t>{step}, first); };
  for (bool record : {false, true}) {
    Runnable e(whole_write(record, false));
    const Tensor same = part(0, 1);
    for (auto& [a, b] : std::vector<std::pair<Tensor, Tensor>>{
             {same, same}, {part(0, 1), part(4, 1)}, {part(4, 1), part(0, 1)}, {part(0, 2), part(1, 3)}, {part(2, 0), part(0, 1)}}) {
      EXPECT_THROW(e.run(std::vector<Tensor>{a, b}), UserError);
      EXPECT_EQ(row.to_vector(), std::vector<double>(24, 1));
    }
  }
}

}  // namespace
}  // namespace toroid::exec
