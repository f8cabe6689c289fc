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
constexpr size_t kMostNodes = 32;   // from one loop to the other

bool folds(const Node& n) { return n.is_loop() && n.beside.empty() && n.config.empty() && loop::has_reduction(n.domain); }

bool contains(const std::vector<int>& v, int b) { return std::find(v.begin(), v.end(), b) != v.end(); }

// Elements alone, by arithmetic that does not count beside their memory.
bool is_light(const Node& n) {
  return n.is_loop() && n.beside.empty() && n.config.empty() && !loop::has_reduction(n.domain) &&
         std::all_of(n.body.steps.begin(), n.body.steps.end(),
                     [](auto& s) { return s.step != Step::Check && (s.step != Step::Scalar || s.op < ScalarOp::Exp); });
}

// A loop over elements as one over the rows that they lie in.
std::optional<Node> in_rows(const Node& n, const Expr& rows, const Expr& columns) {
  if (!(loop::space_size(n.domain) == rows * columns)) return std::nullopt;
  Node out = n;
  const loop::Var row{sym::loop_symbol("row", rows.constant()), false}, column{sym::loop_symbol("column", columns.constant()), true};
  out.domain.vars = {row, column};
  VarMap map;
  Expr rest = row.symbol * columns + column.symbol;
  for (size_t v = n.domain.vars.size(); v-- > 0;) {
    const loop::Var& var = n.domain.vars[v];
    map[var.symbol] = v == 0 ? rest : sym::mod(rest, var.extent());
    rest = sym::floor_div(rest, var.extent());
  }
  out.body = rename(n.body, map);
  return out;
}

// Takes over what a loop computes that folds the columns of what another one folds the rows of. Whichever loop is first in the program, its
// elements are computed first. The joint loop runs where the first one was, and the results of columns are computed where the second one
// was.
class Joint {
 public:
  Joint(Program& p, const program::Uses& uses, size_t by_rows, size_t by_columns, Node rows, int64_t parts)
      : p_(p),
        uses_(uses),
        by_rows_(by_rows),
        by_columns_(by_columns),
        reader_(p.nodes[by_columns]),
        rows_(std::move(rows)),
        node_(rows_),
        parts_(parts) {}
  // Behind a joint loop: another one over the same rows, whether it folds them or not.
  Joint(Program& p, const program::Uses& uses, size_t by_rows, size_t joint, Node rows)
      : p_(p),
        uses_(uses),
        by_rows_(by_rows),
        by_columns_(joint),
        reader_(p.nodes[joint]),
        rows_(std::move(rows)),
        node_(reader_),
        parts_(0) {}

  // The joint loop and the rest of the one over columns; nothing where they do not meet at each point.
  std::optional<std::pair<Node, Node>> run() {
    if (!finds_points()) return std::nullopt;
    varies_ = loop::varies_over_reduction(reader_.domain, reader_.body);
    if (columns_first()) node_.body.steps.clear();
    if (!take_columns() || (columns_first() && (!take_rows() || !may_delay_rest()))) return std::nullopt;
    drop_overwritten();
    const auto count = std::count_if(node_.body.steps.begin(), node_.body.steps.end(), loop::stores_sum);
    if (sums_.empty() || static_cast<size_t>(count) > kMostSums || node_.body.steps.size() > kMostSteps || !writes_in_place())
      return std::nullopt;
    program::take_over(node_, reader_, columns_first());
    return std::pair{std::move(node_), rest()};
  }

  // The joint loop with that over rows behind it; nothing where they do not meet at each point.
  std::optional<Node> run_behind() {
    const auto& to = node_.domain.vars;
    const auto& from = rows_.domain.vars;
    if (!(from[0].extent() == to[0].extent() && from[1].extent() == to[1].extent())) return std::nullopt;
    VarMap map;
    map[from[0].symbol] = to[0].symbol, map[from[1].symbol] = to[1].symbol;
    rows_.body = rename(rows_.body, map);
    if (!take_rows()) return std::nullopt;
    drop_overwritten();
    if (node_.body.steps.size() > kMostSteps || !writes_in_place()) return std::nullopt;
    program::take_over(node_, p_.nodes[by_rows_]);
    return std::move(node_);
  }

  // Bytes that are read once in place of twice.
  int64_t shared_bytes() const { return shared_; }

