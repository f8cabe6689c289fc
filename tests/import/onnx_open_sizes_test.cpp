// ONNX operators along sizes that stay open, beside the same ones of known sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/interpreter.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"

namespace toroid::import::onnx {
namespace {

std::unique_ptr<graph::Graph> load(const GraphParts& g) { return load_model(ModelFolder(g.model(18)).model()); }

Message float_tensor(const std::string& name, const std::vector<float>& values) {
  Message t = Message().number(1, static_cast<int64_t>(values.size())).number(2, 1).text(8, name);
  return t.text(9, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

Tensor counting(int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i * i % 7) + static_cast<double>(i));
  return Tensor::of(values, std::vector<int64_t>{n});
}

// x[start:end:step] of x = 0, 1, ..., n - 1, by Python's definition.
std::vector<double> sliced(int64_t n, int64_t start, int64_t end, int64_t step) {
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  const auto place = [&](int64_t v) { return std::clamp(v < 0 ? v + n : v, low, high); };
  std::vector<double> out;
  for (int64_t i = place(start); step < 0 ? i > place(end) : i < place(end); i += step) out.push_back(static_cast<double>(i));
  return out;
}

constexpr int64_t kBounds[] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int32_t>::min(), -6, -2, -1, 0, 1, 2, 5,
                               std::numeric_limits<int32_t>::max(), std::numeric_limits<int64_t>::max()};

// All pairs of bounds, as a result each.
TEST(OnnxOpenSizes, SlicesGoBothWays) {
  for (int64_t step : {-1, -2, -3, -7, 1, 2}) {
    GraphParts open;
    open.initializers = {int64_tensor("axis", {1}, {0}), int64_tensor("step", {1}, {step})};
    for (int64_t b : kBounds) open.initializers.push_back(int64_tensor("at " + std::to_string(b), {1}, {b}));
    for (int64_t start : kBounds)
      for (int64_t end : kBounds) {
        const std::string from = "at " + std::to_string(start), to = "at " + std::to_string(end), y = from + " to " + to;
        open.nodes.push_back(node("Slice", {"x", from, to, "axis", "step"}, {y}));
        open.outputs.push_back(value_info(y, {"count of " + y}));
      }
    open.inputs = {value_info("x", {"n"})};
    const auto graph = load(open);
    for (int64_t n : {1, 2, 3, 5, 6, 9}) {
      GraphParts known = open;
      known.inputs = {value_info("x", {std::to_string(n)})};
      std::vector<double> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i));
      const Tensor x = Tensor::of(values, std::vector<int64_t>{n});
      const auto by_open = graph::interpret(*graph, std::span(&x, 1)), by_known = graph::interpret(*load(known), std::span(&x, 1));
      size_t i = 0;
      for (int64_t start : kBounds)
        for (int64_t end : kBounds) {
          const std::string what =
              std::to_string(start) + ":" + std::to_string(end) + ":" + std::to_string(step) + " of " + std::to_string(n);
          EXPECT_EQ(by_open[i].to_vector(), sliced(n, start, end, step)) << what;
          EXPECT_EQ(by_known[i++].to_vector(), sliced(n, start, end, step)) << what;
        }
    }
  }
}

// Exporters compute the bounds from the size; and what has been turned is cut again.
TEST(OnnxOpenSizes, SlicesBackwardsByComputedBounds) {
  GraphParts g;
  g.inputs = {value_info("x", {"n"})};
  g.outputs = {value_info("all", {"a"}), value_info("some", {"b"})};
  g.initializers = {int64_tensor("one", {1}, {1}), int64_tensor("back", {1}, {-1}), int64_tensor("axis", {1}, {0}),
                    int64_tensor("two", {1}, {2})};
  g.nodes = {node("Shape", {"x"}, {"n"}),
             node("Sub", {"n", "one"}, {"last"}),
             node("Neg", {"n"}, {"less"}),
             node("Sub", {"less", "one"}, {"before"}),
             node("Slice", {"x", "last", "before", "axis", "back"}, {"all"}),
             node("Slice", {"all", "one", "last", "axis", "two"}, {"some"})};
  const auto graph = load(g);
  for (int64_t n : {1, 2, 3, 8}) {
    const Tensor x = counting(n);
    std::vector<double> turned = x.to_vector(), some;
    std::reverse(turned.begin(), turned.end());
    for (int64_t i = 1; i < n - 1; i += 2) some.push_back(turned[static_cast<size_t>(i)]);
    const auto out = graph::interpret(*graph, std::span(&x, 1));
    EXPECT_EQ(out[0].to_vector(), turned);
    EXPECT_EQ(out[1].to_vector(), some);
  }
}

