#include "codegen/cuda/writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "codegen/prelude/prelude.h"

namespace toroid::codegen {
namespace {

using loop::Reduction;
using loop::Statement;
using loop::Step;
using loop::StoreMode;
using Shape = CudaPlan::Shape;

constexpr const char* kUnroll = "#pragma unroll";

bool is_position(Reduction r) { return r == Reduction::ArgMax || r == Reduction::ArgMin; }

std::string scalar_type(DType t) { return "s" + std::string(name_of(t)); }

ScalarOp combining(StoreMode m) {
  constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Max, ScalarOp::Min};
  return kOps[static_cast<int>(m)];
}

}  // namespace

std::string cuda_variable(size_t position) { return "i" + std::to_string(position); }

// --- arguments ------------------------------------------------------------------------------------------------------------------------

std::string CudaArguments::pointer(int buffer, DType dtype) {
  auto at = std::find(buffers_.begin(), buffers_.end(), buffer);
  if (at == buffers_.end()) {
    at = buffers_.insert(at, buffer);
    types_.push_back(dtype);
  }
  return "b" + std::to_string(at - buffers_.begin());
}

std::string CudaArguments::tensor_map(device::cuda::TensorMap map) {
  const auto at = std::find(buffers_.begin(), buffers_.end(), map.buffer);
  if (at == buffers_.end()) {
    buffers_.push_back(map.buffer);
    types_.push_back(map.dtype);
    map.buffer = static_cast<int>(buffers_.size()) - 1;
  } else {
    map.buffer = static_cast<int>(at - buffers_.begin());
  }
  maps_.push_back(std::move(map));
  return "map" + std::to_string(maps_.size() - 1);
}

std::string CudaArguments::size(const sym::Node& n) {
  for (size_t i = 0; i < params_.size(); ++i)
    if (params_[i].node()->name == n.name) return "dim" + std::to_string(i);
  params_.push_back(sym::symbol(n.name, n.lo, n.hi));
  return "dim" + std::to_string(params_.size() - 1);
}

void CudaArguments::need(const StepEmitter& emitter) {
  functions_.insert(emitter.functions().begin(), emitter.functions().end());
  helpers_.insert(emitter.helpers().begin(), emitter.helpers().end());
}

KernelText CudaArguments::kernel(const std::string& name, const std::string& body, int threads, bool wide, int blocks,
                                 bool overlaps) const {
  KernelText k;
  k.name = name;
  k.buffers = buffers_;
  k.params = params_;
  k.tensor_maps = maps_;
  k.scratch_bytes = scratch_bytes_;
  k.counters = counters_;
  k.block = threads;
  k.overlaps = overlaps;
  std::vector<std::string_view> used(functions_.begin(), functions_.end());
  k.source = cuda_prelude_for(used);
  for (auto& [helper, text] : helpers_) k.source += text;
  if (!maps_.empty()) k.source += "struct alignas(64) TensorMap { u64 x[16]; };\n";
  k.source += definitions_ + fmt::format("typedef {} idx;\n", wide ? "i64" : "i32");
  std::string parameters, sizes;
  auto parameter = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
  for (size_t i = 0; i < buffers_.size(); ++i)
    parameter(fmt::format("{}{}* {}b{}", written_.count(buffers_[i]) ? "" : "const ", memory_type(types_[i]),
                          overlaps && (!written_.count(buffers_[i]) || read_.count(buffers_[i])) ? "" : "__restrict__ ", i));
  if (!(scratch_bytes_ == Expr(0))) parameter("u8* __restrict__ scratch");
  if (!(counters_ == Expr(0))) parameter("u32* __restrict__ counters");
  for (size_t i = 0; i < maps_.size(); ++i) parameter(fmt::format("const __grid_constant__ TensorMap map{}", i));
  for (size_t i = 0; i < params_.size(); ++i) {
    parameter(fmt::format("i64 size{}", i));
    sizes += fmt::format("  const idx dim{0} = (idx)size{0};\n", i);
  }
  const std::string bounds = blocks > 0 ? fmt::format("{}, {}", threads, blocks) : std::to_string(threads);
  k.source +=
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n{}{}}}\n", bounds, k.name, parameters, sizes, body);
  return k;
}

