// Indices out of range: a UserError that says whose, and no access beyond the operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "base/options.h"
#include "compile/harness.h"
#include "compile/index_operands.h"
#include "device/index_faults.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "jit/nvrtc.h"
#include "toroid/compile.h"
#include "toroid/device_graph.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

using test::contains;
using test::guarded;
using test::IndexedCall;
using test::user_error;

Tensor numbers(const std::vector<int64_t>& sizes) {
  Tensor out = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(i % 13) * 0.25f;
  return out;
}

// Different indices; `bad` in place number `at`, where there is one.
Tensor indices(const IndexedCall& c, std::optional<int64_t> bad = std::nullopt, int64_t at = 0) {
  Tensor out = Tensor::empty(c.index, DType::I64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int64_t>()[i] = (i * 7 + 3) % c.size;
  if (bad) out.data<int64_t>()[at] = *bad;
  return out;
}

std::vector<int64_t> bad_indices(const IndexedCall& c) {
  constexpr int64_t kFar = int64_t{1} << 40;
  std::vector<int64_t> out = {c.size, c.size + 1, kFar, -kFar, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  out.push_back(c.wraps ? -c.size - 1 : -1);
  return out;
}

// What errors call the operation, and the index.
testing::AssertionResult refuses(const IndexedCall& c, const std::function<void()>& call, int64_t bad) {
  const std::string error = user_error(call);
  const bool named = contains(error, c.name) && contains(error, "index " + std::to_string(bad) + " is out of range for ");
  const bool sized =
      contains(error, " of size " + std::to_string(c.size)) || contains(error, " of " + std::to_string(c.size) + " elements");
  return named && sized ? testing::AssertionSuccess() : testing::AssertionFailure() << c.op << ": " << error;
}

// Calls f with good and bad indices by turns, between guarded pages.
void expect_refusals(const IndexedCall& c, const std::function<Tensor(const Tensor&, const Tensor&)>& f, const std::string& how) {
  SCOPED_TRACE(c.op + " " + how);
  for (bool behind : {true, false}) {
    const Tensor x = guarded(numbers(c.self), behind), good = guarded(indices(c), behind);
    const std::vector<double> before = x.to_vector(), want = f(x, good).to_vector();
    for (int64_t bad : bad_indices(c)) {
      for (int64_t at : {int64_t{0}, good.numel() - 1}) {
        const Tensor i = guarded(indices(c, bad, at), behind);
        ASSERT_TRUE(refuses(
            c, [&] { f(x, i); }, bad))
            << "place " << at;
      }
      ASSERT_EQ(f(x, good).to_vector(), want) << "after " << bad;
    }
    ASSERT_EQ(x.to_vector(), before);
    if (c.wraps) {
      const Tensor last = indices(c, c.size - 1), negative = indices(c, -1);
      ASSERT_EQ(f(x, negative).to_vector(), f(x, last).to_vector());
    }
  }
}

TEST(IndexChecks, EveryOperationAtOnce) {
  for (auto& c : test::indexed_calls()) expect_refusals(c, c.f, "eager");
}

TEST(IndexChecks, EveryOperationCompiled) {
  for (auto& c : test::indexed_calls()) expect_refusals(c, compile(c.f), "compiled");
}

TEST(IndexChecks, EveryOperationReplayed) {
  for (auto& c : test::indexed_calls())
    expect_refusals(c, compile([&](const Tensor& x, const Tensor& i) { return c.f(x, i) * 2; }, {.mode = Mode::ReduceOverhead}),
                    "replayed");
}

TEST(IndexChecks, EveryOperationOfTheInterpreter) {
  for (auto& c : test::indexed_calls()) expect_refusals(c, compile(c.f, {.options = {{"backend", "reference"}}}), "interpreted");
}

// Rows with a tensor of indices that the list above forgets.
TEST(IndexChecks, NoOperationIsForgotten) {
  std::set<std::string> listed;
  for (auto& c : test::indexed_calls()) listed.insert(c.op);
  const std::set<std::string> others = {
      "_check_index",           // what they are checked by
      "segment_reduce",         // takes lengths or offsets, and refuses indices
      "torchvision.roi_align",  // the images of regions are numbers among floats, see below
      "searchsorted.Scalar",    // as the other one
  };
  for (auto& op : ops::table().rows()) {
    if (op.inplace_of) continue;
    bool takes = op.name == "one_hot";
    for (auto& p : op.schema.params) {
      const bool tensor = p.type == ops::ParamType::Tensor;
      const bool classes = p.name == "target" && op.schema.find("ignore_index") >= 0;
      takes = takes || (tensor && (p.name == "index" || p.name == "indices" || p.name == "sorter" || p.name == "rois" || classes));
    }
    EXPECT_TRUE(!takes || listed.count(op.name) || others.count(op.name)) << op.name << " takes indices, which no test has out of range";
  }
}

TEST(IndexChecks, ImagesOfRegions) {
  const auto align = [](const Tensor& x, const Tensor& rois) {
    return ops::call1("torchvision.roi_align", {x, rois, 1.0, Expr(2), Expr(2), Expr(2), false});
  };
  const Tensor x = guarded(numbers({2, 1, 6, 6}), true);
  const auto regions = [](double image) { return Tensor::of({0, 0, 0, 4, 4, image, 1, 1, 5, 5}, {2, 5}); };
  auto f = compile(align);
  for (double bad : {2.0, -1.0, 1e9}) {
    EXPECT_TRUE(contains(user_error([&] { f(x, regions(bad)); }), "roi_align")) << bad;
    EXPECT_TRUE(contains(user_error([&] { align(x, regions(bad)); }), "roi_align")) << bad;
  }
  EXPECT_EQ(f(x, regions(1)).to_vector(), align(x, regions(1)).to_vector());
}

TEST(IndexChecks, AnIgnoredClassIsNone) {
  const Tensor x = numbers({3, 4}), target = Tensor::of({1, -100, 3}, {3}, DType::I64);
  auto f = compile([](const Tensor& a, const Tensor& t) { return cross_entropy(a, t); });
  EXPECT_EQ(f(x, target).to_vector(), cross_entropy(x, target).to_vector());
}

// Errors name the caller's line, and the caller's operation rather than what it is made of.
TEST(IndexChecks, ErrorsNameTheLine) {
  auto f = compile([](const Tensor& w, const Tensor& i) { return embedding(w, i) + 1; });
  const Tensor w = numbers({4, 8});
  const std::string error = user_error([&] { f(w, Tensor::of({9}, {1}, DType::I64)); });
  EXPECT_TRUE(contains(error, "(called at index_checks_test.cpp:")) << error;
  EXPECT_TRUE(contains(error, "embedding: index 9 is out of range for dimension 0 of size 4")) << error;
}

// What is written in place stays within its tensor, and all that was right is written.
TEST(IndexChecks, CachesKeepTheirBorders) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    for (bool behind : {true, false}) {
      Tensor cache = guarded(numbers({4, 5}), behind);
      auto f = compile(
          [](Tensor& c, const Tensor& i, const Tensor& x) {
            index_copy_(c, 0, i, x);
            return c * 2;
          },
          {.mode = mode});
      const Tensor x = numbers({2, 5}), good = Tensor::of({1, 3}, {2}, DType::I64);
      for (int call = 0; call < 4; ++call) f(cache, good, x);
      for (int64_t bad : {4, -1, 1 << 20}) {
        const Tensor i = Tensor::of({2, static_cast<double>(bad)}, {2}, DType::I64);
        EXPECT_TRUE(contains(user_error([&] { f(cache, i, x); }), "index_copy")) << bad;
        EXPECT_EQ(f(cache, good, x).to_vector(), (cache * 2).to_vector());
      }
    }
  }
}

