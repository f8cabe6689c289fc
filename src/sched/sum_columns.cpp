#include "sched/sum_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "loop/moments.h"
#include "loop/renumber.h"
#include "program/points.h"
#include "program/uses.h"
#include "sched/domain_map.h"

namespace toroid::sched {
namespace {

using loop::Body;
using loop::Statement;
using loop::Step;
using program::Node;
using program::Program;

constexpr size_t kMostSums = 4;                      // of a template: each takes registers and shared memory
constexpr int kMostOperations = 24, kMostLoads = 6;  // of the terms of a loop's sums

const Statement& step_of(const Body& b, int k) { return b.steps[static_cast<size_t>(k)]; }

// How a loop's sums are made of what a template has.
class Sums {
 public:
  Sums(Program& p, const program::Uses& uses, size_t first, size_t second, const Statement& store)
      : p_(p),
        uses_(uses),
        first_(first),
        second_(second),
        store_(store),
        reader_(p.nodes[second]),
        place_(*program::sums_place(p.nodes[first])),
        node_(p.nodes[first]) {}

  // The two nodes as they are then; nothing where the loop sums something else.
  std::optional<std::pair<Node, Node>> run() {
    if (!finds_points() || !finds_sums()) return std::nullopt;
    for (auto& [k, terms] : terms_)
      for (auto& [term, is_square] : terms) {
        const auto value = emit(term);
        if (!value) return std::nullopt;
        sums_[{term, is_square}] = sum_of(is_square ? square(*value) : *value);
      }
    const auto count = std::count_if(node_.body.steps.begin(), node_.body.steps.end(), loop::stores_sum);
    if (static_cast<size_t>(count) > kMostSums) return std::nullopt;
    return std::pair{std::move(node_), rest()};
  }

 private:
  const loop::Var& column() const { return node_.domain.vars[static_cast<size_t>(place_.column)]; }

  // Whether the loop runs over the template's points as they lie in memory: it folds rows, and has one variable for columns.
  bool finds_points() {
    const auto& steps = reader_.body.steps;
    const auto load = std::find_if(steps.begin(), steps.end(), [&](auto& s) { return s.step == Step::Load && s.buffer == store_.buffer; });
    if (load == steps.end() || loop::uses_values(load->index) || loop::uses_values(store_.index)) return false;
    const auto map = point_at(reader_.domain, load->index, store_.index);
    if (!map || !(loop::reduction_size(reader_.domain) == Expr(place_.rows)) || !(loop::space_size(reader_.domain) == Expr(place_.columns)))
      return false;
    map_ = *map;
    column_ = variable_along(reader_.domain, map_, column().symbol);
    return column_.has_value();
  }

  // Whether all that differs between rows is summed, or a part of what is.
  bool finds_sums() {
    const Body& b = reader_.body;
    varies_ = loop::varies_over_reduction(reader_.domain, b);
    moments_ = loop::find_moments(reader_.domain, b);
    for (size_t k = 0; k < b.steps.size(); ++k) {
      const Statement& s = b.steps[k];
      if (s.step == Step::Reduce) {
        if (s.reduction != loop::Reduction::Sum || s.dtype != DType::F32) return false;
        const loop::Moments* m = moments_with(static_cast<int>(k));
        if (!m) {
          if (!varies_[static_cast<size_t>(s.args[0])]) return false;
          terms_[k] = {{s.args[0], false}};
        } else if (!is_rounded(m->x)) {
          return false;
        } else if (m->sum == static_cast<int>(k)) {
          terms_[k] = {{m->x, false}, {m->x, true}};
        }
      } else if (varies_[k] && s.step != Step::Load && s.step != Step::Scalar) {
        return false;
      }
    }
    return !terms_.empty();
  }

  const loop::Moments* moments_with(int k) const {
    const auto at = std::find_if(moments_.begin(), moments_.end(), [&](auto& m) { return m.sum == k || m.squares == k; });
    return at == moments_.end() ? nullptr : &*at;
  }

