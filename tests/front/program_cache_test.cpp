// Programs on disk: found again they are what was compiled, and what cannot be trusted is compiled anew.
#include "compile/program_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/options.h"
#include "compile/background.h"
#include "compile/cache_bundle.h"
#include "compile/harness.h"
#include "data_models.h"
#include "device/cuda/nvtx.h"
#include "errors.h"
#include "exec/steps.h"
#include "exec/stored.h"
#include "front/cache_scratch.h"
#include "front/compile_model.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"
#include "log_scope.h"
#include "temp_folder.h"
#include "toroid/compile.h"
#include "toroid/log.h"
#include "toroid/model.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using test::bit_difference;
using test::contains;
using test::inputs_of;
using test::kModels;
using test::Scratch;
using test::TempFolder;

// What is logged of the cache.
struct CacheLog {
  std::string text;
  ScopedOption on{"logs", "cache"};
  test::LogScope lines{[this](Artifact, std::string_view line) { text += std::string(line) + "\n"; }};
};

TEST(ProgramCache, AModelIsCompiledOnce) {
  for (const char* name : {"digitsnet", "encoder", "tied", "regions", "numbers_from_data"}) {
    const Scratch scratch;
    const auto inputs = inputs_of(name);
    const std::string path = kModels + name + "/core.pt2";
    Model first = Model::load(path);
    Model second = Model::load(path);
    EXPECT_EQ(scratch.hits(), 1) << name;
    EXPECT_EQ(scratch.kept(), 1) << name;
    for (int call = 0; call < 2; ++call)  // state begins as it was stored
      EXPECT_EQ(bit_difference(first.run(inputs), second.run(inputs)), "") << name << ", call " << call;
    EXPECT_EQ(first.summary().kernels, second.summary().kernels);
    EXPECT_EQ(first.summary().operations, second.summary().operations);
    EXPECT_EQ(second.summary().kernels_compiled, 0u);
    const ScopedOption off("cache_programs", "0");
    Model::load(path);
    EXPECT_EQ(scratch.hits(), 1) << "the option is off";
  }
}

// Megabytes are written when the load has returned: who loads meanwhile compiles and waits for nobody, who loads later finds them.
TEST(ProgramCache, LargeProgramsAreWrittenInTheBackground) {
  using namespace import::onnx;
  constexpr int64_t kRows = 1200, kColumns = 1100;
  std::vector<float> weights(kRows * kColumns);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 17) - 8;
  Message w;
  w.number(1, kRows).number(1, kColumns).number(2, 1).text(8, "w");
  w.text(9, std::string(reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float)));
  const GraphParts parts{{node("MatMul", {"x", "w"}, {"y"})}, {value_info("x", {"3", "1200"})}, {value_info("y", {"3", "1100"})}, {w}};
  const Scratch scratch;
  const ModelFolder folder(parts.model(13));
  fs::last_write_time(folder.model(), fs::file_time_type::clock::now() - std::chrono::seconds(1000));
  const std::vector<Tensor> x = {Tensor::full(std::vector<int64_t>{3, kRows}, 0.5)};
  std::vector<std::vector<Tensor>> results;
  std::mutex held;
  held.lock();
  compiler::after_return([&] { std::lock_guard lock(held); });  // nothing is written before this ends
  for (int load = 0; load < 2; ++load) results.push_back(Model::load(folder.model().string()).run(x));
  EXPECT_EQ(scratch.misses(), 2);
  EXPECT_EQ(scratch.kept(), 0);
  held.unlock();
  compiler::wait_for_background();
  EXPECT_EQ(scratch.kept(), 1);
  results.push_back(Model::load(folder.model().string()).run(x));
  EXPECT_EQ(scratch.hits(), 1);
  for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(bit_difference(results[i], results[0]), "") << i;
}

std::string read(const fs::path& path) { return read_file(path); }
void write(const fs::path& path, std::string_view bytes) {  // in place, as damage comes
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
void set_time(const fs::path& path, int seconds_ago) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds_ago));
}

