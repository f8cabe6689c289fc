// Collectives of compiled programs that run beside other steps: the order that programs get, and that nothing but the time changes.
#include "exec/run/overlap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "dist/beside.h"
#include "dist/group.h"
#include "dist/random_program.h"
#include "dist/timeout.h"
#include "errors.h"
#include "exec/plan.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using namespace distributed;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using test::contains;

TEST(Beside, RunsInTheOrderOfBegins) {
  run_local(3, [] {
    Beside& beside = Beside::own();
    Group& world = current_world().world();
    std::vector<std::vector<float>> in(20), out(20);
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < in.size(); ++i) {
      in[i].assign(i + 1, static_cast<float>(i)), out[i].resize(i + 1);
      numbers.push_back(beside.begin(world, {.kind = Kind::AllReduce,
                                             .in = reinterpret_cast<const std::byte*>(in[i].data()),
                                             .out = reinterpret_cast<std::byte*>(out[i].data()),
                                             .count = static_cast<int64_t>(i) + 1}));
    }
    for (const size_t i : {size_t{7}, size_t{3}, size_t{19}}) {
      beside.end(numbers[i]);
      for (size_t k = 0; k <= i; ++k) EXPECT_EQ(out[k], std::vector<float>(k + 1, 3.0F * static_cast<float>(k)));
    }
  });
}

TEST(Beside, WhoEndsItIsToldWhatFailed) {
  run_local(2, [] {
    Beside& beside = Beside::own();
    Group& world = current_world().world();
    float x = 1, sum = 0;
    const auto call = [&](int64_t count) {
      return Collective{
          .kind = Kind::AllReduce, .in = reinterpret_cast<const std::byte*>(&x), .out = reinterpret_cast<std::byte*>(&sum), .count = count};
    };
    beside.begin(world, call(rank()));
    const uint64_t behind = beside.begin(world, call(1));
    EXPECT_TRUE(contains(test::user_error([&] { beside.end(behind); }), "do not fit together: rank 1 called all_reduce(sum) of f32[1]"));
    EXPECT_EQ(sum, 0) << "what was begun behind it does not run";
    beside.end(beside.begin(world, call(1)));
    EXPECT_EQ(sum, 2);
    beside.begin(world, call(rank()));
    beside.end_all();
    beside.end(beside.begin(world, call(1)));
  });
}

// What each step of a plan reads and writes decides where a collective must have ended.
TEST(OverlapPlan, EndsBeforeWhatNeedsIt) {
  using namespace exec;
  Plan p;
  for (const char* name : {"x", "sum", "a", "b", "all"}) p.buffers.push_back({name, DType::F32, 64, BufferRole::Temporary});
  const auto launch = [](std::vector<int> buffers, std::vector<bool> written) {
    Launch l;
    l.buffers = std::move(buffers), l.written = std::move(written), l.bytes = 1000000;
    return l;
  };
  const auto collective = [](int in, int out) {
    CollectiveCall c{.name = "c", .group = "world"};
    c.input.buffer = in, c.output.buffer = out;
    return c;
  };
  const Launch independent = launch({2, 3}, {false, true});
  const auto end_with = [&](const StepPlan& last) {
    p.steps = {collective(0, 1), independent, independent, last, independent};
    return ends_of(p)[0];
  };
  EXPECT_EQ(end_with(independent), 5u);
  EXPECT_EQ(end_with(launch({1, 2}, {false, true})), 3u) << "it reads the result";
  EXPECT_EQ(end_with(launch({2, 0}, {false, true})), 3u) << "it writes the input";
  EXPECT_EQ(end_with(launch({0, 2}, {false, true})), 5u) << "it reads the input";
  EXPECT_EQ(end_with(launch({0, 2}, {})), 3u) << "who knows what it writes";
  EXPECT_EQ(end_with(launch({2, 1}, {false, true})), 3u) << "it writes the result";
  EXPECT_EQ(end_with(HostCall{}), 3u) << "it may meet other ranks";
  EXPECT_EQ(end_with(collective(2, 4)), 5u);
  EXPECT_EQ(end_with(collective(1, 4)), 3u) << "it reads the result";
  EXPECT_EQ(end_with(collective(0, 4)), 5u);
  EXPECT_EQ(end_with(collective(2, 0)), 3u) << "it writes the input";
  p.steps = {collective(0, 1), launch({1}, {false}), collective(0, 1), collective(2, 4), independent, launch({1, 4}, {false, false})};
  EXPECT_EQ(ends_of(p), (std::vector<size_t>{0, 0, 5, 5, 0, 0}));
  EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{0, 0, 5, 5, 0, 0}));
  std::get<Launch>(p.steps[4]).bytes = 1000;
  EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{0, 0, 0, 0, 0, 0})) << "there is too little to do";
  std::get<Launch>(p.steps[4]).flops = 100000000;
  EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{0, 0, 5, 5, 0, 0}));
  p.options = p.options.with(std::map<std::string, std::string>{{"disable_passes", "overlap_collectives"}});
  EXPECT_EQ(ends_of(p), std::vector<size_t>(6, 0));
}

