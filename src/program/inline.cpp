#include "program/inline.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/hash.h"
#include "loop/var_map.h"
#include "program/dead_code.h"
#include "program/region.h"
#include "program/sizes.h"

namespace toroid::program {
namespace {

constexpr int64_t kHashed = 1 << 16;  // elements: larger constants are the same where they are one tensor

// Moves nodes of one program into another.
class Mover {
 public:
  Mover(Program& to, const Program& from, const Open& call, std::string prefix)
      : to_(to), from_(from), prefix_(std::move(prefix)), places_(from.buffers.size()) {
    size_t given = 0;
    for (auto& in : from.inputs) {
      if (in.kind == graph::InputKind::Constant && in.data.defined()) {
        set(in.buffer, {constant(in), 0});
      } else {
        TOROID_CHECK(given < call.inputs.size(), "{}: an alternative has more inputs than the call", call.name);
        auto& memory = call.inputs[given++].memory;
        set(in.buffer, {memory.buffer, memory.offset});
      }
    }
    TOROID_CHECK(given == call.inputs.size() && from.outputs.size() == call.outputs.size(), "{}: an alternative has other operands",
                 call.name);
    for (size_t i = 0; i < from.outputs.size(); ++i)
      set(from.outputs[i].buffer, {call.outputs[i].memory.buffer, call.outputs[i].memory.offset});
    for (auto& b : from.buffers)
      if (b.kind == loop::BufferKind::Faults)
        set(b.id, {to.faults(), 0});
      else if (b.kind == loop::BufferKind::Peers)
        set(b.id, {to.peers(b.name), 0});
      else if (place(b.id).buffer < 0)
        set(b.id, {to.new_buffer(prefix_ + b.name, b.dtype, b.numel, loop::BufferKind::Temporary), 0});
  }

  Node moved(Node n) {
    for_each_operand(n, [&](Operand& o) { move(o); });
    move(n.domain, n.body);
    if (n.producer) move(n.producer->domain, n.producer->body);
    for (auto& nest : n.beside) move(nest.domain, nest.body);
    for_each_check(n, [&](loop::Statement& s) {
      s.value.i = to_.site(from_.sites[static_cast<size_t>(s.value.i)]);
      s.buffer = to_.faults();
    });
    if (auto* a = std::get_if<Meeting>(&n.problem)) a->site = to_.site(from_.sites[static_cast<size_t>(a->site)]);
    for (auto& o : n.origins) o = prefix_ + o;
    return n;
  }

 private:
  struct Memory {
    int buffer = -1;
    Expr offset = 0;
  };
  Memory& place(int buffer) { return places_[static_cast<size_t>(buffer)]; }
  void set(int buffer, Memory m) {
    TOROID_CHECK(buffer >= 0 && place(buffer).buffer < 0, "an alternative has two names for one buffer");
    place(buffer) = std::move(m);
  }

  int constant(const ProgramInput& in) {
    for (auto& have : to_.inputs)
      if (have.kind == in.kind && have.data.defined() && have.data.impl() == in.data.impl() && have.type == in.type) return have.buffer;
    const auto& buffer = from_.buffers[static_cast<size_t>(in.buffer)];
    ProgramInput own = in;
    own.buffer = to_.new_buffer(prefix_ + buffer.name, buffer.dtype, buffer.numel, buffer.kind);
    to_.inputs.push_back(std::move(own));
    return to_.inputs.back().buffer;
  }

  void move(Operand& o) {
    if (o.buffer < 0) return;
    o.offset = o.offset + place(o.buffer).offset;
    o.buffer = place(o.buffer).buffer;
  }

  void move(loop::Domain& domain, loop::Body& body) {
    loop::VarMap<Expr> own;
    for (auto& v : domain.vars) {
      const Expr before = v.symbol;
      v.symbol = own[before] = sym::loop_symbol(before.node()->name, v.extent());
    }
    body = loop::substitute(body, loop::replacing(own));
    for (auto& s : body.steps) {
      if (s.step != loop::Step::Load && s.step != loop::Step::Store) continue;
      s.index = s.index + place(s.buffer).offset;
      s.buffer = place(s.buffer).buffer;
    }
  }