 private:
  const loop::Var& row() const { return node_.domain.vars[0]; }
  const loop::Var& column() const { return node_.domain.vars[1]; }
  int64_t rows() const { return row().extent().constant(); }
  int64_t columns() const { return column().extent().constant(); }

  bool columns_first() const { return by_columns_ < by_rows_; }
  bool is_written_between(int buffer) const {
    return program::Uses::any_between(uses_.writers(buffer), std::min(by_rows_, by_columns_), std::max(by_rows_, by_columns_));
  }
  bool is_touched_between(int buffer) const {
    return is_written_between(buffer) ||
           program::Uses::any_between(uses_.readers(buffer), std::min(by_rows_, by_columns_), std::max(by_rows_, by_columns_));
  }

  // What each element of the loop over columns stores and adds to sums.
  bool take_columns() {
    for (size_t k = 0; k < reader_.body.steps.size(); ++k) {
      const Statement& s = reader_.body.steps[k];
      if (s.step == Step::Check || s.step == Step::Scan) return false;
      if (s.step == Step::Store && !takes_store(s, varies_[k])) return false;
      if (s.step != Step::Reduce) continue;
      if (s.reduction != loop::Reduction::Sum || s.dtype != DType::F32 || !varies_[static_cast<size_t>(s.args[0])]) return false;
      const auto value = emit(s.args[0]);
      if (!value) return false;
      sums_[static_cast<int>(k)] = sum_of(*value);
    }
    return true;
  }

  // The loop over rows, behind columns, whose elements it need not load.
  bool take_rows() {
    std::vector<int> to(rows_.body.steps.size(), -1);
    for (size_t k = 0; k < to.size(); ++k) {
      const Statement s = loop::renumbered(rows_.body.steps[k], to);
      const bool plain = s.mask < 0 && !loop::uses_values(s.index);
      if (s.step == Step::Load && plain) {
        const auto value = loaded(s, s.index);
        if (!value) return false;
        to[k] = *value;
      } else {
        if (s.step == Step::Load && (is_stored(s.buffer) || is_written_between(s.buffer))) return false;
        if (s.step == Step::Store && is_touched_between(s.buffer)) return false;
        to[k] = loop::append(builder_, s);
      }
    }
    return true;
  }

  // Whether the results of columns, which come first, can come where rows are, and rows not see them.
  bool may_delay_rest() const {
    const std::vector<int> read = loop::buffers_read(rows_.body), written = loop::buffers_written(rows_.body);
    for (size_t k = 0; k < reader_.body.steps.size(); ++k) {
      const Statement& s = reader_.body.steps[k];
      if (varies_[k] || (s.step != Step::Load && s.step != Step::Store)) continue;
      if (contains(written, s.buffer) || is_written_between(s.buffer)) return false;
      if (s.step == Step::Store && (contains(read, s.buffer) || is_touched_between(s.buffer))) return false;
    }
    return true;
  }

