#include "sched/fuse.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/mutants.h"
#include "loop/renumber.h"
#include "program/effects.h"
#include "program/sizes.h"
#include "program/users_calls.h"
#include "sched/domain_map.h"
#include "sched/fuse_checks.h"
#include "sched/joined_order.h"
#include "sched/over_points.h"

namespace toroid::sched {
namespace {

using loop::Body;
using loop::Statement;
using loop::Step;
using program::Node;
using program::Program;

constexpr size_t kMaxSteps = 600, kMaxBuffers = 32;
constexpr int64_t kMostEpilogueArrays = 4;  // on targets whose products are faster than their memory

class Fuser {
 public:
  Fuser(Program& program, FusionReport* report, int workers)
      : p_(program), report_(report), workers_(workers), order_(program.nodes.size()) {}

  void run() {
    for (auto& n : p_.nodes) groups_.push_back(Group{std::move(n)});
    writers_.resize(p_.buffers.size());
    for (auto& g : groups_)
      for (int b : g.writes) ++writers_[static_cast<size_t>(b)];
    index();
    for (size_t i = 0; i < groups_.size(); ++i) propose(i, i);
    while (step()) {
    }
    put_in_order();
  }

 private:
  struct Candidate {
    int64_t score;
    size_t first, second;  // second reads what first writes, or both read the same
    bool depends;
    bool operator<(const Candidate& o) const {  // the best one comes first
      return std::tie(o.score, first, second) < std::tie(score, o.first, o.second);
    }
  };
  // A node, or several that were joined. Its place in groups_ is its name; the place of a node that went into another one is empty.
  struct Group {
    Node node;
    std::vector<int> reads = program::reads(node), writes = program::writes(node);  // buffers
    bool gone = false;
    std::vector<Candidate> candidates = {};  // pairs that it is part of
  };

  // Joins the best pair that can be joined. False when there is none.
  bool step() {
    while (!candidates_.empty()) {
      const Candidate c = *candidates_.begin();
      candidates_.erase(candidates_.begin());
      std::string reason;
      if (path_between(c.first, c.second)) {
        reason = "a third node lies between them";  // for good: joining others only shortens the way
      } else if (auto joined = join(c.first, c.second, c.depends, &reason)) {
        replace(c.first, c.second, std::move(*joined));
        return true;
      }
      if (report_) report_->misses.push_back({program::label(groups_[c.first].node), program::label(groups_[c.second].node), reason});
    }
    return false;
  }

  // Who touches what, and who waits for whom.
  void index() {
    size_t n = groups_.size();
    std::map<int, std::vector<size_t>> wrote, read;
    for (size_t i = 0; i < n; ++i) {
      auto edge = [&](size_t from) {
        if (from != i) order_.add_edge(from, i);
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
      for (int b : buffers_of(groups_[i])) touching_[b].insert(i);
    }
    order_after_sizes();
    order_effects();
    for (size_t i = 0; i < n; ++i) latest_.push_back(is_product(groups_[i].node) ? i + 1 : 0);
    for (size_t i = 0; i < n; ++i)
      for (size_t s : order_.after(i)) latest_[s] = std::max(latest_[s], latest_[i]);
  }

  static bool is_product(const Node& n) { return !n.is_loop() && !n.is_whole() && !n.is_call(); }

  // What follows from group i waits for a product as late as its own.
  void raise_latest(size_t i) {
    std::vector<size_t> stack{i};
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      for (size_t s : order_.after(at))
        if (latest_[s] < latest_[at]) latest_[s] = latest_[at], stack.push_back(s);
    }
  }

  // Whether one of two that do not depend on each other would be moved behind a product that it need not wait for, where it holds memory
  // until then.
  bool waits_for_nothing(size_t first, size_t second) const {
    constexpr int64_t kSmall = 1 << 20;
    return latest_[first] != latest_[second] && bytes_of(groups_[first]) > kSmall && bytes_of(groups_[second]) > kSmall;
  }
  int64_t bytes_of(const Group& g) const {
    int64_t sum = 0;
    for (int b : buffers_of(g)) sum += bytes_of(b);
    return sum;
  }
  int64_t bytes_of(int buffer) const {
    const auto& b = p_.buffers[static_cast<size_t>(buffer)];
    return estimate(b.numel) * static_cast<int64_t>(size_of(b.dtype));
  }