  Program& to_;
  const Program& from_;
  std::string prefix_;
  std::vector<Memory> places_;  // of the buffers of `from`
};

// The symbols that `from` uses, and the guards on what `p` has then: those of the program that `from` was made for, of which p may be a
// part.
void join(Program& p, const Program& from) {
  std::set<std::string> have;
  for (auto& s : p.symbols) have.insert(s.expr.node()->name);
  const std::set<std::string> used = size_symbols(from);
  for (auto& s : from.symbols)
    if (used.count(s.expr.node()->name) && have.insert(s.expr.node()->name).second) p.symbols.push_back(s);
  for (auto& g : from.guards) {
    bool known = true;
    for (auto* e : {&g.a, &g.b}) sym::for_each_symbol(*e, [&](const Expr& s) { known = known && have.count(s.node()->name); });
    auto same = [&](auto& other) { return other.rel == g.rel && other.a == g.a && other.b == g.b; };
    if (known && std::none_of(p.guards.begin(), p.guards.end(), same)) p.guards.push_back(g);
  }
}

}  // namespace

Program inline_alternative(const Program& p, size_t node, size_t alternative) {
  TOROID_CHECK(node < p.nodes.size() && p.nodes[node].is_open(), "node {} is no call with several implementations", node);
  const Node& call = p.nodes[node];
  const Open& open = std::get<Open>(call.problem);
  const Alternative& chosen = open.alternatives.at(alternative);
  Program out = p;
  join(out, *chosen.program);
  Mover mover(out, *chosen.program, open, (call.origins.empty() ? open.name : call.origins[0]) + "/");
  auto options = chosen.options.empty() ? call.options : std::make_shared<const OptionValues>(chosen.options);
  std::vector<Node> nodes;
  for (auto& n : chosen.program->nodes) {
    nodes.push_back(mover.moved(n));
    if (!nodes.back().options) nodes.back().options = options;
    nodes.back().parts = call.parts;
    if (nodes.back().where.empty()) nodes.back().where = call.where;
  }
  auto at = out.nodes.erase(out.nodes.begin() + static_cast<int64_t>(node));
  out.nodes.insert(at, std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  return out;
}

std::vector<Range> ranges_of(const Open& open) {
  std::vector<Range> out(1);
  for (int64_t s : open.split_points) {
    out.back().last = out.back().timed_at = s;
    out.push_back({s + 1, sym::kInf, open.top});
  }
  return out;
}

namespace {

// What runs for the sizes of a range. Where it is tuned by itself that is at the size that was seen, if it is one of these, or else at the
// one that the range was timed at.
std::shared_ptr<graph::Graph> block_for(const Alternative& a, const Expr& size, const Range& range) {
  std::shared_ptr<graph::Graph> block = graph::clone(*a.graph);
  for (auto& s : block->symbols)
    if (s.expr == size && !(s.hint && *s.hint >= range.first && *s.hint <= range.last))
      s.hint = std::clamp(range.timed_at, s.expr.node()->lo, s.expr.node()->hi);
  return block;
}

}  // namespace

Program decide_ranges(const Program& p, size_t node, const std::vector<size_t>& winners) {
  const Open& open = std::get<Open>(p.nodes.at(node).problem);
  const auto ranges = ranges_of(open);
  TOROID_CHECK(winners.size() == ranges.size(), "{} has {} ranges of sizes, {} winners are given", open.name, ranges.size(),
               winners.size());
  Extern call;
  call.op = open.op;
  call.inputs = open.inputs;
  call.outputs = open.outputs;
  for (size_t i = 0; i < ranges.size();) {
    const Alternative& own = open.alternatives.at(winners[i]);
    Range all = ranges[i];
    if (i > 0) call.conditions.push_back({sym::Rel::Le, open.size, all.first - 1});
    for (++i; i < ranges.size() && open.alternatives.at(winners[i]).key == own.key; ++i)
      all.last = ranges[i].last, all.timed_at = ranges[i].timed_at;
    call.blocks.push_back(block_for(own, open.size, all));
    call.options.push_back(own.options);
  }
  if (call.blocks.size() == 1) return inline_alternative(p, node, winners[0]);
  Program out = p;
  out.nodes[node].problem = std::move(call);
  return out;
}

Program inline_defaults(Program p, std::vector<std::string>& decisions) {
  for (size_t i = 0; i < p.nodes.size();) {
    const Open* open = std::get_if<Open>(&p.nodes[i].problem);
    if (!open) {
      ++i;
      continue;
    }
    if (open->alternatives.size() > 1 || !open->refused.empty()) {
      std::string line = fmt::format("{}: {} of {} ways", label(p.nodes[i]), open->alternatives[0].name, open->alternatives.size());
      for (auto& r : open->refused) line += fmt::format("; not {}: {}", r.name, r.reason);
      decisions.push_back(std::move(line));
    }
    p = inline_alternative(p, i, 0);  // which may hold such calls itself
  }
  eliminate_dead(p);
  return p;
}

std::string content_key(const Program& p, const OptionValues& options) {
  std::string text;
  for (auto& n : p.nodes) {  // without origins: names are no content
    Node plain = n;
    plain.origins.clear();
    Program one;
    one.nodes.push_back(std::move(plain));
    text += to_string(one, false);
  }
  for (auto& b : p.buffers) text += fmt::format("{} {} {}\n", name_of(b.dtype), sym::to_string(b.numel), static_cast<int>(b.kind));
  for (auto& in : p.inputs) {
    text += fmt::format("in {} {}", in.buffer, static_cast<int>(in.kind));
    if (!in.data.defined()) continue;
    if (in.data.numel() > kHashed) {
      text += fmt::format(" at {}\n", static_cast<const void*>(in.data.raw_data()));
      continue;
    }
    const Tensor data = moved(in.data, Device::cpu()).contiguous();
    text += hash_bytes(data.raw_data(), static_cast<size_t>(data.numel()) * size_of(data.dtype())).hex() + "\n";
  }
  for (auto& o : p.outputs) text += fmt::format("out {}\n", o.buffer);
  for (auto& [name, value] : options) text += fmt::format("{}={}\n", name, value);
  return hash_text(text).hex();
}

}  // namespace toroid::program
