// Collectives between GPUs, against those of ranks that hold their tensors in the host's memory. Each rank has a GPU of its own.
#include "device/cuda/gpu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "dist/bits.h"
#include "dist/group.h"
#include "dist/p2p/peer_memory.h"
#include "dist/processes.h"
#include "dist/timeout.h"
#include "errors.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"

namespace toroid {
namespace {

using distributed::all_reduce;
using distributed::rank;
using distributed::run_local;
using test::bits_of;
using test::contains;

#define NEEDS_GPUS(n) \
  if (cuda_device_count() < (n)) GTEST_SKIP() << (n) << " GPUs are needed, there are " << cuda_device_count()

// In worlds of two ranks, of three, and of as many as there are GPUs: each has one.
void on_all_worlds(const std::function<void()>& body) {
  NEEDS_GPUS(2);
  std::vector<int> sizes{2};
  for (const int ranks : {3, cuda_device_count()})
    if (ranks <= cuda_device_count() && ranks > sizes.back()) sizes.push_back(ranks);
  for (const int ranks : sizes) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    run_local(ranks, body);
  }
}

// Different on each rank and in each round; elements whose sums are rounded.
Tensor brought(const std::vector<int64_t>& sizes, DType t, int64_t round) {
  Tensor out = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<float>()[i] = static_cast<float>((i * 7 + rank() * 5 + round * 3) % 23 - 11) / 7 + static_cast<float>(rank());
  return to(out, t);
}

const std::vector<std::vector<int64_t>> kSizes = {{}, {1}, {7}, {1000}, {4096}, {3, 1001}, {5, 8, 33}, {64, 1024}, {1 << 20}, {9000001}};

// The host takes seconds for some.
bool is_large(const std::vector<int64_t>& sizes) { return !sizes.empty() && sizes[0] > 1000000; }

CompileConfig config_of(Mode mode) {
  CompileConfig config;
  config.mode = mode;
  return config;
}

TEST(GpuAllReduce, HasTheBitsOfTheHosts) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
      for (const DType t : {DType::F32, DType::F16, DType::BF16})
        for (const char* op : {"sum", "avg", "min", "max", "product"})
          for (auto& sizes : kSizes) {
            if (is_large(sizes) && (t != DType::BF16 || std::string_view(op) != "sum")) continue;
            auto fast = compile([&](const Tensor& x) { return all_reduce(x, op); }, config_of(mode));
            for (int64_t round = 0; round < 3; ++round) {
              const Tensor x = brought(sizes, t, round);
              const std::string want = bits_of(all_reduce(x, op)), found = bits_of(fast(x.to(own)));
              ASSERT_EQ(found.size(), want.size());
              ASSERT_TRUE(found == want) << op << " of " << name_of(t) << " " << fmt::format("[{}]", fmt::join(sizes, ", ")) << " on rank "
                                         << rank() << ", round " << round;
            }
          }
  });
}

TEST(GpuAllReduce, TakesOnWhatFollows) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    for (auto& sizes : kSizes) {
      if (sizes.empty()) continue;
      const Tensor bias = brought({sizes.back()}, DType::BF16, 5);
      auto fn = [&](const Tensor& x, const Tensor& b) { return relu(all_reduce(x) * 0.5 + b); };
      auto fast = compile(fn);
      const Tensor x = brought(sizes, DType::BF16, 1);
      const auto want = fn(x, bias).to_vector(), found = fast(x.to(own), bias.to(own)).to(Device::cpu()).to_vector();
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(found[i], want[i], 0.02 * (1 + std::abs(want[i])));
    }
  });
}

