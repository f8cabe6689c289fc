// `toroid verify` and its sisters from outside: the program that lies beside this test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "base/files.h"
#include "cli/harness.h"
#include "import/safetensors.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace test;

struct Item {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  std::string bytes;

  float* f32() { return reinterpret_cast<float*>(bytes.data()); }
};
using Items = std::vector<Item>;

Items read_items(const fs::path& path) {
  auto reader = import::SafetensorsReader::open(path);
  Items out;
  for (auto& r : reader.tensors()) {
    auto b = r.bytes();
    out.push_back({r.name, r.dtype, r.sizes, std::string(reinterpret_cast<const char*>(b.data()), b.size())});
  }
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return out;
}

void write_items(const fs::path& path, const Items& items) {
  std::vector<import::SafetensorsItem> out;
  for (auto& i : items) out.push_back({i.name, i.dtype, i.sizes, std::as_bytes(std::span(i.bytes))});
  import::write_safetensors(path, out);
}

const fs::path kModels = fs::path(TOROID_SOURCE_DIR) / "tests/data/models";

// A folder of cases that disappears with the test.
class Verify : public testing::Test {
 protected:
  void SetUp() override { folder_ = make_temp_dir(); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path add_case(const std::string& name, const std::string& model = "digitsnet", const std::string& file = "core.pt2") {
    fs::path to = folder_ / name;
    fs::create_directory(to);
    for (const char* f : {"in.safetensors", "out.safetensors"}) fs::copy_file(kModels / model / f, to / f);
    fs::copy_file(kModels / model / file, to / file);
    return to;
  }
  void plant(const std::string& name, const std::function<void(Items&)>& corrupt, const std::string& model = "digitsnet") {
    fs::path to = add_case(name, model);
    Items items = read_items(to / "out.safetensors");
    corrupt(items);
    write_items(to / "out.safetensors", items);
  }
  Outcome verify(const std::string& more = "") { return toroid_command("verify --backend interpreter " + folder_.string() + " " + more); }

  fs::path folder_;
};

TEST_F(Verify, PassesWhatPyTorchComputed) {
  add_case("a");
  add_case("b", "encoder", "train.pt2");
  auto out = verify();
  EXPECT_EQ(out.code, 0);
  EXPECT_EQ(out.text, "2 passed, 0 failed, 0 refused\n");
}

TEST_F(Verify, FindsEveryPlantedFault) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  auto largest = [](Item& t) {
    size_t best = 0, n = t.bytes.size() / 4;
    for (size_t i = 0; i < n; ++i)
      if (std::abs(t.f32()[i]) > std::abs(t.f32()[best])) best = i;
    return best;
  };
  std::vector<std::pair<std::string, std::function<void(Items&)>>> faults = {
      {"first_element", [](Items& v) { v[0].f32()[0] += 1; }},
      {"last_element", [](Items& v) { v[0].f32()[v[0].bytes.size() / 4 - 1] -= 1; }},
      {"small_error", [&](Items& v) { v[0].f32()[largest(v[0])] *= 1.001f; }},
      {"sign", [&](Items& v) { v[0].f32()[largest(v[0])] *= -1; }},
      {"all_signs",
       [](Items& v) {
         for (size_t i = 0; i < v[0].bytes.size() / 4; ++i) v[0].f32()[i] *= -1;
       }},
      {"scaled",
       [](Items& v) {
         for (size_t i = 0; i < v[0].bytes.size() / 4; ++i) v[0].f32()[i] *= 1.01f;
       }},
      {"shifted", [](Items& v) { std::memmove(v[0].f32() + 1, v[0].f32(), v[0].bytes.size() - 4); }},
      {"zeros", [](Items& v) { std::fill(v[0].bytes.begin(), v[0].bytes.end(), '\0'); }},
      {"nan", [&](Items& v) { v[0].f32()[1] = kNan; }},
      {"infinity", [&](Items& v) { v[0].f32()[1] = kInf; }},
      {"minus_infinity", [&](Items& v) { v[0].f32()[1] = -kInf; }},
      {"all_nan",
       [&](Items& v) {
         for (size_t i = 0; i < v[0].bytes.size() / 4; ++i) v[0].f32()[i] = kNan;
       }},
      {"dtype", [](Items& v) { v[0].dtype = DType::I32; }},
      {"flattened", [](Items& v) { v[0].sizes = {static_cast<int64_t>(v[0].bytes.size() / 4)}; }},
      {"extra_dimension", [](Items& v) { v[0].sizes.insert(v[0].sizes.begin(), 1); }},
      {"transposed_sizes", [](Items& v) { std::reverse(v[0].sizes.begin(), v[0].sizes.end()); }},
      {"shorter", [](Items& v) { v[0].sizes = {1}, v[0].bytes.resize(4); }},
      {"missing_output", [](Items& v) { v[0].name = "001"; }},
      {"extra_output", [](Items& v) { v.push_back(v[0]), v.back().name = "001"; }},
      {"second_call", [](Items& v) { v.push_back(v[0]), v.back().name = "call1.000"; }},
  };
  for (auto& [name, corrupt] : faults) plant(name, corrupt);
  auto out = verify();
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("0 passed, 20 failed, 0 refused\n"), std::string::npos) << out.text;
  for (auto& [name, corrupt] : faults) EXPECT_NE(out.text.find(name + "/core.pt2: "), std::string::npos) << name << "\n" << out.text;
}

TEST_F(Verify, NamesTheElementThatDiffers) {
  plant("one", [](Items& v) { v[0].f32()[11] += 3; });
  auto out = verify();
  EXPECT_NE(out.text.find("one/core.pt2: output 0: at [1, 1] got "), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("1 of "), std::string::npos) << out.text;
}

TEST_F(Verify, RefusesWhatIsNoModelAndGoesOn) {
  fs::path broken = add_case("broken");
  std::ofstream(broken / "core.pt2") << "PK\3\4 and nothing more";
  add_case("good");
  auto out = verify("--jobs 2");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("broken/core.pt2: refused: "), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("1 passed, 0 failed, 1 refused\n"), std::string::npos) << out.text;
}

TEST_F(Verify, JsonCountsTheCases) {
  add_case("a");
  auto out = verify("--json");
  EXPECT_NE(out.text.find("{\"passed\":1,\"failed\":0,\"refused\":0,"), std::string::npos) << out.text;
}

TEST_F(Verify, AFolderWithoutCasesIsTheCallersMistake) {
  auto out = verify();
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("no folder here holds"), std::string::npos) << out.text;
}

TEST(Command, TeachesNearNames) {
  auto out = toroid_command("verfy x");
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("there is no command \"verfy\"; did you mean \"verify\""), std::string::npos) << out.text;
  out = toroid_command("verify x --bakcend interpreter");
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("--backend"), std::string::npos) << out.text;
  out = toroid_command("verify " + kModels.string() + " --backend interpretr");
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("did you mean \"interpreter\""), std::string::npos) << out.text;
}

TEST(Command, RunComparesWithExpectedOutputs) {
  std::string model = (kModels / "encoder").string();
  auto out = toroid_command("run " + model + "/core.pt2 --backend interpreter --inputs " + model + "/in.safetensors --expect " + model +
                            "/out.safetensors");
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("all outputs match"), std::string::npos) << out.text;
  out = toroid_command("run absent.pt2 --inputs x");
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("absent.pt2"), std::string::npos) << out.text;
}

TEST(Command, InspectShowsInputsAndOperations) {
  auto out = toroid_command("inspect " + (kModels / "tied/core.pt2").string());
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("input "), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("operations:"), std::string::npos) << out.text;
}

}  // namespace
}  // namespace toroid