  // A large temporary of which a group picks few elements, by their numbers; -1: there is none.
  int picked_from(size_t group) const {
    constexpr int64_t kLarge = int64_t{64} << 20, kShare = 1024;
    int64_t given = 0;
    for (int b : groups_[group].writes) given += bytes_of(b);
    for (auto& s : groups_[group].node.body.steps)
      if (s.step == Step::Load && loop::uses_values(s.index) &&
          p_.buffers[static_cast<size_t>(s.buffer)].kind == loop::BufferKind::Temporary &&
          bytes_of(s.buffer) >= std::max(kLarge, given * kShare))
        return s.buffer;
    return -1;
  }
  // Whether a joint node would pick from a large temporary beside, or behind, another reader of it, which may be the last one if it does
  // not: that one may write over it (sched/reuse.h).
  bool picks_late(size_t first, size_t second, bool depends) const {
    const auto reads = [&](size_t group, int b) {
      return std::find(groups_[group].reads.begin(), groups_[group].reads.end(), b) != groups_[group].reads.end();
    };
    const int from = picked_from(first);
    if (!depends) return (from >= 0 && reads(second, from)) || (picked_from(second) >= 0 && reads(first, picked_from(second)));
    if (from < 0) return false;
    const auto& users = touching_.at(from);
    return std::any_of(users.begin(), users.end(), [&](size_t u) {
      return u != first && !wrote(u, from) && (order_.is_edge(u, second) || order_.reaches_by_another(u, second));
    });
  }
  bool wrote(size_t group, int buffer) const {
    const auto& writes = groups_[group].writes;
    return std::find(writes.begin(), writes.end(), buffer) != writes.end();
  }

  // Whether the temporaries that the first one reads are larger than what it gives to the second, which waits for a later product.
  bool holds_more(size_t first, size_t second) const {
    constexpr int64_t kSmall = 1 << 20;
    if (latest_[first] == latest_[second]) return false;
    int64_t more = -kSmall;
    for (int b : groups_[first].reads)
      if (p_.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Temporary) more += bytes_of(b);
    for (int b : groups_[first].writes) more -= bytes_of(b);
    return more > 0;
  }

  // What uses a size that a call determines comes after it, though it may read nothing of it.
  void order_after_sizes() {
    std::map<std::string, size_t> determined;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (!determined.empty())
        program::for_each_expression(groups_[i].node, [&](const Expr& e) {
          sym::for_each_symbol(e, [&](const Expr& s) {
            const auto it = sym::is_size(*s.node()) ? determined.find(s.node()->name) : determined.end();
            if (it != determined.end() && it->second != i) order_.add_edge(it->second, i);
          });
        });
      if (auto* call = std::get_if<program::Extern>(&groups_[i].node.problem))
        for (auto& s : call->fresh_symbols) determined.emplace(s.node()->name, i);
    }
  }

  // Other ranks meet in collectives, whose programs need not be this one; what is drawn depends on what was drawn before; and calls of
  // users' code may do anything.
  void order_effects() {
    for (const auto has_effect : {+[](const Node& n) { return program::meets(n); }, &program::draws, &program::has_effect}) {
      std::optional<size_t> before;
      for (size_t i = 0; i < groups_.size(); ++i) {
        if (!has_effect(groups_[i].node)) continue;
        if (before) order_.add_edge(*before, i);
        before = i;
      }
    }
  }

  static std::set<int> buffers_of(const Group& g) {
    std::set<int> all(g.reads.begin(), g.reads.end());
    all.insert(g.writes.begin(), g.writes.end());
    return all;
  }

  // Adds the pairs of group i with the groups from `from` on that touch the same buffers.
  void propose(size_t i, size_t from) {
    std::map<size_t, Candidate> pairs;
    for (int buffer : buffers_of(groups_[i])) {
      const std::set<size_t>& users = touching_[buffer];
      if (users.size() > 24) continue;  // an input that everything reads says nothing
      int64_t bytes = estimate(p_.buffers[static_cast<size_t>(buffer)].numel) *
                      static_cast<int64_t>(size_of(p_.buffers[static_cast<size_t>(buffer)].dtype));
      for (size_t j : users) {
        if (j == i || j < from) continue;
        bool forward = order_.is_edge(i, j) || (i < j && !order_.is_edge(j, i));
        size_t first = forward ? i : j, second = forward ? j : i;
        if (groups_[first].node.is_call() || groups_[first].node.is_library() || !groups_[second].node.is_loop()) continue;
        const std::vector<int>& writes = groups_[first].writes;
        bool wrote = std::find(writes.begin(), writes.end(), buffer) != writes.end();
        auto [it, fresh] = pairs.try_emplace(j, Candidate{0, first, second, false});
        it->second.score += wrote ? 2 * bytes : bytes;
        it->second.depends = it->second.depends || wrote;
      }
    }
    for (auto& [j, c] : pairs) {
      candidates_.insert(c);
      for (const size_t of : {c.first, c.second}) groups_[of].candidates.push_back(c);
    }
  }

