#include "sched/split.h"

#include <algorithm>

#include "loop/dead_code.h"

namespace toroid::sched {
namespace {

using loop::Reduction;
using loop::Statement;
using loop::Step;
using program::Node;

constexpr int64_t kLongRow = 1 << 16;    // elements: some times what a launch costs
constexpr int64_t kLeastPart = 1 << 13;  // elements of a part
constexpr int64_t kColumns = 64;         // results side by side in memory that one task takes together

bool is_position(const Statement& s) { return s.reduction == Reduction::ArgMax || s.reduction == Reduction::ArgMin; }

// How many tasks the loop as it is has, about: a result is one, or results that lie side by side where the reduction runs across memory.
int64_t tasks_of(const loop::Nest& n) {
  bool columns = false, rows = false;
  for (auto& s : n.body.steps)
    for (auto& v : n.domain.vars)
      if (s.step == Step::Load && sym::linear_coefficient(s.index, v.symbol) == Expr(1)) (v.reduction ? rows : columns) = true;
  int64_t space = loop::space_size(n.domain).constant();
  return columns && !rows ? (space + kColumns - 1) / kColumns : space;
}

// Into how many parts a row whose outermost extent is n can be divided evenly: at most `wanted`, or if need be the least number above it.
// 1: into none.
int64_t parts_of(int64_t n, int64_t wanted, int64_t row) {
  constexpr int64_t kShortPart = 512;  // elements
  for (int64_t d = std::min(n, wanted); d > 1; --d)
    if (n % d == 0) return d;
  for (int64_t d = wanted + 1; d <= std::min(n, row / kShortPart); ++d)
    if (n % d == 0) return d;
  return 1;
}

// Why a loop that should be split cannot be; empty when it can.
std::string obstacle(const loop::Nest& n) {
  const std::vector<bool> varies = loop::varies_over_reduction(n.domain, n.body);
  const std::vector<int> pass = loop::pass_of(n.domain, n.body);
  for (size_t k = 0; k < n.body.steps.size(); ++k) {
    const Statement& s = n.body.steps[k];
    if (s.step == Step::Scan) return "a scan goes through its rows in order";
    if (s.step == Step::Reduce && pass[k] > 1) return "it takes several passes over its rows";
    if (s.step == Step::Store && varies[k]) return "it writes an element for each that it reads";
    if (s.step == Step::Reduce && is_half(s.dtype)) return "its partial results would be rounded";
  }
  return "";
}

class Splitter {
 public:
  Splitter(program::Program& p, const Node& node, size_t row, int64_t parts) : p_(p), node_(node) {
    const loop::Var& split = node.domain.vars[row];
    const Expr length = sym::floor_div(split.extent(), parts);
    part_ = sym::loop_symbol("part", parts);
    Expr within = sym::loop_symbol("within", length);
    points_ = loop::reduction_size(node.domain).constant() / parts;
    flat_ = 0;
    for (auto& v : node.domain.vars) {
      if (v.reduction) continue;
      flat_ = flat_ * v.extent() + v.symbol;
      first_.domain.vars.push_back(v);
      second_.domain.vars.push_back(v);
    }
    first_.domain.vars.push_back({part_, false});
    second_.domain.vars.push_back({part_, true});
    for (size_t i = 0; i < node.domain.vars.size(); ++i)
      if (node.domain.vars[i].reduction) first_.domain.vars.push_back(i == row ? loop::Var{within, true} : node.domain.vars[i]);
    first_.body = loop::substitute(node.body, [&](const sym::Node& s) -> std::optional<Expr> {
      return sym::same_symbol(s, *split.symbol.node()) ? std::optional(part_ * length + within) : std::nullopt;
    });
    for (auto& s : first_.body.steps)
      if (s.step == Step::Store) s = {};
  }

