#include "sched/layout.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::sched {
namespace {

using program::Config;
using program::Gemm;
using program::Node;
using program::Operand;

constexpr int64_t kRowBytes = 64, kPageBytes = 4096;

// An operand of a product: a [batch..., m, k] or b [batch..., k, n].
struct Matrix {
  const Gemm& g;
  bool is_a;
  const Operand& operand() const { return is_a ? g.a : g.b; }
  size_t batches() const { return g.batch.size(); }
  const Expr& outer() const { return is_a ? g.m : g.n; }
  size_t outer_dim() const { return is_a ? batches() : batches() + 1; }
  size_t k_dim() const { return is_a ? batches() + 1 : batches(); }
  const Expr& outer_stride() const { return operand().strides[outer_dim()]; }
  const Expr& k_stride() const { return operand().strides[k_dim()]; }
  bool along_k() const { return k_stride() == Expr(1) || (g.k == Expr(1) && !(outer_stride() == Expr(1))); }
  bool along_outer() const { return !along_k() && (outer_stride() == Expr(1) || outer() == Expr(1)); }
  bool moves(size_t d) const { return !(operand().strides[d] == Expr(0)) && !(g.batch[d] == Expr(1)); }
  // How many results an element is a part of.
  const Expr& uses() const { return is_a ? g.n : g.m; }
  std::vector<Expr> sizes() const {
    std::vector<Expr> out = g.batch;
    out.push_back(is_a ? g.m : g.k);
    out.push_back(is_a ? g.k : g.n);
    return out;
  }
};

Matrix matrix(const Gemm& g, bool is_a) { return {g, is_a}; }

int64_t field(const Config& way, bool is_a) { return way.at(is_a ? "a" : "b"); }

// Sizes of the dimensions that the operand's memory differs along; 1 for others.
std::vector<Expr> stored_sizes(const Matrix& x) {
  std::vector<Expr> out = x.sizes();
  for (size_t d = 0; d < x.batches(); ++d)
    if (!x.moves(d)) out[d] = 1;
  return out;
}

// How far rows of so many elements lie from each other. A page apart they would fall into the same sets of a cache.
Expr row_stride(const Expr& length, int64_t multiple, DType dtype) {
  const Expr row = sym::ceil_div(length, multiple) * Expr(multiple);
  const auto page = kPageBytes / static_cast<int64_t>(size_of(dtype));
  return row.is_const() && row.constant() % page == 0 ? row + Expr(multiple) : row;
}

// Of new memory, contiguous along k or not, whose rows begin at multiples of `multiple` elements.
std::vector<Expr> new_strides(const Matrix& x, bool along_k, int64_t multiple, Expr& numel) {
  const size_t inner = along_k ? x.k_dim() : x.outer_dim(), row = along_k ? x.outer_dim() : x.k_dim();
  const std::vector<Expr> sizes = stored_sizes(x);
  std::vector<Expr> strides(sizes.size(), 0);
  strides[inner] = 1;
  strides[row] = row_stride(sizes[inner], multiple, x.operand().dtype);
  numel = strides[row] * sizes[row];
  for (size_t d = x.batches(); d-- > 0;)
    if (x.moves(d)) strides[d] = numel, numel = numel * sizes[d];
  return strides;
}

bool is_constant(const program::Program& p, const Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

bool all_constant(const Operand& o, const std::vector<Expr>& sizes) {
  const auto known = [](const Expr& e) { return e.is_const(); };
  return known(o.offset) && std::all_of(o.strides.begin(), o.strides.end(), known) && std::all_of(sizes.begin(), sizes.end(), known);
}

program::Rearranged rearranged(const Operand& from, const Operand& to, const std::vector<Expr>& sizes) {
  program::Rearranged::Part part{from, 0, {}, {}};
  for (auto& s : to.strides) part.strides.push_back(s.constant());
  for (auto& s : sizes) part.sizes.push_back(s.constant());
  return {to.buffer, {std::move(part)}};
}

// Walks through `to` in the order of its memory.
Node copy_loop(const Operand& from, const Operand& to, const std::vector<Expr>& sizes, bool swapped) {
  Node copy;
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (swapped) std::swap(order[order.size() - 1], order[order.size() - 2]);
  Expr read = from.offset, written = to.offset;
  for (size_t d : order) {
    if (sizes[d] == Expr(1)) continue;
    const Expr i = sym::loop_symbol("copy" + std::to_string(copy.domain.vars.size()), sizes[d]);
    copy.domain.vars.push_back({i, false});
    read = read + i * from.strides[d];
    written = written + i * to.strides[d];
  }
  loop::BodyBuilder b(copy.body);
  b.store(to.buffer, to.dtype, written, cast(b.load(from.buffer, from.dtype, read), DType::F32));
  return copy;
}

bool is_same(const program::Rearranged::Part& x, const program::Rearranged::Part& y) {
  return x.from.buffer == y.from.buffer && x.from.offset == y.from.offset && x.from.strides == y.from.strides && x.offset == y.offset &&
         x.strides == y.strides && x.sizes == y.sizes;
}

// The constant that is already made so; -1: none.
int made_before(const program::Program& p, const program::Rearranged& wanted) {
  for (auto& r : p.rearranged)
    if (r.parts.size() == 1 && is_same(r.parts[0], wanted.parts[0])) return r.buffer;
  return -1;
}

// What an earlier copy has laid out the same way, if nobody has written to either since then: gradients of two products read one matrix,
// along its rows and its columns. -1: none.
int copied_before(const program::Program& p, size_t i, const Operand& from, Operand to, const std::vector<Expr>& sizes, bool swapped) {
  const auto writes = [&](size_t node, int buffer) {
    const std::vector<int> all = program::writes(p.nodes[node]);
    return std::find(all.begin(), all.end(), buffer) != all.end();
  };
  for (size_t at = i; at-- > 0 && !writes(at, from.buffer);) {
    const Node& n = p.nodes[at];
    const std::vector<int> written = program::writes(n);
    if (!n.is_loop() || written.size() != 1 || program::reads(n) != std::vector<int>{from.buffer}) continue;
    to.buffer = written[0];
    const Node copy = copy_loop(from, to, sizes, swapped);
    if (loop::to_string(copy.domain, copy.body) != loop::to_string(n.domain, n.body)) continue;
    bool changed = p.buffers[static_cast<size_t>(to.buffer)].kind != loop::BufferKind::Temporary;
    for (size_t later = at + 1; later < i; ++later) changed = changed || writes(later, to.buffer);
    if (!changed) return to.buffer;
  }
  return -1;
}

void lay_out_operand(program::Program& p, size_t& i, bool is_a, bool along_k, int64_t multiple) {
  const Gemm g = std::get<Gemm>(p.nodes[i].problem);
  const Matrix x = matrix(g, is_a);
  const std::vector<Expr> sizes = stored_sizes(x);
  Expr numel = 0;
  Operand to{-1, x.operand().dtype, 0, new_strides(x, along_k, multiple, numel)};
  const bool folds = is_constant(p, x.operand()) && all_constant(x.operand(), sizes);
  to.buffer = folds ? made_before(p, rearranged(x.operand(), to, sizes)) : copied_before(p, i, x.operand(), to, sizes, along_k != is_a);
  const bool is_new = to.buffer < 0;
  if (is_new) {
    const std::string name = fmt::format("{}_of_{}", is_a ? "a" : "b", program::label(p.nodes[i]));
    to.buffer = p.new_buffer(name, to.dtype, numel, folds ? loop::BufferKind::Constant : loop::BufferKind::Temporary);
    if (folds) p.rearranged.push_back(rearranged(x.operand(), to, sizes));
  }
  if (is_new && !folds) {
    Node copy = copy_loop(x.operand(), to, sizes, along_k != is_a);
    program::take_over(copy, p.nodes[i]);
    p.nodes.insert(p.nodes.begin() + static_cast<long>(i), std::move(copy));
    ++i;
  }
  auto& laid = std::get<Gemm>(p.nodes[i].problem);
  (is_a ? laid.a : laid.b) = to;
}

// --- what is worth a trial ------------------------------------------------------------------------------------------------------------

bool are_multiples(const Matrix& x, int64_t multiple) {
  const auto fits = [&](const Expr& e) { return sym::known_multiple(e, multiple); };
  const bool along_k = x.along_k();
  if (!along_k && !x.along_outer()) return false;
  const Expr& rows = along_k ? x.outer() : x.g.k;
  bool all = fits(x.operand().offset) && (rows == Expr(1) || fits(along_k ? x.outer_stride() : x.k_stride()));
  for (size_t d = 0; d < x.batches(); ++d) all = all && (!x.moves(d) || fits(x.operand().strides[d]));
  return all;
}

int64_t typical(const Expr& e) { return e.maybe_constant().value_or(512); }

// Rows that products read their weights for once, as a matrix by a vector.
bool is_few(const Expr& rows) { return typical(rows) <= 16; }

// Copying an operand costs as much as some tens of sums with each element.
bool pays(const Matrix& x, const program::Program& p, int64_t least) { return is_constant(p, x.operand()) || typical(x.uses()) >= least; }

Config way_of(const char* form, int64_t a, int64_t b) { return {form, {{"a", a}, {"b", b}}}; }

// Whether a copy can join what computes the operand.
bool is_computed(const program::Program& p, const Operand& o) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [&](const Node& n) {
    const bool takes_readers =
        n.is_loop() || std::holds_alternative<Gemm>(n.problem) || std::holds_alternative<program::Convolution>(n.problem);
    const std::vector<int> written = program::writes(n);
    return takes_readers && std::find(written.begin(), written.end(), o.buffer) != written.end();
  });
}

