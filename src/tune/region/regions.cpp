#include "tune/region/regions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "program/region.h"
#include "sched/mm_plus_mm.h"
#include "tune/region/sizes.h"

namespace toroid::tune {
namespace {

using program::Node;
using program::Program;

bool contains(const std::vector<int>& list, int x) { return std::find(list.begin(), list.end(), x) != list.end(); }
bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int x) { return contains(b, x); });
}

bool is_choice(const Node& n) {
  return std::holds_alternative<program::Gemm>(n.problem) || std::holds_alternative<program::Convolution>(n.problem) ||
         std::holds_alternative<program::Attention>(n.problem) || std::holds_alternative<program::Sort>(n.problem) ||
         std::holds_alternative<program::Meeting>(n.problem) || n.is_open();
}

bool is_pointwise(const Node& n) { return n.is_loop() && !loop::has_reduction(n.domain); }

// Whether a loop before could be fused into this reader of `buffer`.
bool takes_prologue(const Node& n, int buffer) {
  if (auto* g = std::get_if<program::Gemm>(&n.problem))
    return !n.is_library() && g->a.buffer == buffer && g->b.buffer != buffer && !contains(loop::buffers_read(n.body), buffer);
  return n.is_loop();
}

class Sets {
 public:
  explicit Sets(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t of(size_t i) { return parent_[i] == i ? i : parent_[i] = of(parent_[i]); }
  void join(size_t a, size_t b) { parent_[of(b)] = of(a); }

 private:
  std::vector<size_t> parent_;
};

// Nodes of `p` that could be fused behind (or before) those of `at` one after the other.
void grow(const Program& p, Sets& sets, size_t start, int depth, bool forward) {
  std::vector<size_t> edge = {start};
  for (int d = 0; d < depth && !edge.empty(); ++d) {
    std::vector<size_t> next;
    for (size_t at : edge) {
      const std::vector<int> between = forward ? program::writes(p.nodes[at]) : program::reads(p.nodes[at]);
      for (size_t i = 0; i < p.nodes.size(); ++i) {
        if (sets.of(i) == sets.of(at) || !(is_pointwise(p.nodes[i]) || p.nodes[i].is_open())) continue;
        if (!overlap(between, forward ? program::reads(p.nodes[i]) : program::writes(p.nodes[i]))) continue;
        sets.join(at, i);
        next.push_back(i);
      }
    }
    edge = std::move(next);
  }
}

// Those of a launch's parts that use what `start` makes, directly or by others of them. Ascending, as they depend on each other.
std::vector<int> users_within(const Program& p, const std::vector<int>& parts, int start) {
  std::vector<int> out, made = program::writes(p.nodes[static_cast<size_t>(start)]);
  for (int i : parts) {
    const Node& n = p.nodes[static_cast<size_t>(i)];
    if (i <= start || !overlap(made, program::reads(n))) continue;
    out.push_back(i);
    for (int b : program::writes(n)) made.push_back(b);
  }
  return out;
}

// " [4x1024x768x768]", batch first, of a product, and the like: what tells parts of one name apart. Open sizes have their usual values,
// where these are known.
std::string sizes_text(const Node& n, const exec::Symbols& usual) {
  std::vector<Expr> sizes;
  if (auto* g = std::get_if<program::Gemm>(&n.problem)) {
    sizes = g->batch;
    std::erase_if(sizes, [](const Expr& e) { return e == Expr(1); });
    for (auto* e : {&g->m, &g->n, &g->k}) sizes.push_back(*e);
  } else if (auto* c = std::get_if<program::Convolution>(&n.problem)) {
    sizes = {c->n, c->in_channels, c->in_h, c->in_w, c->out_channels, c->kernel_h, c->kernel_w};
  } else if (auto* a = std::get_if<program::Attention>(&n.problem)) {
    sizes = {a->batch, a->heads, a->queries, a->keys, a->head_dim};
  } else if (auto* r = std::get_if<program::Meeting>(&n.problem)) {
    sizes = r->sizes;
  } else {
    return "";
  }
  std::string out;
  for (const Expr& e : sizes) {
    const Expr value = sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
      const auto known = std::find_if(usual.begin(), usual.end(), [&](auto& size) { return size.first == s.name; });
      return known == usual.end() ? std::nullopt : std::optional<Expr>(known->second);
    });
    out += (out.empty() ? " [" : "x") + sym::to_string(value);
  }
  return out + "]";
}