// Sums of integers, which are the same in any order: products that send their sums by themselves, in chains, with a residual, replayed.
TEST(GpuAllReduce, OfProductsHasTheBitsOfTheHosts) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    const auto whole = [](const std::vector<int64_t>& sizes, DType t, int64_t round) {
      Tensor out = Tensor::empty(sizes, DType::F32);
      for (int64_t i = 0; i < out.numel(); ++i)
        out.data<float>()[i] = static_cast<float>((i * 7 + i / 11 + rank() * 5 + round * 3) % 5 - 2);
      return to(out, t);
    };
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead, Mode::MaxAutotune})
      for (const DType t : {DType::BF16, DType::F32})
        for (const auto& [rows, depth, columns] : std::vector<std::array<int64_t, 3>>{
                 {1, 1376, 2048}, {1, 4096, 136}, {2, 512, 2056}, {4, 96, 1024}, {8, 64, 300}, {16, 64, 256}}) {
          if (mode == Mode::MaxAutotune && (rows > 1 || t == DType::F32)) continue;
          auto fn = [](const Tensor& x, const Tensor& w, const Tensor& y) {
            Tensor sum = all_reduce(matmul(relu(x) + 1.0, transpose(w, 0, 1))) + y;
            return all_reduce(matmul(relu(sum) * 0.125, w), "max");
          };
          auto fast = compile(fn, config_of(mode));
          for (int64_t round = 0; round < 3; ++round) {
            const Tensor x = whole({rows, depth}, t, round), w = whole({columns, depth}, t, 1), y = whole({rows, columns}, t, 2);
            const std::string want = bits_of(fn(x, w, y)), found = bits_of(fast(x.to(own), w.to(own), y.to(own)));
            ASSERT_TRUE(found == want) << rows << " x " << depth << " x " << columns << " of " << name_of(t) << ", rank " << rank()
                                       << ", round " << round;
          }
        }
  });
}

// Sums of few ones, which 16 bits hold exactly: products in pieces, whose rows are gathered, or reduced and scattered, alone and with what
// follows, have the bits of those in sequence, call by call and replayed.
TEST(GpuProducts, InPiecesAreThoseInSequence) {
  struct Function {
    int64_t piece;  // rows of one: another number for each, so that each has memory of its own for pieces on their way
    bool gathers;
    Tensor (*call)(const Tensor& x, const Tensor& w, const Tensor& bias);
  };
  static constexpr Function kFunctions[] = {
      {2048, true, [](const Tensor& x, const Tensor& w, const Tensor&) { return matmul(distributed::all_gather(x), w); }},
      {2176, true,
       [](const Tensor& x, const Tensor& w, const Tensor& bias) {
         return relu(matmul(distributed::all_gather(x), transpose(w, 0, 1)) + bias) * 0.5;
       }},
      {2304, false, [](const Tensor& x, const Tensor& w, const Tensor&) { return distributed::reduce_scatter(matmul(x, w)); }},
      {2432, false, [](const Tensor& x, const Tensor& w, const Tensor& bias) {
         return distributed::reduce_scatter(matmul(x, transpose(w, 0, 1))) + bias;
       }}};
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    constexpr int64_t kWide = 4096;
    const auto sparse = [&](const std::vector<int64_t>& sizes, DType t, int64_t round) {
      Tensor out = Tensor::full(sizes, 0, DType::F32);
      for (int64_t i = rank() * 5 + round; i < out.numel(); i += 61 + i / kWide % 3) out.data<float>()[i] = static_cast<float>(i % 5 - 2);
      return to(out, t).to(own);
    };
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
      for (const DType t : {DType::BF16, DType::F16})
        for (auto& f : kFunctions) {
          CompileConfig config = config_of(mode);
          config.options["collective_order"] = "any";
          auto fast = compile(f.call, config);
          config.options["disable_passes"] = "overlap_products";
          auto apart = compile(f.call, config);
          const Tensor w = sparse({kWide, kWide}, t, 7), bias = sparse({kWide}, t, 2);
          for (int64_t round = 0; round < 3; ++round) {
            const Tensor x = sparse({f.gathers ? f.piece : distributed::size() * f.piece, kWide}, t, round);
            const std::string want = bits_of(apart(x, w, bias)), found = bits_of(fast(x, w, bias));
            ASSERT_TRUE(found == want) << f.piece << " rows a piece of " << name_of(t) << ", rank " << rank() << ", round " << round << ", "
                                       << name_of(mode);
          }
        }
    EXPECT_EQ(distributed::current_world().world().on_gpu(rank()).staging.size(), std::size(kFunctions));
  });
}

