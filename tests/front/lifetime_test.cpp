// What outlives what: files under loaded models, objects that were moved from, threads at the end of the process, errors that pass.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/check.h"
#include "base/files.h"
#include "errors.h"
#include "front/eager.h"
#include "import/safetensors.h"
#include "toroid/buckets.h"
#include "toroid/compile.h"
#include "toroid/custom_op.h"
#include "toroid/device_graph.h"
#include "toroid/nn.h"
#include "toroid/random.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;

class Lifetime : public testing::Test {
 protected:
  void SetUp() override { dir_ = make_temp_dir("toroid-lifetime-test"); }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

std::vector<double> numbers(std::vector<Tensor> results) { return results.at(0).to_vector(); }

// Shortened as by `cp new old`, which opens the old file with O_TRUNC, then filled with other bytes.
void overwrite(const std::filesystem::path& file) {
  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, 0);
  std::ofstream(file, std::ios::binary) << std::string(size / 2, '\x7f');
}

TEST_F(Lifetime, AModelRunsOnWhenItsFileIsOverwritten) {
  const auto file = dir_ / "digits.pt2";
  for (bool freeze : {true, false}) {
    std::filesystem::copy_file(std::string(TOROID_SOURCE_DIR) + "/examples/digits/digits.pt2", file,
                               std::filesystem::copy_options::overwrite_existing);
    const Tensor x = Tensor::full(std::vector<int64_t>{1, 1, 8, 8}, 0.5);
    Model untouched = Model::load(file.string(), {.freeze = freeze}), model = Model::load(file.string(), {.freeze = freeze});
    const auto want = numbers(untouched.run({x}));
    overwrite(file);
    EXPECT_EQ(numbers(model.run({x})), want) << (freeze ? "frozen" : "not frozen");
  }
}

