// Tuning what ranks compute together: all list, time and choose the same, or all get the same error. Ranks are threads.
#include "toroid/tuning.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/files.h"
#include "base/options.h"
#include "compile/program_cache.h"
#include "dist/group.h"
#include "dist/timeout.h"
#include "errors.h"
#include "toroid/cache.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/custom_op.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using distributed::rank;
using distributed::run_local;
using test::contains;

// Of floats: numbers whose sums round. Of integers: all bits.
Tensor input_of(int r, std::vector<int64_t> sizes, DType t) {
  Tensor out = Tensor::empty(sizes, DType::F64);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<double>()[i] =
        is_float(t) ? static_cast<double>((i * 37 + r * 101) % 997 - 498) / 7.0 : static_cast<double>((i * 7 + r * 3) % 11);
  return Tensor::of(out.to_vector(), sizes, t);
}

std::string bits(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return std::string(reinterpret_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
}

CompileConfig tuned(const std::string& names = "", const std::string& database = "none") {
  CompileConfig c;
  c.mode = Mode::MaxAutotune;
  c.options = {{"tune_database", database}, {"tune_whole_ms", "0"}, {"tune_choices", names}};
  return c;
}

// What tuning finds on each rank, by the thread that compiles.
class Found {
 public:
  Found()
      : feedback_([this](const TuneResult& r) {
          std::lock_guard lock(mutex_);
          of_[rank()] = r;
        }) {}
  TuneResult at(int r) const {
    std::lock_guard lock(mutex_);
    return of_.at(r);
  }
  size_t size() const { return of_.size(); }

 private:
  mutable std::mutex mutex_;
  std::map<int, TuneResult> of_;
  TuneFeedback feedback_;
};

Tensor sum_relu_scale(const Tensor& x) { return relu(distributed::all_reduce(x)) * 2.0; }

TEST(TuneRanks, ChooseTheSameAndComputeTheSameBits) {
  for (int ranks : {2, 3, 4}) {
    Found found;
    run_local(ranks, [&] {
      const Tensor x = input_of(rank(), {1024}, DType::F32);
      auto fast = compile(sum_relu_scale, tuned());
      const std::string own = bits(fast(x));
      EXPECT_EQ(own, bits(sum_relu_scale(x)));
      EXPECT_EQ(bits(fast(x)), own);
    });
    ASSERT_EQ(found.size(), static_cast<size_t>(ranks));
    const TunedPart first = found.at(0).parts.at(0);
    EXPECT_TRUE(contains(first.source, fmt::format("on {} ranks", ranks))) << first.source;
    for (auto& c : first.choices) EXPECT_FALSE(c.failed) << c.name << ": " << c.status;
    for (int r = 1; r < ranks; ++r) {
      const TunedPart other = found.at(r).parts.at(0);
      EXPECT_EQ(other.chosen, first.chosen);
      ASSERT_EQ(other.choices.size(), first.choices.size());
      for (size_t i = 0; i < first.choices.size(); ++i) EXPECT_EQ(other.choices[i].microseconds, first.choices[i].microseconds) << i;
    }
  }
}

std::vector<std::string> names_of(const TunedPart& part) {
  std::vector<std::string> out;
  for (auto& c : part.choices) out.push_back(c.name);
  std::sort(out.begin(), out.end());
  return out;
}

// Two implementations, each alone, with relu, and with relu and scale in its kernel.
TEST(TuneRanks, ListEachImplementationWithEachEpilogue) {
  using Names = std::vector<std::string>;
  const auto listed = [](const std::string& kinds) {
    Found found;
    run_local(4, [&] {
      auto config = tuned("^one_shot");
      config.options["collective_order"] = "any";
      config.options["fusion_types"] = kinds;
      compile(sum_relu_scale, config)(input_of(rank(), {1024}, DType::F32));
    });
    return names_of(found.at(0).parts.at(0));
  };
  const Names alone = {"default", "one_shot", "one_shot_pairs"};
  const Names fused = {"default",
                       "one_shot + relu",
                       "one_shot + relu + mul",
                       "one_shot alone",
                       "one_shot_pairs + relu",
                       "one_shot_pairs + relu + mul",
                       "one_shot_pairs alone"};
  EXPECT_EQ(listed("none").size(), alone.size());
  EXPECT_EQ(listed("epilogue"), fused);
  EXPECT_EQ(listed("epilogue,prologue"), fused);
}

// All implementations of one order, each bit.
TEST(TuneRanks, ImplementationsOfOneOrderHaveTheSameBits) {
  for (int ranks : {2, 3, 4}) {
    Found found;
    run_local(ranks, [&] {
      std::vector<Tensor> inputs;
      for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I64, DType::U16, DType::Bool})
        inputs.push_back(input_of(rank(), {ranks == 3 ? 35 : 64, 3}, t));
      auto all = [](const std::vector<Tensor>& list) {
        std::vector<Tensor> out;
        for (auto& x : list)
          for (const char* op : {"sum", "avg", "min", "max", "product"})
            if (std::string(op) != "avg" || is_float(x.dtype())) out.push_back(distributed::all_reduce(x, op));
        return out;
      };
      auto config = tuned("alone$|^[a-z_]+$");
      config.options["tune_strict"] = "1";
      config.options["fusion_types"] = "none";
      auto fast = compile([&](const std::vector<Tensor>& list) { return all(list); }, config);
      const auto got = fast(inputs), want = all(inputs);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(bits(got[i]), bits(want[i])) << i;
    });
    const TuneResult result = found.at(0);
    EXPECT_EQ(result.parts.size(), 36u);
    for (auto& part : result.parts) {
      EXPECT_EQ(part.choices.size(), 3u) << part.label;
      for (auto& c : part.choices) EXPECT_FALSE(c.failed) << part.label << " " << c.name << ": " << c.status;
    }
  }
}

