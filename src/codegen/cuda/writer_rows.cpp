// The part of CudaWriter that folds rows: accumulators, passes, and what blocks that share rows leave for one another.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "codegen/cuda/writer.h"

namespace toroid::codegen {
namespace {

using loop::Reduction;
using loop::Statement;
using loop::Step;
using Shape = CudaPlan::Shape;

constexpr int64_t kFoldedBytes = 16;  // of the largest type that reductions fold in

bool is_position(Reduction r) { return r == Reduction::ArgMax || r == Reduction::ArgMin; }

std::string scalar_type(DType t) { return "s" + std::string(name_of(t)); }

}  // namespace

// Name of a struct that folds two values of C type `type`.
std::string CudaWriter::fold_over(int k, ScalarOp op, const std::string& type, DType t) {
  const std::string name = fold_name(k);
  folds_ +=
      fmt::format("struct {0} {{ static {1} of({1} a, {1} b) {{ return {2}; }} }};\n", name, type, e_.call(op, t, t, {"a", "b"}, false));
  return name;
}

// Neighbouring rows of a thread, each of which has folds of its own.
int CudaWriter::lanes() const { return p_.shape == Shape::Columns ? p_.vector : 1; }

std::string CudaWriter::accumulator(int k) const {
  return p_.shape == Shape::Columns ? fmt::format("a{}[{}]", k, lanes() > 1 ? "l" : "0") : fmt::format("a{}", k);
}

// What a reduction or scan folds into, with its start. Scans that several passes need begin anew in each.
void CudaWriter::declare(int k) {
  const Statement& s = p_.step(k);
  const DType t = folded_in(k);
  const std::string identity = e_.literal(loop::identity_of(s.reduction, t), t, false), type = folded_type(k);
  std::string start = identity;
  if (is_position(s.reduction)) start = fmt::format("{}{{{}, 0x7fffffffffffffffll}}", type, identity);
  if (p_.online_max(k)) start = fmt::format("Online{{{}, 0.0f}}", identity);
  const bool fresh = declared_.insert(k).second;
  if (p_.moments_sum(k)) return e_.line(fmt::format("{}a{} = {{}};", fresh ? type + " " : "", k));
  if (fresh && !p_.online_max(k)) declare_fold(k);
  if (p_.shape != Shape::Columns) return e_.line(fmt::format("{}a{} = {};", fresh ? type + " " : "", k, start));
  if (fresh) e_.line(fmt::format("{} a{}[{}];", type, k, lanes()));
  e_.line(fmt::format("{}{} = {};", each_lane(), accumulator(k), start));
}

// The head of a statement that is done for each of them.
std::string CudaWriter::each_lane() const {
  return lanes() > 1 ? fmt::format("_Pragma(\"unroll\") for (int l = 0; l < {}; ++l) ", lanes()) : "";
}

std::string CudaWriter::folded_type(int k) const {
  if (p_.online_max(k)) return "Online";
  if (p_.moments_sum(k)) return fmt::format("Moments<{}>", lanes());
  const std::string type = scalar_type(folded_in(k));
  return is_position(p_.step(k).reduction) ? fmt::format("Found<{}>", type) : type;
}

// The name of the struct that folds two of them.
std::string CudaWriter::fold_struct(int k) const {
  if (p_.online_max(k)) return "OnlineFold";
  if (p_.moments_sum(k)) return "MomentsFold";
  return fold_name(k);
}

void CudaWriter::declare_fold(int k) {
  const Statement& s = p_.step(k);
  const DType t = folded_in(k);
  const std::string type = folded_type(k);
  auto declare = [&](const std::string& body) {
    folds_ += fmt::format("struct {0} {{ static {1} of({1} a, {1} b) {{ {2} }} }};\n", fold_name(k), type, body);
  };
  if (s.reduction == Reduction::LogSumExp) {
    const std::string high = e_.call(ScalarOp::Max, t, t, {"a", "b"}, false), low = e_.call(ScalarOp::Min, t, t, {"a", "b"}, false);
    const std::string rest = e_.call(ScalarOp::Log1p, t, t, {e_.call(ScalarOp::Exp, t, t, {low + " - high"}, false)}, false);
    declare(fmt::format("{} high = {}; return high - high == 0 ? high + {} : high;", type, high, rest));
  } else if (is_position(s.reduction)) {
    // Of equal elements a reduction takes the first one, a scan the last one.
    const DType compared = is_bool(t) ? DType::U8 : t;
    const std::string better = e_.function(s.reduction == Reduction::ArgMax ? "argmax_better" : "argmin_better", compared, false);
    declare(s.step == Step::Scan ? fmt::format("return {}(a.value, b.value) ? a : b;", better)
                                 : fmt::format("return {0}(b.value, a.value) || (!{0}(a.value, b.value) && b.at < a.at) ? b : a;", better));
  } else {
    fold_over(k, fold_of(s.reduction, t), type, t);
  }
}

// The share of the next point in a mean. A division that is rounded as IEEE 754 says has a branch, past which no load of the rows behind it
// begins: column moments took up to 1.7 times as long.
void CudaWriter::count_point(int k) { e_.line(fmt::format("const f32 share{0} = __fdividef(1.0f, (f32)++points{0});", k)); }

// Folds the value of this point in; a scan's own value is what has come together.
void CudaWriter::fold_in(int k) {
  if (p_.is_folded_with(k)) return;
  const Statement& s = p_.step(k);
  const DType t = folded_in(k);
  std::string value = e_.convert(p_.step(s.args[0]).dtype, t, e_.scalar(s.args[0]), false);
  if (p_.online_max(k))
    return e_.line(p_.shape == Shape::Rows ? fmt::format("o{}[{}] = {};", k,
                                                         at_edge_        ? "0"
                                                         : p_.vector > 1 ? "l"
                                                                         : "u",
                                                         value)
                                           : fmt::format("fold_online({}, {{{}}});", accumulator(k), value));
  if (p_.moments_sum(k)) {
    if (p_.shape == Shape::Rows) count_point(k);
    return e_.line(fmt::format("fold_moments(a{0}, {1}, {2}, share{0});", k, lanes() > 1 ? "l" : "0", value));
  }
  if (is_position(s.reduction)) value = fmt::format("{}{{{}, {}}}", folded_type(k), value, position());
  e_.line(fmt::format("{0} = {1}::of({0}, {2});", accumulator(k), fold_name(k), value));
  if (s.step == Step::Scan) {
    e_.line(fmt::format("const {} v{} = {};", scalar_type(s.dtype), k, result(k)));
    e_.define(k, "v" + std::to_string(k), false);
  }
}

std::string CudaWriter::result(int k) {
  const Statement& s = p_.step(k);
  const OnlineSum* sum = p_.online_sum(k);
  const loop::Moments* moments = p_.moments_squares(k);
  const int in = sum ? sum->max : moments ? moments->sum : k;
  // Neighbouring rows that fold the same values have one result.
  const bool alike = lanes() > 1 && !p_.on_vector[static_cast<size_t>(k)];
  const std::string name = alike ? fmt::format("a{}[0]", in) : accumulator(in);
  if (sum) return fmt::format("online_sum({})", name);
  const char* lane = lanes() > 1 && !alike ? "l" : "0";
  if (moments) return fmt::format("a{}.squares[{}]", in, lane);
  if (p_.moments_sum(k)) return fmt::format("(a{0}.mean[{1}] * a{0}.points)", k, lane);
  if (p_.online_max(k)) return name + ".high";
  return is_position(s.reduction) ? name + ".at" : e_.convert(folded_in(k), s.dtype, name, false);
}

void CudaWriter::reduction() {
  const std::string rows = e_.index(p_.rows);
  const int per_block = p_.shape == Shape::Rows ? p_.block / p_.row_threads : p_.columns;
  std::string group = "blockIdx.x", mine;
  if (p_.splits > 1) {
    e_.line(fmt::format("const int group = blockIdx.x / {0}, split = blockIdx.x % {0};", p_.splits));
    group = "group";
  }
  std::string first = fmt::format("(idx){} * {}", group, per_block);
  if (p_.shape == Shape::Columns)
    mine = p_.row_threads > 1 ? fmt::format("threadIdx.x / {}", p_.columns) : "0", first += fmt::format(" + threadIdx.x % {}", p_.columns);
  else
    mine = fmt::format("threadIdx.x % {}", p_.row_threads), first += fmt::format(" + threadIdx.x / {}", p_.row_threads);
  e_.line(fmt::format("const int part = {};", mine));
  if (sym::known_multiple(p_.rows, per_block)) {
    e_.line(fmt::format("const idx row = {};", first));
  } else {  // the rest of the last block works on its last row, without storing
    e_.line(fmt::format("const idx some = {};", first));
    e_.line(fmt::format("const bool live = some < {};", rows));
    e_.line(fmt::format("const idx row = live ? some : {} - 1;", rows));
    guard_ = "live";
  }
  decode(p_.space, "row");
  if (p_.unaligned) find_edges();
  passes();
  store_rows();
}

// What a row has one of.
void CudaWriter::store_rows() {
  guard_ += (guard_.empty() ? "" : " && ") + std::string("part == 0");
  std::vector<int> stores;
  for (size_t k = 0; k < p_.body.steps.size(); ++k)
    if (p_.step(static_cast<int>(k)).step == Step::Store && !p_.varies[k]) stores.push_back(static_cast<int>(k));
  if (lanes() > 1) return emit_vector(with_uniform(std::move(stores), {}));
  for (int k : stores) emit(k);
}

void CudaWriter::passes() {
  begin_passes();
  each_pass();
}

// What threads keep, and what they load before the first pass.
void CudaWriter::begin_passes() {
  for (int k : p_.keeps) declare_kept(k);
  const auto load = [&](const std::vector<int>& early) {
    CudaPass pass;
    pass.steps = early;
    if (!early.empty()) walk(pass, {});
  };
  load(p_.early_constants);
  wait();
  load(p_.early);
}

void CudaWriter::each_pass() {
  for (size_t q = 0; q < p_.passes.size(); ++q) {
    uniform(static_cast<int>(q) + 1);
    if (!p_.passes[q].empty()) write_pass(p_.passes[q]);
  }
  uniform(static_cast<int>(p_.passes.size()) + 1);
}

// Is a step computed once a row, but for each of a thread's neighbouring rows? Such steps are printed where they are used.
bool CudaWriter::uniform_in_lane(int k) const {
  const Step step = p_.step(k).step;
  const auto at = static_cast<size_t>(k);
  return lanes() > 1 && p_.on_vector[at] && !p_.varies[at] && step != Step::Store && step != Step::Reduce;
}

// Steps with all those of uniform_in_lane() that they and `reduces` use, in order.
std::vector<int> CudaWriter::with_uniform(std::vector<int> steps, const std::vector<int>& reduces) const {
  std::set<int> all(steps.begin(), steps.end());
  steps.insert(steps.end(), reduces.begin(), reduces.end());
  while (!steps.empty()) {
    const int k = steps.back();
    steps.pop_back();
    loop::for_each_use(p_.step(k), [&](size_t u) {
      if (uniform_in_lane(static_cast<int>(u)) && all.insert(static_cast<int>(u)).second) steps.push_back(static_cast<int>(u));
    });
  }
  return {all.begin(), all.end()};
}

// What a row has one of, as far as the passes before `q` tell.
void CudaWriter::uniform(int q) {
  for (size_t i = 0; i < p_.body.steps.size(); ++i) {
    const int k = static_cast<int>(i);
    const Statement& s = p_.step(k);
    if (p_.varies[i] || p_.pass[i] > q || s.step == Step::Store || s.step == Step::Reduce || e_.known(k) || uniform_in_lane(k)) continue;
    emit(k);
  }
}

// Positions count in nominal order, whatever order the row is walked in.
std::string CudaWriter::position() {
  Expr at = 0;
  for (auto& v : p_.domain.vars)
    if (v.reduction) at = at * v.extent() + v.symbol;
  return e_.index(at);
}

void CudaWriter::write_pass(const CudaPass& pass) {
  std::vector<int> folded;
  for (int k : pass.reduces)
    if (!p_.is_folded_with(k)) folded.push_back(k);
  for (int k : folded) {
    declare(k);
    if (p_.moments_sum(k)) e_.line(fmt::format("i32 points{} = 0;", k));
  }
  for (int k : pass.steps)
    if (p_.step(k).step == Step::Scan) declare(k);
  walk(pass, folded);
  if (p_.row_blocks > 0) return fold_groups(folded);
  for (int k : folded) {
    if (p_.moments_sum(k)) e_.line(fmt::format("a{0}.points = (f32)points{0};", k));
    finish(k);
  }
  if (p_.splits > 1) share(folded);
}

// One walk over the row.
void CudaWriter::walk(const CudaPass& pass, const std::vector<int>& folded) {
  std::vector<int> online;  // whose points are gathered before they are folded in
  for (int k : folded)
    if (p_.online_max(k) && p_.shape == Shape::Rows) online.push_back(k);
  const StepEmitter::Values before = e_.values();
  const int loops = open_row(online);
  if (p_.unaligned)
    e_.line(fmt::format("const idx {} = head + r * {};", vector_text_, p_.vector));
  else
    decode(p_.reduction, "r");
  if (p_.shape == Shape::Columns)
    for (int k : folded)
      if (p_.moments_sum(k)) count_point(k);
  write_points(pass, folded);
  for (int i = 1; i < loops; ++i) e_.close();
  for (int k : online) e_.line(fmt::format("fold_online(a{0}, o{0});", k));
  e_.close();
  e_.restore(before);
  if (p_.unaligned) write_edge(pass, folded, online);
}

// What a pass does with a vector of points, or with a point.
void CudaWriter::write_points(const CudaPass& pass, const std::vector<int>& folded) {
  std::vector<int> steps = pass.steps;
  steps.insert(steps.end(), pass.stores.begin(), pass.stores.end());
  steps = with_uniform(std::move(steps), folded);
  for (int k : pass.reads) {
    if (p_.kept_bytes > 0) {
      const std::string type = fmt::format("{}, {}", memory_type(p_.step(k).dtype), p_.vector);
      e_.line(fmt::format("const Pack<{0}> y{1} = load_pack<{0}>(k{1}[j * {2}].x);", type, k, p_.row_threads));
    }
    e_.define(k, kept(k), false);
  }
  const auto fold = [&] {
    for (int k : pass.reduces) fold_in(k);
  };
  emit_vector(steps, pass.empty() ? std::function<void()>() : fold);
}

// Where the vectors of an unaligned row begin and how many there are, and which of the elements before and behind them is this thread's.
void CudaWriter::find_edges() {
  const std::string n = e_.index(loop::reduction_size(p_.domain));
  e_.line(fmt::format("const idx ahead = -{} & {}, head = ahead < {} ? ahead : {}, whole = ({} - head) / {};", e_.index(*p_.unaligned),
                      p_.vector - 1, n, n, n, p_.vector));
  e_.line(fmt::format("const idx behind = head + whole * {} + part - {};", p_.vector, p_.vector));
  e_.line(fmt::format("const bool is_edge = {}part < head || (part >= {} && behind < {});", p_.splits > 1 ? "split == 0 && (" : "",
                      p_.vector, n + (p_.splits > 1 ? ")" : "")));
}

void CudaWriter::write_edge(const CudaPass& pass, const std::vector<int>& folded, const std::vector<int>& online) {
  const StepEmitter::Values before = e_.values();
  const int vector = std::exchange(p_.vector, 1);
  at_edge_ = true;
  e_.open("if (is_edge)");
  e_.line(fmt::format("const idx {} = part < {} ? part : behind;", vector_text_, vector));
  for (int k : online) e_.line(fmt::format("f32 o{}[1];", k));
  write_points(pass, folded);
  for (int k : online) e_.line(fmt::format("fold_online(a{0}, o{0});", k));
  e_.close();
  at_edge_ = false;
  p_.vector = vector;
  e_.restore(before);
}

// Opens the loop over this thread's vectors of a row, and in it arrays for the points of sums that are folded online; gives the number of
// scopes, of which the outermost one has these arrays.
int CudaWriter::open_row(const std::vector<int>& online) {
  const Expr row = loop::reduction_size(p_.domain), vectors = p_.shape == Shape::Rows ? sym::floor_div(row, p_.vector) : row;
  const std::string count = p_.unaligned ? "whole" : e_.index(vectors);
  if (p_.repeats > 0) {
    e_.line(p_.kept_bytes > 0 ? fmt::format("{} {}", kCudaUnroll, p_.unroll) : kCudaUnroll);
    e_.open(fmt::format("for (int j = 0; j < {}; ++j)", p_.repeats));
    e_.line(fmt::format("const idx r = part + j * {};", p_.row_threads));
    if (!p_.unaligned && vectors == Expr(p_.repeats * p_.row_threads)) return 1;
    e_.open(fmt::format("if (r < {})", count));
    return 2;
  }
  std::string begin = "part", end = count;
  if (p_.splits > 1) {
    const std::string share =
        p_.unaligned ? fmt::format("(whole + {}) / {}", p_.splits - 1, p_.splits) : e_.index(sym::ceil_div(vectors, p_.splits));
    e_.line(fmt::format("const idx share = {}, rest = {} - split * share;", share, end));
    e_.line("const idx begin = split * share, end = begin + (rest < share ? rest : share);");
    begin = "begin + part", end = "end";
  }
  if (online.empty() || p_.vector > 1) {
    if (p_.unroll > 1) e_.line(fmt::format("{} {}", kCudaUnroll, p_.unroll));
    e_.open(fmt::format("for (idx r = {}; r < {}; r += {})", begin, end, p_.row_threads));
    for (int k : online) e_.line(fmt::format("f32 o{}[{}];", k, p_.vector));
    return 1;
  }
  e_.open(fmt::format("for (idx first = {}; first < {}; first += {})", begin, end, p_.unroll * p_.row_threads));
  for (int k : online) e_.line(fmt::format("f32 o{}[{}];", k, p_.unroll));
  e_.line(kCudaUnroll);
  e_.open(fmt::format("for (int u = 0; u < {}; ++u)", p_.unroll));
  for (int k : online) e_.line(fmt::format("o{}[u] = -__builtin_inff();", k));
  e_.line(fmt::format("const idx r = first + u * {};", p_.row_threads));
  e_.open(fmt::format("if (r < {})", end));
  return 3;
}

// The fold over all threads of the row.
void CudaWriter::finish(int k) {
  const std::string fold = fold_struct(k);
  if (p_.moments_sum(k) && p_.shape == Shape::Columns)
    e_.line(fmt::format("fold_column_moments<{}, {}>(a{});", p_.row_threads, p_.columns, k));
  else if (p_.row_threads > 1)
    e_.line(p_.shape == Shape::Columns ? fmt::format("fold_column<{1}, {2}, {3}>(a{0});", k, fold, p_.row_threads, p_.columns)
                                       : fmt::format("a{0} = fold_row<{1}, {2}>(a{0});", k, fold, p_.row_threads));
  define_folded(k);
}

void CudaWriter::define_folded(int k) {
  e_.define(k, result(k), false);
  if (const OnlineSum* o = p_.online_max(k)) e_.define(o->sum, result(o->sum), false);
  if (const loop::Moments* m = p_.moments_sum(k)) e_.define(m->squares, result(m->squares), false);
}

// Each block leaves what it has folded in scratch memory; the one that comes last goes on, with what all have left.
void CudaWriter::share(const std::vector<int>& folded) {
  const int64_t rows = p_.rows.constant(), elements = p_.splits * rows * lanes();
  int64_t bytes = 0;
  for (int k : folded) {
    const std::string type = folded_type(k);
    e_.line(fmt::format("{0}* const p{1} = ({0}*)(scratch + {2});", type, k, bytes));
    bytes += (elements * kFoldedBytes + 255) / 256 * 256;
  }
  // Arrays of a value for each lane, or one value of all lanes.
  auto is_array = [&](int k) { return p_.shape == Shape::Columns && !p_.moments_sum(k); };
  auto place = [&](int k, const char* split) {
    return fmt::format("p{} + ((i64){} * {} + row) * {}", k, split, rows, is_array(k) ? lanes() : 1);
  };
  e_.open(fmt::format("if ({}part == 0)", guard_.empty() ? "" : guard_ + " && "));
  for (int k : folded) {
    const std::string to = place(k, "split");
    e_.line(is_array(k) ? fmt::format("store_all({}, a{});", to, k) : fmt::format("*({}) = a{};", to, k));
  }
  e_.close();
  e_.line(fmt::format("if (!is_last(counters + group, {})) return;", p_.splits));
  for (int k : folded) declare(k);
  e_.line(fmt::format("{} {}", kCudaUnroll, lanes() > 1 ? 2 : 4));
  e_.open(fmt::format("for (int s = part; s < {}; s += {})", p_.splits, p_.row_threads));
  for (int k : folded) {
    const std::string fold = fold_struct(k), from = place(k, "s");
    if (is_array(k)) {
      e_.line(fmt::format("const auto x{} = load_pack<{}, {}>({});", k, folded_type(k), lanes(), from));
      e_.line(fmt::format("{0}{1} = {2}::of({1}, x{3}.x[{4}]);", each_lane(), accumulator(k), fold, k, lanes() > 1 ? "l" : "0"));
    } else {
      e_.line(fmt::format("const auto x{} = *({});", k, from));
      e_.line(fmt::format("a{0} = {1}::of(a{0}, x{0});", k, fold));
    }
  }
  e_.close();
  for (int k : folded) finish(k);
  arguments_.use_scratch(bytes);
  arguments_.use_counters(sym::floor_div(p_.grid, p_.splits));
}

}  // namespace toroid::codegen