// Damage at many places, with the time of the file as it was or not: never another result, and the entry is whole again afterwards.
TEST(ProgramCache, DamageIsAMissAndIsMended) {
  const Scratch scratch;
  const std::string model = kModels + "digitsnet/core.pt2";
  const auto inputs = inputs_of("digitsnet");
  const auto expected = Model::load(model).run(inputs);
  ASSERT_EQ(scratch.files(".tpk").size(), 1u);
  const fs::path tpk = scratch.files(".tpk")[0], key = scratch.files(".key")[0];
  int64_t damaged = 0;
  const auto check = [&](const std::string& what, bool is_damage) {
    const int64_t before = scratch.damaged();
    EXPECT_EQ(bit_difference(Model::load(model).run(inputs), expected), "") << what;
    EXPECT_EQ(scratch.damaged() - before, is_damage ? 1 : 0) << what;
    damaged += is_damage;
    const int64_t hits = scratch.hits();
    Model::load(model);
    EXPECT_EQ(scratch.hits(), hits + 1) << what << ": it was not mended";
  };
  for (const auto& path : {tpk, key}) {
    const std::string good = read(path);
    for (size_t i = 0; i < 10; ++i) {
      std::string bad = good;
      bad[(good.size() - 1) * i / 9] ^= 0x20;
      write(path, bad), set_time(path, static_cast<int>(i) + 100);
      check(fmt::format("{} with another byte {}", path.string(), (good.size() - 1) * i / 9), true);
      write(path, std::string_view(good).substr(0, good.size() * i / 10)), set_time(path, 100);
      check(fmt::format("{} cut after {} tenths", path.string(), i), true);
    }
  }
  set_time(tpk, 5000);
  check("a file that was only touched", false);
  fs::remove(tpk);
  check("a package that is gone", true);
  fs::remove(key);
  check("a key that is gone", false);
  EXPECT_EQ(scratch.damaged(), damaged);
}

TEST(ProgramCache, AnEntryUnderAnothersNameIsNotTaken) {
  const Scratch scratch;
  const auto inputs = inputs_of("digitsnet");
  const std::string model = kModels + "digitsnet/core.pt2";
  const auto expected = Model::load(model).run(inputs);
  const fs::path tpk = scratch.files(".tpk")[0], key = scratch.files(".key")[0];
  fs::remove(tpk);
  Model::load(kModels + "encoder/core.pt2");
  fs::path other_key;
  for (auto& k : scratch.files(".key"))
    if (k != key) other_key = k;
  fs::copy_file(fs::path(other_key).replace_extension(".tpk"), tpk);
  EXPECT_EQ(bit_difference(Model::load(model).run(inputs), expected), "");
  EXPECT_EQ(scratch.damaged(), 1);
  fs::copy_file(other_key, key, fs::copy_options::overwrite_existing);
  EXPECT_EQ(bit_difference(Model::load(model).run(inputs), expected), "");
  EXPECT_EQ(scratch.damaged(), 2);
}

// Another model of the same size in its place; the same model elsewhere; one that was written just now.
TEST(ProgramCache, TheFileDecides) {
  const Scratch scratch;
  const auto inputs = inputs_of("digitsnet");
  const fs::path here = scratch.folder.path / "m.pt2", there = scratch.folder.path / "copy.pt2";
  std::string bytes = read(kModels + "digitsnet/core.pt2");
  write(here, bytes);
  Model::load(here.string());
  EXPECT_EQ(scratch.kept(), 0) << "within a tick of the clock its next contents may have the same time";
  set_time(here, 1000);
  const auto expected = Model::load(here.string()).run(inputs);
  EXPECT_EQ(scratch.kept(), 1);
  fs::copy_file(here, there);
  fs::last_write_time(there, fs::last_write_time(here));
  EXPECT_EQ(bit_difference(Model::load(there.string()).run(inputs), expected), "");
  EXPECT_EQ(scratch.hits(), 1) << "a copy with its time is the same model";
  // Weights changed in place, by a writer who keeps no checksum.
  const size_t at = bytes.find("data/weights/weight_0") + 200;
  for (size_t i = at; i < at + 64; ++i) bytes[i] ^= 1;
  write(here, bytes), set_time(here, 500);
  const auto changed = Model::load(here.string()).run(inputs);
  EXPECT_EQ(scratch.hits(), 1);
  const ScopedOption off("cache_programs", "0");
  EXPECT_EQ(bit_difference(changed, Model::load(here.string()).run(inputs)), "");
}

