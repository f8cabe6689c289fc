#include "sched/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "loop/renumber.h"
#include "program/uses.h"
#include "sched/domain_map.h"

namespace toroid::sched {
namespace {

using loop::Body;
using loop::Statement;
using loop::Step;
using program::Node;
using program::Program;

constexpr int64_t kSlack = 16;  // held beside it: a row of sums counts for nothing
constexpr int kMostOperations = 8, kMostLoads = 4;
constexpr size_t kMostReaders = 6, kMostSteps = 600, kMostBuffers = 32, kMostRows = 3;

bool is_cheap(const Statement& s) {
  if (s.step == Step::Load) return s.mask < 0 && !loop::uses_values(s.index);
  return s.step == Step::Scalar && s.op < ScalarOp::Exp;
}

// The steps that a value is made of, in order, and those of them that are read back: the Store of each.
struct Made {
  std::set<size_t> steps;
  std::map<size_t, size_t> stored;
};

// The Store of a step's value, rounded or not, to a buffer of its own: not `apart`. What follows from the value in this loop follows from
// what is stored in the graph.
std::optional<size_t> store_of(const Body& b, size_t step, int apart) {
  for (size_t k = step + 1; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    if (s.step != Step::Store || s.mode != loop::StoreMode::Set || s.mask >= 0 || s.buffer == apart) continue;
    const Statement& value = b.steps[static_cast<size_t>(s.args[0])];
    const bool rounds = value.step == Step::Scalar && value.op == ScalarOp::Cast && is_float(value.dtype) &&
                        static_cast<size_t>(value.args[0]) == step && is_float(b.steps[step].dtype);
    if (static_cast<size_t>(s.args[0]) == step || rounds) return k;
  }
  return std::nullopt;
}

// What `store` stores; nothing where a part of it is not cheap, or there are too many. reads_back: what the loop stores elsewhere need not
// be computed.
std::optional<Made> made_of(const Body& b, const Statement& store, bool reads_back) {
  Made made;
  auto& steps = made.steps;
  std::vector<size_t> open{static_cast<size_t>(store.args[0])};
  int operations = 0, loads = 0;
  while (!open.empty()) {
    const size_t k = open.back();
    open.pop_back();
    if (!steps.insert(k).second) continue;
    const Statement& s = b.steps[k];
    const bool is_number = (s.step == Step::Scalar && s.op != ScalarOp::Const) || s.step == Step::Reduce;
    if (reads_back && is_number && static_cast<int>(k) != store.args[0])
      if (const auto kept = store_of(b, k, store.buffer)) {
        if (++loads > kMostLoads) return std::nullopt;
        made.stored[k] = *kept;
        continue;
      }
    if (!is_cheap(s)) return std::nullopt;
    if (s.step == Step::Load && ++loads > kMostLoads) return std::nullopt;
    if (s.step == Step::Scalar && s.op != ScalarOp::Const && ++operations > kMostOperations) return std::nullopt;
    loop::for_each_use(s, [&](size_t use) { open.push_back(use); });
  }
  return made;
}

// The first steps on the way to what `store` stores that are one number a row of a reduction, and not cheap to compute again.
std::vector<size_t> rows_in(const loop::Domain& d, const Body& b, const Statement& store) {
  const std::vector<bool> varies = loop::varies_over_reduction(d, b);
  std::vector<bool> dear(b.steps.size(), false);
  for (size_t k = 0; k < b.steps.size(); ++k) {
    dear[k] = b.steps[k].step == Step::Reduce;
    if (b.steps[k].step == Step::Scalar) loop::for_each_use(b.steps[k], [&](size_t use) { dear[k] = dear[k] || dear[use]; });
  }
  std::vector<size_t> open{static_cast<size_t>(store.args[0])};
  std::set<size_t> seen, rows;
  while (!open.empty()) {
    const size_t k = open.back();
    open.pop_back();
    if (!seen.insert(k).second) continue;
    if (!varies[k] && dear[k])
      rows.insert(k);
    else
      loop::for_each_use(b.steps[k], [&](size_t use) { open.push_back(use); });
  }
  return {rows.begin(), rows.end()};
}

class Recomputer {
 public:
  Recomputer(Program& p, int64_t least_bytes) : p_(p), least_bytes_(least_bytes), uses_(p), gone_(p.nodes.size(), false) {}

  std::vector<std::string> run() {
    // In the order of nodes: what is computed again may be part of what is computed again later.
    for (size_t i = 0; i < p_.nodes.size(); ++i)
      for (const int b : std::vector<int>(uses_.writes(i)))
        if (!gone_[i]) try_buffer(i, b);
    program::drop(p_, gone_);
    return std::move(lines_);
  }

 private:
  int64_t bytes_of(int buffer) const {
    const loop::Buffer& b = p_.buffers[static_cast<size_t>(buffer)];
    return b.numel.maybe_constant().value_or(0) * static_cast<int64_t>(size_of(b.dtype));
  }
  bool is_temporary(int buffer) const { return p_.buffers[static_cast<size_t>(buffer)].kind == loop::BufferKind::Temporary; }
  // Whose contents are the same wherever it is read from `node` on.
  bool is_settled(int buffer, size_t node) const {
    const auto& writers = uses_.writers(buffer);
    return std::all_of(writers.begin(), writers.end(), [&](size_t w) { return w < node; });
  }

