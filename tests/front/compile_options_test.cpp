// Options by value: compiles with options of their own leave each other, eager operations and the process alone. Run with ThreadSanitizer
// by scripts/tsan.sh.
#include "base/compile_options.h"

#include <atomic>
#include <filesystem>
#include <latch>
#include <map>
#include <thread>

#include "base/files.h"
#include "base/log.h"
#include "front/compile_model.h"
#include "front/eager.h"
#include "front/harness.h"
#include "log_scope.h"
#include "toroid/custom_op.h"
#include "toroid/model.h"

namespace toroid {
namespace {

using namespace test;
using Options = std::map<std::string, std::string>;

class OptionsByValue : public testing::Test {
 protected:
  ~OptionsByValue() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path folder(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_ = make_temp_dir();
  ScopedOption cache_dir_{"cache_dir", (folder_ / "cache").string()};
};

// Sixteen sets of options, each of which makes other kernels than the next.
Options options_of(int t) {
  static constexpr const char* kFusion[] = {"none", "per-node", "all", "all"};
  Options out = {{"fusion", kFusion[t % 4]}, {"templates", t / 4 % 2 ? "0" : "1"}, {"freezing", t / 8 % 2 ? "0" : "1"}};
  if (t % 4 == 3) out["isa"] = "scalar";
  return out;
}

Tensor head(const Tensor& x, const Tensor& w) { return softmax(relu(matmul(x, w) * 0.5 + 1), 1); }

// What a compile wrote into its folder of kernels, by file; all of it is of one program.
std::map<std::string, std::string> kernels_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  std::vector<std::filesystem::path> programs;
  for (auto& program : std::filesystem::directory_iterator(folder)) programs.push_back(program.path());
  EXPECT_EQ(programs.size(), 1u) << "other programs were compiled with these options: " << folder;
  for (auto& program : programs)
    for (auto& file : std::filesystem::directory_iterator(program / "kernels")) out[file.path().filename()] = read_file(file.path());
  return out;
}

void compile_head(int t, const std::filesystem::path& folder) {
  CompileConfig config{.dynamic = false, .options = options_of(t)};
  config.options["compile_debug"] = "1";
  config.options["debug_dir"] = folder.string();
  auto f = compile(head, config);
  const Tensor x = counting({5, 12}), w = counting({12, 8});
  const auto got = f(x, w).to_vector();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], i % 8 == 7 ? 1 : 0, 1e-3);
}

TEST_F(OptionsByValue, SixteenThreadsCompileByTheirOwn) {
  constexpr int kThreads = 16;
  std::vector<std::map<std::string, std::string>> alone;
  for (int t = 0; t < kThreads; ++t) {
    compile_head(t, folder("alone" + std::to_string(t)));
    alone.push_back(kernels_in(folder("alone" + std::to_string(t))));
    ASSERT_FALSE(alone.back().empty());
  }
  EXPECT_NE(alone[0], alone[2]);
  EXPECT_NE(alone[2], alone[3]);
  EXPECT_NE(alone[2], alone[6]);
  std::latch start(kThreads + 2);
  std::atomic<int> running = kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        compile_head(t, folder("together" + std::to_string(t)));
      } catch (const std::exception& e) {
        ADD_FAILURE() << "thread " << t << ": " << e.what();
      }
      --running;
    });
  for (int64_t e : {0, 1})
    threads.emplace_back([&, e] {  // operations, each of them a program that is compiled
      start.arrive_and_wait();
      for (int64_t n = 2; running > 0 && n < 40; ++n) EXPECT_EQ((counting({n + 40 * e}) + 1).to_vector().back(), n + 40 * e);
    });
  for (auto& t : threads) t.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(kernels_in(folder("together" + std::to_string(t))), alone[static_cast<size_t>(t)]) << t;
  EXPECT_EQ(CompileOptions::of_process(), CompileOptions());
}