// Microseconds that a copy of an operand takes in each run, on an H200; 0: it is made when the program is compiled.
double copy_time(const program::Program& p, const Matrix& x) {
  const std::vector<Expr> sizes = stored_sizes(x);
  if (is_constant(p, x.operand()) && all_constant(x.operand(), sizes)) return 0;
  constexpr double kBytes = 3e6, kLaunch = 2.5;
  double bytes = 2.0 * static_cast<double>(size_of(x.operand().dtype));  // read and written
  for (auto& e : sizes) bytes *= static_cast<double>(typical(e));
  return bytes / kBytes + (is_computed(p, x.operand()) ? 0 : kLaunch);
}

// Microseconds that products save where both operands are read by copies of 16 bytes, by measurements on an H200: many tiles go from 160
// TFLOP/s to 600; of few each step along k takes longer.
double alignment_gain(const Gemm& g) {
  constexpr double kSlow = 1.6e8, kFast = 6e8, kStep = 9e-3;
  const auto k = static_cast<double>(typical(g.k));
  double flops = 2.0 * static_cast<double>(typical(g.m)) * static_cast<double>(typical(g.n)) * k;
  for (auto& e : g.batch) flops *= static_cast<double>(typical(e));
  return std::max(flops / kSlow - flops / kFast, kStep * k);
}

}  // namespace