// --- writer ---------------------------------------------------------------------------------------------------------------------------

CudaWriter::CudaWriter(CudaPlan plan, CudaArguments& arguments, std::string name)
    : p_(std::move(plan)),
      arguments_(arguments),
      name_(std::move(name)),
      e_(p_.body, Expr(0), std::vector<bool>(p_.body.steps.size(), false), 1,
         {.pointer = [this](int b, DType t) { return pointer(b, t); },
          .symbol = [this](const sym::Node& n) { return symbol(n); },
          .vector_accumulator = {},
          .scalar_accumulator = "accumulators[l]",
          .f16_is_bits = true,
          .second_accumulator = "accumulators2[l]"}) {
  for (auto& s : p_.body.steps) {
    if (s.step == Step::Store) arguments_.mark_written(s.buffer);
    if (s.step == Step::Load || (s.step == Step::Store && s.mode != loop::StoreMode::Set)) arguments_.mark_read(s.buffer);
  }
  if (p_.vector_var < 0) return;
  vector_text_ = cuda_variable(static_cast<size_t>(p_.vector_var));
}

std::string CudaWriter::pointer(int buffer, DType dtype) { return buffer == row_buffer_ ? row_name_ : arguments_.pointer(buffer, dtype); }

std::string CudaWriter::symbol(const sym::Node& n) {
  if (!n.has_extent) return arguments_.size(n);
  const auto var = std::find_if(p_.domain.vars.begin(), p_.domain.vars.end(), [&](auto& v) { return v.symbol.node()->name == n.name; });
  TOROID_CHECK(var != p_.domain.vars.end(), "{} is no variable of the loop", n.name);
  const auto at = static_cast<size_t>(var - p_.domain.vars.begin());
  return static_cast<int>(at) == p_.vector_var ? vector_text_ : cuda_variable(at);
}

std::string CudaWriter::take() {
  arguments_.need(e_);
  arguments_.define(folds_);
  return e_.take();
}

std::string CudaWriter::kernel_body() {
  if (p_.shape == Shape::Flat)
    flat();
  else
    reduction();
  return take();
}

