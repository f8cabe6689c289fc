#include "sched/rows_and_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "loop/renumber.h"
#include "program/uses.h"
#include "sched/domain_map.h"

namespace toroid::sched {
namespace {

using loop::Statement;
using loop::Step;
using program::Node;
using program::Program;

constexpr size_t kMostSums = 4;     // of a loop: each takes registers
constexpr size_t kMostSteps = 400;  // of the joint body
constexpr size_t kNobody = static_cast<size_t>(-1);

bool folds(const Node& n) { return n.is_loop() && n.beside.empty() && n.config.empty() && loop::has_reduction(n.domain); }

bool contains(const std::vector<int>& v, int b) { return std::find(v.begin(), v.end(), b) != v.end(); }

// The same loop over one variable of rows and one of columns.
std::optional<Node> flattened(const Node& n) {
  const auto rows = loop::space_size(n.domain).maybe_constant(), columns = loop::reduction_size(n.domain).maybe_constant();
  if (!rows || !columns || *rows <= 1 || *columns <= 1) return std::nullopt;
  if (n.domain.vars.size() == 2 && !n.domain.vars[0].reduction) return n;
  Node out = n;
  const loop::Var row{sym::loop_symbol("row", *rows), false}, column{sym::loop_symbol("column", *columns), true};
  out.domain.vars = {row, column};
  VarMap map;
  Expr apart[2] = {1, 1};  // of a row's and of a column's number
  for (size_t v = n.domain.vars.size(); v-- > 0;) {
    const loop::Var& var = n.domain.vars[v];
    const Expr &whole = (var.reduction ? column : row).symbol, of = var.reduction ? *columns : *rows;
    Expr& step = apart[var.reduction];
    const Expr at = sym::floor_div(whole, step);
    step = step * var.extent();
    map[var.symbol] = step == of ? at : sym::mod(at, var.extent());
  }
  out.body = rename(n.body, map);
  return out;
}

// Takes over what a loop computes that folds the columns of what another one folds the rows of.
class Joint {
 public:
  Joint(Program& p, const program::Uses& uses, size_t by_rows, size_t by_columns, Node rows, int64_t parts)
      : p_(p),
        uses_(uses),
        by_rows_(by_rows),
        by_columns_(by_columns),
        reader_(p.nodes[by_columns]),
        node_(std::move(rows)),
        parts_(parts) {}

  // The two nodes as they are then, in their order; nothing where they do not meet at each point.
  std::optional<std::pair<Node, Node>> run() {
    if (!may_begin_together() || !finds_points()) return std::nullopt;
    varies_ = loop::varies_over_reduction(reader_.domain, reader_.body);
    for (size_t k = 0; k < reader_.body.steps.size(); ++k) {
      const Statement& s = reader_.body.steps[k];
      const int at = static_cast<int>(k);
      if (s.step == Step::Check || s.step == Step::Scan) return std::nullopt;
      if (s.step == Step::Store && !takes_store(s, varies_[k])) return std::nullopt;
      if (s.step != Step::Reduce) continue;
      if (s.reduction != loop::Reduction::Sum || s.dtype != DType::F32 || !varies_[static_cast<size_t>(s.args[0])]) return std::nullopt;
      const auto value = emit(s.args[0]);
      if (!value) return std::nullopt;
      sums_[at] = sum_of(*value);
    }
    const auto count = std::count_if(node_.body.steps.begin(), node_.body.steps.end(), loop::stores_sum);
    if (sums_.empty() || static_cast<size_t>(count) > kMostSums || node_.body.steps.size() > kMostSteps) return std::nullopt;
    program::take_over(node_, reader_);
    return std::pair{std::move(node_), rest()};
  }

  // Bytes that are read once in place of twice.
  int64_t shared_bytes() const { return shared_; }

 private:
  const loop::Var& row() const { return node_.domain.vars[0]; }
  const loop::Var& column() const { return node_.domain.vars[1]; }
  int64_t rows() const { return row().extent().constant(); }
  int64_t columns() const { return column().extent().constant(); }

  size_t first() const { return std::min(by_rows_, by_columns_); }
  size_t second() const { return std::max(by_rows_, by_columns_); }