std::string layout_refusal(const Node& product, const Config& way) {
  const auto* g = std::get_if<Gemm>(&product.problem);
  if (!g) return "it is no product";
  if (g->b2 || product.producer) return "it is fused with what computes its operands";
  if (way.fields.size() != 2 || way.fields[0].first != "a" || way.fields[1].first != "b") return "it has one number for a and one for b";
  constexpr int64_t kMost = 4096;
  const int64_t most = way.form == kPadMm ? kMost : 1;
  for (bool is_a : {true, false})
    if (const int64_t x = field(way, is_a); x < 0 || x > most) return fmt::format("{} is not from 0 to {}", x, most);
  return field(way, true) + field(way, false) == 0 ? "it changes nothing" : "";
}

void lay_out(program::Program& p, size_t i, const Config& way) {
  const std::string why = layout_refusal(p.nodes[i], way);
  TOROID_USER_CHECK(why.empty(), "{} of {}: {}", program::to_string(way), program::label(p.nodes[i]), why);
  for (bool is_a : {true, false}) {
    const int64_t value = field(way, is_a);
    if (value == 0) continue;
    const auto& g = std::get<Gemm>(p.nodes[i].problem);
    const Matrix x = matrix(g, is_a);
    const bool pads = way.form == kPadMm, was_along_k = !x.along_outer();
    const auto row = kRowBytes / static_cast<int64_t>(size_of(x.operand().dtype));
    lay_out_operand(p, i, is_a, pads ? was_along_k : !was_along_k, pads ? value : row);
  }
}

