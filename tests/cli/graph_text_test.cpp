// The text of a graph in place of a model file; all passes of a pipeline at once.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/harness.h"
#include "errors.h"
#include "import/json.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

using namespace test;

constexpr const char* kGraph = R"(
graph "g"(%x: f32[s0, 6], param %w: f32[6, 4]) symbols(s0 in 2..100) {
  %t: f32[6, s0] = permute(%x, dims=[1, 0])
  %u: f32[s0, 6] = permute(%t, dims=[1, 0])
  %p: f32[s0, 4] = mm(%u, %w)
  %r: f32[s0, 4] = add.Scalar(%p, other=2.0)
  return %r
})";

class GraphText : public testing::Test {
 protected:
  std::string file(const std::string& text) const {
    std::ofstream(folder_ / "g.txt") << text;
    return folder_ / "g.txt";
  }
  static void expect_json(const std::string& arguments, const std::function<void(const import::Json&)>& use) {
    const Outcome o = toroid_command(arguments + " --json 2>/dev/null");
    ASSERT_EQ(o.code, 0) << arguments << "\n" << o.text;
    const auto document = import::JsonDocument::parse(o.text, arguments);
    use(document.root());
  }
  const TempFolder folder_;
};

TEST_F(GraphText, CommandsTakeIt) {
  const std::string path = file(kGraph);
  expect_json("inspect " + path, [](const import::Json& r) {
    EXPECT_EQ(r.at("nodes").as_int(), 4);
    EXPECT_EQ(r.at("inputs")[1].at("kind").as_str(), "parameter");
  });
  expect_json("why " + path, [](const import::Json& r) {
    EXPECT_EQ(r.at("cache").as_str(), "graphs in text are not kept");
    EXPECT_GT(r.at("kernels").as_int(), 0);
  });
  expect_json("bench --iterations 2 " + path, [](const import::Json& r) { EXPECT_GT(r.at("compiled").at("median_ms").as_double(), 0); });
  save_tensors(folder_ / "in.safetensors", {{"x", ones({9, 6})}});
  expect_json("bench --iterations 2 --inputs " + (folder_ / "in.safetensors") + " " + path,
              [](const import::Json& r) { EXPECT_GT(r.at("compiled").at("median_ms").as_double(), 0); });
  EXPECT_TRUE(contains(toroid_command("bench --iterations 2 --inputs " + (folder_ / "in.safetensors") + " " + path).text, "kernel"));
  EXPECT_EQ(toroid_command("bisect " + path).code, 0);
}

// Plain numbers lie in memory as the graph has them.
TEST_F(GraphText, InputsHaveItsStrides) {
  const std::string path = file(R"(
graph "g"(%x: f32[4, 3, 2] strides(0, 2, 6), %n: i64[5] strides(3), %e: f32[0, 3]) {
  %s: f32[4, 3] = sum.dim_IntList(%x, dim=[2])
  %m: i64[5] = neg(%n)
  return %s, %m, %e
})");
  expect_json("bench --iterations 2 " + path, [](const import::Json& r) { EXPECT_GT(r.at("compiled").at("median_ms").as_double(), 0); });
  EXPECT_EQ(toroid_command("bisect " + path).code, 0);
}

// What inspect prints of a model is a graph that the others read.
TEST_F(GraphText, OfAModelGoesAround) {
  const std::string model = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/core.pt2";
  const std::string text = toroid_command("inspect --graph " + model).text, path = file(text);
  EXPECT_EQ(toroid_command("inspect --graph " + path).text, text);
  expect_json("why " + model, [&](const import::Json& a) {
    expect_json("why " + path, [&](const import::Json& b) { EXPECT_EQ(a.at("kernels").as_int(), b.at("kernels").as_int()); });
  });
}

TEST_F(GraphText, WrongTextIsTold) {
  const std::string cut = std::string(kGraph).substr(0, 120),
                    wrong = std::string(kGraph).replace(std::string(kGraph).find("6, s0]"), 6, "7, s0]");
  for (const std::string& text : {cut, wrong})
    for (const char* command : {"inspect ", "why ", "opt "}) {
      const Outcome o = toroid_command(command + file(text));
      EXPECT_EQ(o.code, 2) << o.text;
      EXPECT_TRUE(contains(o.text, "g.txt: ")) << o.text;
    }
  EXPECT_EQ(toroid_command("why " + file("no graph")).code, 2);
}

TEST_F(GraphText, OptRunsTheWholePipeline) {
  const Outcome o = toroid_command("opt --pipeline " + file(kGraph));
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_FALSE(contains(o.text, "permute")) << o.text;
  EXPECT_FALSE(contains(o.text, "add.Scalar")) << "it is decomposed: " << o.text;
  const Outcome p = toroid_command("opt --pipeline " + std::string(TOROID_SOURCE_DIR) + "/tests/data/programs/fuse.txt");
  EXPECT_EQ(p.code, 0) << p.text;
  EXPECT_TRUE(contains(p.text, "v2: f32 = reduce sum v1")) << p.text;
  EXPECT_EQ(toroid_command("opt --pipeline --passes dce " + file(kGraph)).code, 2);
}

}  // namespace
}  // namespace toroid