  bool is_rounded(int k) const {
    const Statement& s = step_of(reader_.body, k);
    return s.step == Step::Scalar && s.op == ScalarOp::Cast && is_half(step_of(reader_.body, s.args[0]).dtype);
  }

  // Whether memory holds the same where the template runs and where the loop does.
  bool is_settled(int buffer) const {
    const auto& writers = uses_.writers(buffer);
    return std::none_of(writers.begin(), writers.end(), [&](size_t w) { return w >= first_ && w <= second_; });
  }

  // The loop's step k, in the template's body.
  std::optional<int> emit(int k) {
    if (const auto known = emitted_.find(k); known != emitted_.end()) return known->second;
    Statement s = step_of(reader_.body, k);
    if (s.mask >= 0 || loop::uses_values(s.index)) return std::nullopt;
    std::optional<int> out;
    if (s.step == Step::Load)
      out = emit_load(std::move(s));
    else if (s.step == Step::Scalar && s.op < ScalarOp::Exp)
      out = emit_scalar(std::move(s));
    if (out) emitted_[k] = *out;
    return out;
  }

  std::optional<int> emit_load(Statement s) {
    const Expr at = sym::substitute(s.index, loop::replacing(map_));
    if (s.buffer == store_.buffer) return at == store_.index ? std::optional(store_.args[0]) : std::nullopt;
    if (!is_settled(s.buffer) || (divides(at) && !divides(s.index)) || ++loads_ > kMostLoads) return std::nullopt;
    return builder_.load(s.buffer, s.dtype, at).id;
  }

  std::optional<int> emit_scalar(Statement s) {
    if (s.op != ScalarOp::Const && ++operations_ > kMostOperations) return std::nullopt;
    for (int& a : s.args) {
      if (a < 0) continue;
      const auto value = emit(a);
      if (!value) return std::nullopt;
      a = *value;
    }
    return builder_.emit({.op = s.op, .dtype = s.dtype, .args = {s.args[0], s.args[1], s.args[2]}, .value = s.value});
  }

  int square(int value) { return builder_.emit({.op = ScalarOp::Mul, .dtype = DType::F32, .args = {value, value, -1}, .value = {}}); }

  // The buffer of a value's sums, which an earlier loop may have asked for.
  int sum_of(int value) {
    for (auto& s : node_.body.steps)
      if (loop::stores_sum(s) && s.args[0] == value) return s.buffer;
    const int buffer = p_.new_buffer("sums_" + p_.buffers[static_cast<size_t>(store_.buffer)].name, DType::F32,
                                     place_.sums * place_.columns, loop::BufferKind::Temporary);
    builder_.store(buffer, DType::F32, place_.index, {&builder_, value, DType::F32}, loop::StoreMode::Sum);
    return buffer;
  }

  // The loop, over sums in place of rows.
  Node rest() const {
    Node out = reader_;
    out.domain.vars.clear();
    out.body.steps.clear();
    const Expr block = sym::loop_symbol("block", place_.sums);
    out.domain.vars.push_back({block, true});
    for (auto& v : reader_.domain.vars)
      if (!v.reduction) out.domain.vars.push_back(v);
    loop::BodyBuilder builder(out.body);
    const auto sum = [&](int term, bool is_square, DType in) {
      const S part = builder.load(sums_.at({term, is_square}), DType::F32, block * Expr(place_.columns) + column_->symbol);
      return builder.reduce(loop::Reduction::Sum, in == DType::F32 ? part : cast(part, in));
    };
    std::vector<int> to(reader_.body.steps.size(), -1);
    for (size_t k = 0; k < to.size(); ++k) {
      const Statement& s = reader_.body.steps[k];
      if (s.step == Step::Reduce) {
        const loop::Moments* m = moments_with(static_cast<int>(k));
        if (!m) {
          to[k] = sum(s.args[0], false, DType::F32).id;
          continue;
        }
        const S x = sum(m->x, false, DType::F64);
        to[k] = cast(m->sum == static_cast<int>(k) ? x : distances(builder, x, sum(m->x, true, DType::F64)), DType::F32).id;
      } else if (!varies_[k]) {
        out.body.steps.push_back(loop::renumbered(s, to));
        to[k] = static_cast<int>(out.body.steps.size()) - 1;
      }
    }
    loop::eliminate_dead(out.body);
    return out;
  }