TEST(GpuProducts, ARankThatDoesNotComeIsNamed) {
  NEEDS_GPUS(2);
  const test::TimeoutScope limit("4000");
  run_local(2, [] {
    const Tensor x = Tensor::full({4096, 4096}, 1, DType::BF16).to(Device::cuda(rank()));
    auto fast = compile([](const Tensor& rows) { return distributed::reduce_scatter(matmul(rows, rows)); });
    fast(x);
    synchronize(x.device());
    if (rank() == 1) return;
    const std::string told = test::environment_error([&] {
      fast(x);
      synchronize(x.device());
    });
    EXPECT_TRUE(contains(told, "reduce_scatter_tensor of 16777216 elements in the group \"world\": rank 1 has not come within 4000 ms"))
        << told;
  });
}

// Kernels that a library has not started before, each beside ranks that wait for each other: rows of ones stay so.
TEST(GpuProducts, FirstCallsDoNotKeepRanksApart) {
  NEEDS_GPUS(2);
  const test::TimeoutScope limit("4000");
  run_local(2, [] {
    const Device own = Device::cuda(rank());
    auto mean_of_products = compile([](const Tensor& rows, const std::vector<Tensor>& weights) {
      Tensor x = rows;
      for (auto& w : weights) x = all_reduce(matmul(x, w), "avg");
      return x;
    });
    for (const DType t : {DType::F16, DType::F32, DType::BF16})
      for (const int64_t rows : {96, 640, 1536, 3072}) {
        std::vector<Tensor> weights;
        const std::vector<int64_t> widths = {512, 4096, 256, 8192, 1024};
        for (size_t i = 1; i < widths.size(); ++i)
          weights.push_back(Tensor::full({widths[i - 1], widths[i]}, 1.0 / static_cast<double>(widths[i - 1]), t).to(own));
        const Tensor found = mean_of_products(Tensor::full({rows, widths.front()}, 1, t).to(own), weights);
        EXPECT_EQ(bits_of(found), bits_of(Tensor::full({rows, widths.back()}, 1, t))) << rows << " rows of " << name_of(t);
      }
  });
}

TEST(GpuAllReduce, TakesAnySize) {
  on_all_worlds([] {
    CompileConfig config;
    config.dynamic = true;
    auto fast = compile([](const Tensor& x) { return all_reduce(x) * 2.0; }, config);
    for (const int64_t n : {2, 1000, 8, 333333, 77, 5000000})
      EXPECT_EQ(bits_of(fast(brought({n, 3}, DType::F32, n).to(Device::cuda(rank())))),
                bits_of(all_reduce(brought({n, 3}, DType::F32, n)) * 2.0));
  });
}

TEST(GpuAllReduce, ChainsOfAllSizesReuseTheMemory) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    std::vector<Tensor> xs, on_gpu;
    for (int64_t n : {100, 3000000, 4096, 40000, 64, 900000}) xs.push_back(brought({n}, DType::F32, n));
    for (auto& x : xs) on_gpu.push_back(x.to(own));
    auto all = [](const std::vector<Tensor>& given) {
      std::vector<Tensor> out;
      for (int i = 0; i < 3; ++i)
        for (auto& x : given) out.push_back(all_reduce(out.size() >= given.size() ? out[out.size() - given.size()] : x, "avg"));
      return out;
    };
    auto fast = compile(all, config_of(Mode::ReduceOverhead));
    const auto want = all(xs);
    for (int call = 0; call < 20; ++call) {
      const auto found = fast(on_gpu);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(bits_of(found[i]) == bits_of(want[i])) << "call " << call << ", result " << i;
    }
  });
}

