// What the command says about wrong files, wrong words and a machine that refuses: what, where, and what to do; never a crash.
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "cli/harness.h"
#include "import/safetensors.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace test;

constexpr int kUser = 2, kEnvironment = 3;

class BadCall : public testing::Test {
 protected:
  ~BadCall() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // A safetensors file of zeros.
  std::string tensors(const std::vector<std::string>& names, const std::vector<int64_t>& sizes = {2, 12, 32}, DType dtype = DType::F32) {
    std::vector<import::SafetensorsItem> items;
    std::vector<std::byte> zeros(2 * 12 * 32 * 8);
    size_t bytes = size_of(dtype);
    for (int64_t s : sizes) bytes *= static_cast<size_t>(s);
    for (auto& name : names) items.push_back({name, dtype, sizes, std::span(zeros).first(bytes)});
    import::write_safetensors(path("x"), items);
    return path("x");
  }

  Outcome run(const std::string& arguments, const std::string& before = "") const {
    return toroid_command("run " + model_ + "/core.pt2 " + arguments, before);
  }

  const fs::path folder_ = make_temp_dir();
  const std::string model_ = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder";
  const std::string good_ = "--inputs " + model_ + "/in.safetensors --expect " + model_ + "/out.safetensors";
};

#define EXPECT_SAYS(outcome, exit_code, part) \
  do { \
    const Outcome o = (outcome); \
    EXPECT_EQ(o.code, exit_code) << o.text; \
    EXPECT_NE(o.text.find(part), std::string::npos) << o.text; \
    EXPECT_EQ(o.text.find("bug in Toroid"), std::string::npos) << o.text; \
  } while (false)

TEST_F(BadCall, InputsThatDoNotFit) {
  EXPECT_SAYS(run("--inputs " + tensors({"000"}, {2, 12, 32}, DType::F64)), kUser, "input 0 (\"src\") has dtype f64; f32 is expected");
  EXPECT_SAYS(run("--inputs " + tensors({"000"}, {2, 12, 31})), kUser, "has size 31 in dimension 2; 32 is expected");
  EXPECT_SAYS(run("--inputs " + tensors({"000"}, {2, 12})), kUser, "has 2 dimensions; 3 are expected: f32[2, 12, 32]");
  EXPECT_SAYS(run("--inputs " + tensors({"000", "001"})), kUser, "takes 1 inputs, 2 were given");
  EXPECT_SAYS(run("--inputs " + tensors({})), kUser, "takes 1 tensors (src), 0 were given");
}

TEST_F(BadCall, PlacesWithoutATensor) {
  EXPECT_SAYS(run("--inputs " + tensors({"003"})), kUser, "there is a tensor \"003\", but none for the place \"000\"");
  EXPECT_SAYS(run("--inputs " + tensors({"000", "call1.001"})), kUser, "\"call1.001\", but none for the place \"call1.000\"");
  EXPECT_SAYS(run("--inputs " + tensors({"000", "call3.000"})), kUser, "there are tensors for call 3, but none for call 1");
  EXPECT_SAYS(run("--inputs " + tensors({"scr"})), kUser, "should be named by its place");
}

TEST_F(BadCall, InputsByName) {
  EXPECT_SAYS(run("--inputs " + tensors({"src"})), 0, "output 0: f32[");
  EXPECT_SAYS(run("--inputs " + tensors({"src", "call1.src"})), 0, "of call 1");
  EXPECT_SAYS(run("--inputs " + tensors({"src", "000"})), kUser, "has the place 000 of its call, which another one has too");
  EXPECT_SAYS(run("--inputs " + tensors({"scr"})), kUser, "or as the model names it: src; did you mean \"src\"?");
  EXPECT_SAYS(run("--inputs " + tensors({"call1.scr"})), kUser, "did you mean \"src\"?");
}

