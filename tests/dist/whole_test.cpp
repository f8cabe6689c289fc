// Whole programs in which ranks meet, timed with and without what tuning chose: all ranks get the same answer.
#include "tune/search/whole.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>

#include "compile/harness.h"
#include "compile/tuning.h"
#include "dist/timeout.h"
#include "errors.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/custom_op.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"

namespace toroid {
namespace {

using distributed::all_reduce;
using distributed::rank;
using distributed::run_local;
using test::contains;

// What each rank finds.
template <class T>
class OfRanks {
 public:
  void set(T value) {
    std::lock_guard lock(mutex_);
    of_[rank()] = std::move(value);
  }
  const std::map<int, T>& all() const { return of_; }

 private:
  std::mutex mutex_;
  std::map<int, T> of_;
};

// A sum of 17 times as many elements, of which one part is wanted.
Tensor wasteful(const Tensor& x) { return slice(all_reduce(cat(std::vector<Tensor>(17, x), 0)), 0, 0, x.size(0)); }
Tensor plain(const Tensor& x) { return all_reduce(x); }

// Where others take the processors a time can be anything: what is expected of it is tried until there is a quiet moment. All else holds
// each time.
constexpr std::chrono::seconds kPatience{90};
class Patience {
 public:
  bool lasts() const { return std::chrono::steady_clock::now() < end_; }

 private:
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kPatience;
};

TEST(WholeTogether, IsTheSameRatioOnAllRanks) {
  for (const bool is_slower : {false, true}) {
    const Patience patience;
    for (int ranks = 2; ranks <= 3;) {
      ASSERT_TRUE(patience.lasts());
      OfRanks<tune::WholeTime> found;
      run_local(ranks, [&] {
        const compiler::Setup setup = front::setup_of({.mode = Mode::Default});
        const std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);
        const auto pipeline = compiler::pipeline_for({.setup = setup, .target = target});
        const auto lowered = [&](Tensor (*f)(const Tensor&)) {
          const auto g = test::graph_of([f](const std::vector<Tensor>& in) { return f(in[0]); }, {Tensor::full({1024}, 1, DType::F32)});
          return lower::lower(*graph::run_passes(graph::clone(*g), graph::pipeline(graph::kFrozen)), {.target = target.get()});
        };
        const program::Program few = lowered(plain), many = lowered(wasteful);
        found.set(
            tune::compare_whole_together(is_slower ? few : many, is_slower ? many : few, *pipeline, distributed::current_world().world()));
      });
      for (auto& [r, w] : found.all()) {
        EXPECT_EQ(w.refusal, found.all().at(0).refusal) << "rank " << r;
        EXPECT_EQ(w.ratio, found.all().at(0).ratio) << "rank " << r;
        EXPECT_EQ(w.spread, found.all().at(0).spread) << "rank " << r;
      }
      const double ratio = found.all().at(0).ratio;
      if (is_slower ? ratio > 1.1 : ratio > 0 && ratio < 0.9) ++ranks;
    }
  }
}

// One rank cannot build it: all are told, and nobody waits for the others.
TEST(WholeTogether, IsRefusedByAllWhereOneCannot) {
  const test::TimeoutScope limit("5000");
  OfRanks<std::string> found;
  run_local(2, [&] {
    const compiler::Setup setup = front::setup_of({.mode = Mode::Default});
    const std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);
    tune::Pipeline pipeline = *compiler::pipeline_for({.setup = setup, .target = target});
    if (rank() == 1) pipeline.build = [](program::Program) -> std::unique_ptr<tune::Build> { fail<EnvironmentError>("no space left"); };
    const auto g = test::graph_of([](const std::vector<Tensor>& in) { return plain(in[0]); }, {Tensor::full({64}, 1, DType::F32)});
    const program::Program p =
        lower::lower(*graph::run_passes(graph::clone(*g), graph::pipeline(graph::kFrozen)), {.target = target.get()});
    found.set(tune::compare_whole_together(p, p, pipeline, distributed::current_world().world()).refusal);
  });
  for (auto& [r, text] : found.all()) EXPECT_EQ(text, "rank 1: no space left") << r;
}

// A call whose default is much slower than its other implementation: all ranks take that, and keep it, as the whole program is faster, too.
// What one rank alone remembers of the whole program counts for nothing: all time it again, or all take what they know.
TEST(WholeTogether, IsKnownWhereAllKnowIt) {
  auto op = custom_op("whole_test::known", wasteful);
  register_custom_op_autotuning(op, {{.name = "plain", .decomposition = plain}});
  const auto file = [](int r) { return fmt::format("{}whole_test_{}.sqlite", testing::TempDir(), r); };
  const auto forget = [&](int r) {
    for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file(r) + part);
  };
  const auto tuned = [&] {
    OfRanks<TuneResult> found;
    const TuneFeedback feedback([&](const TuneResult& r) { found.set(r); });
    run_local(2, [&] {
      CompileConfig config;
      config.mode = Mode::MaxAutotune;
      config.options = {{"tune_database", file(rank())}, {"tune_choices", "plain"}};
      compile([&](const Tensor& t) { return relu(op(t * 2.0)) + 1.0; }, config)(Tensor::full({2048}, 1, DType::F32));
    });
    EXPECT_EQ(found.all().at(0).whole, found.all().at(1).whole);
    EXPECT_EQ(found.all().at(0).parts.at(0).chosen, found.all().at(1).parts.at(0).chosen);
    return found.all().at(0).whole;
  };
  const auto tuned_anew = [&](const std::vector<int>& forgetful) {
    for (const Patience patience; patience.lasts();) {
      for (int r : forgetful) forget(r);
      const std::string whole = tuned();
      if (contains(whole, "of the time without tuning") && contains(whole, "1 choices stay, 0 were put back")) return true;
    }
    return false;
  };
#ifdef TOROID_SANITIZED
  tuned();
  GTEST_SKIP() << "the 5 ms that ranks time a shape for compare nothing where a sanitizer watches each access";
#endif
  EXPECT_TRUE(tuned_anew({0, 1}));
  EXPECT_EQ(tuned(), "database: 1 choices stay");
  EXPECT_TRUE(tuned_anew({1}));
  EXPECT_EQ(tuned(), "database: 1 choices stay");
  forget(0), forget(1);
}

}  // namespace
}  // namespace toroid