TEST(GpuAllReduce, ARankThatDoesNotComeIsNamed) {
  NEEDS_GPUS(2);
  const test::TimeoutScope limit("700");
  run_local(2, [] {
    const Tensor x = brought({4096}, DType::F32, 0).to(Device::cuda(rank()));
    auto fast = compile([](const Tensor& t) { return all_reduce(t); });
    fast(x);
    synchronize(x.device());
    if (rank() == 1) return;
    const auto since = std::chrono::steady_clock::now();
    const std::string told = test::environment_error([&] {
      fast(x);
      synchronize(x.device());
    });
    EXPECT_TRUE(contains(told, "all_reduce of 4096 elements in the group \"world\": rank 1 has not come within 700 ms")) << told;
    EXPECT_TRUE(contains(told, "gpu_test.cpp:")) << told;
    EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(5));
    const std::string again = test::environment_error([&] {
      fast(x);
      synchronize(x.device());
    });
    EXPECT_TRUE(contains(again, "rank 1")) << again;
  });
}

// Calls that differ in one thing each, of one kernel form and between forms: both ranks say so, and nobody waits for the end of time.
TEST(GpuAllReduce, CallsThatDifferAreNamed) {
  NEEDS_GPUS(2);
  const test::TimeoutScope limit("20000");
  struct Call {
    int64_t elements;
    DType dtype;
    const char* op;
  };
  const Call base = {4096, DType::F32, "sum"};
  for (const Call other : {Call{4096, DType::F32, "max"}, Call{4095, DType::F32, "sum"}, Call{4096, DType::BF16, "sum"},
                           Call{8192, DType::BF16, "sum"}, Call{1 << 18, DType::F32, "sum"}, Call{4 << 20, DType::F32, "sum"}})
    for (const bool large : {false, true})
      run_local(2, [&] {
        auto reduce = [](const Call& c) { return compile([op = std::string(c.op)](const Tensor& t) { return all_reduce(t, op); }); };
        auto input = [](const Call& c) { return brought({c.elements}, c.dtype, 0).to(Device::cuda(rank())); };
        const Call first = large ? Call{4 << 20, DType::F32, "max"} : base;
        auto f = reduce(first), g = reduce(other);
        const Tensor x = input(first), y = input(other);
        for (int call = 0; call < 3; ++call) f(x), g(y);
        synchronize(x.device());
        const auto since = std::chrono::steady_clock::now();
        const std::string told = test::user_error([&] {
          rank() == 0 ? f(x) : g(y);
          synchronize(x.device());
        });
        EXPECT_TRUE(contains(told, fmt::format("rank {} runs another operation", 1 - rank()))) << told;
        EXPECT_TRUE(contains(told, "gpu_test.cpp:")) << told;
        EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(5));
      });
}

// All ranks time the forms at once, and take the same.
TEST(GpuAllReduce, TunedIsWhatItWas) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    for (const int64_t n : {4096, 1 << 18, 3 << 20}) {
      auto fn = [](const Tensor& x) { return relu(all_reduce(x)) * 0.5; };
      auto fast = compile(fn, config_of(Mode::MaxAutotune));
      const Tensor x = brought({n}, DType::BF16, 1);
      const std::string want = bits_of(fn(x));
      for (int call = 0; call < 3; ++call) EXPECT_TRUE(bits_of(fast(x.to(own))) == want) << n;
    }
  });
}