TEST_F(Lifetime, LoadedTensorsMayBeWrittenAndTheFileIsNot) {
  const auto file = dir_ / "t.safetensors";
  const std::vector<float> values{1, 2, 3, 4};
  import::write_safetensors(file, std::vector<import::SafetensorsItem>{
                                      {"a", DType::F32, {2, 2}, std::as_bytes(std::span(values))},
                                      {"b", DType::F32, {4}, std::as_bytes(std::span(values))},
                                  });
  const std::string before = read_file(file);
  auto tensors = load_tensors(file.string());
  Tensor a = tensors.at("a");
  add_(a, 1);
  a.data<float>()[0] = 9;
  auto twice = compile([](Tensor& t) { mul_(t, 2); });
  twice(a);
  EXPECT_EQ(a.to_vector(), (std::vector<double>{18, 6, 8, 10}));
  EXPECT_EQ(tensors.at("b").to_vector(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(read_file(file), before);
  overwrite(file);
  EXPECT_EQ(tensors.at("b").to_vector(), (std::vector<double>{1, 2, 3, 4}));
}

// A row for each public class that can be left without what it stands for; every member function of each.
TEST(Emptied, ObjectsAreUserErrorsAndNoCrash) {
  const Tensor x = Tensor::full(std::vector<int64_t>{2}, 1), none;
  const Device cpu = Device::cpu();
  std::vector<std::pair<std::string, std::function<void()>>> uses;
  auto row = [&](std::string what, std::function<void()> use) { uses.emplace_back(std::move(what), std::move(use)); };

  row("model.run", [&] { Model().run({x}); });
  row("model.summary", [&] { Model().summary(); });
  row("model.captures", [&] { Model().captures(); });

  auto f = compile([](const Tensor& t) { return t + 1; });
  [[maybe_unused]] auto taken = std::move(f);
  row("compiled()", [&] { f(x); });
  row("compiled.report", [&] { f.report(); });
  row("compiled.reset", [&] { f.reset(); });

  Bucketed b([](std::span<const Tensor> in) { return std::vector<Tensor>(in.begin(), in.end()); }, {.sizes = {4}});
  [[maybe_unused]] Bucketed taken_b = std::move(b);
  row("bucketed()", [&] { b({x}); });
  row("bucketed.report", [&] { b.report(); });
  row("padded.mask", [&] { Padded().mask(); });

  Stream s(cpu), other(cpu);
  [[maybe_unused]] Stream taken_s = std::move(s);
  Event e(cpu), event(cpu);
  [[maybe_unused]] Event taken_e = std::move(e);
  row("stream.device", [&] { s.device(); });
  row("stream.synchronize", [&] { s.synchronize(); });
  row("stream.query", [&] { s.query(); });
  row("stream.wait_event", [&] { s.wait_event(event); });
  row("stream.wait_event, of nothing", [&] { other.wait_event(e); });
  row("stream.wait_stream", [&] { s.wait_stream(other); });
  row("stream.wait_stream, of nothing", [&] { other.wait_stream(s); });
  row("stream.record_event", [&] { s.record_event(); });
  row("StreamGuard", [&] { StreamGuard guard(s); });
  row("record_stream", [&] { record_stream(x, s); });
  row("event.record", [&] { e.record(); });
  row("event.record on", [&] { e.record(other); });
  row("event.record on nothing", [&] { event.record(s); });
  row("event.wait", [&] { e.wait(other); });
  row("event.wait of nothing", [&] { event.wait(s); });
  row("event.synchronize", [&] { e.synchronize(); });
  row("event.query", [&] { e.query(); });
  row("event.elapsed_time", [&] { e.elapsed_time(event); });
  row("event.elapsed_time to nothing", [&] { event.elapsed_time(e); });
  row("MemPoolScope", [&] { MemPoolScope scope{MemPool()}; });

  row("graph.capture_end", [&] { CudaGraph(cpu).capture_end(); });
  row("graph.capture", [&] { CudaGraph(cpu).capture([] {}, {.stream = s}); });
  row("graph.instantiate", [&] { CudaGraph(cpu).instantiate(); });
  row("graph.replay", [&] { CudaGraph(cpu).replay(); });
  row("graph.dot", [&] { CudaGraph(cpu).dot(); });
  row("graph.release_executable", [&] { CudaGraph(cpu).release_executable(); });
  row("graph.update", [&] {
    CudaGraph a(cpu, true), c(cpu, true);
    a.update(c);
  });

  Tensor moved_from = x;
  [[maybe_unused]] Tensor taken_t = std::move(moved_from);
  for (const Tensor* t : {&none, static_cast<const Tensor*>(&moved_from)}) {
    row("tensor.dtype", [t] { t->dtype(); });
    row("tensor.device", [t] { t->device(); });
    row("tensor.dim", [t] { t->dim(); });
    row("tensor.size", [t] { t->size(0); });
    row("tensor.sym_sizes", [t] { t->sym_sizes(); });
    row("tensor.sizes", [t] { t->sizes(); });
    row("tensor.numel", [t] { t->numel(); });
    row("tensor.strides", [t] { t->strides(); });
    row("tensor.is_contiguous", [t] { t->is_contiguous(); });
    row("tensor.raw_data", [t] { t->raw_data(); });
    row("tensor.data", [t] { t->data<float>(); });
    row("tensor.item", [t] { t->item(); });
    row("tensor.to_vector", [t] { t->to_vector(); });
    row("tensor.contiguous", [t] { t->contiguous(); });
    row("tensor.to", [t] { t->to(Device::cpu()); });
    row("tensor.as_strided", [t] { t->as_strided(std::vector<int64_t>{1}, std::vector<int64_t>{1}); });
    row("tensor.is_leaf", [t] { t->is_leaf(); });
    row("tensor.backward", [t] { t->backward(); });
    row("tensor.grad", [t] { t->grad(); });
    row("tensor.zero_grad", [t] { t->zero_grad(); });
    row("tensor.retain_grad", [t] { t->retain_grad(); });
    row("tensor.detach", [t] { t->detach(); });
    row("tensor.set_requires_grad", [t] { Tensor(*t).set_requires_grad(true); });
    row("operand", [t] { *t + 1; });
    row("in place", [t] { add_(*t, 1); });
    row("list", [t] { cat({*t, *t}); });
    row("compiled argument", [&taken, t] { taken(*t); });
    row("mark_static_address", [t] { mark_static_address(*t); });
    row("mark_dynamic", [t] { mark_dynamic(*t, 0); });
    row("mark_static", [t] { mark_static(*t); });
    row("pin_memory", [t] { pin_memory(*t, Device::cpu()); });
    row("is_pinned", [t] { is_pinned(*t, Device::cpu()); });
    row("copy_async", [&x, t] { copy_async(x, *t); });
    row("copy_async to", [&x, t] { copy_async(*t, x); });
    row("record_stream", [&other, t] { record_stream(*t, other); });
    row("pad_to_bucket", [t] { pad_to_bucket(*t, std::vector<int64_t>{4}); });
    row("unpad", [t] { unpad(*t, 1); });
    row("linear", [t] { nn::Linear(2, 2).forward(*t); });
  }
  for (auto& [what, use] : uses) {
    const std::string text = user_error(use);
    EXPECT_NE(text, "no error") << what;
    EXPECT_FALSE(contains(text, "internal error")) << what << ": " << text;
  }
  EXPECT_EQ(to_string(none), "undefined");
  EXPECT_FALSE(none.requires_grad());
  f = taken;
  EXPECT_EQ(f(x).to_vector(), (std::vector<double>{2, 2}));
}

// Which results share memory with the argument, and the first two with each other: "xx=" for an argument that is returned twice.
std::string sharing(const std::vector<Tensor>& results, const Tensor& x) {
  std::string out;
  for (auto& r : results) {
    const auto at = r.data<float>() - x.data<float>();
    out += at >= 0 && at < x.numel() ? 'x' : 'o';
  }
  return results.size() > 1 && results[0].data<float>() == results[1].data<float>() ? out + "=" : out;
}

TEST(Results, OfCompiledFunctionsHaveMemoryOfTheirOwn) {
  using List = std::vector<Tensor>;
  struct Case {
    std::string what, eager, compiled;
    std::function<List(const Tensor&)> f;
  };
  const Case cases[] = {
      {"an argument", "x", "o", [](const Tensor& x) { return List{x}; }},
      {"an argument twice", "xx=", "oo",
       [](const Tensor& x) {
         return List{x, x};
       }},
      {"an argument that was written", "x", "o", [](const Tensor& x) { return add_(x, 1), List{x}; }},
      {"a view", "x", "o", [](const Tensor& x) { return List{transpose(x, 0, 1)}; }},
      {"a part, and work", "xo", "oo",
       [](const Tensor& x) {
         return List{select(x, 0, 1), x + 1};
       }},
      {"a result twice", "oo=", "oo", [](const Tensor& x) { return List(2, x + 1); }},
  };
  for (auto& c : cases) {
    const Tensor a = Tensor::full(std::vector<int64_t>{3, 3}, 1), b = Tensor::full(std::vector<int64_t>{3, 3}, 1);
    auto f = compile(c.f);
    const List plain = c.f(a), made = f(b);
    EXPECT_EQ(sharing(plain, a), c.eager) << c.what;
    EXPECT_EQ(sharing(made, b), c.compiled) << c.what;
    EXPECT_EQ(a.to_vector(), b.to_vector()) << c.what;
    for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i].to_vector(), plain[i].to_vector()) << c.what << ", result " << i;
  }
}