// On GPUs kernels meet other ranks, too.
TEST(OverlapPlan, KernelsThatMeetRunBesideOthers) {
  using namespace exec;
  Plan p;
  p.device = Device::cuda();
  for (const char* name : {"x", "sum", "a", "b"}) p.buffers.push_back({name, DType::F32, 64, BufferRole::Temporary});
  p.buffers.push_back({"peers", DType::I64, 1, BufferRole::Peers, "world"});
  const auto launch = [](std::vector<int> buffers, std::vector<bool> written) {
    Launch l;
    l.buffers = std::move(buffers), l.written = std::move(written), l.bytes = 100000000;
    return l;
  };
  CollectiveCall call{.name = "c", .group = "world"};
  call.input.buffer = 2, call.output.buffer = 3;
  const Launch sums = launch({0, 1, 4}, {false, true, true}), independent = launch({2, 3}, {false, true}), barrier = launch({4}, {true});
  LibraryCall pieces, product;
  pieces.buffers = product.buffers = {2, 2, 3};
  pieces.problem = PiecesProblem{}, product.problem = external::CublasLtProblem{};
  const auto end_with = [&](const StepPlan& last) {
    p.steps = {sums, independent, last, independent};
    return ends_of(p)[0];
  };
  EXPECT_EQ(end_with(independent), 4u);
  EXPECT_EQ(end_with(product), 4u);
  EXPECT_EQ(end_with(call), 4u) << "it comes behind it on the same stream";
  EXPECT_EQ(end_with(launch({2, 3, 4}, {false, true, true})), 4u) << "so does another kernel that meets";
  EXPECT_EQ(end_with(launch({1, 3, 4}, {false, true, true})), 2u) << "but not where it reads the result";
  EXPECT_EQ(end_with(launch({1, 3}, {false, true})), 2u) << "it reads the result";
  EXPECT_EQ(end_with(launch({0, 3}, {true, false})), 2u) << "it writes the input";
  EXPECT_EQ(end_with(barrier), 2u) << "what ranks wait for there is not seen";
  EXPECT_EQ(end_with(pieces), 2u) << "it writes to other ranks";
  EXPECT_EQ(end_with(HostCall{}), 2u);
  p.steps = {barrier, independent, independent};
  EXPECT_EQ(ends_of(p), (std::vector<size_t>{0, 0, 0}));
  p.steps = {sums, independent, call, launch({3}, {true})};
  EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{4, 0, 3, 0}));
  std::get<Launch>(p.steps[1]).bytes = 1000;
  p.steps[3] = launch({1, 3}, {true, true});
  EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{0, 0, 0, 0})) << "there is too little to do";
  p.steps = {sums, independent, call, launch({3}, {true}), launch({1}, {false})};
  EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{4, 0, 3, 0, 0})) << "no meeting leaves the stream that another is on";
  Launch computes = independent;
  computes.flops = Expr(int64_t{1} << 40);
  for (const StepPlan& work : {StepPlan(computes), StepPlan(product)}) {
    p.steps = {sums, work, launch({1}, {false})};
    EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{0, 0, 0})) << "it takes multiprocessors from products";
    p.steps = {call, work, launch({3}, {false})};
    std::get<CollectiveCall>(p.steps[0]).input.buffer = 0, std::get<CollectiveCall>(p.steps[0]).output.buffer = 1;
    p.steps[2] = launch({1}, {false});
    EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{0, 0, 0})) << "so does NCCL";
    p.options.set(Mode::ReduceOverhead);
    EXPECT_EQ(worthwhile_ends(p, {}), (std::vector<size_t>{2, 0, 0})) << "but it gains more where calls are recorded";
    p.options.set(Mode::Default);
  }
}

