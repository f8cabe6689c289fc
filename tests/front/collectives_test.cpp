// Collectives of ranks that are threads: values, what does not fit together, ranks that fail; eager, interpreted and compiled.
#include "toroid/collectives.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "base/options.h"
#include "dist/agree.h"
#include "errors.h"
#include "graph/interpreter.h"
#include "toroid/compile.h"
#include "toroid/ops.h"
#include "trace/tracer.h"

namespace toroid {
namespace {

using distributed::rank;
using distributed::run_local;
using test::contains;
using Sizes = std::vector<int64_t>;

constexpr DType kDTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,   DType::I16, DType::I32, DType::I64,
                             DType::U8,  DType::U16, DType::U32, DType::U64,  DType::Bool, DType::C64, DType::C128};

class TimeoutScope {
 public:
  explicit TimeoutScope(const std::string& ms) { set_option("dist_timeout_ms", ms); }
  ~TimeoutScope() { set_option("dist_timeout_ms", "600000"); }
};

// Small integers, and of bools both: what rank r brings.
Tensor input_of(int r, std::vector<int64_t> sizes, DType t) {
  Tensor out = Tensor::empty(sizes, DType::F64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<double>()[i] = static_cast<double>((i * 7 + r * 3) % (is_bool(t) ? 2 : 5));
  return Tensor::of(out.to_vector(), sizes, t);
}

double folded(const std::string& op, DType t, const std::vector<double>& v) {
  double out = v[0];
  for (size_t r = 1; r < v.size(); ++r)
    out = op == "min" ? std::min(out, v[r]) : op == "max" ? std::max(out, v[r]) : op == "product" ? out * v[r] : out + v[r];
  if (op == "avg") out /= static_cast<double>(v.size());
  return is_bool(t) ? out != 0 : out;
}

bool has(const std::string& op, DType t) { return op == "sum" || (op == "avg" ? is_float(t) : !is_complex(t)); }

std::vector<double> numbers(const Tensor& t) { return (is_complex(t.dtype()) ? real(t) : t).to_vector(); }

// Expected: element i of the op over all ranks' inputs.
std::vector<double> expected(const std::string& op, DType t, const std::vector<int64_t>& sizes, int ranks) {
  std::vector<std::vector<double>> inputs;
  for (int r = 0; r < ranks; ++r) inputs.push_back(numbers(input_of(r, sizes, t)));
  std::vector<double> out;
  for (size_t i = 0; i < inputs[0].size(); ++i) {
    std::vector<double> v;
    for (auto& in : inputs) v.push_back(in[i]);
    out.push_back(folded(op, t, v));
  }
  return out;
}

void expect_near(const Tensor& found, const std::vector<double>& want) {
  const auto values = numbers(found);
  ASSERT_EQ(values.size(), want.size());
  const double tolerance = found.dtype() == DType::BF16 ? 1e-2 : found.dtype() == DType::F16 ? 1e-3 : 1e-6;
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
}

TEST(Collectives, ReduceEveryDType) {
  for (int ranks : {1, 2, 3, 5})
    run_local(ranks, [&] {
      for (DType t : kDTypes)
        for (const std::string op : {"sum", "avg", "min", "max", "product"}) {
          SCOPED_TRACE(fmt::format("{} of {} over {} ranks", op, name_of(t), ranks));
          const std::vector<int64_t> sizes = {2 * ranks, 3};
          const Tensor x = input_of(rank(), sizes, t);
          if (!has(op, t)) {
            EXPECT_TRUE(contains(test::user_error([&] { distributed::all_reduce(x, op); }), "is not defined for"));
            continue;
          }
          auto want = expected(op, t, sizes, ranks);
          expect_near(distributed::all_reduce(x, op), want);
          expect_near(distributed::reduce_scatter(x, op), {want.begin() + rank() * 6, want.begin() + (rank() + 1) * 6});
        }
    });
}

TEST(Collectives, MoveWhatTheySay) {
  run_local(3, [] {
    const int r = rank();
    const Tensor x = Tensor::full(Sizes{2, 2}, r, DType::I64);
    EXPECT_EQ(distributed::all_gather(x).sizes(), (Sizes{6, 2}));
    EXPECT_EQ(distributed::all_gather(x).to_vector(), (std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
    EXPECT_EQ(distributed::all_gather(Tensor::full(Sizes{}, r)).to_vector(), (std::vector<double>{0, 1, 2}));
    EXPECT_EQ(distributed::broadcast(x, 2).to_vector(), (std::vector<double>{2, 2, 2, 2}));
    EXPECT_EQ(distributed::all_reduce(Tensor::full(Sizes{0, 4}, 1.0)).sizes(), (Sizes{0, 4}));
    // Rank r gives one row to each rank below it and none to the others.
    std::vector<int64_t> given, taken;
    for (int to = 0; to < 3; ++to) given.push_back(to < r), taken.push_back(r < to);
    const Tensor rows = Tensor::full(Sizes{r, 2}, r);
    std::vector<double> want;
    for (int from = r + 1; from < 3; ++from) want.insert(want.end(), 2, from);
    EXPECT_EQ(distributed::all_to_all(rows, taken, given).to_vector(), want);
  });
}

TEST(Collectives, StayInTheirGroup) {
  run_local(4, [] {
    distributed::new_group("even", {2, 0});
    distributed::new_group("odd", {1, 3});
    const std::string own = rank() % 2 ? "odd" : "even";
    const Tensor x = Tensor::full(Sizes{1}, rank());
    EXPECT_EQ(distributed::all_reduce(x, "sum", own).to_vector()[0], rank() % 2 ? 4 : 2);
    EXPECT_EQ(distributed::all_gather(x, own).to_vector(), rank() % 2 ? (std::vector<double>{1, 3}) : (std::vector<double>{2, 0}));
    EXPECT_TRUE(contains(test::user_error([&] { distributed::all_reduce(x, "sum", rank() % 2 ? "even" : "odd"); }), "is no member"));
    EXPECT_TRUE(contains(test::user_error([&] { distributed::all_reduce(x, "sum", "evn"); }), "did you mean \"even\""));
    const auto make = [](const char* name, std::vector<int> members) { return [=] { distributed::new_group(name, members); }; };
    EXPECT_TRUE(contains(test::user_error(make("even", {0})), "already"));
    EXPECT_TRUE(contains(test::user_error(make("far", {0, 4})), "no rank 4"));
    EXPECT_TRUE(contains(test::user_error(make("twice", {1, 1})), "comes twice"));
    EXPECT_TRUE(
        contains(test::user_error(make("each its own", {rank()})), "the ranks disagree about the group \"each its own\": rank 1 has 1"));
    EXPECT_EQ(distributed::all_reduce(x).to_vector()[0], 6) << "the world is as it was";
  });
}

// Ranks that call different things get an error each, which says who called what and where, and can go on.
TEST(Collectives, ThatDoNotFitTogether) {
  run_local(2, [] {
    const Tensor x = Tensor::full(Sizes{4}, 1.0), y = Tensor::full(Sizes{5}, 1.0);
    const auto error = [](const std::function<void()>& f) { return test::user_error(f); };
    std::string said = error([&] { distributed::all_reduce(rank() ? y : x); });
    EXPECT_TRUE(contains(said, "rank 1 called all_reduce(sum) of f32[5] at collectives_test.cpp:")) << said;
    EXPECT_TRUE(contains(said, "rank 0 all_reduce(sum) of f32[4]")) << said;
    said = error([&] { rank() ? distributed::all_reduce(x, "max") : distributed::all_reduce(x, "min"); });
    EXPECT_TRUE(contains(said, "all_reduce(max)") && contains(said, "all_reduce(min)")) << said;
    said = error([&] { rank() ? distributed::all_gather(x) : distributed::broadcast(x, 0); });
    EXPECT_TRUE(contains(said, "all_gather_into_tensor") && contains(said, "broadcast(from rank 0)")) << said;
    said = error([&] { distributed::all_to_all(x, {2, 2}, rank() ? SizeList{1, 3} : SizeList{2, 2}); });
    EXPECT_TRUE(contains(said, "rank 1 gives rank 0 1 elements, which takes 2")) << said;
    EXPECT_EQ(distributed::all_reduce(x).to_vector()[0], 2);
  });
}

TEST(Collectives, BadCallsAreRefusedBeforeAnybodyWaits) {
  EXPECT_TRUE(contains(test::user_error([] { distributed::all_reduce(Tensor::full(Sizes{1}, 1.0)); }), "this thread belongs to none"));
  run_local(2, [] {
    const Tensor x = Tensor::full(Sizes{3, 2}, 1.0);
    const auto said = [&](auto f) { return test::user_error(f); };
    EXPECT_TRUE(contains(said([&] { distributed::all_reduce(x, "total"); }), "expected sum, avg, min, max or product"));
    EXPECT_TRUE(contains(said([&] { distributed::reduce_scatter(x); }), "3, is no multiple of the 2 ranks"));
    EXPECT_TRUE(contains(said([&] { distributed::all_to_all(x, {1}, {1, 2}); }), "2 input splits, 1 output splits"));
    EXPECT_TRUE(contains(said([&] { distributed::all_to_all(x, {1, 1}, {1, 1}); }), "the input splits add up to 2, the first size is 3"));
    EXPECT_TRUE(contains(said([&] { distributed::broadcast(x, 2); }), "src is rank 2"));
  });
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
    return "no error";
  } catch (const EnvironmentError& e) {
    return e.what();
  }
}

TEST(Collectives, ARankThatFailsIsNamed) {
  std::atomic<int> told = 0;
  const std::string said = test::user_error([&] {
    run_local(3, [&] {
      distributed::barrier();
      if (rank() == 1) throw UserError("out of luck");
      const std::string why = error_of([] { distributed::all_reduce(Tensor::full(Sizes{1}, 1.0)); });
      EXPECT_TRUE(contains(why, "rank 1 failed: out of luck")) << why;
      EXPECT_TRUE(contains(why, "all_reduce(sum) of f32[1] at collectives_test.cpp:")) << why;
      ++told;
    });
  });
  EXPECT_EQ(said, "out of luck");
  EXPECT_EQ(told, 2);
}

TEST(Collectives, ARankThatEndsIsNamed) {
  run_local(2, [] {
    if (rank() == 1) return;
    const std::string why = error_of([] { distributed::barrier(); });
    EXPECT_TRUE(contains(why, "rank 1 has ended")) << why;
  });
}

TEST(Collectives, ARankThatDoesNotComeIsNamed) {
  const TimeoutScope timeout("50");
  std::atomic<bool> over = false;
  run_local(2, [&] {
    distributed::all_reduce(Tensor::full(Sizes{7}, 1.0));
    if (rank() == 0) {
      const std::string why = error_of([] { distributed::barrier(); });
      EXPECT_TRUE(contains(why, "rank 1 did not come, which was last at all_reduce(sum) of f32[7] at collectives_test.cpp:")) << why;
      EXPECT_TRUE(contains(why, "within 50 ms (option dist_timeout_ms)")) << why;
      over = true;
    } else {
      while (!over) std::this_thread::yield();
      EXPECT_TRUE(contains(error_of([] { distributed::barrier(); }), "rank 1 did not come")) << "the group stays of no use";
    }
  });
}

TEST(Collectives, RanksTellEachOtherTexts) {
  run_local(3, [] {
    auto& world = distributed::current_world().world();
    const std::vector<std::string> all = distributed::all_gather_object(world, std::string(static_cast<size_t>(rank() * 2), 'x'));
    EXPECT_EQ(all, (std::vector<std::string>{"", "xx", "xxxx"}));
    for (size_t length : {503, 504, 505, 5000}) {
      const auto of = [&](int r) { return std::string(r == 1 ? length : 3, static_cast<char>('a' + r)); };
      EXPECT_EQ(distributed::all_gather_object(world, of(rank())), (std::vector<std::string>{of(0), of(1), of(2)}));
    }
    EXPECT_TRUE(contains(test::user_error([&] { distributed::agree(world, "the cache", rank() == 2 ? "miss" : "hit"); }),
                         "the ranks disagree about the cache: rank 2 has miss, rank 0 hit"));
    distributed::agree(world, "the cache", "hit");
    EXPECT_TRUE(contains(world.history(), "rank 2 came to"));
  });
}

// Collectives, of which nothing reads one: it is called nevertheless, and in its place.
Tensor with_collectives(const Tensor& x) {
  const Tensor sum = distributed::all_reduce(x * 2.0);
  distributed::broadcast(x, 0);
  return relu(sum - 3.0) + distributed::reduce_scatter(cat({x, x, x}, 0), "max");
}

TEST(TracedCollectives, AreNodesOfTheGraph) {
  run_local(3, [] {
    const Tensor x = input_of(rank(), {2, 3}, DType::F32);
    trace::Tracer tracer("traced", nullptr);
    std::vector<Tensor> results;
    {
      const Tensor stand_in = tracer.argument(x, "x", {});
      trace::Tracer::Scope scope(&tracer);
      results = {with_collectives(stand_in)};
    }
    auto g = std::move(tracer.finish(std::move(results)).graph);
    const std::string text = graph::to_string(*g);
    for (const char* name : {"all_reduce", "broadcast", "reduce_scatter_tensor"})
      EXPECT_TRUE(contains(text, fmt::format("_c10d_functional.{}", name))) << text;
    EXPECT_EQ(graph::to_string(*graph::parse(text)), text);
    EXPECT_EQ(graph::interpret(*g, std::vector<Tensor>{x}).at(0).to_vector(), with_collectives(x).to_vector());
  });
}

// Some ranks are eager: the order of all collectives is that of the text.
TEST(TracedCollectives, CompiledAreWhatEagerOnesAre) {
  auto fast = compile(with_collectives);
  for (int compiled : {0, 1, 3})
    run_local(3, [&] {
      for (int call = 0; call < 3; ++call) {
        const Tensor x = input_of(rank() + call, {2, 3}, DType::F32);
        const Tensor want = with_collectives(x);
        EXPECT_EQ((rank() < compiled ? fast(x) : with_collectives(x)).to_vector(), want.to_vector());
      }
    });
}

TEST(TracedCollectives, OfOpenSizes) {
  CompileConfig config;
  config.dynamic = true;
  auto fast = compile(with_collectives, config);
  run_local(3, [&] {
    for (int64_t n : {2, 3, 5, 8}) {
      const Tensor x = input_of(rank(), {n, 3}, DType::F32);
      EXPECT_EQ(fast(x).to_vector(), with_collectives(x).to_vector()) << n;
    }
  });
  EXPECT_EQ(fast.report().compiles, 1);
}

// Random ranks fail, end or leave a collective out at random places: everybody ends, with an error that names a rank, or without one.
TEST(Collectives, NothingHangsWhereRanksFail) {
  const TimeoutScope timeout("200");
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 draw(seed);
    const int ranks = 2 + static_cast<int>(draw() % 4), culprit = static_cast<int>(draw() % static_cast<uint64_t>(ranks));
    const int at = static_cast<int>(draw() % 8), fault = static_cast<int>(draw() % 3);
    std::atomic<int> failed = 0;
    auto body = [&] {
      for (int i = 0; i < 8; ++i) {
        if (rank() == culprit && i == at) {
          if (fault == 0) throw EnvironmentError("a fault");
          if (fault == 1) return;
          continue;
        }
        distributed::all_reduce(Tensor::full(Sizes{i + 1}, 1.0));
      }
    };
    try {
      run_local(ranks, [&] {
        try {
          body();
        } catch (const Error& e) {
          ++failed;
          EXPECT_TRUE(contains(e.what(), "rank ") || contains(e.what(), "a fault")) << e.what();
          throw;
        }
      });
    } catch (const Error&) {
    }
    EXPECT_GE(failed, ranks - 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace toroid
