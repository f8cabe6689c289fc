#include "sched/channels_last.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace toroid::sched {
namespace {

using program::Config;
using program::Convolution;
using program::Node;

int64_t padded(int64_t channels, int64_t multiple) { return (channels + multiple - 1) / multiple * multiple; }

std::array<Expr, 4> sizes_of_input(const Convolution& c) { return {c.n, c.in_channels, c.in_h, c.in_w}; }

// Of [first][channels][h][w] with the channels innermost.
std::vector<Expr> strides_of(const Expr& h, const Expr& w, int64_t channels) {
  return {h * w * Expr(channels), 1, w * Expr(channels), channels};
}

bool is_channels_last(const Convolution& c) {
  const std::vector<Expr> want = strides_of(c.in_h, c.in_w, c.in_channels);
  const auto sizes = sizes_of_input(c);
  bool same = true;
  for (size_t d = 0; d < 4; ++d) same = same && (sizes[d] == Expr(1) || c.input.strides[d] == want[d]);
  return same;
}

bool is_constant(const program::Program& p, const program::Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

Node copy_loop(const Convolution& c, int buffer, int64_t channels) {
  Node copy;
  const std::vector<Expr> to = strides_of(c.in_h, c.in_w, channels);
  const std::array<Expr, 4> sizes = {c.n, channels, c.in_h, c.in_w};
  Expr read = c.input.offset, written = 0, channel = 0;
  for (size_t d : {0, 2, 3, 1}) {
    if (sizes[d] == Expr(1)) continue;
    const Expr i = sym::loop_symbol("copy" + std::to_string(d), sizes[d]);
    copy.domain.vars.push_back({i, false});
    read = read + i * c.input.strides[d];
    written = written + i * to[d];
    if (d == 1) channel = i;
  }
  loop::BodyBuilder b(copy.body);
  const bool zeros = channels > c.in_channels;
  if (zeros) b.push_mask(b.is_below(channel, c.in_channels));
  const S element = cast(b.load(c.input.buffer, c.input.dtype, read), DType::F32);
  if (zeros) b.pop_mask();
  b.store(buffer, c.input.dtype, written, element);
  return copy;
}

// Zeros for the channels that the input has besides.
program::Operand padded_weight(program::Program& p, const Convolution& c, int64_t channels, const std::string& name) {
  program::Operand to{-1, c.weight.dtype, 0, strides_of(c.kernel_h, c.kernel_w, channels)};
  to.buffer = p.new_buffer(name, to.dtype, c.out_channels * c.kernel_h * c.kernel_w * channels, loop::BufferKind::Constant);
  program::Rearranged::Part part{c.weight, 0, {}, {c.out_channels, c.in_channels, c.kernel_h, c.kernel_w}};
  for (auto& s : to.strides) part.strides.push_back(s.constant());
  p.rearranged.push_back({to.buffer, {std::move(part)}});
  return to;
}

Config way_of(int64_t multiple) { return {kChannelsLast, {{"multiple", multiple}}}; }

}  // namespace

std::string channels_last_refusal(const Node& convolution, const program::Program& p, const Config& way) {
  const auto* c = std::get_if<Convolution>(&convolution.problem);
  if (!c) return "it is no convolution";
  if (program::is_weight_gradient(*c)) return "it reads the gradient of weights where it lies";
  if (way.fields.size() != 1 || way.fields[0].first != "multiple") return "it has one number, multiple";
  constexpr int64_t kMost = 1024;
  const int64_t multiple = way.fields[0].second;
  if (multiple < 1 || multiple > kMost) return fmt::format("{} is not from 1 to {}", multiple, kMost);
  const bool pads = c->in_channels % multiple != 0;
  if (pads && c->groups != 1) return "its channels are in groups";
  if (pads && !is_constant(p, c->weight)) return "its weight is no constant";
  return !pads && is_channels_last(*c) ? "it changes nothing" : "";
}

void channels_last(program::Program& p, size_t i, const Config& way) {
  const std::string why = channels_last_refusal(p.nodes[i], p, way);
  TOROID_USER_CHECK(why.empty(), "{} of {}: {}", program::to_string(way), program::label(p.nodes[i]), why);
  Convolution c = std::get<Convolution>(p.nodes[i].problem);
  const int64_t channels = padded(c.in_channels, way.at("multiple"));
  const std::string name = program::label(p.nodes[i]);
  const int buffer = p.new_buffer("input_of_" + name, c.input.dtype, c.n * c.in_h * c.in_w * Expr(channels), loop::BufferKind::Temporary);
  Node copy = copy_loop(c, buffer, channels);
  program::take_over(copy, p.nodes[i]);
  if (channels > c.in_channels) c.weight = padded_weight(p, c, channels, "weight_of_" + name);
  c.in_channels = channels;
  c.input = {buffer, c.input.dtype, 0, strides_of(c.in_h, c.in_w, channels)};
  p.nodes[i].problem = std::move(c);
  p.nodes.insert(p.nodes.begin() + static_cast<long>(i), std::move(copy));
}

std::vector<Config> gpu_channels_last(const Node& convolution, const program::Program& p) {
  const auto* c = std::get_if<Convolution>(&convolution.problem);
  // Products of single pixels take other channels as they are, and the copy costs more than it gains.
  if (!c || c->in_channels == c->groups || (c->kernel_h == 1 && c->kernel_w == 1)) return {};
  const auto pays = [&](int64_t multiple) { return 2 * c->in_channels >= padded(c->in_channels, multiple); };  // at most twice as many
  std::vector<Config> ways;
  const auto piece = static_cast<int64_t>(16 / size_of(c->input.dtype));
  if ((c->in_channels % piece != 0 || !is_channels_last(*c)) && pays(piece)) ways.push_back(way_of(piece));
  const int64_t mapped = 8 * piece;  // what conv_wgmma takes
  if ((is_half(c->input.dtype) || c->tf32) && c->in_channels % mapped != 0 && pays(mapped)) ways.push_back(way_of(mapped));
  std::erase_if(ways, [&](auto& way) { return !channels_last_refusal(convolution, p, way).empty(); });
  return ways;
}

}  // namespace toroid::sched