TEST(OverlapCollectives, ChangesNoBits) {
  for (unsigned seed = 0; seed < 24; ++seed) run_local(2, [seed] { test::expect_equal_bits(seed, 256, DType::F32, Device::cpu()); });
}

// A program that works while rank 1 is late. The sum is needed at its end, though it is written first.
std::vector<Tensor> sum_beside_work(const Tensor& x, const Tensor& w) {
  const Tensor total = all_reduce(x) * 2.0;
  Tensor y = w;
  for (int i = 0; i < 12; ++i) y = matmul(y, w) * (1.0 / 64);
  return {total, y};
}

double ms_of(const std::function<void()>& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Rank 0 computes while it waits for rank 1, which comes late by as long as that takes.
TEST(OverlapCollectives, WaitsBesideTheWork) {
  for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
    run_local(2, [mode] {
      const Tensor x = Tensor::full({1000}, rank() + 1.0, DType::F32), w = Tensor::full({512, 512}, 0.25, DType::F32);
      auto beside = compile(sum_beside_work, test::config_of(mode, true)), apart = compile(sum_beside_work, test::config_of(mode, false));
      for (int call = 0; call < 3; ++call) beside(x, w), apart(x, w);
      static std::atomic<double> late{0};
      // How long the work alone takes, measured where nobody is late.
      double alone = 1e9;
      for (int i = 0; i < 3; ++i) {
        barrier();
        alone = std::min(alone, ms_of([&] { apart(x, w); }));
      }
      if (rank() == 0) late = std::max(40.0, 2 * alone);
      barrier();
      double least[2] = {1e9, 1e9};
      for (int round = 0; round < 5; ++round)
        for (int way = 0; way < 2; ++way) {
          barrier();
          if (rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(late.load()));
          std::vector<Tensor> found;
          const double ms = ms_of([&] { found = way == 0 ? beside(x, w) : apart(x, w); });
          least[way] = std::min(least[way], ms);
          EXPECT_EQ(found[0].to_vector()[5], 6.0);
        }
      if (rank() == 0) {
        EXPECT_LT(least[0], least[1] - 0.3 * alone) << "late by " << late << " ms, work of " << alone << " ms";
        std::printf("late by %.1f ms, work of %.1f ms: %.1f ms beside, %.1f ms one after the other\n", late.load(), alone, least[0],
                    least[1]);
      }
    });
}

// A step that fails, or a rank that does not come, while a collective is under way.
TEST(OverlapCollectives, ErrorsComeWhereItEnds) {
  const Tensor w = Tensor::full({512, 512}, 0.25, DType::F32);
  run_local(2, [&] {
    const Tensor x = Tensor::full({1000}, 1, DType::F32);
    auto beside = compile(sum_beside_work, test::config_of(Mode::Default, true));
    beside(x, w);
    barrier();
    const test::TimeoutScope limit("500");  // no compile is within it
    if (rank() == 1) {
      std::this_thread::sleep_for(milliseconds(1500));
      return;
    }
    const std::string told = test::environment_error([&] { beside(x, w); });
    EXPECT_TRUE(contains(told, "rank 1 did not come") && contains(told, "overlap_test.cpp:")) << told;
  });
  run_local(2, [&] {
    const Tensor x = Tensor::full({1000 + rank()}, 1, DType::F32);
    CompileConfig config = test::config_of(Mode::Default, true);
    auto beside = compile(sum_beside_work, config);
    const std::string told = test::user_error([&] { beside(x, w); });
    EXPECT_TRUE(contains(told, "do not fit together: rank 1 called all_reduce(sum) of f32[1001]")) << told;
    const Tensor same = Tensor::full({1000}, 1, DType::F32);
    EXPECT_EQ(beside(same, w)[0].to_vector()[0], 4.0) << "the group is of use after that";
  });
}

}  // namespace
}  // namespace toroid