TEST(IndexChecks, CallersGetTheirOwnErrors) {
  constexpr int kThreads = 4, kCalls = 60;
  auto f = compile([](const Tensor& w, const Tensor& i) { return embedding(w, i) * 2; });
  const Tensor w = numbers({10, 64});
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int call = 0; call < kCalls && wrong[static_cast<size_t>(t)].empty(); ++call) {
        const double own = t % 2 ? 10 + t + 100 * call : t;
        const std::string error = user_error([&] { f(w, Tensor::of({own, 1, 2}, {3}, DType::I64)); });
        const std::string want = t % 2 ? "index " + std::to_string(static_cast<int64_t>(own)) + " is" : "no error";
        if (!contains(error, want)) wrong[static_cast<size_t>(t)] = error + ", not " + want;
      }
    });
  for (auto& t : threads) t.join();
  for (auto& text : wrong) EXPECT_EQ(text, "");
}

TEST(IndexChecks, GraphsByHand) {
  auto f = compile([](const Tensor& w, const Tensor& i) { return embedding(w, i) * 2; });
  const Tensor w = numbers({10, 64}), good = Tensor::of({1, 2}, {2}, DType::I64), bad = Tensor::of({1, 10}, {2}, DType::I64);
  Tensor i = Tensor::of({0, 1}, {2}, DType::I64), y;
  CudaGraph g(Device::cpu());
  g.capture([&] { y = f(w, i); });
  for (int round = 0; round < 2; ++round) {
    copy_async(i, bad);
    EXPECT_TRUE(contains(user_error([&] { g.replay(); }), "embedding"));
    copy_async(i, good);
    g.replay();
    EXPECT_EQ(y.to_vector(), f(w, good).to_vector());
  }
}

