// Programs that are stored and loaded again do the same to the bit: here, and in a process that has no compiler.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/options.h"
#include "errors.h"
#include "exec/stored.h"
#include "extern/onednn/onednn.h"
#include "front/compile_model.h"
#include "graph/graph.h"
#include "graph/random_graph.h"
#include "import/load_model.h"
#include "toroid/model.h"
#include "toroid/random.h"

extern char** environ;

namespace toroid {
namespace {

namespace fs = std::filesystem;

struct Both {
  std::unique_ptr<exec::Executable> made, stored;
};

Both both(std::unique_ptr<graph::Graph> g, const ModelOptions& options) {
  const compiler::Setup setup = front::setup_of(options);
  const exec::Loadable made = compiler::loadable(std::move(g), setup), again = test::through_text_and_bytes(made);
  return {exec::load(made.plan, made.store, setup.device), exec::load(again.plan, again.store, setup.device)};
}

// Several calls: those that warm up, record and replay.
void expect_equal(const Both& b, const std::vector<Tensor>& inputs, const std::string& what) {
  for (int call = 0; call < 4; ++call) {
    const auto mine = test::copies(inputs), others = test::copies(inputs);
    manual_seed(5);
    const auto out = b.made->run(mine);
    manual_seed(5);
    const auto again = b.stored->run(others);
    EXPECT_EQ(test::bit_difference(out, again), "") << what << ", call " << call;
    EXPECT_EQ(test::bit_difference(mine, others), "") << what << ", inputs after call " << call;
  }
}

std::vector<Tensor> inputs_in(const fs::path& file) {
  std::vector<Tensor> out;
  for (auto& [name, t] : load_tensors(file.string())) out.push_back(t);  // "input0", "input1", ...
  return out;
}

// TOROID_TEST_MODELS names another folder.
std::vector<fs::path> models() {
  const char* named = std::getenv("TOROID_TEST_MODELS");
  const fs::path root = named && *named ? fs::path(named) : fs::path(TOROID_SOURCE_DIR) / "tests/data/models";
  std::vector<fs::path> out;
  for (auto& e : fs::recursive_directory_iterator(root))
    if (e.path().extension() == ".pt2" && fs::exists(e.path().parent_path() / "in.safetensors")) out.push_back(e.path());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(StoredPlan, FixturesRunAsBefore) {
  const auto files = models();
  ASSERT_GT(files.size(), 3u);
  for (auto& file : files)
    for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
      auto g = import::load_model(file.string());
      std::vector<Tensor> inputs = inputs_in(file.parent_path() / "in.safetensors");  // perhaps of several calls
      const auto users = std::count_if(g->inputs.begin(), g->inputs.end(), [](auto& in) { return in.kind == graph::InputKind::User; });
      ASSERT_GE(inputs.size(), static_cast<size_t>(users)) << file;
      inputs.resize(static_cast<size_t>(users));
      expect_equal(both(std::move(g), {.mode = mode}), inputs, file.string());
    }
}

TEST(StoredPlan, DynamicSizesRunAsBefore) {
  const Both b = both(import::load_model(std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2"), {});
  for (auto [batch, sequence] : {std::pair<int64_t, int64_t>{1, 2}, {3, 5}, {7, 33}}) {
    const Tensor ids = Tensor::full(std::vector<int64_t>{batch, sequence}, 7, DType::I64),
                 mask = Tensor::full(std::vector<int64_t>{batch, sequence}, 1, DType::I64);
    expect_equal(b, {ids, mask}, fmt::format("{} x {}", batch, sequence));
  }
}

// State that a program writes to is the graph's own for the one that is made here, and a copy for one that is loaded.
TEST(StoredPlan, StateBelongsToEachLoadedProgram) {
  auto g = graph::parse(R"(graph "t"(buffer %state: f32[4], %x: f32[4]) {
  %r: f32[4] = add.Tensor(%state, %x)
  %twice: f32[4] = mul.Tensor(%r, 2)
  return (input 0 <- %r), %twice
})");
  const Tensor state = Tensor::full(std::vector<int64_t>{4}, 1), x = Tensor::full(std::vector<int64_t>{4}, 10);
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::Buffer) in.data = state;
  const exec::Loadable made = compiler::loadable(std::move(g), front::setup_of({})), again = test::through_text_and_bytes(made);
  const auto mine = exec::load(made.plan, made.store, Device::cpu());
  const auto first = exec::load(again.plan, again.store, Device::cpu()), second = exec::load(again.plan, again.store, Device::cpu());
  const auto call = [&](exec::Executable& e) { return e.run(std::vector<Tensor>{x})[0].to_vector()[0]; };
  EXPECT_EQ((std::vector{call(*mine), call(*mine), call(*mine)}), (std::vector<double>{22, 42, 62}));
  EXPECT_EQ(state.to_vector()[0], 31);
  EXPECT_EQ((std::vector{call(*first), call(*first), call(*second)}), (std::vector<double>{22, 42, 22})) << "as it was when it was stored";
}

// Numbers that a program draws are those of the process that runs it.
TEST(StoredPlan, RandomNumbersComeFromTheProcess) {
  auto g = graph::parse(R"(graph "t"(%x: f32[100]) {
  %d: f32[100] = dropout(%x, p=0.5, train=true)
  return %d
})");
  const Both b = both(std::move(g), {});
  bool draws = false;
  for (auto& in : b.stored->plan().inputs) draws = draws || in.draws;
  EXPECT_TRUE(draws);
  expect_equal(b, {Tensor::full(std::vector<int64_t>{100}, 1)}, "dropout");
}

// Sites of checks are part of what is stored, and so is the error of an index that is out of range.
TEST(StoredPlan, IndicesOutOfRangeAreTheSameError) {
  const Both b = both(graph::parse(R"(graph "t"(%w: f32[10, 4], %i: i64[3]) {
  %e: f32[3, 4] = embedding(%w, %i)  @ "model.py:7"
  return %e
})"),
                      {});
  const Tensor w = Tensor::full(std::vector<int64_t>{10, 4}, 1);
  const auto error = [&](exec::Executable& e) {
    return test::user_error([&] {
      e.run(std::vector<Tensor>{w, Tensor::of(std::vector<double>{1, 50, 2}, std::vector<int64_t>{3}, DType::I64)});
    });
  };
  EXPECT_TRUE(test::contains(error(*b.made), "embedding: index 50 is out of range")) << error(*b.made);
  EXPECT_EQ(error(*b.stored), error(*b.made));
  expect_equal(b, {w, Tensor::of(std::vector<double>{1, 9, 2}, std::vector<int64_t>{3}, DType::I64)}, "embedding");
}