// NCCL is timed beside the kernels where it has their bits, or any are good enough; tuning checks its results.
TEST(GpuCollectives, AreTimedByNcclToo) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    for (const bool any : {false, true}) {
      std::vector<TuneResult> found;
      const TuneFeedback feedback([&, tuner = rank()](const TuneResult& r) {
        if (rank() == tuner) found.push_back(r);
      });
      CompileConfig config = config_of(Mode::MaxAutotune);
      config.options = {{"tune_database", "none"}, {"tune_choices", "^nccl"}, {"collective_order", any ? "any" : "ranks"}};
      auto fast = compile([](const Tensor& x) { return relu(distributed::all_gather(all_reduce(x))) * 0.5; }, config);
      fast(brought({1000, 33}, DType::F32, 1).to(own));
      ASSERT_EQ(found.size(), 1U);
      ASSERT_FALSE(found[0].parts.empty());
      for (auto& part : found[0].parts) {
        const bool offered = any || part.label.starts_with("all_gather") || distributed::size() == 2;
        const auto at = std::find_if(part.choices.begin(), part.choices.end(), [](auto& c) { return c.name == "nccl()"; });
        ASSERT_EQ(at != part.choices.end(), offered) << part.label;
        if (!offered) continue;
        EXPECT_FALSE(at->failed) << at->status;
        EXPECT_GT(at->microseconds, 0) << at->status;
      }
    }
  });
}

TEST(GpuAllReduce, BetweenProcesses) {
  NEEDS_GPUS(2);
  const test::RanksOutcome out = test::run_ranks(2, "sums_on_gpus");
  EXPECT_EQ(out.code, 0) << out.text;
  for (int r : {0, 1}) EXPECT_TRUE(contains(out.text, fmt::format("rank {}: done", r))) << out.text;
}

// Each of `kinds` through the engine, of an x of [n * ranks, 3].
std::vector<Tensor> kinds(const Tensor& x) {
  const int ranks = distributed::size();
  std::vector<Tensor> out{distributed::all_gather(x), distributed::broadcast(x, ranks - 1), distributed::reduce_scatter(x, "max")};
  const SymInt part = x.size(0) / ranks;
  const std::vector<SymInt> even(static_cast<size_t>(ranks), part);
  out.push_back(distributed::all_to_all(x, even, even));
  // Rank 0 gives all to the last rank, the others a part to each.
  std::vector<SymInt> taken = even, given = even;
  taken[0] = rank() == ranks - 1 ? x.size(0) : SymInt(0);
  if (rank() == 0) std::fill(given.begin(), given.end(), SymInt(0)), given.back() = x.size(0);
  out.push_back(distributed::all_to_all(x, taken, given));
  if (!is_float(x.dtype())) out.push_back(all_reduce(x));
  return out;
}

TEST(GpuCollectives, OfAllKindsHaveTheBitsOfTheHosts) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
      for (const DType t : {DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8, DType::I16})
        for (const int64_t part : {1, 17, 10000, 300007}) {
          if (part > 100000 && t != DType::F32 && t != DType::BF16) continue;
          const int64_t rows = part * distributed::size();
          auto fast = compile([](const Tensor& x) { return kinds(x); }, config_of(mode));
          for (int64_t round = 0; round < 3; ++round) {
            const Tensor x = to(brought({rows, 3}, DType::F32, round) * 2.0, t);
            const auto want = kinds(x), found = fast(x.to(own));
            ASSERT_TRUE(distributed::current_world().world().on_gpu(own.index).nccl) << "NCCL is not there, and all went by the host";
            ASSERT_EQ(found.size(), want.size());
            for (size_t i = 0; i < want.size(); ++i)
              ASSERT_TRUE(bits_of(found[i]) == bits_of(want[i]))
                  << "kind " << i << " of " << name_of(t) << ", " << rows << " rows, round " << round;
          }
        }
  });
}

TEST(GpuCollectives, TakeOnWhatFollows) {
  on_all_worlds([] {
    const Device own = Device::cuda(rank());
    for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {17, 8}, {300, 1000}, {20001, 33}}) {
      const Tensor x = brought({rows * distributed::size(), columns}, DType::BF16, 1), bias = brought({columns}, DType::BF16, 5);
      auto fn = [](const Tensor& t, const Tensor& b) {
        const Tensor part = relu(distributed::reduce_scatter(t, "avg") - b);
        return std::vector<Tensor>{part, relu(distributed::all_gather(part) * 0.5 + b)};
      };
      const auto want = fn(x, bias), found = compile(fn)(x.to(own), bias.to(own));
      for (size_t k = 0; k < want.size(); ++k) {
        const auto v = want[k].to_vector(), w = found[k].to(Device::cpu()).to_vector();
        ASSERT_EQ(v.size(), w.size());
        for (size_t i = 0; i < v.size(); ++i) ASSERT_NEAR(w[i], v[i], 0.02 * (1 + std::abs(v[i]))) << "result " << k << " at " << i;
      }
    }
  });
}