// What a kernel folds is looked at too, in each of its passes, along and across memory.
TEST(IndexChecks, DivisorsWithinReductions) {
  const auto integers = [](double fill) { return Tensor::full(std::vector<int64_t>{24, 40}, fill, DType::I64); };
  const Tensor a = integers(7), good = integers(2), bad = integers(2);
  bad.data<int64_t>()[5 * 40 + 33] = 0;
  using Fold = Tensor (*)(const Tensor& a, const Tensor& b);
  const std::pair<const char*, Fold> folds[] = {
      {"all", [](const Tensor& x, const Tensor& y) { return sum(x % y); }},
      {"rows", [](const Tensor& x, const Tensor& y) { return sum(floor_divide(x, y), {1}); }},
      {"columns", [](const Tensor& x, const Tensor& y) { return amax(x % y, {0}); }},
      {"second pass", [](const Tensor& x, const Tensor& y) { return sum(floor_divide(x + sum(x, {1}, true), y), {1}); }},
      {"stored", [](const Tensor& x, const Tensor& y) { return x % y - sum(x % y, {1}, true); }},
  };
  for (auto& [name, fold] : folds)
    for (const bool dynamic : {false, true}) {
      auto f = compile([fold = fold](const Tensor& x, const Tensor& y) { return fold(x, y); }, {.dynamic = dynamic});
      EXPECT_EQ(f(a, good).to_vector(), fold(a, good).to_vector()) << name;
      EXPECT_TRUE(contains(user_error([&] { f(a, bad); }), "division of integers by zero")) << name << (dynamic ? ", open sizes" : "");
      EXPECT_EQ(f(a, good).to_vector(), fold(a, good).to_vector()) << name << ", after an error";
    }
}

// Sizes that are open, among them none at all.
TEST(IndexChecks, OpenAndEmptyDimensions) {
  auto f = compile([](const Tensor& x, const Tensor& i) { return index(x, {i}) + 1; }, {.dynamic = true});
  for (int64_t rows : {5, 9, 3, 0}) {
    const Tensor x = guarded(numbers({rows, 20}), true);
    const Tensor i = Tensor::of({static_cast<double>(rows)}, {1}, DType::I64);
    EXPECT_TRUE(contains(user_error([&] { f(x, i); }), "of size " + std::to_string(rows))) << rows;
    if (rows == 0) continue;
    EXPECT_EQ(f(x, Tensor::of({-1.0}, {1}, DType::I64)).to_vector()[0], x.to_vector()[static_cast<size_t>(20 * rows - 20)] + 1);
  }
}