// What has no collective in it is computed alike, too: equal inputs give equal bits.
TEST(TuneRanks, ChooseTheSameForProductsBesideIt) {
  Found found;
  run_local(3, [&] {
    const Tensor x = input_of(0, {96, 128}, DType::F32), w = input_of(1, {128, 160}, DType::F32);
    auto config = tuned();
    config.options["tune_region_ms"] = "20";
    auto fast = compile([](const Tensor& a, const Tensor& b) { return std::vector{distributed::all_reduce(a), matmul(a, b)}; }, config);
    fast(x, w);
  });
  const TuneResult first = found.at(0);
  EXPECT_EQ(first.parts.size(), 2u);
  for (int r : {1, 2}) {
    const TuneResult other = found.at(r);
    ASSERT_EQ(other.parts.size(), first.parts.size());
    for (size_t i = 0; i < first.parts.size(); ++i) EXPECT_EQ(other.parts[i].chosen, first.parts[i].chosen) << first.parts[i].label;
  }
}

// Sums and averages are not implementations of one operation.
TEST(TuneRanks, RefuseWhatIsNotTheSameFunction) {
  auto op = custom_op("distributed_test::reduced", [](const Tensor& x) { return distributed::all_reduce(x, "sum"); });
  register_custom_op_autotuning(op, {{.name = "avg", .decomposition = [](const Tensor& x) { return distributed::all_reduce(x, "avg"); }}});
  Found found;
  run_local(2, [&] {
    const Tensor x = input_of(rank(), {128, 128}, DType::F32);
    auto fast = compile([&](const Tensor& t) { return op(t); }, tuned());
    EXPECT_EQ(bits(fast(x)), bits(distributed::all_reduce(x)));
  });
  for (int r : {0, 1}) {
    const TuneResult result = found.at(r);
    std::string said;
    for (auto& part : result.parts)
      for (auto& c : part.choices)
        if (contains(c.name, "avg")) said += c.status;
    EXPECT_TRUE(contains(said, "not equivalent to the default: rank 0 of the group \"world\": ")) << said;
    EXPECT_TRUE(contains(said, "error")) << said;
  }
}