std::string refusal_of(const Program& region) {
  for (auto& n : region.nodes)
    if (n.is_extern()) return "a call of other code is part of it";
  return "";
}

}  // namespace

Hash128 key_of(const program::Program& region, const exec::Symbols& sizes) {
  const Hash128 text = program::region_key(region);
  if (region.symbols.empty()) return text;
  Hasher all;
  all.add(text).add(exec::to_string(sizes));
  for (auto& s : region.symbols) all.add(s.expr.node()->name).add(s.expr.node()->lo).add(s.expr.node()->hi);
  for (auto& g : region.guards) all.add(sym::to_string(g));
  return all.finish();
}

bool Boundary::can_fuse_prologue(const Node& before) const { return before.is_loop() && overlap(program::writes(before), fusable_inputs); }

bool Boundary::can_fuse_epilogue(const Node& after) const {
  return is_pointwise(after) && overlap(program::reads(after), fusable_outputs) && !overlap(program::writes(after), program::reads(after));
}

Boundary boundary_of(const Program& p) {
  Boundary out;
  std::map<int, std::vector<size_t>> readers, writers;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    for (int b : program::reads(p.nodes[i])) readers[b].push_back(i);
    for (int b : program::writes(p.nodes[i])) writers[b].push_back(i);
  }
  std::set<size_t> first, last;
  for (auto& in : p.inputs) {
    if (in.data.defined()) continue;
    const auto& by = readers[in.buffer];
    first.insert(by.begin(), by.end());
    const bool all_take = std::all_of(by.begin(), by.end(), [&](size_t i) { return takes_prologue(p.nodes[i], in.buffer); });
    if (!by.empty() && writers[in.buffer].empty() && all_take) out.fusable_inputs.push_back(in.buffer);
  }
  for (auto& o : p.outputs) {
    if (o.buffer < 0) continue;
    const auto& by = writers[o.buffer];
    last.insert(by.begin(), by.end());
    if (by.size() != 1 || o.mutates >= 0 || !readers[o.buffer].empty() || contains(out.fusable_outputs, o.buffer)) continue;
    const Node& n = p.nodes[by.front()];
    const bool partial = std::any_of(n.body.steps.begin(), n.body.steps.end(), [&](auto& s) {
      return s.step == loop::Step::Store && s.buffer == o.buffer && (s.mode != loop::StoreMode::Set || s.mask >= 0);
    });
    if (!n.is_whole() && !n.is_library() && !partial) out.fusable_outputs.push_back(o.buffer);
  }
  out.first_nodes.assign(first.begin(), first.end());
  out.last_nodes.assign(last.begin(), last.end());
  return out;
}

Region region_of(const Program& lowered, const std::vector<size_t>& nodes) {
  Region r;
  r.program = program::region(lowered, nodes);
  for (size_t i : nodes) {
    const Node& n = lowered.nodes[i];
    if (is_choice(n)) r.choice_nodes.push_back(r.numbers.size());
    r.numbers.push_back(static_cast<int>(i));
    r.labels.push_back(program::label(n));
  }
  r.refusal = refusal_of(r.program);
  usual_sizes(r.program, r.sizes, r.refusal);
  for (size_t c : r.choice_nodes) r.label += (r.label.empty() ? "" : ", ") + r.labels[c] + sizes_text(r.program.nodes[c], r.sizes);
  r.key = key_of(r.program, r.sizes);
  return r;
}

std::vector<Region> find_regions(const Program& lowered, const Program& scheduled, int depth) {
  Sets sets(lowered.nodes.size());
  for (auto& n : scheduled.nodes)
    for (int part : n.parts) sets.join(static_cast<size_t>(n.parts.front()), static_cast<size_t>(part));
  for (size_t i = 0; i < lowered.nodes.size(); ++i)
    if (lowered.nodes[i].is_open())
      for (bool forward : {true, false}) grow(lowered, sets, i, depth, forward);
  std::map<size_t, std::vector<size_t>> members;
  for (size_t i = 0; i < lowered.nodes.size(); ++i) members[sets.of(i)].push_back(i);
  std::vector<Region> out;
  for (auto& [root, nodes] : members) {
    if (std::none_of(nodes.begin(), nodes.end(), [&](size_t i) { return is_choice(lowered.nodes[i]); })) continue;
    out.push_back(region_of(lowered, nodes));
  }
  return out;
}

