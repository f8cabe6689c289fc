#include "sched/mm_plus_mm.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace toroid::sched {
namespace {

using loop::Statement;
using loop::Step;
using program::Gemm;
using program::Node;
using program::Operand;
using program::Program;

bool contains(const std::vector<int>& list, int x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// Where a product stores what it has summed up and does nothing else: the store; -1 where it does more.
int only_store(const Node& n) {
  int found = -1;
  for (size_t k = 0; k < n.body.steps.size(); ++k) {
    const Statement& s = n.body.steps[k];
    if (s.step == Step::Store && found < 0 && s.mode == loop::StoreMode::Set && s.mask < 0)
      found = static_cast<int>(k);
    else if (s.step != Step::Accumulate && !(s.step == Step::Scalar && s.op == ScalarOp::Cast))
      return -1;
  }
  return found;
}

// The only node that reads what the product stores, after it.
std::optional<size_t> only_reader(const Program& p, size_t product) {
  const int store = only_store(p.nodes[product]);
  if (store < 0) return std::nullopt;
  const int buffer = p.nodes[product].body.steps[static_cast<size_t>(store)].buffer;
  if (p.buffers[static_cast<size_t>(buffer)].kind != loop::BufferKind::Temporary) return std::nullopt;
  std::optional<size_t> found;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    if (i != product && contains(program::writes(p.nodes[i]), buffer)) return std::nullopt;
    if (!contains(program::reads(p.nodes[i]), buffer)) continue;
    if (found || i <= product) return std::nullopt;
    found = i;
  }
  return found;
}

// One side of an addition.
struct Term {
  int add = -1;  // the step
  int other = -1;
};

// The additions that a loaded value goes through, the first one first; what else happens to it ends them.
std::vector<Term> additions(const loop::Body& body, int buffer) {
  std::vector<Term> out;
  int at = -1;
  for (size_t k = 0; k < body.steps.size(); ++k) {
    const Statement& s = body.steps[k];
    if (s.step != Step::Load || s.buffer != buffer) continue;
    if (at >= 0 || s.mask >= 0) return {};
    at = static_cast<int>(k);
  }
  while (at >= 0) {
    int user = -1, users = 0;
    for (size_t k = 0; k < body.steps.size(); ++k)
      loop::for_each_use(body.steps[k], [&](size_t used) {
        if (static_cast<int>(used) == at) user = static_cast<int>(k), ++users;
      });
    if (users != 1) break;
    const Statement& s = body.steps[static_cast<size_t>(user)];
    if (s.step != Step::Scalar || (s.op != ScalarOp::Add && s.op != ScalarOp::Cast) || !is_float(s.dtype)) break;
    if (s.op == ScalarOp::Add) out.push_back({user, s.args[0] == at ? s.args[1] : s.args[0]});
    at = user;
  }
  return out;
}

const Expr& load_index(const loop::Body& body, int buffer) {
  const auto it = std::find_if(body.steps.begin(), body.steps.end(), [&](auto& s) { return s.step == Step::Load && s.buffer == buffer; });
  TOROID_CHECK(it != body.steps.end());
  return it->index;
}

// Whether the products store equal points at equal places.
bool same_places(const Node& a, const Node& b) {
  const Statement &x = a.body.steps[static_cast<size_t>(only_store(a))], &y = b.body.steps[static_cast<size_t>(only_store(b))];
  if (a.domain.vars.size() != b.domain.vars.size() || x.dtype != y.dtype) return false;
  const Expr renamed = sym::substitute(x.index, [&](const sym::Node& n) -> std::optional<Expr> {
    for (size_t d = 0; d < a.domain.vars.size(); ++d)
      if (sym::same_symbol(*a.domain.vars[d].symbol.node(), n)) return b.domain.vars[d].symbol;
    return std::nullopt;
  });
  return renamed == y.index;
}

bool same_problem(const Gemm& x, const Gemm& y) {
  return !x.b2 && !y.b2 && x.batch == y.batch && x.m == y.m && x.n == y.n && x.k.is_const() && y.k.is_const() && x.a.dtype == y.a.dtype &&
         x.b.dtype == y.b.dtype && x.accumulate == y.accumulate && x.tf32 == y.tf32;
}

bool is_plain(const Node& n) {
  const auto* g = std::get_if<Gemm>(&n.problem);
  return g && is_float(g->accumulate) && !n.producer && !n.is_library() && n.config.empty();
}

bool is_written_between(const Program& p, const std::vector<int>& buffers, size_t from, size_t to) {
  for (size_t i = from + 1; i < to; ++i)
    for (int b : program::writes(p.nodes[i]))
      if (contains(buffers, b)) return true;
  return false;
}

bool is_constant(const Program& p, const Operand& o) { return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant; }

// --- operands side by side ------------------------------------------------------------------------------------------------------------

// Two operands that differ in their extent along k.
struct Pair {
  Operand first, second;
  size_t k_dim = 0;
  std::vector<Expr> sizes;  // of the first
  int64_t second_k = 0;
};

Pair pair_of(const Gemm& x, const Gemm& y, bool is_a) {
  const size_t nb = x.batch.size();
  Pair out{is_a ? x.a : x.b, is_a ? y.a : y.b, is_a ? nb + 1 : nb, x.batch, y.k.constant()};
  out.sizes.push_back(is_a ? x.m : x.k);
  out.sizes.push_back(is_a ? x.k : x.n);
  return out;
}

// Rows at multiples of 16 elements, but batches that both are the same for; along k where that is how they lie.
std::vector<Expr> joint_strides(Pair& pair, Expr& numel) {
  const size_t last = pair.sizes.size() - 1, other = pair.k_dim == last ? last - 1 : last;
  const bool along_k = pair.first.strides[pair.k_dim] == Expr(1) && pair.second.strides[pair.k_dim] == Expr(1);
  const size_t inner = along_k || pair.k_dim == last ? pair.k_dim : other, row = inner == pair.k_dim ? other : pair.k_dim;
  std::vector<Expr> sizes = pair.sizes, strides(sizes.size(), 0);
  sizes[pair.k_dim] = sizes[pair.k_dim] + Expr(pair.second_k);
  strides[inner] = 1;
  constexpr int64_t kAligned = 16;
  strides[row] = sym::ceil_div(sizes[inner], kAligned) * Expr(kAligned);
  numel = strides[row] * sizes[row];
  for (size_t d = last - 1; d-- > 0;) {
    if (pair.first.strides[d] == Expr(0) && pair.second.strides[d] == Expr(0)) {
      pair.sizes[d] = 1;
    } else {
      strides[d] = numel;
      numel = numel * sizes[d];
    }
  }
  return strides;
}

program::Rearranged::Part part_of(const Operand& from, const Operand& to, const std::vector<Expr>& sizes, int64_t offset) {
  program::Rearranged::Part part{from, offset, {}, {}};
  for (auto& s : to.strides) part.strides.push_back(s.constant());
  for (auto& s : sizes) part.sizes.push_back(s.constant());
  return part;
}

bool all_constant(const Operand& o) {
  return o.offset.is_const() && std::all_of(o.strides.begin(), o.strides.end(), [](auto& s) { return s.is_const(); });
}

// One loop over all points, or over a part of them.
class Copy {
 public:
  Copy(const Pair& pair, const Operand& to, const Expr& k_extent) : pair_(pair), to_(to) {
    for (size_t d = 0; d < pair.sizes.size(); ++d) {
      const Expr extent = d == pair.k_dim ? k_extent : pair.sizes[d];
      at_.push_back(extent == Expr(1) ? Expr(0) : sym::loop_symbol("copy" + std::to_string(d), extent));
      if (!(extent == Expr(1))) node_.domain.vars.push_back({at_.back(), false});
    }
    if (!(to.strides.back() == Expr(1)) && node_.domain.vars.size() > 1) std::swap(node_.domain.vars.back(), node_.domain.vars.end()[-2]);
  }
  Node part(const Operand& from, const Expr& k_offset) {
    loop::BodyBuilder b(node_.body);
    store(b, element(b, from, 0), k_offset);
    return std::move(node_);
  }
  Node both() {
    loop::BodyBuilder b(node_.body);
    const Expr first_k = pair_.sizes[pair_.k_dim];
    const S in_first = b.is_below(at_[pair_.k_dim], first_k);
    b.push_mask(in_first);
    const S x = element(b, pair_.first, 0);
    b.pop_mask();
    b.push_mask(!in_first);
    const S y = element(b, pair_.second, first_k);
    b.pop_mask();
    store(b, select(in_first, x, y), 0);
    return std::move(node_);
  }