std::vector<int> CudaWriter::all_steps() const {
  std::vector<int> all(p_.body.steps.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string CudaWriter::points() {
  emit_vector(all_steps(), "", [] {});
  return take();
}

std::string CudaWriter::points(Early& early) {
  early_ = &early;
  return points();
}

// A load of a whole vector at a place that no value decides, of memory that the body does not write.
bool CudaWriter::loads_early(int k) const {
  const Statement& s = p_.step(k);
  const std::vector<int> written = loop::buffers_written(p_.body);
  return early_ && s.mask < 0 && !loop::uses_values(s.index) && std::count(written.begin(), written.end(), s.buffer) == 0;
}

std::string CudaWriter::row(int buffer, const std::string& row) {
  row_buffer_ = buffer;
  row_name_ = row;
  e_.line("const int part = threadIdx.x;");
  passes();
  return take();
}

// Names the variables of a flat position; the last of them moves in steps of the vector.
void CudaWriter::decode(const std::vector<int>& vars, const std::string& flat) {
  std::string rest = flat;
  for (size_t i = vars.size(); i-- > 0;) {
    const int v = vars[i];
    const std::string name = cuda_variable(static_cast<size_t>(v));
    const bool steps = v == p_.vector_var && p_.vector > 1;
    const std::string size = e_.index(steps ? sym::floor_div(p_.extent(v), p_.vector) : p_.extent(v)),
                      times = steps ? fmt::format(" * {}", p_.vector) : "";
    e_.line(fmt::format("const idx {} = {}{};", name, i ? fmt::format("{} % {}", rest, size) : rest, times));
    if (i == 0) break;
    e_.line(fmt::format("const idx {}_up = {} / {};", name, rest, size));
    rest = name + "_up";
  }
}

void CudaWriter::emit(int k) {
  const Statement& s = p_.step(k);
  if (s.step == Step::Scan) return fold_in(k);
  if (s.step == Step::Store) return emit_store(k);
  e_.emit(k, false);
}

void CudaWriter::emit_store(int k) {
  const Statement& s = p_.step(k);
  const std::string guard = store_guard(s);
  if (!guard.empty()) e_.open(fmt::format("if ({})", guard));
  const std::string at = fmt::format("{} + {}", pointer(s.buffer, s.dtype), e_.index(s.index)), value = e_.scalar(s.args[0]);
  if (s.mode == StoreMode::Set) {
    e_.line(fmt::format("{}({}, {});", e_.function("store", s.dtype, false), at, value));
  } else {
    const ScalarOp op = combining(s.mode);
    const std::string add = "s_atomicadd_" + std::string(name_of(s.dtype));
    if (op == ScalarOp::Add && cuda_prelude_has(add))
      e_.line(fmt::format("{}({}, {});", e_.function("atomicadd", s.dtype, false), at, value));
    else
      e_.line(
          fmt::format("atomic_fold<{}>({}, ({}){});", fold_over(k, op, memory_type(s.dtype), s.dtype), at, memory_type(s.dtype), value));
  }
  if (!guard.empty()) e_.close();
}

std::string CudaWriter::store_guard(const Statement& s) {
  if (s.mask < 0) return guard_;
  return guard_ + (guard_.empty() ? "" : " && ") + e_.scalar(s.mask);
}

bool CudaWriter::is_packed(int k) const { return p_.vector > 1 && std::count(p_.packs.begin(), p_.packs.end(), k) > 0; }

void CudaWriter::load_packs(const std::vector<int>& steps) {
  for (int k : steps) {
    const Statement& s = p_.step(k);
    if (!is_packed(k)) continue;
    const std::string type = fmt::format("Pack<{}, {}>", memory_type(s.dtype), p_.vector);
    if (s.step == Step::Store) {
      e_.line(fmt::format("{} x{};", type, k));
      continue;
    }
    const std::string load =
        fmt::format("load_pack<{}, {}>({} + {})", memory_type(s.dtype), p_.vector, pointer(s.buffer, s.dtype), e_.index(s.index));
    if (loads_early(k)) {
      early_->members += fmt::format("{} x{};\n", type, k);
      early_->loads += fmt::format("held.x{} = {};\n", k, load);
      e_.line(fmt::format("const {}& x{} = held.x{};", type, k, k));
    } else if (s.mask < 0) {
      e_.line(fmt::format("const {} x{} = {};", type, k, load));
    } else {
      e_.line(fmt::format("{} x{} = {{}};", type, k));
      e_.line(fmt::format("if ({}) x{} = {};", e_.scalar(s.mask), k, load));
    }
  }
}

void CudaWriter::store_packs(const std::vector<int>& steps) {
  for (int k : steps) {
    const Statement& s = p_.step(k);
    if (!is_packed(k) || s.step != Step::Store) continue;
    const std::string guard = store_guard(s);
    e_.line(fmt::format("{}store_pack<{}, {}>({} + {}, x{});", guard.empty() ? "" : fmt::format("if ({}) ", guard), memory_type(s.dtype),
                        p_.vector, pointer(s.buffer, s.dtype), e_.index(s.index), k));
  }
}

// Steps in order, for one vector: what is equal for its elements once, whole vectors of memory at once, the rest an element at a time.
// Element `base` of the arrays of kept values is this one's; `each` follows the steps of every element.
template <class Each>
void CudaWriter::emit_vector(const std::vector<int>& steps, const std::string& base, const Each& each) {
  auto once = [&](int k) { return p_.vector == 1 || !p_.on_vector[static_cast<size_t>(k)]; };
  auto keep = [&](int k) {
    if (std::count(p_.keeps.begin(), p_.keeps.end(), k) == 0) return;
    e_.line(fmt::format("k{}[{}] = {};", k, base, e_.scalar(k)));
  };
  if (p_.vector == 1) {
    for (int k : steps) emit(k), keep(k);
    return each();
  }
  for (int k : steps)
    if (once(k)) emit(k);
  load_packs(steps);
  const StepEmitter::Values before = e_.values();
  e_.line(kUnroll);
  e_.open(fmt::format("for (int l = 0; l < {}; ++l)", p_.vector));
  const std::string first = std::exchange(vector_text_, fmt::format("({} + l)", vector_text_));
  for (int k : steps) {
    const Statement& s = p_.step(k);
    if (is_packed(k) && s.step == Step::Load) {
      e_.define(k, is_bool(s.dtype) ? fmt::format("(x{}.x[l] != 0)", k) : fmt::format("x{}.x[l]", k), false);
    } else if (is_packed(k)) {
      const std::string value = e_.scalar(s.args[0]);
      e_.line(fmt::format("x{}.x[l] = {};", k, is_bool(s.dtype) ? "(u8)(" + value + " & 1)" : value));
    } else if (!once(k)) {
      emit(k);
    }
    if (s.step != Step::Store) keep(k);
  }
  each();
  vector_text_ = first;
  e_.close();
  e_.restore(before);
  store_packs(steps);
}

void CudaWriter::flat() {
  const std::string block = fmt::format("((idx)blockIdx.x * {} + threadIdx.x)", p_.block * p_.unroll);
  if (p_.unroll > 1) {
    e_.line(kUnroll);
    e_.open(fmt::format("for (int u = 0; u < {}; ++u)", p_.unroll));
    e_.line(fmt::format("const idx t = (idx)blockIdx.x * {} + u * {} + threadIdx.x;", p_.block * p_.unroll, p_.block));
  } else {
    e_.line(fmt::format("const idx t = (idx)blockIdx.x * {} + threadIdx.x;", p_.block));
    if (!sym::known_multiple(p_.rows, p_.block)) e_.line(fmt::format("if (t >= {}) return;", e_.index(p_.rows)));
  }
  decode(p_.space, "t");
  emit_vector(all_steps(), "", [] {});
  if (p_.unroll > 1) e_.close();
}

// Name of a struct that folds two values of C type `type`.
std::string CudaWriter::fold_over(int k, ScalarOp op, const std::string& type, DType t) {
  const std::string name = fold_name(k);
  folds_ +=
      fmt::format("struct {0} {{ static {1} of({1} a, {1} b) {{ return {2}; }} }};\n", name, type, e_.call(op, t, t, {"a", "b"}, false));
  return name;
}

// A variable that a reduction or scan folds into, with its start. Scans that several passes need begin anew in each.
void CudaWriter::declare(int k) {
  const Statement& s = p_.step(k);
  const DType t = folded_in(k);
  const std::string start = e_.literal(loop::identity_of(s.reduction, t), t, false);
  const std::string value = is_position(s.reduction) ? fmt::format("{}{{{}, 0x7fffffffffffffffll}}", folded_type(k), start) : start;
  const bool fresh = declared_.insert(k).second;
  if (fresh) declare_fold(k);
  e_.line(fmt::format("{}a{} = {};", fresh ? folded_type(k) + " " : "", k, value));
}

std::string CudaWriter::folded_type(int k) const {
  const std::string type = scalar_type(folded_in(k));
  return is_position(p_.step(k).reduction) ? fmt::format("Found<{}>", type) : type;
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

// Folds the value of this point in; a scan's own value is what has come together.
void CudaWriter::fold_in(int k) {
  const Statement& s = p_.step(k);
  const DType t = folded_in(k);
  std::string value = e_.convert(p_.step(s.args[0]).dtype, t, e_.scalar(s.args[0]), false);
  if (is_position(s.reduction)) value = fmt::format("{}{{{}, {}}}", folded_type(k), value, position());
  e_.line(fmt::format("a{0} = {1}::of(a{0}, {2});", k, fold_name(k), value));
  if (s.step == Step::Scan) {
    e_.line(fmt::format("const {} v{} = {};", scalar_type(s.dtype), k, result(k)));
    e_.define(k, "v" + std::to_string(k), false);
  }
}

std::string CudaWriter::result(int k) {
  const Statement& s = p_.step(k);
  const std::string name = "a" + std::to_string(k);
  return is_position(s.reduction) ? name + ".at" : e_.convert(folded_in(k), s.dtype, name, false);
}

void CudaWriter::reduction() {
  const std::string rows = e_.index(p_.rows);
  const int per_block = p_.shape == Shape::Rows ? p_.block / p_.row_threads : p_.columns;
  std::string first = fmt::format("(idx)blockIdx.x * {}", per_block), mine;
  if (p_.shape == Shape::Columns)
    mine = fmt::format("threadIdx.x / {}", p_.columns), first += fmt::format(" + threadIdx.x % {}", p_.columns);
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
  passes();
  guard_ += (guard_.empty() ? "" : " && ") + std::string("part == 0");
  for (size_t k = 0; k < p_.body.steps.size(); ++k)
    if (p_.step(static_cast<int>(k)).step == Step::Store && !p_.varies[k]) emit(static_cast<int>(k));
}

void CudaWriter::passes() {
  for (int k : p_.keeps) e_.line(fmt::format("{} k{}[{}];", scalar_type(p_.step(k).dtype), k, p_.repeats * p_.vector));
  for (size_t q = 0; q < p_.passes.size(); ++q) {
    uniform(static_cast<int>(q) + 1);
    if (!p_.passes[q].empty()) write_pass(p_.passes[q]);
  }
  uniform(static_cast<int>(p_.passes.size()) + 1);
}

// What a row has one of, as far as the passes before `q` tell.
void CudaWriter::uniform(int q) {
  for (size_t i = 0; i < p_.body.steps.size(); ++i) {
    const int k = static_cast<int>(i);
    const Statement& s = p_.step(k);
    if (p_.varies[i] || p_.pass[i] > q || s.step == Step::Store || s.step == Step::Reduce || e_.known(k)) continue;
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
  for (int k : pass.reduces) declare(k);
  for (int k : pass.steps)
    if (p_.step(k).step == Step::Scan) declare(k);
  const Expr row = loop::reduction_size(p_.domain), vectors = sym::floor_div(row, p_.vector);
  const StepEmitter::Values before = e_.values();
  if (p_.repeats > 0) {
    e_.line(kUnroll);
    e_.open(fmt::format("for (int j = 0; j < {}; ++j)", p_.repeats));
    e_.line(fmt::format("const idx r = part + j * {};", p_.row_threads));
    if (!(vectors == Expr(p_.repeats * p_.row_threads))) e_.open(fmt::format("if (r < {})", e_.index(vectors)));
  } else {
    e_.open(fmt::format("for (idx r = part; r < {}; r += {})", e_.index(vectors), p_.row_threads));
  }
  decode(p_.reduction, "r");
  const bool lanes = p_.vector > 1;
  const std::string base = !lanes ? "j" : fmt::format("j * {} + l", p_.vector);
  std::vector<int> steps = pass.steps;
  steps.insert(steps.end(), pass.stores.begin(), pass.stores.end());
  std::sort(steps.begin(), steps.end());
  for (int k : pass.reads) e_.define(k, fmt::format("k{}[{}]", k, base), false);
  emit_vector(steps, base, [&] {
    for (int k : pass.reduces) fold_in(k);
  });
  e_.close();
  if (p_.repeats > 0 && !(vectors == Expr(p_.repeats * p_.row_threads))) e_.close();
  e_.restore(before);
  for (int k : pass.reduces) finish(k);
}

void CudaWriter::finish(int k) {
  if (p_.row_threads > 1)
    e_.line(p_.shape == Shape::Columns
                ? fmt::format("a{0} = fold_column<{1}, {2}, {3}>(a{0});", k, fold_name(k), p_.row_threads, p_.columns)
                : fmt::format("a{0} = fold_row<{1}, {2}>(a{0});", k, fold_name(k), p_.row_threads));
  e_.define(k, result(k), false);
}

}  // namespace toroid::codegen
