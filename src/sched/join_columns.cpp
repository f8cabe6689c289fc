#include "sched/join_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "loop/renumber.h"
#include "program/uses.h"
#include "sched/domain_map.h"

namespace toroid::sched {
namespace {

using loop::Statement;
using loop::Step;
using program::Node;
using program::Program;
using program::Uses;

constexpr size_t kMostFolds = 4;    // of a joint loop: each takes registers and a turn of the threads
constexpr size_t kMostSteps = 400;  // of a joint body
constexpr size_t kMostNodes = 32;   // that a loop moves past

class Pass {
 public:
  Pass(Program& p, int64_t most_bytes) : p_(p), most_bytes_(most_bytes), uses_(p), gone_(p.nodes.size(), false), flat_(p.nodes.size()) {}

  std::vector<std::string> run() {
    for (size_t i = 0; i < p_.nodes.size(); ++i) flat_[i] = candidate(p_.nodes[i]);
    for (size_t i = 0; i < p_.nodes.size(); ++i)
      for (size_t j = i + 1; flat_[i] && j < std::min(p_.nodes.size(), i + kMostNodes); ++j)
        if (flat_[j] && may_join(i, j)) join(i, j);
    program::drop(p_, gone_);
    return std::move(lines_);
  }

 private:
  // A loop that folds columns, neighbours in memory, of few bytes, by sums alone, and stores nothing twice.
  std::optional<Node> candidate(const Node& n) const {
    if (!n.is_loop() || !n.beside.empty() || !n.config.empty() || !loop::has_reduction(n.domain)) return std::nullopt;
    auto flat = flattened(n);
    if (!flat) return std::nullopt;
    const Expr &column = flat->domain.vars[0].symbol, &row = flat->domain.vars[1].symbol;
    const int64_t points = column.node()->extent.constant() * row.node()->extent.constant();
    const std::vector<bool> varies = loop::varies_over_reduction(flat->domain, flat->body);
    int64_t bytes = 0;
    for (size_t k = 0; k < varies.size(); ++k) {
      const Statement& s = flat->body.steps[k];
      if (s.step == Step::Scan || s.step == Step::Check || s.mask >= 0 || loop::uses_values(s.index)) return std::nullopt;
      if (s.step == Step::Reduce && (s.reduction != loop::Reduction::Sum || s.dtype != DType::F32)) return std::nullopt;
      if (s.step == Step::Store && s.mode != loop::StoreMode::Set) return std::nullopt;
      if (!varies[k] || (s.step != Step::Load && s.step != Step::Store)) continue;
      const auto apart = sym::linear_coefficient(s.index, column);
      if (sym::depends_on(s.index, column) && (!apart || !(*apart == Expr(1)))) return std::nullopt;
      if (s.step == Step::Load && sym::depends_on(s.index, row)) bytes += points * static_cast<int64_t>(size_of(s.dtype));
    }
    const std::vector<int> pass = loop::pass_of(flat->domain, flat->body);
    for (size_t k = 0; k < pass.size(); ++k)
      if (varies[k] && pass[k] > 1) return std::nullopt;
    return bytes <= most_bytes_ ? flat : std::nullopt;
  }

  static size_t folds(const Node& n) {
    return static_cast<size_t>(std::count_if(n.body.steps.begin(), n.body.steps.end(), [](auto& s) { return s.step == Step::Reduce; }));
  }

  // Whether the second one can run where the first one does, beside it.
  bool may_join(size_t i, size_t j) const {
    const Node &a = *flat_[i], &b = *flat_[j];
    if (!(a.domain.vars[0].extent() == b.domain.vars[0].extent()) || !(a.domain.vars[1].extent() == b.domain.vars[1].extent()))
      return false;
    if (a.pass != b.pass || folds(a) + folds(b) > kMostFolds || a.body.steps.size() + b.body.steps.size() > kMostSteps) return false;
    // From the first one itself on.
    const auto is_touched = [&](const std::vector<size_t>& nodes) {
      return Uses::any_between(nodes, i, j) || std::count(nodes.begin(), nodes.end(), i) > 0;
    };
    const auto& reads = uses_.reads(j);
    const auto& writes = uses_.writes(j);
    return std::none_of(reads.begin(), reads.end(), [&](int buffer) { return is_touched(uses_.writers(buffer)); }) &&
           std::none_of(writes.begin(), writes.end(),
                        [&](int buffer) { return is_touched(uses_.writers(buffer)) || is_touched(uses_.readers(buffer)); }) &&
           program::may_join(p_, p_.nodes[i], p_.nodes[j]);
  }

  void join(size_t i, size_t j) {
    Node& a = *flat_[i];
    const Node& b = *flat_[j];
    VarMap map;
    for (size_t v : {0, 1}) map[b.domain.vars[v].symbol] = a.domain.vars[v].symbol;
    const loop::Body behind = rename(b.body, map);
    loop::BodyBuilder builder(a.body);
    std::vector<int> to(behind.steps.size(), -1);
    for (size_t k = 0; k < to.size(); ++k) to[k] = loop::append(builder, loop::renumbered(behind.steps[k], to));
    lines_.push_back(fmt::format("{} sums columns beside {}", program::label(b), program::label(a)));
    program::take_over(a, b);
    p_.nodes[i] = a;
    gone_[j] = true, flat_[j].reset();
    uses_.set(i, a), uses_.remove(j);
  }

  Program& p_;
  const int64_t most_bytes_;
  Uses uses_;
  std::vector<bool> gone_;
  std::vector<std::optional<Node>> flat_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> join_columns(Program& p, int64_t most_bytes) { return Pass(p, most_bytes).run(); }

}  // namespace toroid::sched