  void try_buffer(size_t writer, int buffer) {
    const size_t buffers = p_.buffers.size();
    if (!try_buffer(writer, buffer, p_.nodes[writer]) && !try_with_rows(writer, buffer)) p_.buffers.resize(buffers);
  }

  // The same where numbers of rows have no place in memory yet, from which they could be read back: they get one, as they are few.
  bool try_with_rows(size_t writer, int buffer) {
    Node from = p_.nodes[writer];
    if (!from.is_loop() || !is_temporary(buffer)) return false;
    Expr index = 0, rows = 1;
    for (auto v = from.domain.vars.rbegin(); v != from.domain.vars.rend(); ++v) {
      if (v->reduction) continue;
      index = index + v->symbol * rows, rows = rows * v->extent();
    }
    if (!rows.is_const()) return false;
    const auto& steps = from.body.steps;
    const auto store = std::find_if(steps.begin(), steps.end(), [&](auto& s) { return s.step == Step::Store && s.buffer == buffer; });
    if (store == steps.end()) return false;
    const auto kept = rows_in(from.domain, from.body, *store);
    if (kept.empty() || kept.size() > kMostRows) return false;
    for (const size_t k : kept) {
      if (store_of(from.body, k, buffer)) continue;
      Statement row;
      row.step = Step::Store, row.dtype = from.body.steps[k].dtype, row.index = index, row.args[0] = static_cast<int>(k);
      row.buffer = p_.new_buffer(p_.buffers[static_cast<size_t>(buffer)].name + "_row", row.dtype, rows, loop::BufferKind::Temporary);
      if (bytes_of(row.buffer) * kSlack > bytes_of(buffer)) return false;
      from.body.steps.push_back(row);
    }
    return try_buffer(writer, buffer, from);
  }

  // from: what the writer is to be, but for the temporary. Whether it is that now.
  bool try_buffer(size_t writer, int buffer, const Node& original) {
    const Node from = original;  // nodes change below
    if (!from.is_loop() || !from.beside.empty() || !is_temporary(buffer) || bytes_of(buffer) < least_bytes_ ||
        uses_.writers(buffer).size() != 1)
      return false;
    const std::vector<size_t> readers = uses_.readers(buffer);
    if (readers.empty() || readers.size() > kMostReaders) return false;
    const auto& steps = from.body.steps;
    const auto stores = [&](const Statement& s) { return s.step == Step::Store && s.buffer == buffer; };
    if (std::count_if(steps.begin(), steps.end(), stores) != 1) return false;
    const Statement& store = *std::find_if(steps.begin(), steps.end(), stores);
    if (store.mode != loop::StoreMode::Set || store.mask >= 0) return false;
    auto parts = made_of(from.body, store, false);
    if (!parts) parts = made_of(from.body, store, true);
    if (!parts || !is_settled_and_small(*parts, from, writer, buffer, readers)) return false;
    std::vector<Node> changed;
    int64_t before = bytes_of(buffer), after = 0;
    for (const size_t r : readers) {
      const bool may = r > writer && program::may_join(p_, from, p_.nodes[r]);  // loops that were chosen to stay apart do
      auto node = may ? with(p_.nodes[r], from, store, *parts) : std::nullopt;
      if (!node) return false;
      before += bytes_of(buffer);
      after += read_anew(p_.nodes[r], *node);
      changed.push_back(std::move(*node));
    }
    if (after >= before) return false;
    lines_.push_back(fmt::format("{} is computed by each of its {} readers: {:.1f} MB less are moved",
                                 p_.buffers[static_cast<size_t>(buffer)].name, readers.size(), static_cast<double>(before - after) / 1e6));
    for (size_t i = 0; i < readers.size(); ++i) set(readers[i], std::move(changed[i]));
    Node rest = from;
    for (auto& s : rest.body.steps)
      if (stores(s)) s = Statement{};
    loop::eliminate_dead(rest.body);
    const auto checks = [](const Statement& s) { return s.step == Step::Check; };
    if (program::writes(rest).empty() && std::none_of(rest.body.steps.begin(), rest.body.steps.end(), checks)) {
      uses_.remove(writer), gone_[writer] = true;
      return true;
    }
    set(writer, std::move(rest));
    return true;
  }

  void set(size_t node, Node now) {
    p_.nodes[node] = std::move(now);
    uses_.set(node, p_.nodes[node]);
  }

