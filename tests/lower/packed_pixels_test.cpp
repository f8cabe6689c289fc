// Convolutions of few channels from packed pixels, and the gradients of their weights, mean what the operations are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/interpreter.h"
#include "lower/lowering.h"
#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "samples.h"

namespace toroid::lower {
namespace {

// Takes convolutions whose channels lie side by side, a multiple of 64 of them.
struct WideChannels : target::Target {
  WideChannels() : Target({.copies_pieces = true}) {}
  std::string refusal(const program::Problem& problem, const target::Question&) const override {
    const auto* c = std::get_if<program::Convolution>(&problem);
    if (!c) return "others are loops";
    const Expr channels = program::is_weight_gradient(*c) ? c->n : Expr(c->in_channels);
    return sym::known_multiple(channels, 64) ? "" : "few channels";
  }
};

struct Case {
  int64_t images, channels, height, width, results, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  bool packed;
};

// Whole numbers, whose products and sums are exact.
Tensor whole_numbers(const std::vector<int64_t>& sizes, uint32_t seed) {
  int64_t count = 1;
  for (int64_t n : sizes) count *= n;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<double>(seed >> 16 & 3) - 1);
  }
  return Tensor::of(values, sizes, DType::BF16);
}

size_t problems(const program::Program& p) {
  return static_cast<size_t>(
      std::count_if(p.nodes.begin(), p.nodes.end(), [](auto& n) { return program::is_a<program::Convolution>(n.problem); }));
}

void expect_same(const graph::Graph& g, const std::vector<Tensor>& inputs, size_t templates) {
  const WideChannels target;
  const program::Program p = lower(g, {.target = &target});
  program::verify(p, program::Stage::Lowered, "lowering");
  EXPECT_EQ(problems(p), templates);
  EXPECT_EQ(program::to_string(program::parse(program::to_string(p))), program::to_string(p));
  const auto got = program::interpret(p, inputs), want = graph::interpret(g, inputs);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].to_vector(), want[i].to_vector()) << "result " << i;
}

TEST(PackedPixels, MeanTheConvolutionAndItsGradient) {
  const std::vector<Case> cases = {{1, 4, 41, 43, 1, 6, 9, 2, 3, 1, 4, true},    // no squares
                                   {1, 3, 33, 31, 2, 7, 7, 2, 2, 3, 3, true},    // the first layer of a ResNet
                                   {2, 2, 29, 50, 1, 8, 5, 4, 2, 3, 0, true},    // two images
                                   {1, 3, 66, 75, 1, 11, 11, 4, 4, 2, 2, true},  // pixels of 48 elements
                                   {1, 1, 18, 17, 1, 5, 5, 1, 1, 2, 2, false},   // one element in eight of a packed pixel is used
                                   {1, 1, 66, 70, 1, 4, 4, 4, 4, 0, 0, false},   // windows that do not overlap
                                   {1, 3, 18, 17, 1, 3, 3, 1, 1, 1, 1, false},   // more zeros than weights
                                   {1, 5, 33, 31, 1, 3, 3, 2, 2, 1, 1, false},   // too many channels
                                   {1, 3, 30, 31, 1, 7, 7, 2, 2, 3, 3, false}};  // too few results
  for (size_t i = 0; i < test::samples(cases.size()); ++i) {
    const Case& c = cases[i];
    const int64_t out_h = (c.height + 2 * c.pad_h - c.kernel_h) / c.stride_h + 1,
                  out_w = (c.width + 2 * c.pad_w - c.kernel_w) / c.stride_w + 1;
    SCOPED_TRACE(fmt::format("{} x {} by {} x {}, {} channels", c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.channels));
    const std::string x = fmt::format("bf16[{}, {}, {}, {}]", c.images, c.channels, c.height, c.width),
                      w = fmt::format("bf16[{}, {}, {}, {}]", c.results, c.channels, c.kernel_h, c.kernel_w),
                      y = fmt::format("bf16[{}, {}, {}, {}]", c.images, c.results, out_h, out_w),
                      window = fmt::format("[{}, {}], [{}, {}], [1, 1]", c.stride_h, c.stride_w, c.pad_h, c.pad_w);
    const auto both = graph::parse(fmt::format(R"(
graph "g"(%x: {0}, %w: {1}, %b: bf16[{4}], %g: {2}) {{
  %y: {2} = convolution(%x, %w, %b, {3}, false, [0, 0], 1)
  %d: {1} = prims.convolution_weight_gradient(%x, [{4}, {5}, {6}, {7}], %g, {3}, 1)
  return %y, %d
}}
)",
                                               x, w, y, window, c.results, c.channels, c.kernel_h, c.kernel_w));
    const std::vector<Tensor> inputs = {whole_numbers({c.images, c.channels, c.height, c.width}, 1),
                                        whole_numbers({c.results, c.channels, c.kernel_h, c.kernel_w}, 2), whole_numbers({c.results}, 3),
                                        whole_numbers({c.images, c.results, out_h, out_w}, 4)};
    expect_same(*both, inputs, c.packed ? 2 : 0);
    // Weights that are known are packed when the program is compiled.
    graph::Input& weight = both->inputs[1];
    weight.kind = graph::InputKind::Constant, weight.data = inputs[1];
    expect_same(*both, {inputs[0], inputs[2], inputs[3]}, c.packed ? 2 : 0);
  }
}

}  // namespace
}  // namespace toroid::lower
