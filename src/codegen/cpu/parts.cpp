#include "codegen/cpu/parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

std::string with_fused(std::string name, const loop::Body& body) {
  int shown = 0;
  for (auto& s : body.steps) {
    if (s.step != loop::Step::Scalar || s.op == ScalarOp::Const || s.op == ScalarOp::Cast || shown == 4) continue;
    std::string op(name_of(s.op));
    std::transform(op.begin(), op.end(), op.begin(), [](unsigned char c) { return std::tolower(c); });
    name += "_" + op;
    ++shown;
  }
  return name;
}

}  // namespace

TemplateNames names_in_template(Slots& slots, const PointNames& points) {
  TemplateNames names;
  names.pointer = [&slots](int buffer, DType dtype) {
    return fmt::format("(({}*)bufs[{}])", dtype == DType::Bool ? "u8" : std::string(name_of(dtype)), slots.buffer(buffer));
  };
  names.symbol = [&slots, &points](const sym::Node& s) {
    if (const std::string* point = points.find(s)) return *point;
    TOROID_CHECK(sym::is_size(s), "{} is no variable of the template", s.name);
    return "params[" + std::to_string(slots.param(sym::symbol(s.name, s.lo, s.hi))) + "]";
  };
  return names;
}

Hole epilogue_of(loop::Domain domain, loop::Body body, int lanes, Slots& slots, PointNames points, PreludeNeeds& needs, bool aligned) {
  const std::string whole = points.at(domain.vars.back().symbol);
  const bool in_runs = aligned && split_in_runs(domain, body, lanes);
  if (in_runs) {
    points[domain.vars[domain.vars.size() - 2].symbol] = fmt::format("({} / {})", whole, lanes);
    points[domain.vars.back().symbol] = fmt::format("({} % {})", whole, lanes);
  }
  TemplateNames names = names_in_template(slots, points);
  names.vector_accumulator = names.scalar_accumulator = "acc";
  EpilogueText t = emit_epilogue(domain, body, in_runs ? 2 : 1, lanes, names);
  needs.add(t.needs);
  return {.declarations = {}, .vector = t.vector, .scalar = t.scalar};
}

std::string unflatten(const std::string& flat, const std::vector<Expr>& sizes, size_t d, Slots& slots) {
  Expr inner = 1;
  for (size_t k = d + 1; k < sizes.size(); ++k) inner = inner * sizes[k];
  std::string e = inner == Expr(1) ? flat : fmt::format("({} / {})", flat, slots.text(inner));
  return d == 0 ? e : fmt::format("({} % {})", e, slots.text(sizes[d]));
}

std::string kernel_name(const char* name, const program::Node& node) {
  std::string own = with_fused(name, node.body);
  return node.producer ? with_fused(own + "_of", node.producer->body) : own;
}

std::string batch_offset(const program::Operand& o, const std::vector<Expr>& batch, Slots& slots) {
  std::string out = slots.text(o.offset);
  for (size_t d = 0; d < batch.size(); ++d) {
    if (o.strides[d] == Expr(0) || batch[d] == Expr(1)) continue;
    const std::string stride = slots.text(o.strides[d]);
    out += fmt::format(" + {} * {}", unflatten("batch", batch, d, slots), stride);
  }
  return out;
}

}  // namespace toroid::codegen
