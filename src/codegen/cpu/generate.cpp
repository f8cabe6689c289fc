#include "codegen/cpu/generate.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cpu/convolutions.h"
#include "codegen/cpu/template.h"

namespace toroid::codegen {
namespace {

constexpr size_t kMostConfigs = 20;

// None for loops.
std::vector<Form> forms_of(const CpuSite& site) {
  std::vector<Form> forms;
  for (auto& row : kCpuTemplates)
    if (row.takes(site.node.problem)) forms.push_back(row.form(site));
  return forms;
}

// Weights that are no constants are packed by each thread that needs them. Single pixels are products, which do so as well; and where there
// are fewer results than taps (gradients of weights) vectors of results are short.
bool can_pack_when_run(const program::Convolution& c) {
  const ConvShape s = shape_of(c);
  const bool pixels = s.groups == 1 && s.kernel_h * s.kernel_w * s.stride_h * s.stride_w == 1 && c.pad_h == 0 && c.pad_w == 0;
  return !pixels && s.out_h() * s.out_w() >= s.kernel_h * s.kernel_w && weights_of(c).has_value();
}

}  // namespace

bool supports(const program::Gemm& g, bool constant_b) {
  if (is_float(g.accumulate)) {
    const bool by_row = g.m == Expr(1) && !constant_b && !g.b.strides.empty() && !streams_weights(g);
    return !(g.n == Expr(1)) && !by_row;
  }
  const auto known = [](auto& e) { return e.is_const(); };
  return (g.a.dtype == DType::I8 || g.a.dtype == DType::U8) && g.b.dtype == DType::I8 && g.accumulate == DType::I32 && constant_b &&
         g.batch.empty() && known(g.n) && known(g.k) && known(g.b.offset) && std::all_of(g.b.strides.begin(), g.b.strides.end(), known);
}

bool supports(const program::Convolution& c, bool constant_weight, device::Isa isa) {
  const bool whole =
      c.accumulate == DType::I32 && (c.input.dtype == DType::U8 || c.input.dtype == DType::I8) && c.weight.dtype == DType::I8;
  if (isa == device::Isa::Scalar || !(whole || c.input.dtype == DType::F32) || !c.in_h.is_const() || !c.in_w.is_const() ||
      !(c.input.offset == Expr(0)))
    return false;
  ConvLayout layout = layout_of(c);
  if (layout == ConvLayout::Other) return false;
  if (!constant_weight && (whole || !can_pack_when_run(c))) return false;
  ConvShape s = shape_of(c);
  int lanes = lanes_of(isa);
  if (s.depthwise()) return layout == ConvLayout::Nhwc && s.channels >= lanes;
  if (whole) return layout == ConvLayout::Nhwc && conv_int8_refusal(s).empty();
  return conv_direct_supported(s, input_of(c), lanes);
}

bool supports(const program::Attention& a, device::Isa isa) {
  auto dtype = [](DType t) { return t == DType::F32 || is_half(t); };
  return isa != device::Isa::Scalar && !a.logsumexp && dtype(a.q.dtype) && dtype(a.k.dtype) && dtype(a.v.dtype) &&
         (a.mask.buffer < 0 || a.mask.dtype == DType::Bool || dtype(a.mask.dtype));
}

std::string whole_refusal(const program::Problem& problem, device::Isa isa) {
  const program::Program none;
  program::Node node;
  node.problem = problem;
  return refusal_by(forms_of({node, none, isa}));
}

KernelText generate(const program::Node& node, program::Program& program, device::Isa isa, ConstantMemory& constants) {
  if (const auto forms = forms_of({node, program, isa, &program, &constants}); !forms.empty()) return generate_by(forms, node);
  TOROID_USER_CHECK(node.config.empty(), "{} is no configuration of {}, which leaves nothing open; tune it again",
                    program::to_string(node.config), program::label(node));
  std::vector<loop::Nest> nests = {{node.domain, node.body}};
  nests.insert(nests.end(), node.beside.begin(), node.beside.end());
  return generate_loops(nests, program.buffers, isa);
}

std::vector<program::Config> configs(const program::Node& node, const program::Program& program, device::Isa isa) {
  const auto forms = forms_of({node, program, isa});
  return forms.empty() ? std::vector<program::Config>{} : configs_of(forms, kMostConfigs);
}

std::vector<program::Config> neighbours(const program::Config& c, const program::Node& node, const program::Program& program,
                                        device::Isa isa) {
  return neighbours_of(forms_of({node, program, isa}), c);
}

}  // namespace toroid::codegen