TEST(ProgramCache, AMissNamesThePartThatDiffers) {
  const Scratch scratch;
  const std::string model = kModels + "digitsnet/core.pt2";
  CacheLog log;
  Model::load(model);
  EXPECT_TRUE(contains(log.text, "no program of that name is on disk")) << log.text;
  log.text.clear();
  Model::load(model, {.options = {{"isa", "scalar"}}});
  EXPECT_TRUE(contains(log.text, "the option isa was \"auto\", is \"scalar\"") || contains(log.text, "the option isa was auto, is scalar"))
      << log.text;
  log.text.clear();
  Model::load(model);
  EXPECT_TRUE(contains(log.text, "is on disk")) << log.text;
  log.text.clear();
  Model::load(model, {.options = {{"verify_passes", "1"}}});
  EXPECT_TRUE(contains(log.text, "verify_passes")) << log.text;
  EXPECT_EQ(scratch.bypasses(), 1);
}

TEST(ProgramCache, FunctionsRunOnTheTensorsThatTheyCapture) {
  const Scratch scratch;
  Tensor w = Tensor::full(std::vector<int64_t>{3}, 2), count = Tensor::full(std::vector<int64_t>{3}, 0);
  const auto fn = [&](const Tensor& x) {
    add_(count, x);
    return x * w + 1;
  };
  const Tensor x = Tensor::full(std::vector<int64_t>{3}, 5);
  const auto two = std::vector<double>(3, 11);
  EXPECT_EQ(compile(fn)(x).to_vector(), two);
  EXPECT_EQ(scratch.hits(), 0);
  auto again = compile(fn);
  EXPECT_EQ(again(x).to_vector(), two);
  EXPECT_EQ(scratch.hits(), 1);
  EXPECT_EQ(count.to_vector(), std::vector<double>(3, 10)) << "what it writes to is the tensor, not what was stored";
  fill_(w, 3);
  EXPECT_EQ(again(x).to_vector(), std::vector<double>(3, 16));
  w = Tensor::full(std::vector<int64_t>{3}, 4);  // another tensor: bound anew
  EXPECT_EQ(again(x).to_vector(), std::vector<double>(3, 21));
  EXPECT_EQ(compile(fn)(x).to_vector(), std::vector<double>(3, 21)) << "elements of what is not frozen are no part of the key";
  EXPECT_EQ(scratch.hits(), 2);
}

TEST(ProgramCache, FrozenElementsDecide) {
  const Scratch scratch;
  Tensor w = Tensor::full(std::vector<int64_t>{4, 4}, 2);
  const auto fn = [&](const Tensor& x) { return matmul(x, w); };
  const Tensor x = Tensor::full(std::vector<int64_t>{2, 4}, 1);
  const CompileConfig frozen{.options = {{"freezing", "1"}}};
  EXPECT_EQ(compile(fn, frozen)(x).to_vector(), std::vector<double>(8, 8));
  EXPECT_EQ(compile(fn, frozen)(x).to_vector(), std::vector<double>(8, 8));
  EXPECT_EQ(scratch.hits(), 1);
  fill_(w, 3);
  EXPECT_EQ(compile(fn, frozen)(x).to_vector(), std::vector<double>(8, 12));
  EXPECT_EQ(scratch.hits(), 1);
}

TEST(ProgramCache, DynamicSizesAndGuardsComeBack) {
  const Scratch scratch;
  const auto fn = [](const Tensor& x) { return sum(x, {0}); };
  for (int run = 0; run < 2; ++run) {
    auto f = compile(fn, {.dynamic = true});
    EXPECT_EQ(f(Tensor::full(std::vector<int64_t>{5, 3}, 1)).to_vector(), std::vector<double>(3, 5));
    EXPECT_EQ(f(Tensor::full(std::vector<int64_t>{9, 3}, 1)).to_vector(), std::vector<double>(3, 9));
    EXPECT_EQ(f.report().compiles, 1);
  }
  EXPECT_EQ(scratch.hits(), 1);
}