  // The squares of the distances to the mean, which roundings do not make negative. NaN stays NaN.
  S distances(loop::BodyBuilder& builder, const S& sum, const S& squares) const {
    const S rows = builder.constant(DType::F64, Number::of(static_cast<double>(place_.rows)));
    const S zero = builder.constant(DType::F64, Number::of(0.0)), all = squares - sum * sum / rows;
    return select(all < zero, zero, all);
  }

  Program& p_;
  const program::Uses& uses_;
  const size_t first_, second_;
  const Statement store_;
  const Node reader_;
  const program::SumsPlace place_;
  Node node_;
  loop::BodyBuilder builder_{node_.body};
  VarMap map_;                       // the loop's variables at the template's points
  std::optional<loop::Var> column_;  // of the loop
  std::vector<bool> varies_;
  std::vector<loop::Moments> moments_;
  std::map<size_t, std::vector<std::pair<int, bool>>> terms_;  // of the loop's sums: its steps, or their squares
  std::map<std::pair<int, bool>, int> sums_;                   // buffers
  std::map<int, int> emitted_;                                 // steps of the loop in the template's body
  int operations_ = 0, loads_ = 0;
};

bool is_result(const Program& p, const program::Uses& uses, size_t node, const Statement& s, int64_t least_bytes) {
  if (s.step != Step::Store || s.mode != loop::StoreMode::Set || s.mask >= 0) return false;
  const loop::Buffer& b = p.buffers[static_cast<size_t>(s.buffer)];
  return uses.writers(b.id) == std::vector<size_t>{node} &&
         b.numel.maybe_constant().value_or(0) * static_cast<int64_t>(size_of(b.dtype)) >= least_bytes;
}

bool folds_rows(const Node& n) { return n.is_loop() && n.beside.empty() && loop::has_reduction(n.domain); }

}  // namespace

std::vector<std::string> sum_columns(Program& p, const target::Target& target, int64_t least_bytes, int64_t least_rows) {
  std::vector<std::string> lines;
  program::Uses uses(p);
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    if (p.nodes[i].is_loop() || p.nodes[i].is_library() || p.nodes[i].producer) continue;
    const auto place = program::sums_place(p.nodes[i]);
    if (!place || place->rows < least_rows) continue;
    const std::vector<Statement> steps = p.nodes[i].body.steps;
    for (auto& s : steps) {
      if (!is_result(p, uses, i, s, least_bytes)) continue;
      for (const size_t j : std::vector<size_t>(uses.readers(s.buffer))) {
        if (j <= i || !folds_rows(p.nodes[j]) || !program::may_join(p, p.nodes[i], p.nodes[j])) continue;
        const size_t buffers = p.buffers.size();
        const auto nodes = Sums(p, uses, i, j, s).run();
        const std::string refusal = nodes ? target.sums_refusal(nodes->first, p) : "";
        const std::string names = fmt::format("{} for {}", program::label(p.nodes[i]), program::label(p.nodes[j]));
        if (!nodes || !refusal.empty()) {
          p.buffers.resize(buffers);
          if (nodes) lines.push_back(fmt::format("{}: columns are not summed, as {}", names, refusal));
          continue;
        }
        const loop::Buffer& result = p.buffers[static_cast<size_t>(s.buffer)];
        const int64_t bytes = result.numel.constant() * static_cast<int64_t>(size_of(result.dtype));
        lines.push_back(fmt::format("{}: columns are summed where they are computed: {:.1f} MB less are read", names,
                                    static_cast<double>(bytes) / 1e6));
        p.nodes[i] = nodes->first, p.nodes[j] = nodes->second;
        uses.set(i, p.nodes[i]), uses.set(j, p.nodes[j]);
      }
    }
  }
  return lines;
}

}  // namespace toroid::sched