TEST_F(OptionsByValue, TwoOfOneGraphInOneProcess) {
  const Tensor x = counting({4, 6}), w = counting({6, 3});
  const auto graph = graph_of([](auto& in) { return relu(matmul(in[0], in[1])); }, {x, w});
  auto fused = front::compile_model(graph::clone(*graph));
  auto parted = front::compile_model(graph::clone(*graph), {.options = {{"fusion", "none"}}});
  EXPECT_EQ(fused.report().kernels, 1u);
  EXPECT_EQ(parted.report().kernels, 2u);
  EXPECT_EQ(fused.run(std::vector{x, w})[0].to_vector(), parted.run(std::vector{x, w})[0].to_vector());
}

// What a function was compiled with guards it, where it decides something and the function has none of its own.
TEST_F(OptionsByValue, AreGuarded) {
  auto f = compile([](const Tensor& x) { return x * 2 + 1; }, by_reference());
  auto own = compile([](const Tensor& x) { return x * 2 + 1; }, by_reference({.options = {{"disable_passes", "cse"}}}));
  const Tensor x = counting({3});
  f(x), own(x);
  {
    const ScopedOption off("disable_passes", "dce"), folder("debug_dir", "nowhere"), strict("tune_strict", "1"),
        limit("recompile_limit", "9");
    for (int i = 0; i < 2; ++i) f(x), own(x);
  }
  f(x), own(x);
  EXPECT_EQ(f.report().compiles, 2);
  EXPECT_EQ(f.report().recompile_reasons, std::vector<std::string>{"the option disable_passes was \"\", is dce"});
  EXPECT_EQ(own.report().compiles, 1);
}

TEST_F(OptionsByValue, PartsOfAFunctionAreGuardedToo) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x * 2;
        return y.item() > 20 ? y + 1 : y - 1;
      },
      by_reference());
  const auto call = [&] { EXPECT_EQ(f(counting({1})).item(), -1); };
  call(), call();
  const int64_t before = f.report().compiles;
  const ScopedOption off("disable_passes", "dce");
  call(), call();
  EXPECT_EQ(f.report().compiles, 2 * before);
}

TEST_F(OptionsByValue, EagerProgramsAreOfTheProcesssOptions) {
  auto& eager = front::EagerDispatcher::instance();
  const auto call = [] { EXPECT_EQ((counting({7, 3}) * 5).to_vector()[2], 10); };
  call();
  const int64_t before = eager.counts().compiles;
  call();
  EXPECT_EQ(eager.counts().compiles, before);
  {
    const ScopedOption isa("isa", "scalar");
    call(), call();
    EXPECT_EQ(eager.counts().compiles, before + 1);
  }
  call();
  EXPECT_EQ(eager.counts().compiles, before + 1);
  const ScopedOption watching("recompile_limit", "3");
  call();
  EXPECT_EQ(eager.counts().compiles, before + 1);
}

TEST_F(OptionsByValue, WhatCannotBelongToAFunctionIsRefused) {
  const auto refusal = [](Options options) { return user_error([&] { compile(head, {.options = options}); }); };
  EXPECT_EQ(
      refusal({{"threads", "2"}}),
      "option threads belongs to the process, and one compile cannot have a value of its own: set it by set_option(\"threads\", ...) or "
      "the environment variable TOROID_THREADS");
  EXPECT_TRUE(contains(refusal({{"thread", "2"}}), "did you mean \"threads\""));
  EXPECT_TRUE(contains(refusal({{"isa", "sse"}}), "expected auto, avx2, avx512 or scalar"));
  EXPECT_TRUE(contains(refusal({{"backend", "compild"}}), "did you mean \"compiled\""));
  const auto given_twice = [](Mode mode, const char* name) {
    return user_error([&] { compile(head, {.mode = mode, .options = {{"mode", name}}}); });
  };
  EXPECT_EQ(given_twice(Mode::MaxAutotune, "reduce-overhead"),
            "option mode is given twice: as \"reduce-overhead\" in the options by name, and as \"max-autotune\" in the field for it");
  EXPECT_EQ(given_twice(Mode::MaxAutotune, "max-autotune"), "no error");
  EXPECT_EQ(given_twice(Mode::Default, "max-autotune"), "no error");
}

