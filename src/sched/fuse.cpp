#include "sched/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/mutants.h"
#include "sched/domain_map.h"

namespace toroid::sched {
namespace {

using choice::Node;
using choice::Program;
using loop::Body;
using loop::Statement;
using loop::Step;

constexpr size_t kMaxSteps = 600, kMaxBuffers = 32;

int64_t estimate(const Expr& e) {
  if (auto c = e.maybe_constant()) return *c;
  constexpr int64_t kTypical = 64;  // a symbolic size, for scores only
  return sym::evaluate(e, [=](const sym::Node& s) { return std::clamp<int64_t>(kTypical, s.lo, s.hi); });
}

class Fuser {
 public:
  Fuser(Program& program, FusionReport* report) : p_(program), report_(report) {}

  void run() {
    for (auto& n : p_.nodes) groups_.push_back(Group{next_id_++, std::move(n)});
    writers_.resize(p_.buffers.size());
    for (auto& g : groups_)
      for (int b : g.writes) ++writers_[static_cast<size_t>(b)];
    while (step()) {
    }
    p_.nodes.clear();
    for (auto& g : groups_) p_.nodes.push_back(std::move(g.node));
  }

 private:
  struct Group {
    int id;  // names a group for good, across changes of order
    Node node;
    std::vector<int> reads = choice::reads(node), writes = choice::writes(node);  // buffers
  };
  struct Candidate {
    size_t first, second;  // positions; second reads what first writes, or both read the same
    int64_t score;
    bool depends;
  };

  // Joins the best pair that can be joined. False when there is none.
  bool step() {
    index();
    std::vector<Candidate> candidates = this->candidates();
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) { return x.score > y.score; });
    for (auto& c : candidates) {
      const Group &a = groups_[c.first], &b = groups_[c.second];
      if (refused_.count({a.id, b.id})) continue;
      std::string reason;
      if (path_between(c.first, c.second)) {
        reason = "a third node lies between them";
      } else if (auto joined = join(a, b, c.depends, &reason)) {
        replace(c.first, c.second, std::move(*joined));
        return true;
      }
      refused_.insert({a.id, b.id});
      if (report_) report_->misses.push_back({label(a.node), label(b.node), reason});
    }
    return false;
  }

  static std::string label(const Node& n) {
    std::string out;
    for (auto& o : n.origins) out += (out.empty() ? "" : "+") + o;
    return out;
  }

  // Who reads and writes what, and successor lists.
  void index() {
    size_t n = groups_.size();
    next_.assign(n, {});
    std::map<int, std::vector<size_t>> wrote, read;
    for (size_t i = 0; i < n; ++i) {
      auto edge = [&](size_t from) {
        if (from != i && std::find(next_[from].begin(), next_[from].end(), i) == next_[from].end()) next_[from].push_back(i);
      };
      for (int b : groups_[i].reads)
        for (size_t w : wrote[b]) edge(w);
      for (int b : groups_[i].writes) {
        for (size_t w : wrote[b]) edge(w);
        for (size_t r : read[b])
          if (!mutant(Mutant::ReadBeforeWrite)) edge(r);
      }
      for (int b : groups_[i].reads) read[b].push_back(i);
      for (int b : groups_[i].writes) wrote[b].push_back(i);
    }
  }