TEST(ProgramCache, OfManyAtOnceOneCompiles) {
  const Scratch scratch;
  const std::string model = kModels + "encoder/core.pt2";
  const auto inputs = inputs_of("encoder");
  std::vector<std::thread> threads;
  std::vector<std::vector<Tensor>> results(16);
  for (size_t i = 0; i < results.size(); ++i) threads.emplace_back([&, i] { results[i] = Model::load(model).run(inputs); });
  for (auto& t : threads) t.join();
  EXPECT_EQ(scratch.misses(), 1);
  EXPECT_EQ(scratch.hits(), 15);
  for (auto& r : results) EXPECT_EQ(bit_difference(r, results[0]), "");
  EXPECT_TRUE(scratch.files(".lock").empty());
}

// Nothing can be written while it lives, as on a disk that is full.
class NoWrites {
 public:
  NoWrites() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoWrites() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  NoWrites(const NoWrites&) = delete;

 private:
  void (*const signal_)(int) = std::signal(SIGXFSZ, SIG_IGN);  // a write is then an error
  rlimit before_{};
};

TEST(ProgramCache, WhatWasTouchedIsUsedWhereNothingCanBeWritten) {
  const Scratch scratch;
  const std::string model = kModels + "digitsnet/core.pt2";
  const auto inputs = inputs_of("digitsnet");
  const auto expected = Model::load(model).run(inputs);
  set_time(scratch.files(".tpk")[0], 5000);
  const NoWrites full;
  EXPECT_EQ(bit_difference(Model::load(model).run(inputs), expected), "");
  EXPECT_EQ(scratch.hits(), 1);
  EXPECT_EQ(scratch.damaged(), 0);
  EXPECT_TRUE(contains(jit::shared_cache()->last_problem(), ".key")) << jit::shared_cache()->last_problem();
}

// The sum of what is given and w.bin, four floats.
std::string model_with_external_weight() {
  using namespace import::onnx;
  const auto entry = [](const std::string& key, const std::string& value) { return Message().text(1, key).text(2, value); };
  Message w;
  w.number(1, 4).number(2, 1).text(8, "w").message(13, entry("location", "w.bin")).number(14, 1);
  GraphParts g;
  g.inputs = {value_info("x", {"4"})};
  g.outputs = {value_info("y", {"4"})};
  g.initializers = {w};
  g.nodes = {node("Add", {"x", "w"}, {"y"})};
  return g.model(17).bytes;
}

std::string four_of(float v) {
  std::string out;
  for (int i = 0; i < 4; ++i) out.append(reinterpret_cast<const char*>(&v), sizeof v);
  return out;
}

// A file beside the model that is written to while the program is compiled, from before it is read until after it.
TEST(ProgramCache, FilesBesideAModelAreThoseThatWereRead) {
  const std::vector<Tensor> zeros{Tensor::full(std::vector<int64_t>{4}, 0)};
  for (const bool replaced : {false, true}) {
    const Scratch scratch;
    const import::onnx::ModelFolder folder(model_with_external_weight());
    const fs::path w = folder.path() / "w.bin";
    const auto put = [&](float v, int seconds_ago) {
      if (replaced)
        write_file_atomic(w, four_of(v));
      else
        write(w, four_of(v));
      set_time(w, seconds_ago);
    };
    put(1, 1000);
    const compiler::Setup setup = front::setup_of({});
    import::FilesRead others;
    const compiler::ProgramSource source{.graph =
                                             [&] {
                                               auto g = import::load_model(folder.model(), {}, &others);
                                               put(2, 500);
                                               return g;
                                             },
                                         .files = [&] { return others; }};
    const auto key = [&] { return compiler::key_of("a test", setup); };
    EXPECT_EQ(compiler::cached(key, setup, source).run(zeros)[0].to_vector(), std::vector<double>(4, 1));
    EXPECT_EQ(scratch.kept(), 0);
    EXPECT_EQ(compiler::cached(key, setup, source).run(zeros)[0].to_vector(), std::vector<double>(4, 2));
    EXPECT_EQ(scratch.hits(), 0);
  }
}