Message text_attribute(const std::string& name, const std::string& value) { return Message().text(1, name).text(4, value).number(20, 3); }

GraphParts resized(const std::string& size, float scale, const std::string& mode, const std::string& nearest, const std::string& places) {
  GraphParts g;
  g.inputs = {value_info("x", {size})};
  g.outputs = {value_info("y", {"m"})};
  g.initializers = {float_tensor("scale", {scale})};
  g.nodes = {node(
      "Resize", {"x", "", "scale"}, {"y"},
      {text_attribute("mode", mode), text_attribute("nearest_mode", nearest), text_attribute("coordinate_transformation_mode", places)})};
  return g;
}

struct Factor {
  float scale;
  int64_t numerator, denominator;
};

TEST(OnnxOpenSizes, ResizesByAnyFactor) {
  const Factor factors[] = {{1.5F, 3, 2},   {0.75F, 3, 4},    {0.7F, 7, 10}, {1.3F, 13, 10}, {2.3F, 23, 10},
                            {1.1F, 11, 10}, {1.0F / 3, 1, 3}, {2, 2, 1},     {0.5F, 1, 2},   {0.625F, 5, 8}};
  const std::vector<std::vector<std::string>> ways = {
      {"nearest", "floor", "asymmetric"},        {"nearest", "round_prefer_floor", "half_pixel"},
      {"nearest", "ceil", "pytorch_half_pixel"}, {"linear", "floor", "half_pixel"},
      {"linear", "floor", "pytorch_half_pixel"}, {"linear", "floor", "align_corners"},
      {"cubic", "floor", "half_pixel"},          {"cubic", "floor", "align_corners"},
      {"cubic", "floor", "asymmetric"}};
  for (const Factor& f : factors)
    for (auto& way : ways) {
      const auto open = load(resized("n", f.scale, way[0], way[1], way[2]));
      for (int64_t n : {4, 5, 10, 11, 20, 30}) {
        const Tensor x = counting(n);
        const Tensor got = graph::interpret(*open, std::span(&x, 1))[0];
        const Tensor expected = graph::interpret(*load(resized(std::to_string(n), f.scale, way[0], way[1], way[2])), std::span(&x, 1))[0];
        ASSERT_EQ(got.sizes(), (std::vector<int64_t>{n * f.numerator / f.denominator})) << n << " by " << f.scale;
        ASSERT_EQ(expected.sizes(), got.sizes()) << n << " by " << f.scale;
        for (size_t i = 0; i < got.to_vector().size(); ++i)
          EXPECT_NEAR(got.to_vector()[i], expected.to_vector()[i], 1e-4)
              << n << " by " << f.scale << ", " << way[0] << ", " << way[2] << ": " << i;
      }
    }
}

// What a factor is as it stands, where it is none of few digits.
TEST(OnnxOpenSizes, ResizesByNumbersThatAreNoFractions) {
  for (float scale : {3.14159265F, 0.123456789F, 1.00000012F, 17.0000019F}) {
    const auto open = load(resized("n", scale, "nearest", "floor", "asymmetric"));
    for (int64_t n : {9, 50, 333}) {
      const Tensor x = counting(n);
      EXPECT_EQ(graph::interpret(*open, std::span(&x, 1))[0].numel(),
                static_cast<int64_t>(std::floor(static_cast<double>(scale) * static_cast<double>(n))))
          << n << " by " << scale;
    }
  }
  for (float scale : {0.0F, -2.0F, 1e-30F, 1e30F})
    EXPECT_TRUE(refuses([&] { load(resized("n", scale, "nearest", "floor", "asymmetric")); }, "a size is resized by")) << scale;
}

}  // namespace
}  // namespace toroid::import::onnx