// A size that the run tells: a choice a range.
TEST(TuneRanks, ChooseBySizeWhenTheProgramRuns) {
  auto config = tuned();
  config.dynamic = true;
  Found found;
  run_local(3, [&] {
    auto fast = compile([](const Tensor& x) { return relu(distributed::all_reduce(x)); }, config);
    for (int64_t n : {5, 3000, 40000, 2, 600000}) {
      const Tensor x = input_of(rank(), {n}, DType::F32);
      EXPECT_EQ(bits(fast(x)), bits(relu(distributed::all_reduce(x)))) << n;
    }
  });
  const TuneResult first = found.at(0);
  EXPECT_GE(first.parts.size(), 3u) << "a range each";
  for (int r : {1, 2}) {
    const TuneResult other = found.at(r);
    ASSERT_EQ(other.parts.size(), first.parts.size());
    for (size_t i = 0; i < first.parts.size(); ++i) EXPECT_EQ(other.parts[i].chosen, first.parts[i].chosen) << first.parts[i].label;
  }
}

// Where ranks are threads of a process they may share a compiled function, too.
TEST(TuneRanks, MayShareAFunction) {
  auto fast = compile(sum_relu_scale, tuned());
  run_local(3, [&] {
    for (int64_t n : {64, 100}) {
      const Tensor x = input_of(rank(), {n}, DType::F32);
      EXPECT_EQ(bits(fast(x)), bits(sum_relu_scale(x)));
    }
  });
}

// Nor do they wait for each other's lock where programs are kept on disk: what they compile together is not kept.
TEST(TuneRanks, WaitForNoLockOfTheCacheOfPrograms) {
  const std::filesystem::path folder = make_temp_dir("toroid-tune-ranks");
  {
    const ScopedOption dir("cache_dir", folder.string()), on("cache_programs", "1"), cache("cache", "1"), wait("cache_wait_ms", "4000");
    const ProgramCacheCounters before = program_cache_counters();
    run_local(3, [&] {
      const Tensor x = input_of(rank(), {1024}, DType::F32);
      EXPECT_EQ(bits(compile(sum_relu_scale, tuned())(x)), bits(sum_relu_scale(x)));
    });
    EXPECT_EQ(program_cache_counters().waits, before.waits) << "a function, whose graph is known";
    // A file, whose graph is not: until it is read nobody knows that it has collectives.
    run_local(3, [&] {
      compiler::Setup setup{Device::cpu(), CompileOptions().with(tuned().options)};
      setup.options.set(Mode::MaxAutotune);
      const compiler::ProgramSource source{.graph = [] {
        return graph::parse(
            "graph \"g\"(%x: f32[1024]) {\n  %y: f32[1024] = _c10d_functional.all_reduce(%x, \"sum\", \"world\")\n  return %y\n}\n");
      }};
      auto program = compiler::cached([&] { return compiler::key_of("a test", setup); }, setup, source);
      const Tensor x = input_of(rank(), {1024}, DType::F32);
      EXPECT_EQ(bits(program.run(std::vector<Tensor>{x})[0]), bits(distributed::all_reduce(x)));
    });
    EXPECT_EQ(program_cache_counters().waits, before.waits) << "a file, whose graph is not known yet";
    EXPECT_EQ(program_cache_counters().kept, before.kept);
  }
  std::filesystem::remove_all(folder);
}

