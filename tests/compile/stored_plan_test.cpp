// Programs that are stored and loaded again do the same to the bit: here, and in a process that has no compiler.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/files.h"
#include "base/options.h"
#include "compile/pipeline.h"
#include "errors.h"
#include "exec/steps.h"
#include "exec/stored.h"
#include "extern/cublaslt/cublaslt.h"
#include "extern/cudnn/cudnn.h"
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

// Several calls, each on other memory: those that warm up, record and replay. inputs: on the CPU.
void expect_equal(const Both& b, const std::vector<Tensor>& inputs, const std::string& what) {
  const Device device = b.made->plan().device;
  std::vector<std::vector<Tensor>> kept;
  for (int call = 0; call < 4; ++call) {
    const auto mine = test::copies(inputs, device), others = test::copies(inputs, device);
    manual_seed(5);
    const auto out = b.made->run(mine);
    manual_seed(5);
    const auto again = b.stored->run(others);
    EXPECT_EQ(test::bit_difference(out, again), "") << what << ", call " << call;
    EXPECT_EQ(test::bit_difference(mine, others), "") << what << ", inputs after call " << call;
    for (auto* list : {&mine, &others, &out, &again}) kept.push_back(*list);
  }
  EXPECT_EQ(b.stored->captures().counters.recordings, b.made->captures().counters.recordings) << what;
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

void fixtures_run_as_before(const Device& device) {
  const auto files = models();
  ASSERT_GT(files.size(), 3u);
  for (auto& file : files)
    for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
      auto g = import::load_model(file.string());
      std::vector<Tensor> inputs = inputs_in(file.parent_path() / "in.safetensors");  // perhaps of several calls
      const auto users = std::count_if(g->inputs.begin(), g->inputs.end(), [](auto& in) { return in.kind == graph::InputKind::User; });
      ASSERT_GE(inputs.size(), static_cast<size_t>(users)) << file;
      inputs.resize(static_cast<size_t>(users));
      expect_equal(both(std::move(g), {.device = device, .mode = mode}), inputs, file.string());
    }
}

TEST(StoredPlan, FixturesRunAsBefore) { fixtures_run_as_before(Device::cpu()); }

void dynamic_sizes_run_as_before(const ModelOptions& options) {
  const Both b = both(import::load_model(std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2"), options);
  for (auto [batch, sequence] : {std::pair<int64_t, int64_t>{1, 2}, {3, 5}, {7, 33}}) {
    const Tensor ids = Tensor::full(std::vector<int64_t>{batch, sequence}, 7, DType::I64),
                 mask = Tensor::full(std::vector<int64_t>{batch, sequence}, 1, DType::I64);
    expect_equal(b, {ids, mask}, fmt::format("{} x {}", batch, sequence));
  }
}

TEST(StoredPlan, DynamicSizesRunAsBefore) { dynamic_sizes_run_as_before({}); }

// State that a program writes to is the graph's own for the one that is made here, and a copy for one that is loaded.
void state_belongs_to_each_loaded_program(const ModelOptions& options) {
  const Device device = options.device;
  auto g = graph::parse(R"(graph "t"(buffer %state: f32[4], %x: f32[4]) {
  %r: f32[4] = add.Tensor(%state, %x)
  %twice: f32[4] = mul.Tensor(%r, 2)
  return (input 0 <- %r), %twice
})");
  const Tensor state = Tensor::full(std::vector<int64_t>{4}, 1), x = Tensor::full(std::vector<int64_t>{4}, 10).to(device);
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::Buffer) in.data = state;
  const exec::Loadable made = compiler::loadable(std::move(g), front::setup_of(options)), again = test::through_text_and_bytes(made);
  const auto mine = exec::load(made.plan, made.store, device);
  const auto first = exec::load(again.plan, again.store, device), second = exec::load(again.plan, again.store, device);
  const auto call = [&](exec::Executable& e) { return e.run(std::vector<Tensor>{x})[0].to(Device::cpu()).to_vector()[0]; };
  EXPECT_EQ((std::vector{call(*mine), call(*mine), call(*mine)}), (std::vector<double>{22, 42, 62}));
  EXPECT_EQ(state.to_vector()[0], device.is_cuda() ? 1 : 31) << "on a GPU the program has a copy";
  EXPECT_EQ((std::vector{call(*first), call(*first), call(*second)}), (std::vector<double>{22, 42, 22})) << "as it was when it was stored";
}

