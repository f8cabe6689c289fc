#include "choice/program.h"

#include <fmt/format.h>

#include <algorithm>

namespace toroid::choice {
namespace {

void add_unique(std::vector<int>& list, int buffer) {
  if (buffer >= 0 && std::find(list.begin(), list.end(), buffer) == list.end()) list.push_back(buffer);
}

std::string text_of(const Operand& o) {
  if (o.buffer < 0) return "none";
  std::string out = fmt::format("%{} {}[{}", o.buffer, name_of(o.dtype), sym::to_string(o.offset));
  for (auto& s : o.strides) out += ", " + sym::to_string(s);
  return out + "]";
}

std::string text_of(const Extern::View& v) {
  std::string out = text_of(v.memory);
  for (auto& s : v.sizes) out += (&s == &v.sizes.front() ? " of " : "x") + sym::to_string(s);
  return out;
}

// What a call reads and writes.
std::string operands(const std::vector<Extern::View>& inputs, const std::vector<Extern::View>& outputs) {
  std::string out;
  for (auto& v : inputs) out += " " + text_of(v);
  out += " ->";
  for (auto& v : outputs) out += " " + text_of(v);
  return out;
}

// Of a call's arguments those that are no tensors.
std::string numbers(const Extern& e) {
  std::string out;
  for (auto& a : e.args) {
    if (std::holds_alternative<int>(a) || std::holds_alternative<std::vector<int>>(a)) continue;
    out += (out.empty() ? "" : ", ") + graph::to_string(map_arg<graph::Value*>(a, [](int) -> graph::Value* { return nullptr; }));
  }
  return "(" + out + ")";
}

std::string header(const Node& n) {
  if (auto* g = std::get_if<Gemm>(&n.problem)) {
    std::string batch;
    for (auto& b : g->batch) batch += sym::to_string(b) + "x";
    return fmt::format("gemm {}{}x{}x{} a={} b={}{} in {}{}", batch, sym::to_string(g->m), sym::to_string(g->n), sym::to_string(g->k),
                       text_of(g->a), text_of(g->b), g->b2 ? " b2=" + text_of(*g->b2) : "", name_of(g->accumulate),
                       g->tf32 ? ", tf32" : "");
  }
  if (auto* c = std::get_if<Convolution>(&n.problem))
    return fmt::format(
        "convolution {}x{}x{}x{} -> {}x{}x{} kernel {}x{} stride {}x{} pad {}x{} dilation {}x{} groups {} input={} weight={}{}{}",
        sym::to_string(c->n), c->in_channels, sym::to_string(c->in_h), sym::to_string(c->in_w), c->out_channels, sym::to_string(c->out_h),
        sym::to_string(c->out_w), c->kernel_h, c->kernel_w, c->stride_h, c->stride_w, c->pad_h, c->pad_w, c->dilation_h, c->dilation_w,
        c->groups, text_of(c->input), text_of(c->weight), c->tf32 ? ", tf32" : "",
        c->accumulate == DType::I32 ? fmt::format(" less {} in {}", c->zero, name_of(c->accumulate)) : "");
  if (auto* a = std::get_if<Attention>(&n.problem))
    return fmt::format("attention {}x{} ({} kv) {}x{}x{} values {} q={} k={} v={} mask={}{} scale {}", sym::to_string(a->batch),
                       sym::to_string(a->heads), sym::to_string(a->kv_heads), sym::to_string(a->queries), sym::to_string(a->keys),
                       a->head_dim, a->value_dim, text_of(a->q), text_of(a->k), text_of(a->v), text_of(a->mask), a->causal ? " causal" : "",
                       a->scale);
  if (auto* s = std::get_if<Sort>(&n.problem)) {
    std::string rows;
    for (auto& r : s->rows) rows += sym::to_string(r) + "x";
    return fmt::format("sort {}{} first {}{} keys={} values={} positions={}", rows, sym::to_string(s->length), sym::to_string(s->count),
                       s->descending ? " descending" : "", text_of(s->keys), text_of(s->values), text_of(s->positions));
  }
  if (auto* e = std::get_if<Extern>(&n.problem)) return "extern " + e->op->name + numbers(*e) + operands(e->inputs, e->outputs);
  if (auto* o = std::get_if<Open>(&n.problem))
    return fmt::format("open {}, {} ways{}", o->name, o->alternatives.size(), operands(o->inputs, o->outputs));
  return "loop";
}

std::string ways(const Open& o) {
  std::string out;
  for (auto& a : o.alternatives) {
    out += "alternative " + a.name;
    for (auto& [name, value] : a.options) out += fmt::format(" {}={}", name, value);
    out += "\n" + to_string(*a.program);
  }
  for (auto& r : o.refused) out += fmt::format("not {}: {}\n", r.name, r.reason);
  for (int64_t s : o.split_points) out += fmt::format("a choice for each side of {} <= {}\n", sym::to_string(o.size), s);
  return out;
}

}  // namespace

std::string_view name_of(Implementation by) {
  constexpr std::string_view kNames[] = {"template", "onednn", "cublaslt", "cudnn"};
  return kNames[static_cast<size_t>(by)];
}

int Program::new_buffer(std::string name, DType dtype, Expr numel, loop::BufferKind kind) {
  int id = static_cast<int>(buffers.size());
  buffers.push_back({id, std::move(name), dtype, std::move(numel), kind});
  return id;
}

int Program::faults() {
  for (auto& b : buffers)
    if (b.kind == loop::BufferKind::Faults) return b.id;
  return new_buffer("faults", DType::I64, kIndexFaultWords, loop::BufferKind::Faults);
}

int Program::site(const IndexSite& s) {
  const auto it = std::find(sites.begin(), sites.end(), s);
  if (it != sites.end()) return static_cast<int>(it - sites.begin());
  sites.push_back(s);
  return static_cast<int>(sites.size()) - 1;
}

void take_over(Node& n, const Node& other, bool first) {
  n.origins.insert(first ? n.origins.begin() : n.origins.end(), other.origins.begin(), other.origins.end());
  n.parts.insert(first ? n.parts.begin() : n.parts.end(), other.parts.begin(), other.parts.end());
  if (n.where.empty() || (first && !other.where.empty())) n.where = other.where;
}

bool may_join(const Program& p, const Node& a, const Node& b) {
  const auto has = [](const Node& n, int part) { return std::find(n.parts.begin(), n.parts.end(), part) != n.parts.end(); };
  return std::none_of(p.apart.begin(), p.apart.end(), [&](auto& pair) {
    return (has(a, pair.first) && has(b, pair.second)) || (has(a, pair.second) && has(b, pair.first));
  });
}

std::string label(const Node& n) {
  std::string out;
  for (auto& o : n.origins) out += (out.empty() ? "" : "+") + o;
  return out;
}

std::vector<int> reads(const Node& n) {
  std::vector<int> out = loop::buffers_read(n.body);
  if (n.producer)
    for (int b : loop::buffers_read(n.producer->body)) add_unique(out, b);
  for (auto& nest : n.beside)
    for (int b : loop::buffers_read(nest.body)) add_unique(out, b);
  if (auto* g = std::get_if<Gemm>(&n.problem)) {
    if (!n.producer) add_unique(out, g->a.buffer);
    add_unique(out, g->b.buffer);
    if (g->b2) add_unique(out, g->b2->buffer);
  } else if (auto* c = std::get_if<Convolution>(&n.problem)) {
    add_unique(out, c->input.buffer);
    add_unique(out, c->weight.buffer);
  } else if (auto* a = std::get_if<Attention>(&n.problem)) {
    for (auto* o : {&a->q, &a->k, &a->v, &a->mask}) add_unique(out, o->buffer);
  } else if (auto* s = std::get_if<Sort>(&n.problem)) {
    add_unique(out, s->keys.buffer);
  } else if (auto* e = std::get_if<Extern>(&n.problem)) {
    for (auto& v : e->inputs) add_unique(out, v.memory.buffer);
  } else if (auto* o = std::get_if<Open>(&n.problem)) {
    for (auto& v : o->inputs) add_unique(out, v.memory.buffer);
  }
  return out;
}

std::vector<int> writes(const Node& n) {
  std::vector<int> out = loop::buffers_written(n.body);
  for (auto& nest : n.beside)
    for (int b : loop::buffers_written(nest.body)) add_unique(out, b);
  if (auto* s = std::get_if<Sort>(&n.problem))
    for (auto* o : {&s->values, &s->positions}) add_unique(out, o->buffer);
  if (auto* e = std::get_if<Extern>(&n.problem))
    for (auto& v : e->outputs) add_unique(out, v.memory.buffer);
  if (auto* o = std::get_if<Open>(&n.problem))
    for (auto& v : o->outputs) add_unique(out, v.memory.buffer);
  return out;
}

std::string to_string(const Program& p) {
  std::string out;
  for (auto& b : p.buffers)
    out += fmt::format("buffer %{} {}: {} x {}{}\n", b.id, b.name, name_of(b.dtype), sym::to_string(b.numel),
                       b.kind == loop::BufferKind::Input      ? " input"
                       : b.kind == loop::BufferKind::Constant ? " constant"
                       : b.kind == loop::BufferKind::Output   ? " output"
                       : b.kind == loop::BufferKind::Faults   ? " faults"
                                                              : "");
  for (auto& r : p.rearranged)
    for (auto& part : r.parts)
      out += fmt::format("constant %{}: {} elements of {} at {} + [{}]\n", r.buffer, fmt::join(part.sizes, "x"), text_of(part.from),
                         part.offset, fmt::join(part.strides, ", "));
  for (auto& n : p.nodes) {
    out += header(n) + (n.is_library() ? fmt::format(" by {}", name_of(n.by)) : "");
    out += n.config.empty() ? "  #" : fmt::format(" as {}  #", to_string(n.config));
    for (auto& o : n.origins) out += " " + o;
    out += "\n";
    if (n.producer) out += "rows of a: " + loop::to_string(n.producer->domain, n.producer->body);
    if (auto* e = std::get_if<Extern>(&n.problem))
      for (size_t i = 0; i < e->blocks.size(); ++i) {
        const bool conditional = !e->conditions.empty();
        const std::string where = i < e->conditions.size() ? "where " + sym::to_string(e->conditions[i]) + " " : conditional ? "else " : "";
        out += where + "block " + graph::to_string(*e->blocks[i]);
      }
    else if (auto* o = std::get_if<Open>(&n.problem))
      out += ways(*o);
    else if (!n.is_sort())
      out += loop::to_string(n.domain, n.body);
    for (auto& nest : n.beside) out += "beside: " + loop::to_string(nest.domain, nest.body);
  }
  for (auto& [a, b] : p.apart) out += fmt::format("apart: {} and {}\n", a, b);
  return out;
}

}  // namespace toroid::choice