  std::pair<Node, Node> run() {
    const std::vector<bool> varies = loop::varies_over_reduction(node_.domain, node_.body);
    std::vector<int> to(node_.body.steps.size(), -1);
    auto moved = [&](int k) { return k < 0 ? k : to[static_cast<size_t>(k)]; };
    for (size_t k = 0; k < to.size(); ++k) {
      Statement s = node_.body.steps[k];
      if (s.step == Step::Reduce) {
        to[k] = fold(static_cast<int>(k)).id;
      } else if (!varies[k]) {
        for (int& a : s.args) a = moved(a);
        s.mask = moved(s.mask);
        s.index = sym::substitute(s.index, [&](const sym::Node& n) -> std::optional<Expr> {
          int step = loop::step_of_symbol(n);
          return step < 0 ? std::nullopt : std::optional(loop::value_symbol(moved(step), n.lo, n.hi));
        });
        second_.body.steps.push_back(std::move(s));
        to[k] = static_cast<int>(second_.body.steps.size()) - 1;
      }
    }
    loop::eliminate_dead(first_.body, [&](size_t k) { return !varies[k]; });  // those of the second loop
    loop::eliminate_dead(second_.body);
    return {node(std::move(first_)), node(std::move(second_))};
  }

 private:
  Node node(loop::Nest nest) const {
    Node n;
    n.domain = std::move(nest.domain);
    n.body = std::move(nest.body);
    program::take_over(n, node_);
    return n;
  }

  // Stores a value of each part in the first loop; the second one reads it at the part `at`.
  int keep(S value) {
    int buffer = p_.new_buffer("parts", value.dtype, loop::space_size(first_.domain), loop::BufferKind::Temporary);
    loop::BodyBuilder(first_.body).store(buffer, value.dtype, place(part_), value);
    return buffer;
  }
  S read(int buffer, DType dtype, const Expr& at) { return builder_.load(buffer, dtype, place(at)); }
  // Results of one part lie side by side, as the results themselves do.
  Expr place(const Expr& part) const { return part * loop::space_size(second_.domain) + flat_; }

  // The second loop's value of a Reduce.
  S fold(int k) {
    const Statement& s = node_.body.steps[static_cast<size_t>(k)];
    loop::BodyBuilder first(first_.body);
    S partial{&first, k, s.dtype};
    if (!is_position(s)) return builder_.reduce(s.reduction, read(keep(partial), s.dtype, part_));
    // The part with the best element, and where in that part it is.
    S argument{&first, s.args[0], first_.body.steps[static_cast<size_t>(s.args[0])].dtype};
    S best = first.reduce(s.reduction == Reduction::ArgMax ? Reduction::Max : Reduction::Min, argument);
    S part = builder_.reduce(s.reduction, read(keep(best), best.dtype, part_));
    const Expr best_part = builder_.as_index(part, 0, part_.node()->extent.constant() - 1);
    S place = read(keep(partial), DType::I64, best_part);
    return part * lit_as(part, DType::I64, Number::of(points_)) + place;
  }

  program::Program& p_;
  const Node& node_;
  loop::Nest first_, second_;
  loop::BodyBuilder builder_{second_.body};
  Expr part_, flat_;
  int64_t points_ = 0;  // of the reduction in a part
};

}  // namespace

program::Program split_reductions(program::Program p, int threads, FusionReport* report) {
  std::vector<Node> nodes;
  for (Node& n : p.nodes) {
    const Expr row = loop::reduction_size(n.domain), space = loop::space_size(n.domain);
    const bool known = n.is_loop() && n.beside.empty() && loop::has_reduction(n.domain) && row.is_const() && space.is_const();
    if (!known || row.constant() < kLongRow || space.constant() == 0 || threads < 2 || tasks_of({n.domain, n.body}) >= 2 * threads) {
      nodes.push_back(std::move(n));
      continue;
    }
    size_t outermost = 0;
    while (!n.domain.vars[outermost].reduction) ++outermost;
    constexpr int64_t kParts = 16;  // a thread
    const int64_t wanted = std::min(kParts * threads, row.constant() / kLeastPart);
    const int64_t parts = parts_of(n.domain.vars[outermost].extent().constant(), wanted, row.constant());
    std::string reason = obstacle({n.domain, n.body});
    if (reason.empty() && parts == 1) reason = "its rows cannot be divided evenly";
    if (reason.empty()) {
      auto [first, second] = Splitter(p, n, outermost, parts).run();
      nodes.push_back(std::move(first));
      nodes.push_back(std::move(second));
      continue;
    }
    if (report) report->unsplit.push_back({program::label(n), reason});
    nodes.push_back(std::move(n));
  }
  p.nodes = std::move(nodes);
  if (report) report->nodes_after = p.nodes.size();
  return p;
}

}  // namespace toroid::sched