std::vector<Config> cpu_layouts(const Node& product, const program::Program& p) {
  const auto* g = std::get_if<Gemm>(&product.problem);
  if (!g || g->b2 || product.is_library() || is_constant(p, g->b)) return {};
  // Measured: the template's own copies are as fast but for long sums with many results, and its panels are aligned.
  constexpr int64_t kLong = 768, kMany = 256;
  if (typical(g->k) < kLong || typical(g->m) < kMany || typical(g->n) < kMany) return {};
  const bool turn_a = !product.producer && matrix(*g, true).along_outer(), turn_b = !matrix(*g, false).along_outer();
  std::vector<Config> out;
  if (turn_b) out.push_back(way_of(kTranspose, 0, 1));
  if (turn_a) out.push_back(way_of(kTranspose, 1, 0));
  if (turn_a && turn_b) out.push_back(way_of(kTranspose, 1, 1));
  std::erase_if(out, [&](auto& way) { return !layout_refusal(product, way).empty(); });
  return out;
}

std::vector<Config> gpu_layouts(const Node& product, const program::Program& p) {
  const auto* g = std::get_if<Gemm>(&product.problem);
  if (!g || g->b2 || product.producer || product.is_library()) return {};
  constexpr int64_t kWorthACopy = 64;
  const Matrix a = matrix(*g, true), b = matrix(*g, false);
  const bool few_rows = is_few(g->m), constant = is_constant(p, g->b);
  const bool tensor_cores = (is_half(g->a.dtype) || g->tf32) && g->a.dtype == g->b.dtype;
  if (!tensor_cores && !few_rows) return {};
  const auto piece = static_cast<int64_t>(16 / size_of(g->b.dtype));
  const bool pad_a = !few_rows && !are_multiples(a, piece), pad_b = !are_multiples(b, piece);
  std::vector<Config> out;
  const bool fits = (!pad_a || pays(a, p, kWorthACopy)) && (!pad_b || pays(b, p, kWorthACopy));
  if ((pad_a || pad_b) && fits) out.push_back(way_of(kPadMm, pad_a ? piece : 0, pad_b ? piece : 0));
  const bool turns_b = b.along_outer() && !(g->n == Expr(1)) && !pad_a;
  if (turns_b && constant) out.push_back(way_of(kTranspose, 0, 1));
  // wgmma takes tf32 along k alone: a copy is a small part of a large product.
  const bool turn_a = g->tf32 && a.along_outer() && !(g->m == Expr(1)) && pays(a, p, kWorthACopy);
  const bool turn_b = g->tf32 && turns_b && pays(b, p, kWorthACopy);
  if (turn_b && !constant && !turn_a) out.push_back(way_of(kTranspose, 0, 1));
  if (turn_a && turn_b) out.push_back(way_of(kTranspose, 1, 1));
  if (turn_a && !b.along_outer()) out.push_back(way_of(kTranspose, 1, 0));
  std::erase_if(out, [&](auto& way) { return !layout_refusal(product, way).empty(); });
  return out;
}

std::vector<std::string> pad_for_gpu(program::Program& p) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const auto ways = gpu_layouts(p.nodes[i], p);
    const auto way = std::find_if(ways.begin(), ways.end(), [](const Config& c) { return c.form == kPadMm; });
    const auto* g = std::get_if<Gemm>(&p.nodes[i].problem);
    if (way == ways.end() || !g->k.is_const() || !g->n.is_const() || size_of(g->b.dtype) > 4) continue;
    const double a = field(*way, true) ? copy_time(p, matrix(*g, true)) : 0, b = field(*way, false) ? copy_time(p, matrix(*g, false)) : 0;
    const double gain = is_few(g->m) ? 0 : alignment_gain(*g);
    const std::string name = program::label(p.nodes[i]) + ": ";
    if (a + b > gain) {
      lines.push_back(
          fmt::format("{}not {}: copies of {:.1f} us in each run would gain {:.1f}", name, program::to_string(*way), a + b, gain));
      continue;
    }
    lines.push_back(name + program::to_string(*way) +
                    (a + b > 0 ? fmt::format(", by copies of {:.1f} us to gain {:.1f}", a + b, gain) : ", when compiled"));
    const size_t before = p.nodes.size();
    lay_out(p, i, *way);
    i += p.nodes.size() - before;
  }
  return lines;
}

}  // namespace toroid::sched