// Files are what they hold, whatever they are called.
TEST_F(BadCall, TensorsByContents) {
  const Outcome shown = toroid_command("inspect " + tensors({"000"}));
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_NE(shown.text.find("1 tensors"), std::string::npos) << shown.text;
  write_file_atomic(path("shards"), R"( {"weight_map": {"000": "x"}})");
  const Outcome shards = toroid_command("inspect " + path("shards"));
  EXPECT_EQ(shards.code, 0) << shards.text;
  EXPECT_NE(shards.text.find("000: f32[2, 12, 32]"), std::string::npos) << shards.text;
  EXPECT_SAYS(run("--inputs " + path("shards")), 0, "output 0: f32[");
  write_file_atomic(path("cut.st"), read_file(path("x")).substr(0, 40));
  EXPECT_SAYS(toroid_command("inspect " + path("cut.st")), kUser, "this is no model that Toroid reads");
}

// One sentence in all commands.
TEST_F(BadCall, MissingFiles) {
  const std::vector<std::string> commands = {"inspect",
                                             "verify",
                                             "bench",
                                             "why",
                                             "tune",
                                             "bisect",
                                             "opt",
                                             "train",
                                             "doctor",
                                             "cache import",
                                             "compile -o " + path("y.tpk"),
                                             "run --inputs " + model_ + "/in.safetensors",
                                             "run " + model_ + "/core.pt2 --inputs"};
  for (auto& command : commands)
    for (const char* name : {"none.onnx", "none.safetensors", "none.tar.zst", "none/none.pt2"}) {
      const Outcome o = toroid_command(command + " " + path(name));
      EXPECT_NE(o.code, 0) << command;
      EXPECT_NE(o.text.find(path(name) + "\": No such file or directory; check the path"), std::string::npos) << command << ": " << o.text;
    }
}

TEST_F(BadCall, NothingToCompareWith) {
  const std::string inputs = "--inputs " + model_ + "/in.safetensors --expect ";
  EXPECT_SAYS(run(inputs + tensors({})), kUser, "no tensors here to compare the outputs with");
  EXPECT_SAYS(run(inputs + tensors({"000", "call1.000"})), kUser, "there are outputs of call 1, but the inputs are those of 1 call");
}

TEST_F(BadCall, OutputsByName) {
  const std::string inputs = "--inputs " + model_ + "/in.safetensors --json --expect ";
  EXPECT_SAYS(run(inputs + tensors({"output"})), 1, "{\"matches\":false}");
  EXPECT_SAYS(run(inputs + tensors({"ouput"})), kUser, "did you mean \"output\"?");
}

TEST_F(BadCall, WhetherOutputsMatchIsSaid) {
  EXPECT_SAYS(run(good_ + " --json"), 0, "{\"matches\":true}");
  EXPECT_SAYS(run("--inputs " + model_ + "/in.safetensors --json --expect " + tensors({"000"})), 1, "{\"matches\":false}");
  EXPECT_EQ(run("--inputs " + model_ + "/in.safetensors --json").text.find("matches"), std::string::npos);
  for (const char* tolerance : {"-1", "-1e-9", "nan"}) {
    EXPECT_SAYS(run(good_ + " --tolerance " + tolerance), kUser, "--tolerance: expected 0 or more");
    EXPECT_SAYS(toroid_command("verify " + model_ + " --tolerance " + tolerance), kUser, "--tolerance: expected 0 or more");
  }
}

// A file has its own.
TEST_F(BadCall, SizesOfBuiltInModels) {
  for (const char* option : {"--batch 4", "--batch 1", "--seq 50", "--dtype bf16", "--layers 2", "--decode", "--position 3"})
    for (const char* command : {"bench ", "tune "})
      EXPECT_SAYS(
          toroid_command(std::string(command) + model_ + "/core.pt2 " + option), kUser,
          std::string(option).substr(0, std::string(option).find(' ')) + " is of built-in models; the sizes and dtypes of a model file");
  EXPECT_SAYS(toroid_command("bench " + model_ + "/core.pt2 --seq 2 --batch 4"), kUser, "--seq, --batch are of built-in models");
}