 private:
  S element(loop::BodyBuilder& b, const Operand& from, const Expr& before) {
    Expr index = from.offset;
    for (size_t d = 0; d < at_.size(); ++d) index = index + (d == pair_.k_dim ? at_[d] - before : at_[d]) * from.strides[d];
    return cast(b.load(from.buffer, from.dtype, index), DType::F32);
  }
  void store(loop::BodyBuilder& b, S value, const Expr& k_offset) {
    Expr index = k_offset * to_.strides[pair_.k_dim];
    for (size_t d = 0; d < at_.size(); ++d) index = index + at_[d] * to_.strides[d];
    b.store(to_.buffer, to_.dtype, index, value);
  }

  const Pair& pair_;
  const Operand& to_;
  Node node_;
  std::vector<Expr> at_;
};

// Whether a loop makes it, with which a copy of it can be joined.
bool is_made_by_loop(const Program& p, const Operand& o) {
  if (p.buffers[static_cast<size_t>(o.buffer)].kind != loop::BufferKind::Temporary) return false;
  return std::any_of(p.nodes.begin(), p.nodes.end(), [&](auto& n) { return n.is_loop() && contains(program::writes(n), o.buffer); });
}

Operand side_by_side(Program& p, Pair pair, const std::string& name, std::vector<Node>& copies) {
  Expr numel = 0;
  Operand to{-1, pair.first.dtype, 0, joint_strides(pair, numel)};
  const bool folds = is_constant(p, pair.first) && is_constant(p, pair.second) && all_constant(pair.first) && all_constant(pair.second) &&
                     numel.is_const();
  to.buffer = p.new_buffer(name, to.dtype, numel, folds ? loop::BufferKind::Constant : loop::BufferKind::Temporary);
  const Expr first_k = pair.sizes[pair.k_dim];
  if (folds) {
    std::vector<Expr> rest = pair.sizes;
    rest[pair.k_dim] = pair.second_k;
    p.rearranged.push_back(
        {to.buffer,
         {part_of(pair.first, to, pair.sizes, 0), part_of(pair.second, to, rest, (first_k * to.strides[pair.k_dim]).constant())}});
  } else if (is_made_by_loop(p, pair.first) || is_made_by_loop(p, pair.second)) {
    copies.push_back(Copy(pair, to, first_k).part(pair.first, 0));
    copies.push_back(Copy(pair, to, pair.second_k).part(pair.second, first_k));
  } else {
    copies.push_back(Copy(pair, to, first_k + Expr(pair.second_k)).both());
  }
  return to;
}

// The sum without the term that it loads from `buffer`.
void drop_term(loop::Body& body, int buffer) {
  const Term term = additions(body, buffer).front();
  for (auto& s : body.steps) {
    for (int& a : s.args)
      if (a == term.add) a = term.other;
    if (s.mask == term.add) s.mask = term.other;
  }
  loop::eliminate_dead(body);
}

int64_t typical(const Expr& e) { return e.maybe_constant().value_or(128); }

}  // namespace

