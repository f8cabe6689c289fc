#include "program/sizes.h"

#include <algorithm>

#include "program/fields.h"

namespace toroid::program {
namespace {

using Visit = std::function<void(const Expr&)>;

void visit_all(const std::vector<Expr>& list, const Visit& visit) { std::for_each(list.begin(), list.end(), visit); }

void visit_operand(const Operand& o, const Visit& visit) {
  visit(o.offset);
  visit_all(o.strides, visit);
}

void visit_views(const std::vector<Extern::View>& views, const Visit& visit) {
  for (auto& v : views) {
    visit_operand(v.memory, visit);
    visit_all(v.sizes, visit);
  }
}

void visit_nest(const loop::Domain& domain, const loop::Body& body, const Visit& visit) {
  for (auto& v : domain.vars) visit(v.extent());
  for (auto& s : body.steps) visit(s.index);
}

void visit_relation(const sym::Relation& r, const Visit& visit) {
  visit(r.a);
  visit(r.b);
}

void visit_program(const Program& p, const Visit& visit) {
  for (auto& b : p.buffers) visit(b.numel);
  for (auto& n : p.nodes) for_each_expression(n, visit);
}

struct SizeFields : NoFields {
  const Visit& visit;

  template <class... Size>
  void sizes(std::string_view, const Size&... all) {
    (one(all), ...);
  }
  template <class Extents>
  void operand(std::string_view, const Operand& o, Use, std::string_view, const Extents&) {
    visit_operand(o, visit);
  }
  template <class Extents>
  void operand(std::string_view, const std::optional<Operand>& o, Use, std::string_view, const Extents&) {
    if (o) visit_operand(*o, visit);
  }

 private:
  void one(const std::vector<Expr>& list) { visit_all(list, visit); }
  void one(const Expr& size) { visit(size); }
};

struct Problems {
  const Visit& visit;

  template <class Kind>
  void operator()(const Kind& problem) const {
    SizeFields sizes{{}, visit};
    fields(problem, sizes);
  }
  void operator()(const Extern& e) const {
    visit_views(e.inputs, visit);
    visit_views(e.outputs, visit);
    visit_all(e.fresh_symbols, visit);
    for (auto& c : e.conditions) visit_relation(c, visit);
    for (auto& a : e.args) {
      if (auto* number = std::get_if<Expr>(&a)) visit(*number);
      if (auto* list = std::get_if<std::vector<Expr>>(&a)) visit_all(*list, visit);
    }
    for (auto& block : e.blocks)
      for (auto& s : block->symbols) visit(s.expr);
  }
  void operator()(const Open& o) const {
    visit_views(o.inputs, visit);
    visit_views(o.outputs, visit);
    visit(o.size);
    for (auto& a : o.alternatives) visit_program(*a.program, visit);
  }
};

void add_symbols(const Expr& e, std::set<std::string>& names) {
  sym::for_each_symbol(e, [&](const Expr& s) {
    const sym::Node& n = *s.node();
    if (sym::is_loop_var(n))
      add_symbols(n.extent, names);
    else if (sym::is_size(n))
      names.insert(n.name);
  });
}

std::set<std::string> symbols_of(const sym::Relation& r) {
  std::set<std::string> out;
  visit_relation(r, [&](const Expr& e) { add_symbols(e, out); });
  return out;
}

}  // namespace

void for_each_expression(const Node& n, const std::function<void(const Expr&)>& visit) {
  std::visit(Problems{visit}, n.problem);
  visit_nest(n.domain, n.body, visit);
  if (n.producer) visit_nest(n.producer->domain, n.producer->body, visit);
  for (auto& nest : n.beside) visit_nest(nest.domain, nest.body, visit);
}

std::set<std::string> size_symbols(const Program& p) {
  std::set<std::string> out;
  visit_program(p, [&](const Expr& e) { add_symbols(e, out); });
  return out;
}

void drop_unused_symbols(Program& p) {
  std::set<std::string> used = size_symbols(p), from_data;
  for (auto& s : p.symbols)
    if (s.unbacked) from_data.insert(s.expr.node()->name);
  const auto is_used = [&](const std::string& s) { return used.count(s) > 0; };
  for (bool grows = true; grows;) {
    const size_t before = used.size();
    for (auto& g : p.guards) {
      const std::set<std::string> related = symbols_of(g);
      const bool known = std::all_of(related.begin(), related.end(), [&](auto& s) { return is_used(s) || !from_data.count(s); });
      if (known && std::any_of(related.begin(), related.end(), is_used)) used.insert(related.begin(), related.end());
    }
    grows = used.size() > before;
  }
  std::erase_if(p.symbols, [&](const graph::Symbol& s) { return !is_used(s.expr.node()->name); });
  std::erase_if(p.guards, [&](const sym::Relation& g) {
    const std::set<std::string> related = symbols_of(g);
    return !std::all_of(related.begin(), related.end(), is_used);
  });
}

}  // namespace toroid::program