// Steps of every kind that a CPU has, among them what a library packs when the program is loaded.
TEST(StoredPlan, LibrariesPrepareTheirCallsWhenAProgramIsLoaded) {
  try {
    external::onednn_version();
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  const ScopedOption gemm("gemm_backends", "onednn,template");
  const std::string folder = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/";
  const Both b = both(import::load_model(folder + "core.pt2"), {});
  size_t calls = 0;
  for (auto& step : b.stored->plan().steps) calls += std::holds_alternative<exec::LibraryCall>(step);
  EXPECT_GT(calls, 0u);
  expect_equal(b, inputs_in(folder + "in.safetensors"), "encoder by oneDNN");
}

// Writes a program, and what it gives here, for another process.
void write(const fs::path& folder, const std::string& name, const exec::Loadable& l, const std::vector<Tensor>& inputs) {
  const exec::Loadable stored = exec::by_content(l.plan, l.store);
  exec::Store tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.constants.add(fmt::format("in {:03}", i), inputs[i]);
  const auto out = exec::load(stored.plan, stored.store, Device::cpu())->run(test::copies(inputs));
  for (size_t i = 0; i < out.size(); ++i) tensors.constants.add(fmt::format("out {:03}", i), out[i]);
  const auto file = [&](const char* ending, const std::string& bytes) {
    std::ofstream(folder / (name + ending), std::ios::binary) << bytes;
  };
  file(".plan", exec::write_plan(stored.plan)), file(".store", exec::write_store(stored.store)),
      file(".expected", exec::write_store(tensors));
}

constexpr const char* kFolder = "TOROID_TEST_STORED_PLANS";

// The other process; see below.
TEST(StoredPlan, HelperThatLoads) {
  const char* folder = std::getenv(kFolder);
  if (!folder) GTEST_SKIP() << "runs in a process of its own";
  int loaded = 0;
  for (auto& e : fs::directory_iterator(folder)) {
    if (e.path().extension() != ".plan") continue;
    const auto bytes = [&](const char* ending) { return read_file(fs::path(e.path()).replace_extension(ending)); };
    const exec::Store expected = exec::read_store(bytes(".expected"));
    std::vector<Tensor> in, out;
    for (auto& [name, t] : expected.constants.all()) (name.starts_with("in ") ? in : out).push_back(t);
    const auto run = exec::load(exec::read_plan(bytes(".plan")), exec::read_store(bytes(".store")), Device::cpu())->run(in);
    EXPECT_EQ(test::bit_difference(run, out), "") << e.path();
    ++loaded;
  }
  EXPECT_GE(loaded, 8);
  std::ifstream file("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(maps.find("test_compile"), maps.npos);
  EXPECT_EQ(maps.find("toroid_jit"), maps.npos) << "no compiler is opened";
}

TEST(StoredPlan, AnotherProcessLoadsItWithoutACompiler) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("toroid_stored_plans_{}", ::getpid());
  fs::create_directories(folder);
  const std::string models = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/";
  for (const char* name : {"encoder", "digitsnet", "regions", "tied"})
    write(folder, name, compiler::loadable(import::load_model(models + name + "/core.pt2"), front::setup_of({})),
          inputs_in(models + name + "/in.safetensors"));
  for (uint64_t seed : {1, 10, 19, 28, 37}) {
    graph::RandomGraphOptions o;
    o.control_flow = seed != 1, o.in_place = true;
    const auto g = graph::random_graph(seed, o);
    write(folder, fmt::format("random{}", seed), compiler::loadable(graph::clone(*g), front::setup_of({})),
          graph::random_inputs(*g, seed, false));
  }
  std::vector<std::string> environment = {std::string(kFolder) + "=" + folder.string()};
  for (char** e = environ; *e; ++e) environment.emplace_back(*e);
  std::vector<char*> env;
  for (auto& e : environment) env.push_back(e.data());
  env.push_back(nullptr);
  char name[] = "test_compile", filter[] = "--gtest_filter=StoredPlan.HelperThatLoads";
  char* const arguments[] = {name, filter, nullptr};
  pid_t child = -1;
  ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, env.data()), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace toroid
