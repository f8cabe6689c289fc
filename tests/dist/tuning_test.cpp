// Tuning what ranks compute together: all list, time and choose the same, or all get the same error. Ranks are threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/options.h"
#include "dist/group.h"
#include "errors.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"

namespace toroid {
namespace {

using distributed::rank;
using distributed::run_local;
using test::contains;

// Of floats: numbers whose sums round. Of integers: all bits.
Tensor input_of(int r, std::vector<int64_t> sizes, DType t) {
  Tensor out = Tensor::empty(sizes, DType::F64);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<double>()[i] = is_float(t) ? static_cast<double>((i * 37 + r * 101) % 997 - 498) / 7.0 : static_cast<double>((i * 7 + r * 3) % 11);
  return Tensor::of(out.to_vector(), sizes, t);
}

std::string bits(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return std::string(reinterpret_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
}

CompileConfig tuned(const std::string& names = "", const std::string& database = "") {
  CompileConfig c;
  c.mode = Mode::MaxAutotune;
  c.options = {{"tune_database", database}, {"tune_whole_ms", "0"}, {"tune_choices", names}};
  return c;
}

// What tuning finds on each rank, by the thread that compiles.
class Found {
 public:
  Found() : feedback_([this](const TuneResult& r) {
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

// Two implementations, each alone, with relu, and with relu and scale.
TEST(TuneRanks, ListEachImplementationWithEachEpilogue) {
  Found found;
  run_local(2, [&] { compile(sum_relu_scale, tuned())(input_of(rank(), {1024}, DType::F32)); });
  for (auto& c : found.at(0).parts.at(0).choices) fmt::print("{} [{}] {} {}\n", c.name, c.kind, c.text, c.status);
}

}  // namespace
}  // namespace toroid