TEST_F(OptionsByValue, ModelsTakeThemByNameToo) {
  const compiler::Setup setup = front::setup_of({.mode = Mode::ReduceOverhead, .options = {{"fusion", "per-node"}, {"allow_tf32", "1"}}});
  EXPECT_EQ(setup.options.text(), "allow_tf32=1 freezing=1 fusion=per-node mode=reduce-overhead");
  const auto refusal = [](const ModelOptions& o) { return user_error([&] { front::setup_of(o); }); };
  for (const char* name : {"backend", "verify_trace", "recompile_limit", "fail_on_recompile_limit"})
    EXPECT_EQ(refusal({.options = {{name, "1"}}}),
              "option " + std::string(name) + " is of compiled functions, and a model cannot have it: leave it out");
  EXPECT_TRUE(contains(refusal({.options = {{"cache_dir", "x"}}}), "belongs to the process"));
  EXPECT_TRUE(contains(refusal({.freeze = false, .options = {{"freezing", "1"}}}), "is given twice"));
  EXPECT_EQ(refusal({.options = {{"freezing", "0"}}}), "no error");
}

TEST_F(OptionsByValue, ImplementationsWithinAProgramHaveFewer) {
  const auto refusal = [](const char* name, const char* value) { return user_error([&] { check_code_option(name, value); }); };
  EXPECT_EQ(refusal("gemm_backends", "template"), "no error");
  EXPECT_TRUE(contains(refusal("threads", "1"), "belongs to the process"));
  for (auto [name, value] : Options{{"mode", "default"}, {"isa", "scalar"}, {"kernel_dir", "x"}, {"tune_strict", "1"}, {"nvtx", "1"}})
    EXPECT_EQ(refusal(name.c_str(), value.c_str()),
              "option " + name +
                  " is of a whole compile, and an implementation within it cannot have a value of its "
                  "own: give it in the options of compile() or Model::load");
}

// A custom operation's function is called while a program with it is compiled: no lock is held then.
TEST_F(OptionsByValue, WhatACompileCallsMayCompile) {
  std::atomic<bool> called = false;
  std::function<Tensor(const Tensor&)> f;
  auto op = custom_op("options::calls_back(Tensor x) -> Tensor", [&](const Tensor& x) {
    if (!called.exchange(true)) {
      std::thread([&] {
        auto other = compile([](const Tensor& y) { return y + 3; }, {.options = {{"fusion", "none"}, {"isa", "scalar"}}});
        EXPECT_EQ(other(counting({2})).to_vector(), (std::vector<double>{3, 4}));
        EXPECT_EQ(f(counting({3})).to_vector(), (std::vector<double>{1, 3, 5}));
        EXPECT_EQ((counting({3}) * 7).to_vector(), (std::vector<double>{0, 7, 14}));
      }).join();
      const ScopedOption set("disable_passes", "");
    }
    return x * 2;
  });
  auto compiled = compile([op](const Tensor& x) { return op(x) + 1; });
  f = [&](const Tensor& x) { return compiled(x); };
  EXPECT_EQ(f(counting({2})).to_vector(), (std::vector<double>{1, 3}));
  EXPECT_TRUE(called);
}

// So may whatever listens to the log.
TEST_F(OptionsByValue, LogSinksMayCompile) {
  std::atomic<int> depth = 0;
  auto listened = compile([](const Tensor& x) { return x - 4; });
  const test::LogScope lines([&](Artifact, std::string_view) {
    if (depth.fetch_add(1) == 0)
      std::thread([&] {
        EXPECT_EQ(listened(counting({6})).to_vector()[0], -4);
        EXPECT_EQ((counting({11}) * 3).to_vector()[2], 6);
      }).join();
  });
  {
    const ScopedOption logs("logs", "all");
    EXPECT_EQ(listened(counting({2})).to_vector()[0], -4);
    EXPECT_EQ((counting({13}) + 9).to_vector()[0], 9);
  }
  EXPECT_GT(depth, 0);
}

}  // namespace
}  // namespace toroid