  std::vector<Candidate> candidates() {
    std::vector<Candidate> out;
    std::map<int, std::vector<size_t>> touching;  // positions by buffer, in order
    for (size_t i = 0; i < groups_.size(); ++i) {
      std::set<int> all(groups_[i].reads.begin(), groups_[i].reads.end());
      all.insert(groups_[i].writes.begin(), groups_[i].writes.end());
      for (int b : all) touching[b].push_back(i);
    }
    std::map<std::pair<size_t, size_t>, Candidate> pairs;
    for (auto& [buffer, users] : touching) {
      if (users.size() > 24) continue;  // an input that everything reads says nothing
      int64_t bytes = estimate(p_.buffers[static_cast<size_t>(buffer)].numel) *
                      static_cast<int64_t>(size_of(p_.buffers[static_cast<size_t>(buffer)].dtype));
      for (size_t x = 0; x < users.size(); ++x)
        for (size_t y = x + 1; y < users.size(); ++y) {
          size_t i = users[x], j = users[y];
          if (groups_[i].node.is_extern() || !groups_[j].node.is_loop()) continue;
          bool wrote = std::find(groups_[i].writes.begin(), groups_[i].writes.end(), buffer) != groups_[i].writes.end();
          auto [it, fresh] = pairs.try_emplace({i, j}, Candidate{i, j, 0, false});
          it->second.score += wrote ? 2 * bytes : bytes;
          it->second.depends = it->second.depends || wrote;
        }
    }
    for (auto& [key, c] : pairs) out.push_back(c);
    return out;
  }

  // A path from `from` to `to` (or back) with at least one node in between.
  bool path_between(size_t from, size_t to) {
    if (mutant(Mutant::PathIgnored)) return false;
    auto reaches = [&](size_t start, size_t goal) {
      std::vector<size_t> stack;
      std::vector<bool> seen(groups_.size(), false);
      for (size_t s : next_[start])
        if (s != goal) stack.push_back(s);
      while (!stack.empty()) {
        size_t at = stack.back();
        stack.pop_back();
        if (at == goal) return true;
        if (seen[at]) continue;
        seen[at] = true;
        for (size_t s : next_[at]) stack.push_back(s);
      }
      return false;
    };
    return reaches(from, to) || reaches(to, from);
  }

  std::optional<Node> join(const Group& first, const Group& second, bool depends, std::string* reason) {
    const Node &a = first.node, &b = second.node;
    inside_ = {first.id, second.id};
    bool template_first = !a.is_loop();
    if (template_first && (!depends || loop::has_reduction(b.domain))) {
      *reason = "a template takes only pointwise readers of its result";
      return std::nullopt;
    }
    if (a.body.steps.size() + b.body.steps.size() > kMaxSteps) {
      *reason = "the joint body would be too long";
      return std::nullopt;
    }
    for (const loop::Domain* d : {&a.domain, &b.domain})
      for (auto& v : d->vars)
        if (v.extent() == Expr(0)) {
          *reason = "an empty domain";
          return std::nullopt;
        }
    std::optional<Match> m = match_domains(a.domain, b.domain, template_first);
    std::optional<Node> out;
    if (m)
      out = join_matched(a, b, *m, depends, reason);
    else
      *reason = "their iteration domains do not match";
    if (!out && depends && !loop::has_reduction(b.domain))
      if (auto reordered = follow_order(a, b)) {
        m = match_domains(a.domain, reordered->domain, template_first);
        if (m) out = join_matched(a, *reordered, *m, depends, reason);
      }
    return out;
  }

