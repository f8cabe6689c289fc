#include "backend/cuda/cudnn_problem.h"

#include <algorithm>

#include "backend/epilogue_chain.h"
#include "base/check.h"
#include "sched/split_epilogue.h"

namespace toroid::backend {
namespace {

using external::CudnnProblem;
using external::PostOpKind;
using external::TensorMemory;
using program::Convolution;

constexpr int64_t kAligned = 16;  // bytes: what the library's kernels read at once

bool is_aligned(int64_t offset, DType t) { return offset * static_cast<int64_t>(size_of(t)) % kAligned == 0; }

// The weights as the library has them: [out_channels][height][width][in_channels / groups].
std::vector<int64_t> weight_sizes(const Convolution& c) { return {c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w}; }

bool has_library_layout(const Convolution& c) {
  const auto strides = constants(c.weight.strides);
  TensorMemory w{c.weight.dtype, weight_sizes(c), strides ? *strides : std::vector<int64_t>(4, -1), 0};
  return strides && take_channels_last(w) && c.weight.offset.is_const() && is_aligned(c.weight.offset.constant(), c.weight.dtype);
}

int64_t points(int64_t in, int64_t pad, int64_t size, int64_t dilation, int64_t stride) {
  return (in + 2 * pad - dilation * (size - 1) - 1) / stride + 1;
}

// All but the epilogue; a reason where there is no such problem. The weights may lie elsewhere still.
std::string read(const Convolution& c, CudnnProblem& p) {
  const auto sizes = constants({c.n, c.in_h, c.in_w, c.out_h, c.out_w}), strides = constants(c.input.strides);
  if (!sizes || !strides || !c.input.offset.is_const()) return "its sizes are symbolic";
  if (c.input.dtype != c.weight.dtype || (c.input.dtype != DType::F32 && !is_half(c.input.dtype)))
    return "it is not asked for convolutions of " + std::string(name_of(c.input.dtype));
  constexpr int64_t kMost = int64_t{1} << 31;  // elements: the library counts them in 32 bits
  p.dtype = c.input.dtype, p.tf32 = c.tf32;
  p.n = (*sizes)[0], p.in_h = (*sizes)[1], p.in_w = (*sizes)[2], p.out_h = (*sizes)[3], p.out_w = (*sizes)[4];
  p.in_channels = c.in_channels, p.out_channels = c.out_channels, p.groups = c.groups;
  p.window = {{c.kernel_h, c.kernel_w}, {c.stride_h, c.stride_w}, {c.pad_h, c.pad_w}, {c.dilation_h, c.dilation_w}};
  if (p.n * p.in_channels * p.in_h * p.in_w == 0 || p.n * p.out_channels * p.out_h * p.out_w == 0) return "it is empty";
  if (p.n * p.in_channels * p.in_h * p.in_w >= kMost || p.n * p.out_channels * p.out_h * p.out_w >= kMost) return "it is too large";
  if (p.out_h != points(p.in_h, c.pad_h, c.kernel_h, c.dilation_h, c.stride_h) ||
      p.out_w != points(p.in_w, c.pad_w, c.kernel_w, c.dilation_w, c.stride_w))
    return "its borders are of different widths";
  TensorMemory input{c.input.dtype, {p.n, p.in_channels, p.in_h, p.in_w}, *strides, c.input.offset.constant()};
  if (!take_channels_last(input)) return "its input is not in channels-last memory";
  if (!is_aligned(input.offset, input.dtype)) return "its input does not begin at 16 bytes";
  p.input_offset = input.offset;
  return "";
}

std::vector<int64_t> sizes_of_result(const CudnnProblem& p) { return {p.n, p.out_channels, p.out_h, p.out_w}; }

// What the call takes besides its operands, by the steps that load it.
struct Extras {
  int bias = -1, addend = -1;
  std::string names;
};

// The first `length` operations of the chain, stored at `out`, into p. False where the library has no call for them.
bool take_epilogue(const program::Node& node, const Chain& chain, size_t length, TensorMemory out, CudnnProblem& p, Extras& extras) {
  if (out.dtype != p.dtype || !take_channels_last(out) || out.sizes != sizes_of_result(p) || !is_aligned(out.offset, out.dtype))
    return false;
  p.out_offset = out.offset;
  for (size_t i = 0; i < length; ++i) {
    const Link& link = chain.links[i];
    if (link.kind == PostOpKind::Relu) {
      if (i + 1 != length) return false;
      p.relu = true;
      continue;
    }
    if (link.kind != PostOpKind::Add) return false;
    const loop::Statement& load = node.body.steps[static_cast<size_t>(link.load)];
    auto memory = memory_of(node.domain, load.index, load.dtype);
    if (!memory || memory->dtype != p.dtype || !is_aligned(memory->offset, p.dtype)) return false;
    const bool one_a_channel = memory->sizes == std::vector<int64_t>{1, p.out_channels, 1, 1} && memory->strides[1] <= 1;
    if (one_a_channel && !p.has_bias) {
      p.has_bias = true, p.bias_offset = memory->offset, extras.bias = link.load;
    } else if (!p.has_addend && memory->sizes == out.sizes && take_channels_last(*memory)) {
      p.has_addend = true, p.addend_offset = memory->offset, extras.addend = link.load;
    } else {
      return false;
    }
  }
  if (p.has_bias) extras.names += "_bias";
  if (p.has_addend) extras.names += "_add";
  if (p.relu) extras.names += "_relu";
  return p.has_bias || (!p.has_addend && !p.relu);
}

bool takes(const program::Node& node, const Chain& chain, size_t length, const TensorMemory& out) {
  CudnnProblem p;
  Extras extras;
  return read(std::get<Convolution>(node.problem), p).empty() && take_epilogue(node, chain, length, out, p, extras);
}

// Constant weights in the library's layout, made when the program is compiled.
void rearrange_weight(program::Program& program, size_t i) {
  auto& c = std::get<Convolution>(program.nodes[i].problem);
  if (has_library_layout(c)) return;
  const std::vector<int64_t> sizes = weight_sizes(c), strides = dense_strides(sizes, kChannelsLast);
  program::Operand to{-1, c.weight.dtype, 0, {strides.begin(), strides.end()}};
  to.buffer = program.new_buffer("weight_of_" + program::label(program.nodes[i]), to.dtype, sizes[0] * sizes[1] * sizes[2] * sizes[3],
                                 loop::BufferKind::Constant);
  program.rearranged.push_back({to.buffer, {{c.weight, 0, strides, sizes}}});
  c.weight = std::move(to);
}

// Which of the library's algorithms a configuration names.
int number_of(const program::Config& c) {
  if (c.empty()) return 0;
  constexpr int64_t kMost = 16;
  if (c.form != "cudnn" || c.fields.size() != 1 || c.fields[0].first != "algo" || c.fields[0].second < 0 || c.fields[0].second >= kMost)
    fail<UserError>("{} is no configuration of cuDNN; expected cudnn(algo=i) with i from 0 to {}: tune it again", program::to_string(c),
                    kMost - 1);
  return static_cast<int>(c.fields[0].second);
}

}  // namespace

std::string cudnn_refusal(const Convolution& c, bool constant_weight) {
  CudnnProblem p;
  if (std::string why = read(c, p); !why.empty()) return why;
  if (!constant_weight && !has_library_layout(c)) return "its weights are no constants, and not in channels-last memory";
  external::cudnn_version();
  return "";
}

void fit_for_cudnn(program::Program& program, size_t i) {
  rearrange_weight(program, i);
  const program::Node& node = program.nodes[i];
  const auto& c = std::get<Convolution>(node.problem);
  const Chain chain = read_chain(node.body);
  if (auto out = direct_result(node, chain); out && takes(node, chain, chain.links.size(), *out)) return;
  CudnnProblem p;
  const std::string why = read(c, p);
  TOROID_CHECK(why.empty(), "{}: {}", program::label(node), why);
  const std::vector<int64_t> sizes = sizes_of_result(p), strides = dense_strides(sizes, kChannelsLast);
  size_t length = chain.links.size();
  while (length > 0 && !takes(node, chain, length, {p.dtype, sizes, strides, 0})) --length;
  sched::split_epilogue(program, i, chain.value(length), {strides.begin(), strides.end()}, p.dtype);
}

CudnnNode describe_cudnn(const program::Node& node) {
  const auto& c = std::get<Convolution>(node.problem);
  const Chain chain = read_chain(node.body);
  const auto out = direct_result(node, chain);
  CudnnNode made;
  const std::string why = read(c, made.problem);
  TOROID_CHECK(why.empty() && has_library_layout(c), "{}: {}", program::label(node), why.empty() ? "its weights lie elsewhere" : why);
  made.problem.weight_offset = c.weight.offset.constant();
  Extras extras;
  TOROID_CHECK(out && take_epilogue(node, chain, chain.links.size(), *out, made.problem, extras),
               "the epilogue of {} is not one that cuDNN computes", program::label(node));
  made.name = "cudnn_convolution" + extras.names;
  made.buffers = {c.input.buffer, c.weight.buffer, chain.store->buffer};
  for (int load : {extras.bias, extras.addend})
    if (load >= 0) made.buffers.push_back(node.body.steps[static_cast<size_t>(load)].buffer);
  return made;
}

exec::LibraryCall cudnn_call(const program::Node& node) {
  const int number = number_of(node.config);
  CudnnNode made = describe_cudnn(node);
  return {std::move(made.name), made.problem, number, std::move(made.buffers)};
}

}  // namespace toroid::backend