  // Whether nothing of what is loaded changes, and no more memory is held until the last reader than the temporary took.
  bool is_settled_and_small(const Made& parts, const Node& from, size_t writer, int buffer, const std::vector<size_t>& readers) const {
    int64_t held = 0;
    std::set<int> seen;
    for (const size_t k : parts.steps) {
      const auto kept = parts.stored.find(k);
      const bool is_stored = kept != parts.stored.end();
      const Statement& s = from.body.steps[is_stored ? kept->second : k];
      if ((s.step != Step::Load && !is_stored) || !seen.insert(s.buffer).second) continue;
      if (!is_settled(s.buffer, is_stored ? writer + 1 : writer)) return false;
      const auto& others = uses_.readers(s.buffer);
      if (is_temporary(s.buffer) && (others.empty() || others.back() < readers.back())) held += bytes_of(s.buffer);
    }
    return held - held / kSlack <= bytes_of(buffer);
  }

  // A reader that makes the values itself; nothing where it reads them otherwise than one by one.
  std::optional<Node> with(const Node& reader, const Node& from, const Statement& store, const Made& parts) const {
    if (!reader.is_loop() || !reader.beside.empty()) return std::nullopt;
    int64_t points = 1;
    for (auto& v : reader.domain.vars) {
      if (!v.extent().is_const()) return std::nullopt;
      points *= v.extent().constant();
    }
    if (points > 2 * p_.buffers[static_cast<size_t>(store.buffer)].numel.constant()) return std::nullopt;
    Node out = reader;
    out.body.steps.clear();
    loop::BodyBuilder builder(out.body);
    std::vector<int> to(reader.body.steps.size(), -1);
    for (size_t i = 0; i < to.size(); ++i) {
      const Statement& s = reader.body.steps[i];
      if (s.step == Step::Load && s.buffer == store.buffer) {
        const auto value = s.mask < 0 && !loop::uses_values(s.index) ? emit(builder, from, store, parts, s.index) : std::nullopt;
        if (!value) return std::nullopt;
        to[i] = *value;
      } else {
        to[i] = copy(builder, s, to, [](const Expr& e) { return e; });
      }
    }
    std::set<int> touched;
    for (const int b : loop::buffers_read(out.body)) touched.insert(b);
    for (const int b : loop::buffers_written(out.body)) touched.insert(b);
    if (out.body.steps.size() > kMostSteps || touched.size() > kMostBuffers) return std::nullopt;
    return out;
  }

  // The steps of `parts` at the point whose value lies at `at`.
  static std::optional<int> emit(loop::BodyBuilder& builder, const Node& from, const Statement& store, const Made& parts, const Expr& at) {
    const auto point = point_at(from.domain, store.index, at);
    if (!point) return std::nullopt;
    std::vector<int> to(from.body.steps.size(), -1);
    bool plain = true;
    const auto there = [&](const Expr& e) {
      const Expr out = sym::substitute(e, loop::replacing(*point));
      plain = plain && (divides(at) || !divides(out));
      return out;
    };
    for (const size_t k : parts.steps) {
      const auto kept = parts.stored.find(k);
      if (kept == parts.stored.end()) {
        to[k] = copy(builder, from.body.steps[k], to, there);
        continue;
      }
      const Statement& s = from.body.steps[kept->second];
      Statement load;
      load.step = Step::Load, load.dtype = s.dtype, load.buffer = s.buffer, load.index = s.index;
      to[k] = copy(builder, std::move(load), to, there);
      if (const DType t = from.body.steps[k].dtype; t != s.dtype)
        to[k] = builder.emit({.op = ScalarOp::Cast, .dtype = t, .args = {to[k], -1, -1}, .value = {}});
    }
    return plain ? std::optional(to[static_cast<size_t>(store.args[0])]) : std::nullopt;
  }

  // A step of another body, whose own steps are `to` here.
  template <class F>
  static int copy(loop::BodyBuilder& builder, Statement s, const std::vector<int>& to, F&& index) {
    s.index = index(s.index);
    s = loop::renumbered(std::move(s), to);
    if (s.step == Step::Scalar)
      return builder.emit({.op = s.op, .dtype = s.dtype, .args = {s.args[0], s.args[1], s.args[2]}, .value = s.value});
    auto& steps = builder.body().steps;
    const auto same = [&](const Statement& t) {
      return t.step == Step::Load && t.buffer == s.buffer && t.mask == s.mask && t.index == s.index;
    };
    const auto writes = [&](const Statement& t) { return t.step == Step::Store && t.buffer == s.buffer; };
    if (s.step == Step::Load && std::none_of(steps.begin(), steps.end(), writes))
      if (const auto known = std::find_if(steps.begin(), steps.end(), same); known != steps.end())
        return static_cast<int>(known - steps.begin());
    steps.push_back(std::move(s));
    return static_cast<int>(steps.size()) - 1;
  }

  // Bytes that the new reader loads and the old one did not.
  int64_t read_anew(const Node& old, const Node& now) const {
    const auto had = program::reads(old);
    int64_t sum = 0;
    for (const int b : program::reads(now))
      if (std::find(had.begin(), had.end(), b) == had.end()) sum += bytes_of(b);
    return sum;
  }

  Program& p_;
  const int64_t least_bytes_;
  program::Uses uses_;
  std::vector<bool> gone_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> recompute(Program& p, int64_t least_bytes) { return Recomputer(p, least_bytes).run(); }

}  // namespace toroid::sched