  // The second node with its loops in the order in which it walks through the first one's result.
  std::optional<Node> follow_order(const Node& a, const Node& b) {
    auto written = loop::buffers_written(a.body);
    for (auto& s : b.body.steps) {
      if (s.step != Step::Load || std::find(written.begin(), written.end(), s.buffer) == written.end()) continue;
      std::vector<std::pair<int64_t, loop::Var>> order;
      for (auto& v : b.domain.vars) {
        auto c = sym::linear_coefficient(s.index, v.symbol);
        if (!c) return std::nullopt;
        order.emplace_back(estimate(*c), v);
      }
      std::stable_sort(order.begin(), order.end(), [](auto& x, auto& y) { return x.first > y.first; });
      Node out = b;
      bool changed = false;
      for (size_t i = 0; i < order.size(); ++i) {
        changed = changed || !(order[i].second.symbol == b.domain.vars[i].symbol);
        out.domain.vars[i] = order[i].second;
      }
      return changed ? std::optional<Node>(std::move(out)) : std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Node> join_matched(const Node& a, const Node& b, const Match& m, bool depends, std::string* reason) {
    Body first = rename(a.body, m.first), second = rename(b.body, m.second);
    auto written = loop::buffers_written(first), written_second = loop::buffers_written(second);
    auto read_first = loop::buffers_read(first);
    auto contains = [](const std::vector<int>& v, int b) { return std::find(v.begin(), v.end(), b) != v.end(); };
    for (int w : written_second)
      if (!mutant(Mutant::FusedAcrossWrite) && (contains(written, w) || contains(read_first, w))) {
        *reason = "the second writes what the first uses";
        return std::nullopt;
      }
    Node out = a;
    out.domain = m.joint;
    out.body = first;
    for (auto& o : b.origins) out.origins.push_back(o);
    loop::BodyBuilder builder(out.body);
    std::vector<int> to(second.steps.size(), -1);
    bool shared = depends;
    for (size_t i = 0; i < second.steps.size(); ++i) {
      Statement s = second.steps[i];
      for (int& x : s.args)
        if (x >= 0) x = to[static_cast<size_t>(x)];
      if (s.mask >= 0) s.mask = to[static_cast<size_t>(s.mask)];
      s.index = sym::substitute(s.index, [&](const sym::Node& n) -> std::optional<Expr> {
        int k = loop::step_of_symbol(n);
        if (k < 0) return std::nullopt;
        return loop::value_symbol(to[static_cast<size_t>(k)], n.lo, n.hi);
      });
      if (s.step == Step::Load && contains(written, s.buffer)) {
        if (writers_[static_cast<size_t>(s.buffer)] > 1) {
          *reason = "several nodes write what passes between them";
          return std::nullopt;
        }
        auto value = stored_value(out.body, s);
        if (!value) {
          *reason = "the second reads other elements than the first computes at the same point";
          return std::nullopt;
        }
        to[i] = *value;
        continue;
      }
      if (s.step == Step::Load)
        for (auto& t : first.steps) shared = shared || (t.step == Step::Load && t.buffer == s.buffer && t.index == s.index);
      to[i] = append(out.body, builder, s);
    }
    if (!shared) {
      *reason = "they read no element in common";
      return std::nullopt;
    }
    if (scatters_results(m.joint, first, second)) {
      *reason = "the joint loop would read along one dimension and write along another";
      return std::nullopt;
    }
    drop_internal_stores(out);
    loop::eliminate_dead(out.body);
    if (loop::buffers_read(out.body).size() + loop::buffers_written(out.body).size() > kMaxBuffers) {
      *reason = "the joint node would touch too many buffers";
      return std::nullopt;
    }
    return out;
  }

  // A reduction whose lanes run along a space variable (pooling over channels-last memory), and a reader that stores along another one:
  // apart, each runs along its memory.
  static bool scatters_results(const loop::Domain& joint, const Body& reducing, const Body& reader) {
    for (auto& v : joint.vars) {
      if (v.reduction || !loop::has_reduction(joint)) continue;
      auto steps_by = [&](const Body& b, Step kind, int64_t stride) {
        for (auto& s : b.steps) {
          if (s.step != kind) continue;
          auto c = sym::linear_coefficient(s.index, v.symbol);
          if (c && c->is_const() && (stride == 1 ? c->constant() == 1 : c->constant() > 1)) return true;
        }
        return false;
      };
      if (steps_by(reducing, Step::Load, 1) && steps_by(reducing, Step::Store, 1) && steps_by(reader, Step::Store, 2)) return true;
    }
    return false;
  }

  static int append(Body& body, loop::BodyBuilder& builder, const Statement& s) {
    if (s.step == Step::Scalar && s.op == ScalarOp::Cast && s.args[0] >= 0) {  // widening what was narrowed: keep the wide value
      const Statement& x = body.steps[static_cast<size_t>(s.args[0])];
      if (x.step == Step::Scalar && x.op == ScalarOp::Cast && is_half(x.dtype) &&
          body.steps[static_cast<size_t>(x.args[0])].dtype == s.dtype && is_float(s.dtype))
        return x.args[0];
    }
    if (s.step == Step::Scalar) {
      ScalarNode n{.op = s.op, .dtype = s.dtype, .args = {s.args[0], s.args[1], s.args[2]}, .value = s.value};
      return builder.emit(n);
    }
    if (s.step == Step::Load) {
      for (size_t i = 0; i < body.steps.size(); ++i) {
        const Statement& t = body.steps[i];
        if (t.step == Step::Load && t.buffer == s.buffer && t.mask == s.mask && t.index == s.index) return static_cast<int>(i);
      }
    }
    body.steps.push_back(s);
    return static_cast<int>(body.steps.size()) - 1;
  }

  // The value that the body stores where `load` reads.
  static std::optional<int> stored_value(const Body& body, const Statement& load) {
    for (auto& s : body.steps)
      if (s.step == Step::Store && s.buffer == load.buffer && s.mode == loop::StoreMode::Set && s.mask < 0 &&
          (s.index == load.index || mutant(Mutant::OtherElement)))
        return s.args[0];
    return std::nullopt;
  }

  // Stores of temporaries that nothing outside the joint node reads become empty steps, which eliminate_dead removes.
  void drop_internal_stores(Node& out) {
    auto is_read = [&](int buffer) {
      if (mutant(Mutant::SkippedStore)) return false;
      for (size_t i = 0; i < groups_.size(); ++i)
        if (!inside_.count(groups_[i].id) && std::find(groups_[i].reads.begin(), groups_[i].reads.end(), buffer) != groups_[i].reads.end())
          return true;
      auto own = choice::reads(out);
      return std::find(own.begin(), own.end(), buffer) != own.end();
    };
    for (auto& s : out.body.steps) {
      if (s.step != Step::Store) continue;
      auto b = static_cast<size_t>(s.buffer);
      if (p_.buffers[b].kind == loop::BufferKind::Temporary && writers_[b] == 1 && !is_read(s.buffer)) s = Statement{};
    }
  }

  // Puts the joint node in place of two, and all nodes into an order in which each comes after what it needs.
  void replace(size_t first, size_t second, Node joined) {
    size_t n = groups_.size();
    std::vector<std::set<size_t>> next(n);
    std::vector<int> waiting(n, 0);
    auto to = [&](size_t i) { return i == second ? first : i; };
    for (size_t i = 0; i < n; ++i)
      for (size_t s : next_[i])
        if (to(i) != to(s) && next[to(i)].insert(to(s)).second) ++waiting[to(s)];
    groups_[first] = Group{next_id_++, std::move(joined)};
    std::set<size_t> ready;
    for (size_t i = 0; i < n; ++i)
      if (i != second && !waiting[i]) ready.insert(i);
    std::vector<Group> order;
    while (!ready.empty()) {
      size_t i = *ready.begin();
      ready.erase(ready.begin());
      order.push_back(std::move(groups_[i]));
      for (size_t s : next[i])
        if (--waiting[s] == 0) ready.insert(s);
    }
    TOROID_CHECK(order.size() == n - 1, "fusion made a cycle");
    groups_ = std::move(order);
  }

  Program& p_;
  FusionReport* report_;
  std::vector<Group> groups_;
  int next_id_ = 0;
  std::set<int> inside_;  // ids of the pair being joined
  std::vector<int> writers_;
  std::vector<std::vector<size_t>> next_;
  std::set<std::pair<int, int>> refused_;
};

}  // namespace

choice::Program fuse(choice::Program program, FusionReport* report) {
  if (report) report->nodes_before = program.nodes.size();
  Fuser(program, report).run();
  if (report) report->nodes_after = program.nodes.size();
  return program;
}

}  // namespace toroid::sched
