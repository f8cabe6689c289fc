#include "program/region.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "loop/var_map.h"
#include "program/fields.h"
#include "program/sizes.h"

namespace toroid::program {
namespace {

bool contains(const std::vector<int>& list, int x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// The nest with loop variables named by their place.
void rename_nest(loop::Domain& domain, loop::Body& body, const std::string& prefix) {
  loop::VarMap<Expr> fresh;
  for (size_t i = 0; i < domain.vars.size(); ++i) {
    loop::Var& v = domain.vars[i];
    const Expr own = sym::loop_symbol(prefix + std::to_string(i), v.extent());
    fresh[v.symbol] = own;
    v.symbol = own;
  }
  body = loop::substitute(body, loop::replacing(fresh));
}

bool is_named_by_place(const loop::Domain& domain) {
  for (size_t i = 0; i < domain.vars.size(); ++i)
    if (domain.vars[i].symbol.node()->name != "i" + std::to_string(i)) return false;
  return true;
}

// Whether rename_variables() would leave the text of the node as it is.
bool is_named_by_place(const Node& n) {
  return is_named_by_place(n.domain) && (!n.producer || is_named_by_place(n.producer->domain)) &&
         std::all_of(n.beside.begin(), n.beside.end(), [](auto& nest) { return is_named_by_place(nest.domain); });
}

class Region {
 public:
  Region(const Program& whole, std::span<const size_t> nodes) : whole_(whole), nodes_(nodes) {}

  Program make() {
    out_.name = "region";
    out_.symbols = whole_.symbols;
    out_.guards = whole_.guards;
    for (size_t at : nodes_) add(whole_.nodes[at]);
    std::vector<std::pair<int, int>> in_order;  // here, there
    for (auto& [from, to] : numbers_)
      if (!loop::is_of_runs(whole_.buffers[static_cast<size_t>(from)].kind)) in_order.emplace_back(to, from);
    std::sort(in_order.begin(), in_order.end());
    for (auto& [to, from] : in_order) connect(from, to);
    for (auto& r : whole_.rearranged)
      if (numbers_.count(r.buffer)) out_.rearranged.push_back(renumbered(r));
    for (auto& [a, b] : whole_.apart)
      if (const int here = place_of(a), there = place_of(b); here >= 0 && there >= 0) out_.apart.emplace_back(here, there);
    drop_unused_symbols(out_);
    return std::move(out_);
  }

 private:
  // Where the node with this number is here; -1: not here.
  int place_of(int number) const {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (contains(whole_.nodes[nodes_[i]].parts, number)) return static_cast<int>(i);
    return -1;
  }

  int number_of(int buffer) {
    if (buffer < 0) return buffer;
    auto [it, fresh] = numbers_.try_emplace(buffer, static_cast<int>(out_.buffers.size()));
    if (fresh) {
      const loop::Buffer& b = whole_.buffers[static_cast<size_t>(buffer)];
      const bool peers = b.kind == loop::BufferKind::Peers;
      out_.new_buffer(peers ? b.name : "b" + std::to_string(it->second), b.dtype, b.numel,
                      loop::is_of_runs(b.kind) ? b.kind : loop::BufferKind::Temporary);
    }
    return it->second;
  }

  const Rearranged* rearranged(int buffer) const {
    const auto it = std::find_if(whole_.rearranged.begin(), whole_.rearranged.end(), [&](auto& r) { return r.buffer == buffer; });
    return it == whole_.rearranged.end() ? nullptr : &*it;
  }

  Rearranged renumbered(Rearranged r) {
    r.buffer = number_of(r.buffer);
    out_.buffers[static_cast<size_t>(r.buffer)].kind = loop::BufferKind::Constant;
    for (auto& part : r.parts) part.from.buffer = number_of(part.from.buffer);
    return r;
  }

  // What is made of other constants comes from outside as those.
  void read(int buffer) {
    if (const Rearranged* r = rearranged(buffer)) {
      for (auto& part : r->parts) number_of(part.from.buffer), read(part.from.buffer);
    } else if (!contains(written_, buffer) && !contains(from_outside_, buffer)) {
      from_outside_.push_back(buffer);
    }
  }

  void add(const Node& original) {
    for (int b : reads(original)) read(b);
    for (int b : writes(original))
      if (!contains(written_, b)) written_.push_back(b);
    Node n = original;
    const std::string place = std::to_string(out_.nodes.size());
    for_each_check(n, [&](loop::Statement& s) { s.value.i = out_.site(whole_.sites[static_cast<size_t>(s.value.i)]); });
    if (auto* a = std::get_if<Meeting>(&n.problem)) a->site = out_.site(whole_.sites[static_cast<size_t>(a->site)]);
    renumber_buffers(n, [&](int b) { return number_of(b); });
    rename_nest(n.domain, n.body, "n" + place + "_");
    n.origins = {"n" + place};
    n.parts = {static_cast<int>(out_.nodes.size())};
    n.where.clear();
    out_.nodes.push_back(std::move(n));
  }

  bool is_read_outside(int buffer) const {
    for (size_t i = 0; i < whole_.nodes.size(); ++i)
      if (std::find(nodes_.begin(), nodes_.end(), i) == nodes_.end() && contains(reads(whole_.nodes[i]), buffer)) return true;
    return false;
  }

  // Makes a buffer an input, an output, or both.
  void connect(int from, int to) {
    const loop::Buffer& b = whole_.buffers[static_cast<size_t>(from)];
    loop::Buffer& mine = out_.buffers[static_cast<size_t>(to)];
    const TensorType flat{b.dtype, {b.numel}, {}};
    int input = -1;
    const bool is_written = contains(written_, from), is_partly_written = is_written && b.kind == loop::BufferKind::Input;
    if (contains(from_outside_, from) || is_partly_written) {
      input = static_cast<int>(out_.inputs.size());
      mine.kind = loop::BufferKind::Input;
      ProgramInput in{to, flat, graph::InputKind::User, {}, mine.name};
      if (b.kind == loop::BufferKind::Constant) {
        auto same = std::find_if(whole_.inputs.begin(), whole_.inputs.end(), [&](auto& i) { return i.buffer == from; });
        TOROID_CHECK(same != whole_.inputs.end(), "constant {} is no input", b.name);
        in.type = same->type, in.data = same->data, in.kind = graph::InputKind::Constant;
        mine.kind = loop::BufferKind::Constant;
      }
      out_.inputs.push_back(std::move(in));
    }
    if (!is_written) return;
    if (input < 0 && (b.kind == loop::BufferKind::Output || is_read_outside(from))) mine.kind = loop::BufferKind::Output;
    if (input >= 0 || mine.kind == loop::BufferKind::Output) out_.outputs.push_back({to, flat, input, {}, {}});
  }

  const Program& whole_;
  const std::span<const size_t> nodes_;
  Program out_;
  std::map<int, int> numbers_;  // of the whole's buffers here
  std::vector<int> from_outside_, written_;
};

}  // namespace

void for_each_operand(Node& n, const std::function<void(Operand&)>& f) {
  visit_operands(n, [&](Operand& o, Use, std::string_view, const auto&) { f(o); });
}

void for_each_check(Node& n, const std::function<void(loop::Statement&)>& f) {
  const auto body = [&](loop::Body& b) {
    for (auto& s : b.steps)
      if (s.step == loop::Step::Check) f(s);
  };
  body(n.body);
  if (n.producer) body(n.producer->body);
  for (auto& nest : n.beside) body(nest.body);
}

void renumber_buffers(Node& n, const std::function<int(int)>& to) {
  const auto body = [&](loop::Body& b) {
    for (auto& s : b.steps)
      if (s.step == loop::Step::Load || s.step == loop::Step::Store || s.step == loop::Step::Check) s.buffer = to(s.buffer);
  };
  for_each_operand(n, [&](Operand& o) { o.buffer = to(o.buffer); });
  body(n.body);
  if (n.producer) body(n.producer->body);
  for (auto& nest : n.beside) body(nest.body);
}

void rename_variables(Node& n) {
  rename_nest(n.domain, n.body, "i");
  if (n.producer) rename_nest(n.producer->domain, n.producer->body, "i");
  for (auto& nest : n.beside) rename_nest(nest.domain, nest.body, "i");
}

std::vector<int> records_of_faults(const Program& p) {
  std::vector<int> out;
  for (auto& b : p.buffers)
    if (b.kind == loop::BufferKind::Faults) out.push_back(b.id);
  return out;
}

NodeContent content_of(const Program& p, const Node& node) { return content_of(p, node, records_of_faults(p)); }

NodeContent content_of(const Program& p, const Node& node, std::span<const int> faults) {
  NodeContent out;
  Program alone;
  const auto number_of = [&](int buffer) {
    if (buffer < 0) return buffer;
    const auto at = std::find(out.buffers.begin(), out.buffers.end(), buffer);
    const auto number = static_cast<int>(at - out.buffers.begin());
    if (at != out.buffers.end()) return number;
    const loop::Buffer& b = p.buffers[static_cast<size_t>(buffer)];
    out.buffers.push_back(buffer);
    return alone.new_buffer(b.kind == loop::BufferKind::Peers ? b.name : "", b.dtype, b.numel, b.kind);
  };
  // Nodes that update inputs read it without naming it.
  for (const int b : faults) number_of(b);
  Node n = node;
  renumber_buffers(n, number_of);
  if (!is_named_by_place(n)) rename_variables(n);
  n.origins.clear(), n.parts.clear(), n.where.clear();
  n.pass = graph::Pass::Forward;
  alone.nodes.push_back(std::move(n));
  if (!p.symbols.empty()) {
    alone.symbols = p.symbols;
    drop_unused_symbols(alone);
  }
  out.text = to_string(alone, false);
  return out;
}

Program region(const Program& p, std::span<const size_t> nodes) { return Region(p, nodes).make(); }

Hash128 region_key(const Program& region) { return hash_text(to_string(region, false)); }

}  // namespace toroid::program