TEST(StoredPlan, StateBelongsToEachLoadedProgram) { state_belongs_to_each_loaded_program({}); }

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

constexpr int kCalls = 3;  // one that warms up, one that is recorded and one that is replayed, where calls are recorded

// Writes a program, and what calls of it give here one after the other, for another process.
void write(const fs::path& folder, const std::string& name, const exec::Loadable& l, const std::vector<Tensor>& inputs) {
  const exec::Loadable stored = exec::by_content(l.plan, l.store);
  exec::Store tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.constants.add(fmt::format("in {:03}", i), inputs[i]);
  const Device device = l.plan.device;
  const auto program = exec::load(stored.plan, stored.store, device);
  for (int call = 0; call < kCalls; ++call) {
    const auto out = program->run(test::copies(inputs, device));
    for (size_t i = 0; i < out.size(); ++i) tensors.constants.add(fmt::format("out {} {:03}", call, i), moved(out[i], Device::cpu()));
  }
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
    std::vector<Tensor> in, out[kCalls];
    for (auto& [name, t] : expected.constants.all()) (name.starts_with("in ") ? in : out[name.at(4) - '0']).push_back(t);
    exec::Plan plan = exec::read_plan(bytes(".plan"));
    const Device device = plan.device;
    const auto program = exec::load(std::move(plan), exec::read_store(bytes(".store")), device);
    for (int call = 0; call < kCalls; ++call)
      EXPECT_EQ(test::bit_difference(program->run(test::copies(in, device)), out[call]), "") << e.path() << ", call " << call;
    ++loaded;
  }
  EXPECT_GE(loaded, 8);
  std::ifstream file("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(maps.find("test_compile"), maps.npos);
  EXPECT_EQ(maps.find("toroid_jit"), maps.npos) << "no compiler is opened";
  if (maps.find("libcudnn") == maps.npos) {  // which has kernels of its own compiled
    EXPECT_EQ(maps.find("libnvrtc"), maps.npos) << "no compiler is opened";
  }
}

void another_process_loads(const ModelOptions& options) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("toroid_stored_plans_{}", ::getpid());
  fs::create_directories(folder);
  const auto setup = front::setup_of(options);
  const std::string models = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/";
  for (const char* name : {"encoder", "digitsnet", "regions", "tied"})
    write(folder, name, compiler::loadable(import::load_model(models + name + "/core.pt2"), setup),
          inputs_in(models + name + "/in.safetensors"));
  for (uint64_t seed : {1, 10, 19, 28, 37}) {
    graph::RandomGraphOptions o;
    o.control_flow = seed != 1, o.in_place = true;
    const auto g = graph::random_graph(seed, o);
    write(folder, fmt::format("random{}", seed), compiler::loadable(graph::clone(*g), setup), graph::random_inputs(*g, seed, false));
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

TEST(StoredPlan, AnotherProcessLoadsItWithoutACompiler) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) another_process_loads({.mode = mode});
}

// ---- of GPUs --------------------------------------------------------------------------------------------------------------------

// Programs that hold no data, with steps of every kind that a GPU has, and with inputs for them.
struct Sample {
  const char* what;
  std::string text;
  std::vector<Tensor> inputs;
};