TEST(GpuCollectives, OfAnySize) {
  on_all_worlds([] {
    CompileConfig config;
    config.dynamic = true;
    auto fast = compile([](const Tensor& x) { return kinds(x); }, config);
    for (const int64_t part : {1, 4, 10000, 2}) {
      const int64_t rows = part * distributed::size();
      const Tensor x = brought({rows, 3}, DType::F32, rows);
      const auto want = kinds(x), found = fast(x.to(Device::cuda(rank())));
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_TRUE(bits_of(found[i]) == bits_of(want[i])) << "kind " << i << ", " << rows << " rows";
    }
  });
}

TEST(GpuCollectives, ARankThatDoesNotComeIsNamed) {
  NEEDS_GPUS(2);
  const test::TimeoutScope limit("3000");
  // By own kernels, which know who is missing, and by NCCL, where a rank knows what it waits in.
  for (const auto& [t, who] : {std::pair(DType::F32, "rank 1 has not come"), std::pair(DType::I64, "rank 0")})
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
      run_local(2, [mode, t, who] {
        const Tensor x = brought({4096}, t, 0).to(Device::cuda(rank()));
        auto fast = compile([](const Tensor& t) { return distributed::all_gather(t); }, config_of(mode));
        for (int call = 0; call < 4; ++call) fast(x);
        synchronize(x.device());
        if (rank() == 1) return;
        for (int again = 0; again < 2; ++again) {
          const std::string told = test::environment_error([&] {
            fast(x);
            synchronize(x.device());
          });
          EXPECT_TRUE(contains(told, who) && contains(told, "all_gather_into_tensor")) << told;
        }
      });
}

// Calls that NCCL would not compare, eager, compiled and replayed, after steady ones: other operations, dtypes, sizes and roots, in another
// order. A rank that waits for the GPU, or goes on, is told within a moment.
TEST(GpuCollectives, CallsOfNcclThatDifferAreNamed) {
  NEEDS_GPUS(2);
  const test::TimeoutScope limit("20000");
  using Call = std::function<Tensor(const Tensor&)>;
  struct Difference {
    Call right, wrong;
    const char *right_text, *wrong_text;
  };
  const Call sum = [](const Tensor& x) { return all_reduce(x); };
  const Difference differences[] = {
      {sum, [](const Tensor& x) { return all_reduce(x, "max"); }, "all_reduce(sum) of i64[4096]", "all_reduce(max) of i64[4096]"},
      {sum, [](const Tensor& x) { return distributed::all_gather(x); }, "all_reduce(sum) of i64[4096]",
       "all_gather_into_tensor of i64[4096]"},
      {sum, [](const Tensor& x) { return all_reduce(slice(x, 0, 0, 4095)); }, "all_reduce(sum) of i64[4096]",
       "all_reduce(sum) of i64[4095]"},
      {sum, [](const Tensor& x) { return all_reduce(to(x, DType::I32)); }, "all_reduce(sum) of i64[4096]", "all_reduce(sum) of i32[4096]"},
      {[](const Tensor& x) { return distributed::broadcast(x, 0); }, [](const Tensor& x) { return distributed::broadcast(x, 1); },
       "broadcast(from rank 0)", "broadcast(from rank 1)"}};
  for (auto& d : differences)
    for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
      run_local(2, [&] {
        const Tensor x = brought({4096}, DType::I64, 0).to(Device::cuda(rank()));
        auto f = compile(d.right, config_of(mode)), g = compile(d.wrong, config_of(mode));
        for (int call = 0; call < 5; ++call) f(x), g(x);
        synchronize(x.device());
        const auto since = std::chrono::steady_clock::now();
        const auto next = [&] {
          rank() == 0 ? f(x) : g(x);
          synchronize(x.device());
        };
        std::string told = test::user_error(next);
        while (told == "no error" && std::chrono::steady_clock::now() - since < std::chrono::seconds(5))
          told = test::user_error([&] { synchronize(x.device()); });
        for (const char* text : {d.right_text, d.wrong_text}) EXPECT_TRUE(contains(told, text)) << told;
        EXPECT_TRUE(contains(told, "the ranks' collectives do not fit together: rank 1 called ")) << told;
        EXPECT_TRUE(contains(told, "gpu_test.cpp:")) << told;
        EXPECT_EQ(test::user_error([&] { f(x); }), told) << "it stays so";
        EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(5));
      });
}