TEST(ProgramCache, FilesBesideAModelDecide) {
  const Scratch scratch;
  const std::vector<Tensor> zeros{Tensor::full(std::vector<int64_t>{4}, 0)};
  const import::onnx::ModelFolder folder(model_with_external_weight());
  const auto run = [&](float v) {
    EXPECT_EQ(Model::load(folder.model().string()).run(zeros)[0].to_vector(), std::vector<double>(4, static_cast<double>(v)));
  };
  set_time(folder.model(), 1000);
  folder.write("w.bin", four_of(1));
  run(1);
  EXPECT_EQ(scratch.kept(), 0) << "within a tick of the clock its next contents may have the same time";
  set_time(folder.path() / "w.bin", 1000);
  run(1), run(1);
  EXPECT_EQ(scratch.kept(), 1);
  EXPECT_EQ(scratch.hits(), 1);
  folder.write("w.bin", four_of(3)), set_time(folder.path() / "w.bin", 500);
  run(3), run(3);
  EXPECT_EQ(scratch.hits(), 2);
}

// Those who waited in vain compile at once: each of the two is within its compile when the other one is.
TEST(ProgramCache, WhoWaitedInVainCompilesBesideOthers) {
  const Scratch scratch;
  const compiler::Setup setup = front::setup_of({});
  const auto key = [&] { return compiler::key_of("a test", setup); };
  const auto lock_files_open = [&] {
    const auto locks = scratch.files(".lock");
    std::error_code error;
    return std::count_if(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator(),
                         [&](auto& f) { return !locks.empty() && fs::read_symlink(f.path(), error) == locks[0]; });
  };
  const auto until = [](const auto& done) {
    for (int i = 0; i < 500 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  };
  const auto compile = [&](const std::function<bool()>& ready) {
    compiler::cached(key, setup,
                     {.graph =
                          [&] {
                            EXPECT_TRUE(until(ready));
                            return graph::parse("graph \"g\"(%x: f32[2]) {\n  %y: f32[2] = aten.add.Tensor(%x, %x)\n  return %y\n}\n");
                          },
                      .doubt = []() -> std::string { return "it is of a test"; }});
  };
  std::atomic<bool> first_compiles{false};
  std::atomic<int> within{0};
  std::thread first([&] {
    compile([&] {
      first_compiles = true;
      const bool all = lock_files_open() == 3;
      if (all) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // from the opening of the file to the attempt at its lock
      return all;
    });
  });
  ASSERT_TRUE(until([&] { return first_compiles.load(); }));
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      bool counted = false;
      compile([&] {
        within += !std::exchange(counted, true);
        return within == 2;
      });
    });
  first.join();
  for (auto& t : others) t.join();
  EXPECT_EQ(scratch.misses(), 3);
  EXPECT_EQ(scratch.bypasses(), 3);
  EXPECT_EQ(scratch.waits(), 2);
  EXPECT_TRUE(scratch.files(".lock").empty());
}

// The plans of a program and of its blocks.
void expect_options(const exec::Plan& plan, const CompileOptions& options) {
  EXPECT_EQ(plan.options.text(), options.text()) << plan.name;
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) expect_options(*block.plan, options);
}

// An option that only watches is no part of a key: it is that of who runs the program, not of who compiled it.
TEST(ProgramCache, OptionsThatWatchAreThoseOfWhoRuns) {
  const Scratch scratch;
  const std::string model = kModels + "regions/core.pt2";
  const auto options = [](const char* folder) { return ModelOptions{.options = {{"debug_dir", folder}}}; };
  for (const char* folder : {"one", "two", "toroid_debug"})
    expect_options(front::load_model(model, {}, options(folder)).executable().plan(), front::setup_of(options(folder)).options);
  EXPECT_EQ(scratch.hits(), 2);
  const ModelOptions watched{.options = {{"nvtx", "1"}}};
  if (device::cuda::has_nvtx())
    EXPECT_TRUE(front::load_model(model, {}, watched).executable().plan().options.get(options::kNvtx));
  else
    EXPECT_TRUE(contains(test::environment_error([&] { Model::load(model, watched); }), "NVTX"));
}