  // Of stores to the same element, the last one.
  void drop_overwritten() {
    auto& steps = node_.body.steps;
    for (size_t k = 0; k < steps.size(); ++k) {
      const bool again =
          is_plain_store(steps[k]) && std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(k) + 1, steps.end(), [&](auto& t) {
            return is_plain_store(t) && t.buffer == steps[k].buffer && t.index == steps[k].index;
          });
      if (again) steps[k] = {};
    }
    loop::eliminate_dead(node_.body);
  }

  // Whether memory that is written is touched at the same element alone, and written when it is not loaded any more.
  bool writes_in_place() const {
    const auto& steps = node_.body.steps;
    const std::vector<int> pass = loop::pass_of(node_.domain, node_.body);
    const int last = pass.empty() ? 0 : *std::max_element(pass.begin(), pass.end());
    for (size_t k = 0; k < steps.size(); ++k) {
      if (steps[k].step != Step::Store) continue;
      for (size_t i = 0; i < steps.size(); ++i) {
        if (i == k || steps[i].buffer != steps[k].buffer || (steps[i].step != Step::Load && steps[i].step != Step::Store)) continue;
        if (steps[i].step == Step::Store || !is_plain_store(steps[k]) || !(steps[i].index == steps[k].index) || pass[k] != last)
          return false;
      }
    }
    return true;
  }

  static bool is_plain_store(const Statement& s) {
    return s.step == Step::Store && s.mode == loop::StoreMode::Set && s.mask < 0 && !loop::uses_values(s.index);
  }

  // Where each variable of the loop over columns is, by an element that both touch.
  bool finds_points() {
    if (!(loop::reduction_size(reader_.domain) == row().extent()) || !(loop::space_size(reader_.domain) == column().extent())) return false;
    for (auto& s : reader_.body.steps) {
      if ((s.step != Step::Load && s.step != Step::Store) || s.mask >= 0 || loop::uses_values(s.index)) continue;
      for (auto& t : rows_.body.steps) {
        if ((t.step != Step::Load && t.step != Step::Store) || t.buffer != s.buffer || t.mask >= 0 || loop::uses_values(t.index)) continue;
        const auto map = point_at(reader_.domain, s.index, t.index);
        column_ = map ? variable_along(reader_.domain, *map, column().symbol) : std::nullopt;
        if (!column_) continue;
        map_ = *map;
        return true;
      }
    }
    return false;
  }

  // A store of each element moves to the joint loop, if nobody meets its memory on the way.
  bool takes_store(const Statement& s, bool varies) {
    if (s.mode != loop::StoreMode::Set || s.mask >= 0 || loop::uses_values(s.index)) return false;
    if (!varies) return true;
    if (!columns_first() && is_touched_between(s.buffer)) return false;
    const auto value = emit(s.args[0]);
    if (value) builder_.store(s.buffer, s.dtype, there(s.index), {&builder_, *value, s.dtype});
    return value.has_value();
  }

  Expr there(const Expr& index) const { return sym::substitute(index, loop::replacing(map_)); }

  // A step of the loop over columns, in the joint body.
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
    if (divides(at) && !divides(s.index)) return std::nullopt;
    return loaded(s, at);
  }

  bool is_stored(int buffer) const {
    return std::any_of(node_.body.steps.begin(), node_.body.steps.end(),
                       [&](auto& t) { return t.step == Step::Store && t.buffer == buffer; });
  }

  // What a load gives at an element, which the joint loop may have loaded or stored.
  std::optional<int> loaded(const Statement& s, const Expr& at) {
    if (is_written_between(s.buffer)) return std::nullopt;
    const auto& steps = node_.body.steps;
    const auto found = std::find_if(steps.rbegin(), steps.rend(), [&](auto& t) {
      const bool stored = is_plain_store(t) || loop::stores_sum(t);
      return t.buffer == s.buffer && t.mask < 0 && (stored || t.step == Step::Load) && t.index == at;
    });
    if (found == steps.rend() && !is_stored(s.buffer)) return builder_.load(s.buffer, s.dtype, at).id;
    if (found == steps.rend() || (found->step == Step::Load && is_stored(s.buffer)) || loop::stores_sum(*found)) return std::nullopt;
    if (sym::depends_on(at, row().symbol) && sym::depends_on(at, column().symbol) && counted_.insert(s.buffer).second)
      shared_ += rows() * columns() * static_cast<int64_t>(size_of(s.dtype));
    return found->step == Step::Store ? found->args[0] : static_cast<int>(steps.rend() - found) - 1;
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
    builder_.store(buffer, DType::F32, sym::mod(row().symbol, parts_) * Expr(columns()) + column().symbol, {&builder_, value, DType::F32},
                   loop::StoreMode::Sum);
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
  Node rows_, node_;
  const int64_t parts_;  // sums of each column
  loop::BodyBuilder builder_{node_.body};
  VarMap map_;                       // the variables of the loop over columns at the joint one's points
  std::optional<loop::Var> column_;  // of the loop over columns
  std::vector<bool> varies_;
  std::map<int, int> sums_;     // buffers, by steps that fold
  std::map<int, int> emitted_;  // steps of the loop over columns in the joint body
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

class Pass {
 public:
  Pass(Program& p, const target::Target& target, const Limits& limits)
      : p_(p), target_(target), limits_(limits), uses_(p), gone_(p.nodes.size(), false) {}

  std::vector<std::string> run() {
    for (size_t i = 0; i < p_.nodes.size();) {
      const auto joint = gone_[i] ? std::nullopt : join_one(i);
      i = joint ? *joint : i + 1;
    }
    program::drop(p_, gone_);
    return std::move(lines_);
  }

 private:
  // Joins the loop over rows at `i` and another one. Gives where it is then; nothing where there is none.
  std::optional<size_t> join_one(size_t i) {
    const int64_t workers = target_.facts().workers;
    const auto rows = folds(p_.nodes[i]) ? flattened(p_.nodes[i]) : std::nullopt;
    if (!rows) return std::nullopt;
    const int64_t count = rows->domain.vars[0].extent().constant();
    if (workers < 2 || count <= workers || count < limits_.least_rows_of_worker * workers) return std::nullopt;
    for (const size_t j : near(i)) {
      const Node& other = p_.nodes[j];
      if ((!folds(other) && !is_light(other)) || !program::may_join(p_, p_.nodes[i], other)) continue;
      // What is computed again for a backward pass would come back to where it was not kept.
      if ((p_.nodes[i].pass == graph::Pass::Forward) != (other.pass == graph::Pass::Forward)) continue;
      if (is_joint(i) && j > i && join_rows(i, j)) return i;
      if (folds(other) && join_columns(i, j, *rows, workers)) return std::min(i, j);
    }
    return std::nullopt;
  }

  bool is_joint(size_t i) const { return std::any_of(p_.nodes[i].body.steps.begin(), p_.nodes[i].body.steps.end(), loop::stores_sum); }

  // Who touches what a node touches, not far from it.
  std::set<size_t> near(size_t i) const {
    std::set<size_t> out;
    for (const auto* buffers : {&uses_.reads(i), &uses_.writes(i)})
      for (int b : *buffers)
        for (const auto* nodes : {&uses_.readers(b), &uses_.writers(b)})
          out.insert(std::lower_bound(nodes->begin(), nodes->end(), i - std::min(i, kMostNodes)),
                     std::upper_bound(nodes->begin(), nodes->end(), i + kMostNodes));
    out.erase(i);
    return out;
  }

  bool join_columns(size_t i, size_t j, const Node& rows, int64_t parts) {
    const size_t buffers = p_.buffers.size(), first = std::min(i, j), second = std::max(i, j);
    Joint joint(p_, uses_, i, j, rows, parts);
    const auto nodes = joint.run();
    if (!nodes || !is_worth_it(nodes->first, joint.shared_bytes(), i, j)) {
      p_.buffers.resize(buffers);
      return false;
    }
    p_.nodes[first] = nodes->first, p_.nodes[second] = nodes->second;
    uses_.set(first, p_.nodes[first]), uses_.set(second, p_.nodes[second]);
    drop_unread_stores(p_, uses_, first);
    return true;
  }

  bool join_rows(size_t i, size_t j) {
    const auto& vars = p_.nodes[i].domain.vars;
    auto rows = folds(p_.nodes[j]) ? flattened(p_.nodes[j]) : in_rows(p_.nodes[j], vars[0].extent(), vars[1].extent());
    if (!rows) return false;
    Joint joint(p_, uses_, j, i, std::move(*rows));
    const auto node = joint.run_behind();
    if (!node || !is_worth_it(*node, joint.shared_bytes(), i, j)) return false;
    p_.nodes[i] = *node, gone_[j] = true;
    uses_.set(i, p_.nodes[i]), uses_.remove(j);
    drop_unread_stores(p_, uses_, i);
    return true;
  }

  bool is_worth_it(const Node& joint, int64_t shared_bytes, size_t i, size_t j) {
    if (shared_bytes < limits_.least_bytes) return false;
    const std::string names = fmt::format("{} for {}", program::label(p_.nodes[i]), program::label(p_.nodes[j]));
    const std::string refusal = target_.sums_refusal(joint, p_);
    lines_.push_back(refusal.empty() ? fmt::format("{}: columns are summed with rows: {:.1f} MB less are read", names,
                                                   static_cast<double>(shared_bytes) / 1e6)
                                     : fmt::format("{}: columns are not summed with rows, as {}", names, refusal));
    return refusal.empty();
  }

  Program& p_;
  const target::Target& target_;
  const Limits limits_;
  program::Uses uses_;
  std::vector<bool> gone_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> rows_and_columns(Program& p, const target::Target& target, int64_t least_bytes, int64_t least_rows_of_worker) {
  return Pass(p, target, {least_bytes, least_rows_of_worker}).run();
}

}  // namespace toroid::sched