Tensor numbers(const std::vector<int64_t>& sizes, DType dtype = DType::F32) {
  Tensor t = Tensor::full(sizes, 0, DType::F64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = 0.25 * static_cast<double>(i * i % 23 - 11);
  return Tensor::of(t.to_vector(), sizes, dtype);
}

std::vector<Sample> samples() {
  const Tensor truth = Tensor::full(std::vector<int64_t>{}, 1, DType::Bool);
  return {
      {"a product by tensor maps",
       R"(graph "t"(%a: bf16[256, 128], %b: bf16[128, 192], %c: f32[256, 192]) {
  %p: bf16[256, 192] = mm(%a, %b)
  %s: f32[256, 192] = add.Tensor(%c, %p)
  %r: f32[256, 192] = relu(%s)
  return %r, %p
})",
       {numbers({256, 128}, DType::BF16), numbers({128, 192}, DType::BF16), numbers({256, 192})}},
      {"counters",
       R"(graph "t"(%x: f32[30000], %y: f32[40, 5000]) {
  %c: f32[30000] = cumsum(%x, 0)
  %s: f32[] = sum(%y)
  %v: f32[40, 5000], %i: i64[40, 5000] = sort(%y)
  return %c, %s, %v, %i
})",
       {numbers({30000}), numbers({40, 5000})}},
      {"symbolic sizes",
       R"(graph "t"(%x: f32[s0, 40], %w: f32[40, s1]) symbols(s0 in 2..500, s1 in 2..500) {
  %p: f32[s0, s1] = mm(%x, %w)
  %s: f32[s0, s1] = softmax.int(%p, dim=1)
  return %s
})",
       {numbers({17, 40}), numbers({40, 65})}},
      {"sizes from data",
       R"(graph "t"(%x: f32[10]) symbols(u0 unbacked in 0..inf) {
  %m: bool[10] = gt.Scalar(%x, 0.0)
  %some: f32[u0] = masked_select(%x, %m)
  %e: f32[u0] = exp(%some)
  %s: f32[] = sum(%e)
  return %e, %s
})",
       {numbers({10})}},
      {"checked indices",
       R"(graph "t"(%w: f32[10, 64], %i: i64[3]) {
  %e: f32[3, 64] = embedding(%w, %i)  @ "model.py:7"
  return %e
})",
       {numbers({10, 64}), Tensor::of({1, 9, 2}, {3}, DType::I64)}},
      {"what is written in place",
       R"(graph "t"(%x: f32[64], %y: f32[64]) {
  %r: f32[64] = add.Tensor(%x, %y)
  return (input 0 <- %r)
})",
       {numbers({64}), numbers({64})}},
      {"random numbers",
       R"(graph "t"(%x: f32[100]) {
  %d: f32[100] = dropout(%x, p=0.5, train=true)
  return %d
})",
       {numbers({100})}},
      {"control flow",
       R"(graph "t"(%p: bool[], %x: f32[33, 20]) {
  %h: f32[33, 20] = mul.Tensor(%x, 3.0)
  %c: f32[33, 20] = cond(%p, [%h, %x]) {
    graph "yes"(%a: f32[33, 20], %b: f32[33, 20]) {
      %r: f32[33, 20] = add.Tensor(%a, %b)
      return %r
    }
  } {
    graph "no"(%a: f32[33, 20], %b: f32[33, 20]) {
      %r: f32[33, 20] = sub.Tensor(%a, %b)
      return %r
    }
  }
  %e: f32[33, 20] = exp(%c)
  return %e
})",
       {truth, numbers({33, 20})}},
  };
}

// The plan of a graph for a GPU that need not be here.
exec::Loadable for_absent_gpu(const std::string& text, Mode mode) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  auto g = graph::parse(text);
  compiler::Job job = compiler::job_of(g->name, front::setup_of({.device = Device::cuda(), .mode = mode}), {}, &gpu);
  job.may_tune = false;
  compiler::CompileReport report;
  return compiler::advance<exec::Loadable>(compiler::Imported{std::move(g)}, job, report);
}

size_t launches_of(const exec::Plan& plan, const exec::Store& store) {
  size_t n = 0;
  for (auto& step : plan.steps) {
    for (auto& block : exec::blocks_of(step)) n += launches_of(*block.plan, store);
    const auto* l = std::get_if<exec::Launch>(&step);
    if (!l) continue;
    const std::string& code = *store.kernels.at(l->kernel).object;
    EXPECT_TRUE(
        code.starts_with("\x7f"
                         "ELF"))
        << l->name;
    EXPECT_NE(code.find(".text." + l->name), code.npos) << "the kernel has the function " << l->name;
    EXPECT_GT(l->gpu.threads, 0) << l->name;
    ++n;
  }
  return n;
}