TEST_F(BadCall, ModelsCutShort) {
  const std::string whole = read_file(model_ + "/core.pt2");
  for (size_t length : {size_t{0}, size_t{3}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(path("cut.pt2")) << whole.substr(0, length);
    EXPECT_SAYS(toroid_command("inspect " + path("cut.pt2")), kUser, "cut.pt2: ");
  }
}

TEST_F(BadCall, WordsThatAreNone) {
  EXPECT_SAYS(toroid_command("--verson"), kUser, "there is no option \"--verson\"");
  EXPECT_SAYS(run(good_ + " --backend compild"), kUser, "did you mean \"compiled\"");
  const Outcome input = run("--input x");
  EXPECT_SAYS(input, kUser, "run has no option \"--input\"; did you mean \"--inputs\"?");
  EXPECT_SAYS(input, kUser, "Try `toroid run --help`.");
  EXPECT_EQ(input.text.find("is required"), std::string::npos) << input.text;
  EXPECT_SAYS(run("--outputs x"), kUser, "--inputs is required");
  EXPECT_SAYS(toroid_command("rnu"), kUser, "Try `toroid --help`.");
  const std::string program = std::string(TOROID_SOURCE_DIR) + "/tests/data/programs/fuse.txt";
  EXPECT_SAYS(toroid_command("opt " + program + " --passes fuse"), 0, "v2: f32 = reduce sum v1");
  EXPECT_SAYS(toroid_command("opt " + program + " --passes fuze"), kUser, "expected some of inline_defaults, fuse");
  EXPECT_SAYS(toroid_command("opt " + std::string(TOROID_SOURCE_DIR) + "/tests/data/graph/views.txt --passes dcee"), kUser,
              "there is no graph pass \"dcee\"; did you mean");
  EXPECT_SAYS(toroid_command("verify " + model_ + "/core.pt2"), kUser, "this is a file; expected a folder of cases");
  EXPECT_NE(toroid_command("doctor", "TOROID_CACHE_DIRR=x")
                .text.find("TOROID_CACHE_DIRR: there is no such option; did you mean \"TOROID_CACHE_DIR\""),
            std::string::npos);
}

// Kernels that cannot be kept are no reason to fail; whoever asks is told.
TEST_F(BadCall, CachesThatCannotBeWritten) {
  std::ofstream(path("file")) << "in the way";
  const std::string blocked = "TOROID_CACHE_DIR=" + path("file");
  EXPECT_SAYS(run(good_, blocked), 0, "all outputs match");
  EXPECT_SAYS(run(good_, blocked), 0, "note: compiled code is not kept: ");
  EXPECT_SAYS(run(good_, "TOROID_LOGS=cache " + blocked), 0, "was compiled but not kept: cannot create the folder");
  EXPECT_SAYS(toroid_command("cache stats", blocked), kEnvironment, "cannot read the folder of the cache");
  EXPECT_SAYS(toroid_command("doctor", blocked), kEnvironment, "kernels are not kept: ");
  // A file may be made, but not grow: what a full disk does.
  const std::string full = "trap '' XFSZ; ulimit -f 0; TOROID_LOGS=cache TOROID_CACHE_DIR=" + path("full");
  EXPECT_SAYS(run(good_, full), 0, "all outputs match");
  EXPECT_SAYS(run(good_, full), 0, "check the disk space");
  EXPECT_SAYS(run(good_, "TOROID_CACHE_DIR=" + path("full")), 0, "all outputs match");
}

TEST_F(BadCall, ResultsThatCannotBeWritten) {
  EXPECT_SAYS(run(good_ + " --outputs " + path("none/out.safetensors")), kEnvironment, "\" does not exist; create it");
  EXPECT_SAYS(run(good_ + " > /dev/full"), kEnvironment, "cannot write to the standard output: No space left on device");
}

}  // namespace
}  // namespace toroid
