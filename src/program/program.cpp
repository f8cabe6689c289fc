#include "program/program.h"

#include <algorithm>

#include "program/fields.h"

namespace toroid::program {
namespace {

void add_unique(std::vector<int>& list, int buffer) {
  if (buffer >= 0 && std::find(list.begin(), list.end(), buffer) == list.end()) list.push_back(buffer);
}

bool meets(const graph::Graph& g, std::set<std::string>* groups) {
  bool found = false;
  for (auto& n : g.nodes) {
    for (auto& region : n->regions) found = meets(*region, groups) || found;
    if (!n->op->collective) continue;
    found = true;
    if (groups) groups->insert(std::get<std::string>(n->args[static_cast<size_t>(n->op->schema.find("group_name"))]));
  }
  return found;
}

}  // namespace

std::string_view name_of(Implementation by) {
  constexpr std::string_view kNames[] = {"template", "onednn", "cublaslt", "cudnn"};
  return kNames[static_cast<size_t>(by)];
}

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

Program::Program() = default;
Program::Program(const Program&) = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(const Program&) = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

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

int Program::peers(const std::string& group) {
  for (auto& b : buffers)
    if (b.kind == loop::BufferKind::Peers && b.name == group) return b.id;
  return new_buffer(group, DType::I64, 1, loop::BufferKind::Peers);
}

int Program::site(const IndexSite& s) {
  const auto it = std::find(sites.begin(), sites.end(), s);
  if (it != sites.end()) return static_cast<int>(it - sites.begin());
  sites.push_back(s);
  return static_cast<int>(sites.size()) - 1;
}

const Gemm* product_of(const Node& n) {
  if (auto* g = std::get_if<Gemm>(&n.problem)) return g;
  auto* m = std::get_if<Meeting>(&n.problem);
  return m && m->product ? &*m->product : nullptr;
}

bool meets(const Node& n, std::set<std::string>* groups) {
  if (auto* c = std::get_if<Collective>(&n.problem)) {
    if (groups) groups->insert(c->group);
    return true;
  }
  if (auto* a = std::get_if<Meeting>(&n.problem)) {
    if (groups) groups->insert(a->group);
    return true;
  }
  bool found = false;
  if (auto* open = std::get_if<Open>(&n.problem))
    for (auto& a : open->alternatives)
      for (auto& inner : a.program->nodes) found = meets(inner, groups) || found;
  const auto* call = std::get_if<Extern>(&n.problem);
  if (call && call->op->collective) {
    if (groups) groups->insert(std::get<std::string>(call->args[static_cast<size_t>(call->op->schema.find("group_name"))]));
    return true;
  }
  if (call)
    for (auto& block : call->blocks) found = meets(*block, groups) || found;
  return found;
}

void take_over(Node& n, const Node& other, bool first) {
  n.origins.insert(first ? n.origins.begin() : n.origins.end(), other.origins.begin(), other.origins.end());
  n.parts.insert(first ? n.parts.begin() : n.parts.end(), other.parts.begin(), other.parts.end());
  // What joins a forward pass is a part of it; what is computed again is, with what reads it, backward.
  const bool is_forward = n.pass == graph::Pass::Forward || other.pass == graph::Pass::Forward;
  n.pass = is_forward ? graph::Pass::Forward : std::max(n.pass, other.pass);
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
  const Gemm* rows_made = n.producer ? product_of(n) : nullptr;
  visit_operands(n, [&](const Operand& o, Use use, std::string_view, const auto&) {
    if (reads(use) && !(rows_made && &o == &rows_made->a)) add_unique(out, o.buffer);
  });
  return out;
}

std::vector<int> writes(const Node& n) {
  std::vector<int> out = loop::buffers_written(n.body);
  for (auto& nest : n.beside)
    for (int b : loop::buffers_written(nest.body)) add_unique(out, b);
  visit_operands(n, [&](const Operand& o, Use use, std::string_view, const auto&) {
    if (writes(use)) add_unique(out, o.buffer);
  });
  return out;
}

}  // namespace toroid::program