  // A path from `from` to `to` (or back) with at least one node in between.
  bool path_between(size_t from, size_t to) {
    if (mutant(Mutant::PathIgnored)) return false;
    return order_.reaches_by_another(from, to) || order_.reaches_by_another(to, from);
  }

  std::optional<Node> join(size_t first, size_t second, bool depends, std::string* reason) {
    const Node &a = groups_[first].node, &b = groups_[second].node;
    inside_ = {first, second};
    bool template_first = !a.is_loop();
    if (!program::may_join(p_, a, b)) {
      *reason = "they were chosen to stay apart";
      return std::nullopt;
    }
    if (a.pass != b.pass && std::min(a.pass, b.pass) == graph::Pass::Forward && std::max(a.pass, b.pass) == graph::Pass::Again) {
      *reason = "what the backward pass computes again stays out of the forward pass";
      return std::nullopt;
    }
    if (template_first && latest_[second] > first + 1) {
      *reason = "the second waits for a later product: the operands of the first would be held until then";
      return std::nullopt;
    }
    if (!template_first && depends && holds_more(first, second)) {
      *reason = "the second waits for a later product: the first would hold more than it gives until then";
      return std::nullopt;
    }
    if (picks_late(first, second, depends)) {
      *reason = "few elements are picked from what another reader could write over, if they were picked before";
      return std::nullopt;
    }
    if (!depends && waits_for_nothing(first, second)) {
      *reason = "one would wait for a product that it does not need, and hold its memory until then";
      return std::nullopt;
    }
    if (a.is_whole()) {
      *reason = "it computes all of its results at once and takes no readers of them";
      return std::nullopt;
    }
    if (template_first && (!depends || loop::has_reduction(b.domain))) {
      *reason = "a template takes only pointwise readers of its result";
      return std::nullopt;
    }
    if (template_first && accumulates(b.body)) {
      *reason = "the threads of a template would add to one element at once";
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
    if (!out && depends && template_first)
      if (auto there = over_points(a, b)) out = join_matched(a, *there, {a.domain, {}, {}}, depends, reason);
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
    auto read_first = program::reads(a);
    auto contains = [](const std::vector<int>& v, int b) { return std::find(v.begin(), v.end(), b) != v.end(); };
    for (int w : written_second)
      if (!mutant(Mutant::FusedAcrossWrite) && (contains(written, w) || contains(read_first, w))) {
        *reason = "the second writes what the first uses";
        return std::nullopt;
      }
    Node out = a;
    out.domain = m.joint;
    out.body = first;
    program::take_over(out, b);
    loop::BodyBuilder builder(out.body);
    std::vector<int> to(second.steps.size(), -1);
    bool shared = depends;
    for (size_t i = 0; i < second.steps.size(); ++i) {
      const Statement s = loop::renumbered(second.steps[i], to);
      if (s.step == Step::Load && contains(written, s.buffer)) {
        if (writers_[static_cast<size_t>(s.buffer)] > 1 && !mutant(Mutant::SeveralWriters)) {
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
    for (auto& by_point :
         {accumulated_by_point(a.domain, m.first, m.joint, first), accumulated_by_point(b.domain, m.second, m.joint, second)})
      if (accumulates_once(m.joint, out.body, by_point)) {
        *reason = "the points of a reduction would add to an element once, and not each";
        return std::nullopt;
      }
    drop_internal_stores(out);
    loop::eliminate_dead(out.body);
    if (loop::buffers_read(out.body).size() + loop::buffers_written(out.body).size() > kMaxBuffers) {
      *reason = "the joint node would touch too many buffers";
      return std::nullopt;
    }
    if (!a.is_loop() && workers_ > 0 && whole_arrays(out) > kMostEpilogueArrays) {
      *reason = "an epilogue that moves so much memory would take the product's time; a loop of its own moves it faster";
      return std::nullopt;
    }
    if (idles(out, workers_) && passes(out) > std::max(passes(a), passes(b))) {
      *reason = "their passes stay apart: each divides its few rows among all workers, which one loop of both could not";
      return std::nullopt;
    }
    return out;
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
    if (s.step == Step::Check) {
      for (size_t i = 0; i < body.steps.size(); ++i) {
        const Statement& t = body.steps[i];
        if (t.step == Step::Check && t.args[0] == s.args[0] && t.mask == s.mask && t.index == s.index) return static_cast<int>(i);
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
      for (size_t i : touching_[buffer])
        if (!inside_.count(i) && std::find(groups_[i].reads.begin(), groups_[i].reads.end(), buffer) != groups_[i].reads.end()) return true;
      auto own = program::reads(out);
      return std::find(own.begin(), own.end(), buffer) != own.end();
    };
    for (auto& s : out.body.steps) {
      if (s.step != Step::Store) continue;
      auto b = static_cast<size_t>(s.buffer);
      if (p_.buffers[b].kind == loop::BufferKind::Temporary && writers_[b] == 1 && !is_read(s.buffer)) s = Statement{};
    }
  }

  // Puts the joint node in the first one's place.
  void replace(size_t first, size_t second, Node joined) {
    for (const size_t i : {first, second}) {
      for (int b : buffers_of(groups_[i])) touching_[b].erase(i);
      for (auto& c : groups_[i].candidates) candidates_.erase(c);
    }
    groups_[first] = Group{std::move(joined)};
    groups_[second] = Group{{}, {}, {}, true};
    order_.join(first, second);
    latest_[first] = std::max(latest_[first], latest_[second]);
    raise_latest(first);
    for (int b : buffers_of(groups_[first])) touching_[b].insert(first);
    propose(first, 0);
  }

  // All nodes in an order in which each comes after what it needs.
  // In the order of their names, each behind what it needs: what a joined node waits for comes just before it, and not what needs neither.
  void put_in_order() {
    enum class State : uint8_t { New, Open, Done };
    std::vector<State> state(groups_.size(), State::New);
    p_.nodes.clear();
    std::vector<size_t> open;
    for (size_t first = 0; first < groups_.size(); ++first) {
      if (!groups_[first].gone) open.push_back(first);
      while (!open.empty()) {
        const size_t i = open.back();
        const bool is_new = state[i] == State::New;
        if (is_new) {
          state[i] = State::Open;
          const auto& before = order_.before(i);
          for (auto b = before.rbegin(); b != before.rend(); ++b)
            if (state[*b] == State::New)
              open.push_back(*b);
            else
              TOROID_CHECK(state[*b] == State::Done, "fusion made a cycle");
          continue;
        }
        open.pop_back();
        if (state[i] == State::Done) continue;
        state[i] = State::Done;
        p_.nodes.push_back(std::move(groups_[i].node));
      }
    }
    const auto left = std::count_if(groups_.begin(), groups_.end(), [](const Group& g) { return !g.gone; });
    TOROID_CHECK(p_.nodes.size() == static_cast<size_t>(left), "fusion made a cycle");
    std::erase_if(p_.nodes, [](const Node& n) { return n.is_loop() && !has_effect(n); });  // all that it stored was read by none
  }

  static bool has_effect(const Node& n) {
    return !program::writes(n).empty() ||
           std::any_of(n.body.steps.begin(), n.body.steps.end(), [](const Statement& s) { return s.step == Step::Check; });
  }

  Program& p_;
  FusionReport* report_;
  int workers_;
  std::vector<Group> groups_;
  std::set<Candidate> candidates_;
  std::set<size_t> inside_;  // the pair being joined
  std::vector<int> writers_;
  JoinedOrder order_;
  std::vector<size_t> latest_;                // by group: one more than the place of the last product that it waits for, or is
  std::map<int, std::set<size_t>> touching_;  // places of the groups that use a buffer
};

}  // namespace

program::Program fuse(program::Program program, FusionReport* report, int workers) {
  if (report) report->nodes_before = program.nodes.size();
  Fuser(program, report, workers).run();
  if (report) report->nodes_after = program.nodes.size();
  return program;
}

}  // namespace toroid::sched