TEST(ProgramCache, OneLimitIsForAll) {
  const Scratch scratch;
  const ScopedOption limit("cache_size_mb", "1");
  for (const char* name : {"digitsnet", "encoder", "tied", "regions", "numbers_from_data"}) Model::load(kModels + name + "/core.pt2");
  uint64_t bytes = 0;
  for (auto& f : fs::recursive_directory_iterator(scratch.folder.path))
    if (f.is_regular_file()) bytes += f.file_size();
  EXPECT_LE(bytes, uint64_t{1} << 20);
  EXPECT_EQ(scratch.files(".tpk").size(), scratch.files(".key").size());
  const ScopedOption none("cache_size_mb", "0");
  const int64_t bypasses = scratch.bypasses();
  Model::load(kModels + "digitsnet/core.pt2", {.options = {{"isa", "scalar"}}});
  EXPECT_EQ(scratch.bypasses(), bypasses + 1) << "what does not fit is not kept, and that is counted";
}

TEST(ProgramCache, ABundleFillsAnEmptyMachine) {
  TempFolder other;
  const std::string model = kModels + "digitsnet/core.pt2";
  const auto inputs = inputs_of("digitsnet");
  std::vector<Tensor> expected;
  const fs::path bundle = other.path / "bundle.zip";
  {
    const Scratch scratch;
    expected = Model::load(model).run(inputs);
    const auto done = compiler::export_cache(*jit::shared_cache(), bundle);
    EXPECT_EQ(done.programs, 1u);
    EXPECT_GT(done.kernels, 0u);
  }
  {
    const Scratch scratch;
    EXPECT_EQ(compiler::import_cache(*jit::shared_cache(), bundle).programs, 1u);
    Model found = Model::load(model);
    EXPECT_EQ(scratch.hits(), 1);
    EXPECT_EQ(bit_difference(found.run(inputs), expected), "");
  }
  std::string bytes = read(bundle);
  bytes[bytes.find("plans/") + 200] ^= 1;
  write(bundle, bytes);
  const Scratch scratch;
  const auto done = compiler::import_cache(*jit::shared_cache(), bundle);
  EXPECT_EQ(done.programs, 0u);
  ASSERT_EQ(done.refused.size(), 1u);
  EXPECT_TRUE(contains(done.refused[0], "SHA-256")) << done.refused[0];
  EXPECT_EQ(bit_difference(Model::load(model).run(inputs), expected), "");
}

// What a bundle brings takes the place of an entry when it is found whole.
TEST(ProgramCache, ABundleThatIsDamagedLeavesWhatIsThere) {
  const Scratch scratch;
  const std::string model = kModels + "digitsnet/core.pt2";
  Model::load(model);
  const TempFolder other;
  const fs::path bundle = other.path / "bundle.zip";
  compiler::export_cache(*jit::shared_cache(), bundle);
  std::string bytes = read(bundle);
  bytes[bytes.find("plans/") + 200] ^= 1;
  write(bundle, bytes);
  EXPECT_EQ(compiler::import_cache(*jit::shared_cache(), bundle).refused.size(), 1u);
  Model::load(model);
  EXPECT_EQ(scratch.hits(), 1);
  for (auto& f : fs::recursive_directory_iterator(scratch.folder.path))
    EXPECT_FALSE(f.path().filename().string().starts_with(".")) << f.path() << " was left";
}

TEST(ProgramCache, WhatCannotBeReadIsLeftOutOfABundle) {
  const Scratch scratch;
  Model::load(kModels + "digitsnet/core.pt2");
  Model::load(kModels + "encoder/core.pt2");
  const fs::path key = scratch.files(".key")[0];
  fs::remove(key), fs::create_directory(key);
  const TempFolder other;
  const auto done = compiler::export_cache(*jit::shared_cache(), other.path / "bundle.zip");
  EXPECT_EQ(done.programs, 1u);
  ASSERT_EQ(done.refused.size(), 1u);
  EXPECT_TRUE(contains(done.refused[0], key.string())) << done.refused[0];
  const Scratch empty;
  EXPECT_EQ(compiler::import_cache(*jit::shared_cache(), other.path / "bundle.zip").programs, 1u);
}

}  // namespace
}  // namespace toroid