// Text and bytes of plan and store are checked on the way; the code is there; where there is no such GPU, loading says so.
TEST(GpuStoredPlan, IsWrittenAndReadWithoutAGpu) {
  bool maps = false, counters = false, late = false, faults = false, blocks = false;
  for (auto& sample : samples())
    for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
      exec::Loadable made;
      try {
        made = for_absent_gpu(sample.text, mode);
      } catch (const EnvironmentError& e) {
        GTEST_SKIP() << e.what();
      }
      const exec::Loadable read = test::through_text_and_bytes(made);
      EXPECT_EQ(read.plan.code_for, "sm_90a");
      EXPECT_EQ(read.plan.device, Device::cuda());
      EXPECT_EQ(read.plan.record, mode == Mode::ReduceOverhead);
      EXPECT_GT(launches_of(read.plan, read.store), 0u) << sample.what;
      for (auto& step : read.plan.steps) {
        blocks = blocks || !exec::blocks_of(step).empty();
        if (auto* l = std::get_if<exec::Launch>(&step))
          maps = maps || !l->gpu.tensor_maps.empty(), counters = counters || !(l->gpu.counters == Expr(0));
      }
      for (auto& [symbol, unbacked] : read.plan.symbols) late = late || unbacked;
      faults = faults || !read.plan.sites.empty();
      if (cuda_device_count() == 0) {
        EXPECT_THROW(exec::load(read.plan, read.store, read.plan.device), EnvironmentError) << sample.what;
      }
      EXPECT_THROW(exec::load(read.plan, read.store, Device::cpu()), UserError) << sample.what;
    }
  EXPECT_TRUE(maps && counters && late && faults && blocks) << "the samples have all that plans of GPUs have";
}

TEST(GpuStoredPlan, SamplesRunAsBefore) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& sample : samples())
    for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
      const Both b = both(graph::parse(sample.text), {.device = Device::cuda(), .mode = mode});
      expect_equal(b, sample.inputs, sample.what);
      const auto& symbols = b.stored->plan().symbols;
      const bool late = std::any_of(symbols.begin(), symbols.end(), [](auto& s) { return s.second; });
      EXPECT_EQ(b.stored->captures().counters.graph_launches > 0, mode == Mode::ReduceOverhead && !late) << sample.what;
    }
}

TEST(GpuStoredPlan, FixturesRunAsBefore) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  fixtures_run_as_before(Device::cuda());
}

TEST(GpuStoredPlan, DynamicSizesRunAsBefore) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) dynamic_sizes_run_as_before({.device = Device::cuda(), .mode = mode});
}

TEST(GpuStoredPlan, StateBelongsToEachLoadedProgram) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) state_belongs_to_each_loaded_program({.device = Device::cuda(), .mode = mode});
}

// Whether a library is here, and a GPU; else why not.
std::string missing(std::string (*version)()) {
  if (cuda_device_count() == 0) return "no GPU";
  return test::environment_error([&] { version(); });
}

// The implementation that the plan names is prepared anew.
TEST(GpuStoredPlan, LibrariesPrepareTheirCallsWhenAProgramIsLoaded) {
  if (const std::string why = missing(external::cublaslt_version); why != "no error") GTEST_SKIP() << why;
  if (const std::string why = missing(external::cudnn_version); why != "no error") GTEST_SKIP() << why;
  const ScopedOption gemm("gemm_backends", "cublaslt,template"), conv("conv_backends", "cudnn,template");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    const Both b = both(graph::parse(R"(graph "t"(%x: f16[2, 64, 16, 16], %w: f16[64, 64, 3, 3], %a: f16[256, 128], %b: f16[128, 64]) {
  %c: f16[2, 64, 16, 16] = conv2d(%x, %w, stride=[1, 1], padding=[1, 1])
  %p: f16[256, 64] = mm(%a, %b)
  %r: f16[256, 64] = relu(%p)
  return %c, %r
})"),
                        {.device = Device::cuda(), .mode = mode});
    std::set<size_t> problems;
    for (auto& step : b.stored->plan().steps)
      if (auto* c = std::get_if<exec::LibraryCall>(&step)) problems.insert(c->problem.index());
    EXPECT_EQ(problems.size(), 2u) << "a call of each library";
    expect_equal(b,
                 {numbers({2, 64, 16, 16}, DType::F16), numbers({64, 64, 3, 3}, DType::F16), numbers({256, 128}, DType::F16),
                  numbers({128, 64}, DType::F16)},
                 "libraries");
  }
}

TEST(GpuStoredPlan, AnotherProcessLoadsItWithoutACompiler) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) another_process_loads({.device = Device::cuda(), .mode = mode});
}

}  // namespace
}  // namespace toroid