  // Whether a node but `self`, from the first of the two to the second, is one of these.
  bool is_among(const std::vector<size_t>& nodes, size_t self) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](size_t n) { return n >= first() && n <= second() && n != self; });
  }
  bool is_touched(int buffer, size_t self) const { return is_among(uses_.readers(buffer), self) || is_among(uses_.writers(buffer), self); }

  // Both loops' work begins where the first one is; what the columns' own results are made of follows where the second one is. Whether the
  // loop over rows can run there, if it is the second one, or the other one's results come later.
  bool may_begin_together() const {
    if (by_rows_ < by_columns_) return true;
    const auto& reads = uses_.reads(by_rows_);
    const auto untouched = [&](size_t node) {
      const auto& writes = uses_.writes(node);
      return std::none_of(writes.begin(), writes.end(), [&](int b) { return is_touched(b, node); });
    };
    return std::all_of(reads.begin(), reads.end(), [&](int b) { return is_settled(b); }) && untouched(by_rows_) && untouched(by_columns_);
  }

  // Where each variable of the loop over columns is, by an element that both touch.
  bool finds_points() {
    if (!(loop::reduction_size(reader_.domain) == row().extent()) || !(loop::space_size(reader_.domain) == column().extent())) return false;
    for (auto& s : reader_.body.steps) {
      if (s.step != Step::Load || s.mask >= 0 || loop::uses_values(s.index)) continue;
      for (auto& t : node_.body.steps) {
        if ((t.step != Step::Load && t.step != Step::Store) || t.buffer != s.buffer || t.mask >= 0 || loop::uses_values(t.index)) continue;
        const auto map = point_at(reader_.domain, s.index, t.index);
        if (!map || !runs_along(*map)) continue;
        map_ = *map;
        return true;
      }
    }
    return false;
  }

  // Whether rows are folded, and one variable is that of columns.
  bool runs_along(const VarMap& map) {
    column_.reset();
    for (auto& v : reader_.domain.vars) {
      if (v.extent() == Expr(1)) continue;
      const Expr& at = map.at(v.symbol);
      if (v.reduction ? sym::depends_on(at, column().symbol) : !(at == column().symbol)) return false;
      if (!v.reduction) column_ = v;
    }
    return column_.has_value();
  }

  // Whether memory holds the same from the first of the two nodes to the second.
  bool is_settled(int buffer) const { return !is_among(uses_.writers(buffer), kNobody); }

  // A store of each element moves to the loop over rows, if nobody meets its memory between the two.
  bool takes_store(const Statement& s, bool varies) {
    if (s.mode != loop::StoreMode::Set || s.mask >= 0 || loop::uses_values(s.index)) return false;
    if (!varies) return true;
    if (is_touched(s.buffer, by_columns_) || contains(loop::buffers_read(reader_.body), s.buffer)) return false;
    const auto value = emit(s.args[0]);
    if (value) builder_.store(s.buffer, s.dtype, there(s.index), {&builder_, *value, s.dtype});
    return value.has_value();
  }

  Expr there(const Expr& index) const { return sym::substitute(index, loop::replacing(map_)); }

  // A step of the loop over columns, in the body of the one over rows.
  std::optional<int> emit(int k) {
    if (const auto known = emitted_.find(k); known != emitted_.end()) return known->second;
    Statement s = reader_.body.steps[static_cast<size_t>(k)];
    if (s.mask >= 0 || loop::uses_values(s.index)) return std::nullopt;
    std::optional<int> out;
    if (s.step == Step::Load)
      out = emit_load(s);
    else if (s.step == Step::Index)
      out = builder_.index(there(s.index)).id;
    else if (s.step == Step::Scalar)
      out = emit_scalar(std::move(s));
    if (out) emitted_[k] = *out;
    return out;
  }

  std::optional<int> emit_load(const Statement& s) {
    const Expr at = there(s.index);
    for (size_t k = 0; k < node_.body.steps.size(); ++k) {
      const Statement& t = node_.body.steps[k];
      if (t.buffer != s.buffer || t.mask >= 0 || !(t.index == at)) continue;
      const bool stored = t.step == Step::Store && t.mode == loop::StoreMode::Set;
      if (!stored && (t.step != Step::Load || !is_settled(s.buffer))) continue;
      if (stored && (by_rows_ > by_columns_ || uses_.writers(s.buffer) != std::vector<size_t>{by_rows_})) return std::nullopt;
      if (sym::depends_on(at, row().symbol) && sym::depends_on(at, column().symbol) && counted_.insert(s.buffer).second)
        shared_ += rows() * columns() * static_cast<int64_t>(size_of(s.dtype));
      if (stored) return t.args[0];
      break;
    }
    if (!is_settled(s.buffer) || (divides(at) && !divides(s.index))) return std::nullopt;
    return builder_.load(s.buffer, s.dtype, at).id;
  }

  std::optional<int> emit_scalar(Statement s) {
    for (int& a : s.args) {
      if (a < 0) continue;
      const auto value = emit(a);
      if (!value) return std::nullopt;
      a = *value;
    }
    return builder_.emit({.op = s.op, .dtype = s.dtype, .args = {s.args[0], s.args[1], s.args[2]}, .value = s.value});
  }

  // The buffer of a value's sums, which an earlier loop may have asked for.
  int sum_of(int value) {
    for (auto& s : node_.body.steps)
      if (loop::stores_sum(s) && s.args[0] == value) return s.buffer;
    const int buffer = p_.new_buffer("sums", DType::F32, parts_ * columns(), loop::BufferKind::Temporary);
    builder_.store(buffer, DType::F32, sym::mod(row().symbol, parts_) * Expr(columns()) + column().symbol,
                   {&builder_, value, DType::F32}, loop::StoreMode::Sum);
    return buffer;
  }

  // The loop over columns, over sums in place of rows.
  Node rest() const {
    Node out = reader_;
    out.domain.vars.clear();
    out.body.steps.clear();
    const Expr part = sym::loop_symbol("part", parts_);
    out.domain.vars.push_back({part, true});
    for (auto& v : reader_.domain.vars)
      if (!v.reduction) out.domain.vars.push_back(v);
    loop::BodyBuilder builder(out.body);
    std::vector<int> to(reader_.body.steps.size(), -1);
    for (size_t k = 0; k < to.size(); ++k) {
      const Statement& s = reader_.body.steps[k];
      if (s.step == Step::Reduce) {
        const S sum = builder.load(sums_.at(static_cast<int>(k)), DType::F32, part * Expr(columns()) + column_->symbol);
        to[k] = builder.reduce(loop::Reduction::Sum, sum).id;
      } else if (!varies_[k]) {
        out.body.steps.push_back(loop::renumbered(s, to));
        to[k] = static_cast<int>(out.body.steps.size()) - 1;
      }
    }
    loop::eliminate_dead(out.body);
    return out;
  }

  Program& p_;
  const program::Uses& uses_;
  const size_t by_rows_, by_columns_;
  const Node reader_;
  Node node_;
  const int64_t parts_;  // sums of each column
  loop::BodyBuilder builder_{node_.body};
  VarMap map_;                       // the second loop's variables at the first one's points
  std::optional<loop::Var> column_;  // of the second loop
  std::vector<bool> varies_;
  std::map<int, int> sums_;     // buffers, by steps that fold
  std::map<int, int> emitted_;  // steps of the second loop in the first one's body
  std::set<int> counted_;       // buffers of shared_
  int64_t shared_ = 0;
};