std::optional<SumOfProducts> sum_of_products(const Program& p, size_t second) {
  if (!is_plain(p.nodes[second])) return std::nullopt;
  const auto sum = only_reader(p, second);
  if (!sum || !p.nodes[*sum].is_loop()) return std::nullopt;
  const Node &product = p.nodes[second], &adds = p.nodes[*sum];
  const int own = loop::buffers_written(product.body).front();
  const std::vector<Term> terms = additions(adds.body, own);
  for (size_t first = 0; first < second; ++first) {
    const Node& other = p.nodes[first];
    if (!is_plain(other) || only_reader(p, first) != sum) continue;
    const auto &x = std::get<Gemm>(other.problem), &y = std::get<Gemm>(product.problem);
    if (!same_problem(x, y) || !same_places(other, product) || is_written_between(p, {x.a.buffer, x.b.buffer}, first, second)) continue;
    const int others = loop::buffers_written(other.body).front();
    const std::vector<Term> its = additions(adds.body, others);
    const bool meet = std::any_of(
        its.begin(), its.end(), [&](auto& t) { return std::any_of(terms.begin(), terms.end(), [&](auto& u) { return t.add == u.add; }); });
    if (meet && load_index(adds.body, own) == load_index(adds.body, others)) return SumOfProducts{first, second, *sum};
  }
  return std::nullopt;
}

std::vector<SumOfProducts> sums_of_products(const Program& p) {
  std::vector<SumOfProducts> out;
  std::set<size_t> taken;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const auto s = sum_of_products(p, i);
    if (!s || taken.count(s->first) || taken.count(s->second)) continue;
    const auto &x = std::get<Gemm>(p.nodes[s->first].problem), &y = std::get<Gemm>(p.nodes[s->second].problem);
    const int64_t k = x.k.constant() + y.k.constant();
    const bool constant = is_constant(p, x.b) && is_constant(p, y.b);
    if (k > 2 * typical(x.n) || (!constant && k > typical(x.m))) continue;
    taken.insert({s->first, s->second});
    out.push_back(*s);
  }
  return out;
}

void mm_plus_mm(Program& p, size_t second) {
  const auto s = sum_of_products(p, second);
  TOROID_USER_CHECK(s, "mm_plus_mm of {}: its result is not added to that of another product of the same sizes, and to nothing else",
                    program::label(p.nodes[second]));
  const Node other = p.nodes[s->first];
  const auto x = std::get<Gemm>(other.problem), y = std::get<Gemm>(p.nodes[second].problem);
  std::vector<Node> copies;
  Gemm joint = y;
  const std::string name = program::label(other) + "_and_" + program::label(p.nodes[second]);
  joint.a = side_by_side(p, pair_of(x, y, true), "a_of_" + name, copies);
  joint.b = side_by_side(p, pair_of(x, y, false), "b_of_" + name, copies);
  joint.k = x.k + y.k;
  for (Node& c : copies) program::take_over(c, other);
  if (copies.empty()) program::take_over(p.nodes[second], other, true);
  p.nodes[second].problem = joint;
  drop_term(p.nodes[s->sum].body, loop::buffers_written(other.body).front());
  p.nodes.insert(p.nodes.begin() + static_cast<long>(second), copies.begin(), copies.end());
  p.nodes.erase(p.nodes.begin() + static_cast<long>(s->first));
}

}  // namespace toroid::sched