std::vector<Region> find_sums_of_products(const Program& lowered, const Program& scheduled) {
  std::vector<Region> out;
  for (auto& s : sched::sums_of_products(lowered)) {
    std::set<size_t> nodes;
    for (auto& n : scheduled.nodes) {
      const auto has = [&](size_t i) { return contains(n.parts, static_cast<int>(i)); };
      if (has(s.first) || has(s.second) || has(s.sum)) nodes.insert(n.parts.begin(), n.parts.end());
    }
    Region r = region_of(lowered, {nodes.begin(), nodes.end()});
    const auto second = std::distance(nodes.begin(), nodes.find(s.second));
    r.rewriting.ways = {{static_cast<int>(second), {sched::kMmPlusMm, {}}}};
    r.label += " as one";
    r.key = Hasher().add(r.key).add(sched::kMmPlusMm).finish();
    out.push_back(std::move(r));
  }
  return out;
}

size_t place_of(const Program& scheduled, size_t choice_node) {
  for (size_t i = 0; i < scheduled.nodes.size(); ++i)
    if (!scheduled.nodes[i].is_loop() && contains(scheduled.nodes[i].parts, static_cast<int>(choice_node))) return i;
  return scheduled.nodes.size();
}

std::vector<std::vector<size_t>> fusion_sets(const Program& region, size_t c, int depth, const FusionKinds& kinds) {
  std::vector<std::vector<size_t>> out = {{c}};
  std::set<std::vector<size_t>> seen = {{c}};
  std::vector<std::vector<int>> read, written;
  for (auto& n : region.nodes) read.push_back(program::reads(n)), written.push_back(program::writes(n));
  size_t begin = 0;
  for (int d = 0; d < depth; ++d) {
    const size_t end = out.size();
    for (; begin < end; ++begin)
      for (size_t i = 0; i < region.nodes.size() && out.size() < kMostFusionSets; ++i) {
        const std::vector<size_t> set = out[begin];
        const Node& n = region.nodes[i];
        if (std::find(set.begin(), set.end(), i) != set.end()) continue;
        const bool behind = std::any_of(set.begin(), set.end(), [&](size_t s) { return overlap(written[s], read[i]); });
        const bool before = std::any_of(set.begin(), set.end(), [&](size_t s) { return overlap(written[i], read[s]); });
        const bool wanted = is_choice(n) ? kinds.cross_subgraph && n.is_open() && (behind || before)
                                         : (behind && kinds.epilogue) || (before && kinds.prologue);
        if (!wanted) continue;
        std::vector<size_t> larger = set;
        larger.insert(std::upper_bound(larger.begin(), larger.end(), i), i);
        if (seen.insert(larger).second) out.push_back(std::move(larger));
      }
  }
  return out;
}

std::vector<std::pair<int, int>> unwanted_fusion(const Program& lowered, const Program& scheduled, const FusionKinds& kinds) {
  std::vector<std::pair<int, int>> out;
  for (auto& launch : scheduled.nodes) {
    std::vector<int> parts = launch.parts;
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    const auto is_choice_at = [&](int i) { return is_choice(lowered.nodes[static_cast<size_t>(i)]); };
    for (int c : parts) {
      if (!is_choice_at(c)) {
        if (kinds.prologue) continue;
        for (int user : users_within(lowered, parts, c))
          if (is_choice_at(user)) out.emplace_back(c, user);
        continue;
      }
      if (!kinds.epilogue)
        for (int user : users_within(lowered, parts, c))
          if (!is_choice_at(user)) out.emplace_back(c, user);
      if (!kinds.cross_subgraph)
        for (int other : parts)
          if (other > c && is_choice_at(other)) out.emplace_back(c, other);
    }
  }
  return out;
}

}  // namespace toroid::tune