bool checks(const compiler::CompiledModel& m) {
  return std::any_of(m.sources().begin(), m.sources().end(), [](auto& s) { return contains(s.second, "report_index"); });
}

// Indices that are known are looked at when the program is compiled, and not again.
TEST(IndexChecks, WhatIsKnownIsNotChecked) {
  const Tensor x = numbers({3, 20}), known = Tensor::of({0, 2, -1}, {3}, DType::I64), wrong = Tensor::of({0, 3}, {2}, DType::I64);
  const auto compiled = [&](const test::Forward& f, const std::vector<Tensor>& in) {
    return front::compile_model(test::graph_of(f, in), {.freeze = true});
  };
  EXPECT_FALSE(checks(compiled([&](auto& in) { return index(in[0], {known}); }, {x})));
  EXPECT_FALSE(checks(compiled([&](auto& in) { return index(in[0], {arange(0, 3, 1, DType::I64)}); }, {x})));
  EXPECT_FALSE(checks(compiled([&](auto& in) { return index(in[0], {remainder(in[1], 3)}); }, {x, known})));
  EXPECT_TRUE(checks(compiled([&](auto& in) { return index(in[0], {remainder(in[1], 4)}); }, {x, known})));
  EXPECT_TRUE(contains(user_error([&] { compiled([&](auto& in) { return index(in[0], {wrong}); }, {x}); }),
                       "index 3 is out of range for dimension 0 of size 3"));
}

TEST(IndexChecks, CanBeLeftOut) {
  const Tensor x = numbers({3, 20}), i = Tensor::of({2, 0}, {2}, DType::I64);
  const test::Forward pick = [](const std::vector<Tensor>& in) { return index(in[0], {in[1]}); };
  for (const char* on : {"1", "0"}) {
    const ScopedOption option("check_indices", on);
    EXPECT_EQ(checks(front::compile_model(test::graph_of(pick, {x, i}))), on[0] == '1');
  }
  auto f = compile([&](const Tensor& a, const Tensor& at) { return pick({a, at}); });
  f(x, i);
  const ScopedOption option("check_indices", "0");
  f(x, i);
  EXPECT_EQ(f.report().compiles, 2) << "another program";
}

// What GPUs get: the kernels compile, and leave what they find in a record.
TEST(IndexChecks, KernelsForGpus) {
  if (jit::nvrtc_info().major == 0) GTEST_SKIP() << "no NVRTC";
  size_t compiled = 0;
  for (auto& c : test::indexed_calls()) {
    const auto graph = test::graph_of([&](auto& in) { return c.f(in[0], in[1]); }, {numbers(c.self), indices(c)});
    for (auto& k : front::kernels_for_gpu(graph::clone(*graph), {})) {
      if (!contains(k.source, "report_index(")) continue;
      EXPECT_NO_THROW(jit::nvrtc_check(k.source, k.overlaps ? "sm_90a" : "sm_80", k.name)) << c.op;
      ++compiled;
    }
  }
  EXPECT_GE(compiled, 20u);
}

// Each record on the CPU tells its own failure, once.
TEST(IndexChecks, RecordsAreReadOnce) {
  const Device device = Device::cpu();
  device::IndexFaultRecord first(device, {{"embedding", "a.cpp:1", 0, false}}), second(device, {{"take", "", -1, true}});
  const auto write = [](device::IndexFaultRecord& r, int64_t index, int64_t size) {
    IndexFault& f = *r.at();
    f.index = index, f.size = size, f.state = IndexFault::kFound;
  };
  write(second, -3, 10);
  first.check();
  EXPECT_TRUE(contains(user_error([&] { second.check(); }), "take: index -13 is out of range for a tensor of 10 elements"));
  second.check();
  write(first, 12, 10);
  EXPECT_EQ(user_error([&] { first.check(); }), "embedding: index 12 is out of range for dimension 0 of size 10 (called at a.cpp:1)");
  first.check();
}

}  // namespace
}  // namespace toroid