class Files {
 public:
  Files() : folder_(std::filesystem::path(testing::TempDir()) / fmt::format("tune_ranks_{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  std::string of(int rank, const std::string& which) const { return (folder_ / fmt::format("{}{}.sqlite", which, rank)).string(); }

 private:
  const std::filesystem::path folder_;
};

// What one rank alone remembers does not decide: all time again, and choose the same.
TEST(TuneRanks, AgreeWhereOneHasNoDatabase) {
  const Files files;
  std::atomic<int> samples = 0;  // ranks that have timed something: each sample begins with a barrier
  const auto tune_with = [&](const std::function<std::string(int)>& database) {
    auto found = std::make_unique<Found>();
    samples = 0;
    run_local(3, [&] {
      auto config = tuned("", database(rank()));
      const Tensor x = input_of(rank(), {512}, DType::F32);
      const Tensor y = compile(sum_relu_scale, config)(x);
      samples += contains(distributed::current_world().world().history(), " came to barrier");
      EXPECT_EQ(bits(y), bits(sum_relu_scale(x)));
    });
    return found;
  };
  const auto sources = [](const Found& found) {
    std::vector<std::string> out;
    for (int r : {0, 1, 2}) out.push_back(found.at(r).parts.at(0).source);
    return out;
  };
  const auto each_own = [&](int r) { return files.of(r, "own"); };
  const auto one_new = [&](int r) { return files.of(r, r == 1 ? "new" : "own"); };
  EXPECT_TRUE(contains(sources(*tune_with(each_own))[1], "timed"));
  EXPECT_EQ(samples, 3);
  EXPECT_EQ(sources(*tune_with(each_own)), (std::vector<std::string>{"database", "database", "database"}));
  EXPECT_EQ(samples, 0) << "what all know is not timed";
  const auto again = tune_with(one_new);
  for (auto& source : sources(*again)) EXPECT_TRUE(contains(source, "timed")) << source;
  for (int r : {1, 2}) EXPECT_EQ(again->at(r).parts.at(0).chosen, again->at(0).parts.at(0).chosen);
}

// One rank's processor is another: what the others remember of theirs decides nothing, all time, and choose the same.
TEST(TuneRanks, AgreeWhereOneMachineIsAnother) {
  const Files files;
  for (const char* own : {"auto", "scalar", "scalar"}) {
    Found found;
    run_local(3, [&] {
      auto config = tuned("", files.of(rank(), "machines"));
      if (rank() == 1) config.options["isa"] = own;
      const Tensor x = input_of(rank(), {512}, DType::F32);
      EXPECT_EQ(bits(compile(sum_relu_scale, config)(x)), bits(sum_relu_scale(x)));
    });
    for (int r : {0, 1, 2}) {
      ASSERT_EQ(found.at(r).parts.size(), 1u);
      EXPECT_EQ(found.at(r).parts[0].chosen, found.at(0).parts[0].chosen) << own;
      EXPECT_TRUE(contains(found.at(r).parts[0].source, "timed")) << own << ": " << found.at(r).parts[0].source;
    }
  }
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
    return "no error";
  } catch (const Error& e) {
    return e.what();
  }
}

// Each gets an error that names a rank and the thing.
TEST(TuneRanks, AreToldWhoTunesSomethingElse) {
  const test::TimeoutScope timeout("20000");
  run_local(3, [] {
    const Tensor x = input_of(rank(), {rank() == 1 ? 512 : 256}, DType::F32);
    const std::string said = error_of([&] { compile(sum_relu_scale, tuned())(x); });
    EXPECT_TRUE(contains(said, "the ranks disagree about the choices of") && contains(said, "rank 1")) << said;
    EXPECT_EQ(distributed::all_reduce(Tensor::full(std::vector<int64_t>{1}, 1.0)).to_vector()[0], 3) << "the group is of use";
  });
  // A new size of one rank alone: the others run what is compiled.
  run_local(3, [] {
    auto fast = compile(sum_relu_scale, tuned());
    fast(input_of(rank(), {256}, DType::F32));
    const std::string said = error_of([&] { fast(input_of(rank(), {rank() == 1 ? 512 : 256}, DType::F32)); });
    EXPECT_TRUE(contains(said, "do not fit together: rank 1 called all_gather_into_tensor") && contains(said, "the choices of")) << said;
  });
}

TEST(TuneRanks, AreToldWhoIsDead) {
  const test::TimeoutScope timeout("300");
  for (int at : {0, 1, 2, 5, 9}) {  // how far the others come
    std::atomic<int> told = 0;
    EXPECT_TRUE(contains(error_of([&] {
                           run_local(3, [&] {
                             if (rank() == 1 && at == 0) throw EnvironmentError("out of luck");
                             const Tensor x = input_of(rank(), {256}, DType::F32);
                             // Rank 1 takes part in some of the agreements, and is gone then.
                             auto& world = distributed::current_world().world();
                             if (rank() == 1) {
                               for (int i = 0; i < at; ++i)
                                 error_of([&] { world.run({.kind = distributed::Kind::Barrier, .where = "elsewhere"}); });
                               throw EnvironmentError("out of luck");
                             }
                             const std::string said = error_of([&] { compile(sum_relu_scale, tuned())(x); });
                             told += contains(said, "rank 1");
                           });
                         }),
                         "out of luck"));
    EXPECT_EQ(told, 2);
  }
}

}  // namespace
}  // namespace toroid