// Threads go on calling what is compiled, and compiling, while exit() destroys what is static.
[[noreturn]] void exit_while_threads_call() {
  static std::atomic<int> calling{0};
  for (int n = 0; n < 4; ++n)
    std::thread([n] {
      auto f = compile([](const Tensor& t, double k) { return softmax(matmul(t, t) * k + randn({4, 4}), 1); });
      nn::Linear layer(4, 4);
      for (int i = 0;; ++i) {
        const Tensor x = Tensor::full(std::vector<int64_t>{4, 4}, n);
        f(x, i % 8 ? 1 : i * 0.5);
        layer.forward(cat({x, x}) * static_cast<double>(i));
        if (i % 64 == 0) f.reset();
        if (i == 2) ++calling;
      }
    }).detach();
  while (calling < 4) std::this_thread::yield();
  std::exit(0);
}

TEST(EndOfTheProcess, ThreadsMayStillCall) {
  if (!TOROID_LLVM_LINKED_IN) GTEST_SKIP() << "an LLVM that is not linked in ends before the threads (docs/limits.md)";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int i = 0; i < 20; ++i) EXPECT_EXIT(exit_while_threads_call(), testing::ExitedWithCode(0), "");
}

TEST(EagerErrors, WhatTheMachineRefusesOnceIsTriedAgain) {
  auto& eager = front::EagerDispatcher::instance();
  const front::Backend real = front::find_backend("compiled");
  static std::atomic<bool> full{true};
  static std::atomic<int> attempts{0};
  full = true;
  eager.set_backend([real](std::unique_ptr<graph::Graph> g, const front::BackendOptions& how) {
    ++attempts;
    if (full) fail<EnvironmentError>("no space left on the device");
    return real(std::move(g), how);
  });
  const Tensor x = Tensor::full(std::vector<int64_t>{3}, 2);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ((x * 2).to_vector()[0], 4);
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(contains(eager.counts().fallbacks["mul.Tensor"], "for now: no space left")) << eager.counts().fallbacks["mul.Tensor"];
  if (elapsed < std::chrono::milliseconds(600)) {
    EXPECT_LE(attempts, 3) << "not at every call, but after 100 ms, 200, 400, ...";
  }
  full = false;
  const int64_t compiles = eager.counts().compiles;
  for (int i = 0; i < 200 && eager.counts().compiles == compiles; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ((x * 2).to_vector()[0], 4);
  }
  EXPECT_EQ(eager.counts().compiles, compiles + 1);
  EXPECT_FALSE(eager.counts().fallbacks.count("mul.Tensor"));
  // An error of the operation itself is remembered.
  attempts = 0;
  eager.set_backend([](std::unique_ptr<graph::Graph>, const front::BackendOptions&) -> front::Program {
    ++attempts;
    fail<UserError>("there is no kernel for it");
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ((x * 3).to_vector()[0], 6);
  EXPECT_EQ(attempts, 1);
  eager.set_backend(real);
}

}  // namespace
}  // namespace toroid