// Two groups of two at once, then two others of the same ranks.
TEST(GpuCollectives, OfPartsOfTheWorld) {
  NEEDS_GPUS(4);
  run_local(4, [] {
    const Device own = Device::cuda(rank());
    const std::vector<std::pair<std::string, std::vector<int>>> groups = {
        {"low", {0, 1}}, {"high", {2, 3}}, {"even", {0, 2}}, {"odd", {3, 1}}};
    for (auto& [name, members] : groups) distributed::new_group(name, members);
    for (auto& [name, members] : groups) {
      if (std::find(members.begin(), members.end(), rank()) == members.end()) continue;
      auto fn = [group = name](const Tensor& x) {
        const Tensor y = relu(all_reduce(x, "sum", group)) * 0.5;
        return std::vector<Tensor>{y, distributed::all_gather(y, group), distributed::reduce_scatter(x, "min", group)};
      };
      for (const int64_t rows : {2, 5000}) {
        const Tensor x = brought({rows, 4}, DType::BF16, rows);
        auto fast = compile(fn, config_of(Mode::ReduceOverhead));
        const auto want = fn(x);
        for (int call = 0; call < 4; ++call) {
          const auto found = fast(x.to(own));
          for (size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(bits_of(found[i]) == bits_of(want[i])) << name << ", result " << i;
        }
      }
    }
  });
}

// Worlds that capture, replay and end leave nothing on the GPU.
TEST(GpuCollectives, WorldsThatEndGiveTheirMemoryBack) {
  NEEDS_GPUS(2);
  size_t after_two = 0;
  for (int world = 0; world < 10; ++world) {
    run_local(cuda_device_count(), [] {
      const Tensor x = brought({100000}, DType::F32, 0).to(Device::cuda(rank()));
      auto fast = compile([](const Tensor& t) { return distributed::all_gather(all_reduce(t, "avg")); }, config_of(Mode::ReduceOverhead));
      for (int call = 0; call < 5; ++call) fast(x);
      synchronize(x.device());
    });
    const size_t free = device::cuda::gpu(0).free_bytes();
    if (world == 1) after_two = free;
    EXPECT_GT(free + (size_t{16} << 20), after_two) << "after world " << world;
  }
}

// What a process has shared is there for the others when it dies.
TEST(GpuAllReduce, AProcessThatDiesIsNamed) {
  NEEDS_GPUS(2);
  const test::RanksOutcome out = test::run_ranks(2, "one_dies_on_gpus");
  EXPECT_TRUE(contains(out.text, "rank 0: told: all_reduce of 100000 elements in the group \"world\": rank 1 has not come within 2000 ms"))
      << out.text;
  EXPECT_LT(out.seconds, 30);
}

TEST(GpuAllReduce, OneGpuForTwoRanksIsRefused) {
  NEEDS_GPUS(1);
  run_local(2, [] {
    auto memory = distributed::p2p::peer_memory(distributed::current_world().world(), Device::cuda(0));
    EXPECT_TRUE(contains(memory->refusal(), "ranks 0 and 1 have the same GPU")) << memory->refusal();
  });
}

}  // namespace
}  // namespace toroid
