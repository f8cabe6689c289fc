#include "codegen/cuda/templates/conv_depthwise.h"

#include <fmt/core.h>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/conv_depthwise.cu.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

constexpr int kThreads = 128;

// Neighbouring channels that one access reads.
int width_of(const program::Convolution& c) {
  program::Convolution all = c;
  all.groups = 1;
  return conv_input_width(all);
}

// Taps of a row that are kept in registers.
constexpr int64_t kMostColumns = 16;

bool is_wide_line(const program::Convolution& c) {
  return c.kernel_w > kMostColumns && c.kernel_h == 1 && c.in_h == Expr(1) && c.out_h == Expr(1);
}

// A line as a column, whose taps are a loop.
program::Convolution upright(program::Convolution c) {
  std::swap(c.in_h, c.in_w);
  std::swap(c.out_h, c.out_w);
  std::swap(c.kernel_h, c.kernel_w);
  std::swap(c.stride_h, c.stride_w);
  std::swap(c.pad_h, c.pad_w);
  std::swap(c.dilation_h, c.dilation_w);
  std::swap(c.input.strides[2], c.input.strides[3]);
  return c;
}

}  // namespace

std::string conv_depthwise_refusal(const program::Convolution& c) {
  if (!is_depthwise(c) || conv_group_out(c) != 1) return "channels come together";
  if (!is_half(c.input.dtype) && c.input.dtype != DType::F32) return "operands are not bf16, f16 or f32";
  if (c.input.dtype != c.weight.dtype) return "operands of two types";
  if (!(c.input.strides[1] == Expr(1))) return "channels are not contiguous";
  return c.kernel_w > kMostColumns && !is_wide_line(c) ? "a wide window" : "";
}

ConvDepthwiseTile choose_conv_depthwise_tile(const program::Convolution& c, int64_t pixels) {
  // Pixels of a thread share columns of the input, as long as there are threads for all multiprocessors.
  constexpr int64_t kManyThreads = 132 * 1024;
  ConvDepthwiseTile t;
  if (is_wide_line(c)) return t;
  while (t.pixels < 4 && pixels / (t.pixels * 2) * (c.out_channels / width_of(c)) >= kManyThreads) t.pixels *= 2;
  return t;
}

KernelText generate_conv_depthwise(const program::Node& node, const program::Convolution& problem, int weight,
                                   const ConvDepthwiseTile& tile, bool overlaps) {
  const program::Convolution c = is_wide_line(problem) ? upright(problem) : problem;
  CudaArguments arguments;
  const int width = width_of(c), count = tile.pixels;
  auto size = [&](const Expr& e) { return cuda_size(arguments, e); };
  const auto n = [](int64_t x) { return std::to_string(x); };
  const std::vector<std::string> at = {"m", "c"};
  const CudaPoints epilogue = cuda_epilogue(arguments, conv_points(node, problem, false), at, "sums[p]", width);
  std::string input = arguments.pointer(c.input.buffer, c.input.dtype), convert;
  if (!(c.input.offset == Expr(0))) input += " + " + size(c.input.offset);
  if (is_half(c.input.dtype)) arguments.need(convert = fmt::format("s_cvt_{}_f32", name_of(c.input.dtype)));
  const Expr rows = c.n * c.out_h;
  const std::string body =
      expand(conv_depthwise_cu::kText, {{"CHANNELS", n(c.out_channels)},
                                        {"WIDTH", n(width)},
                                        {"PIXELS", n(count)},
                                        {"TAPS_H", n(c.kernel_h)},
                                        {"TAPS_W", n(c.kernel_w)},
                                        {"UNROLL", c.kernel_h <= 7 ? "" : "1"},
                                        {"THREADS", n(kThreads)},
                                        {"STEP_H", n(c.stride_h)},
                                        {"STEP_W", n(c.stride_w)},
                                        {"PAD_H", n(c.pad_h)},
                                        {"PAD_W", n(c.pad_w)},
                                        {"DILATION_H", n(c.dilation_h)},
                                        {"DILATION_W", n(c.dilation_w)},
                                        {"OUT_H", size(c.out_h)},
                                        {"OUT_W", size(c.out_w)},
                                        {"IN_H", size(c.in_h)},
                                        {"IN_W", size(c.in_w)},
                                        {"ROWS", size(rows)},
                                        {"STRIDE_N", size(c.input.strides[0])},
                                        {"STRIDE_H", size(c.input.strides[2])},
                                        {"STRIDE_W", size(c.input.strides[3])},
                                        {"TYPE", memory_type(c.input.dtype)},
                                        {"LOAD", convert},
                                        {"INPUT", input},
                                        {"WEIGHT", arguments.pointer(weight, c.weight.dtype)},
                                        {"EARLY", overlaps ? "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");" : ""},
                                        {"WAIT", overlaps ? "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");" : ""},
                                        {"EPILOGUE", epilogue.statements}});
  KernelText k = arguments.kernel(cuda_template_name("conv_depthwise", node.body), body, kThreads, epilogue.wide, 0, overlaps);
  k.tasks = sym::ceil_div(rows * sym::ceil_div(c.out_w, Expr(count)) * Expr(c.out_channels / width), Expr(kThreads));
  k.plan = fmt::format("conv_depthwise: {} channels of {} pixels a thread\n", width, count) + loop::to_string(node.domain, node.body);
  return k;
}

Form cuda_conv_depthwise_form(const CudaSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int64_t pixels = typical_size(conv_pixels(c));
  Tiling<ConvDepthwiseTile> how;
  how.rule = [=, &c] { return choose_conv_depthwise_tile(c, pixels); };
  how.others = [] { return std::vector<ConvDepthwiseTile>{{1}, {2}, {4}, {8}}; };
  how.refusal = [](const ConvDepthwiseTile& t) { return t.pixels > 8 ? "pixels is more than 8" : ""; };
  how.generate = [=, &c](const ConvDepthwiseTile& t) {
    return generate_conv_depthwise(site.node, c, conv_weight_by_taps(c, *site.writable, *site.constants), t, site.gpu.is_hopper());
  };
  const auto& weight = site.program.buffers[static_cast<size_t>(c.weight.buffer)];
  const bool constant = weight.kind == loop::BufferKind::Constant;
  return make_form("conv_depthwise", constant ? conv_depthwise_refusal(c) : "the weight is no constant", how);
}

}  // namespace toroid::codegen