// Stores of temporaries that nobody reads any more.
void drop_unread_stores(Program& p, program::Uses& uses, size_t node) {
  bool dropped = false;
  for (auto& s : p.nodes[node].body.steps) {
    if (s.step != Step::Store || p.buffers[static_cast<size_t>(s.buffer)].kind != loop::BufferKind::Temporary) continue;
    if (!uses.readers(s.buffer).empty()) continue;
    s = {}, dropped = true;
  }
  if (!dropped) return;
  loop::eliminate_dead(p.nodes[node].body);
  uses.set(node, p.nodes[node]);
}

struct Limits {
  int64_t least_bytes, least_rows_of_worker;
};

// Lets the loop over rows at `i` take over one over columns. Gives where it is then; nothing where there is none.
std::optional<size_t> join_one(Program& p, program::Uses& uses, size_t i, const target::Target& target, const Limits& limits,
                               std::vector<std::string>& lines) {
  const int64_t workers = target.facts().workers;
  const auto rows = folds(p.nodes[i]) ? flattened(p.nodes[i]) : std::nullopt;
  if (!rows) return std::nullopt;
  const int64_t count = rows->domain.vars[0].extent().constant();
  if (workers < 2 || count <= workers || count < limits.least_rows_of_worker * workers) return std::nullopt;
  std::set<size_t> others;
  for (const auto* buffers : {&uses.reads(i), &uses.writes(i)})
    for (int b : *buffers) others.insert(uses.readers(b).begin(), uses.readers(b).end());
  for (const size_t j : others) {
    if (j == i || !folds(p.nodes[j]) || !program::may_join(p, p.nodes[i], p.nodes[j])) continue;
    const size_t buffers = p.buffers.size(), first = std::min(i, j), second = std::max(i, j);
    Joint joint(p, uses, i, j, *rows, workers);
    const auto nodes = joint.run();
    if (!nodes || joint.shared_bytes() < limits.least_bytes) {
      p.buffers.resize(buffers);
      continue;
    }
    const std::string names = fmt::format("{} for {}", program::label(p.nodes[i]), program::label(p.nodes[j]));
    if (const std::string refusal = target.sums_refusal(nodes->first, p); !refusal.empty()) {
      p.buffers.resize(buffers);
      lines.push_back(fmt::format("{}: columns are not summed with rows, as {}", names, refusal));
      continue;
    }
    lines.push_back(
        fmt::format("{}: columns are summed with rows: {:.1f} MB less are read", names, static_cast<double>(joint.shared_bytes()) / 1e6));
    p.nodes[first] = nodes->first, p.nodes[second] = nodes->second;
    uses.set(first, p.nodes[first]), uses.set(second, p.nodes[second]);
    drop_unread_stores(p, uses, first);
    return first;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> rows_and_columns(Program& p, const target::Target& target, int64_t least_bytes, int64_t least_rows_of_worker) {
  std::vector<std::string> lines;
  program::Uses uses(p);
  for (size_t i = 0; i < p.nodes.size();) {
    const auto joint = join_one(p, uses, i, target, {least_bytes, least_rows_of_worker}, lines);
    i = joint ? *joint : i + 1;
  }
  return lines;
}

}  // namespace toroid::sched
