#include "codegen/cuda/writer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "codegen/cuda/around.cu.h"
#include "codegen/prelude/prelude.h"

namespace toroid::codegen {
namespace {

using loop::Statement;
using loop::Step;
using loop::StoreMode;
using Shape = CudaPlan::Shape;

constexpr std::string_view kElement = ".x[l]";  // of a vector of memory

ScalarOp combining(StoreMode m) {
  constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Max, ScalarOp::Min};
  return kOps[static_cast<int>(m)];
}

}  // namespace

std::string cuda_variable(size_t position) { return "i" + std::to_string(position); }

// --- arguments ------------------------------------------------------------------------------------------------------------------------

size_t CudaArguments::place(int buffer, DType dtype) {
  auto at = std::find(buffers_.begin(), buffers_.end(), buffer);
  if (at == buffers_.end()) {
    at = buffers_.insert(at, buffer);
    types_.push_back(dtype);
  }
  return static_cast<size_t>(at - buffers_.begin());
}

std::string CudaArguments::pointer(int buffer, DType dtype) {
  const size_t at = place(buffer, dtype);
  return together_ ? fmt::format("(({}*)pointers.x[{}])", memory_type(dtype), at) : "b" + std::to_string(at);
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
  TOROID_CHECK(sym::is_size(n), "{} is no size", n.name);
  for (auto& [symbol, name] : named_sizes_)
    if (sym::same_symbol(*symbol.node(), n)) return name;
  for (size_t i = 0; i < params_.size(); ++i)
    if (sym::same_symbol(*params_[i].node(), n)) return "dim" + std::to_string(i);
  params_.push_back(sym::symbol(n.name, n.lo, n.hi));
  return "dim" + std::to_string(params_.size() - 1);
}

void CudaArguments::name_size(const sym::Node& n, const std::string& name) {
  named_sizes_.emplace_back(sym::symbol(n.name, n.lo, n.hi), name);
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
  if (together_) {
    TOROID_CHECK(scratch_bytes_ == Expr(0) && counters_ == Expr(0) && maps_.empty(), "{}: pointers together are of buffers alone", name);
    k.together = true;
    k.source += fmt::format("struct Pointers {{ void* x[{}]; }};\n", buffers_.size());
    parameter("const __grid_constant__ Pointers pointers");
  }
  for (size_t i = 0; i < buffers_.size() && !together_; ++i)
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
    if (s.step == Step::Store || s.step == Step::Check) arguments_.mark_written(s.buffer);
    if (s.step == Step::Load || loop::folds_into_memory(s)) arguments_.mark_read(s.buffer);
  }
  // Values that only reach memory through others which are rounded to halves.
  rounded_.assign(p_.body.steps.size(), true);
  for (size_t k = p_.body.steps.size(); k-- > 0;) {
    const Statement& s = p_.body.steps[k];
    const bool rounds = is_half(s.dtype);
    const bool arithmetic = is_float(s.dtype) && (s.step == Step::Scalar || s.step == Step::Reduce || s.step == Step::Scan);
    if (rounds || (arithmetic && rounded_[k])) continue;
    loop::for_each_use(s, [&](size_t u) { rounded_[u] = false; });
  }
  if (p_.vector_var < 0) return;
  vector_text_ = cuda_variable(static_cast<size_t>(p_.vector_var));
}

std::string CudaWriter::pointer(int buffer, DType dtype) {
  const auto named = named_pointers_.find(buffer);
  return named == named_pointers_.end() ? arguments_.pointer(buffer, dtype) : named->second;
}

std::string CudaWriter::symbol(const sym::Node& n) {
  if (sym::is_size(n)) return arguments_.size(n);
  const auto var =
      std::find_if(p_.domain.vars.begin(), p_.domain.vars.end(), [&](auto& v) { return sym::same_symbol(*v.symbol.node(), n); });
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
  if (!p_.around.empty()) arguments_.define(std::string(around_cu::kAround));
  if (p_.shape == Shape::Flat)
    p_.tiled.empty() ? flat() : tiles();
  else
    p_.row_blocks > 0 ? row_sums() : reduction();
  return take();
}

std::vector<int> CudaWriter::all_steps() const {
  std::vector<int> all(p_.body.steps.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string CudaWriter::points() {
  emit_vector(all_steps());
  return take();
}

std::string CudaWriter::points(CudaEarly& near, CudaEarly& far) {
  near_ = &near, far_ = &far;
  return points();
}

// A load at a place that no value decides, of memory that the body does not write.
bool CudaWriter::loads_early(int k) const {
  const Statement& s = p_.step(k);
  const std::vector<int> written = loop::buffers_written(p_.body);
  return near_ && s.step == Step::Load && s.mask < 0 && !loop::uses_values(s.index) &&
         std::count(written.begin(), written.end(), s.buffer) == 0;
}

bool CudaWriter::placed_by_vector(int k) const {
  const Expr &index = p_.step(k).index, &vector = p_.domain.vars[static_cast<size_t>(p_.vector_var)].symbol;
  for (auto& v : p_.domain.vars)
    if (!(v.symbol == vector) && sym::depends_on(index, v.symbol)) return false;
  return true;
}

std::string CudaWriter::row(int buffer, const std::string& row) {
  use_pointer(buffer, row);
  e_.line("const int part = threadIdx.x;");
  passes();
  return take();
}

// Names the variables of a flat position. The one of vectors moves in steps of them, and so does that which is unrolled.
void CudaWriter::decode(const std::vector<int>& vars, const std::string& flat) {
  std::string rest = flat;
  for (size_t i = vars.size(); i-- > 0;) {
    const int v = vars[i];
    const std::string name = cuda_variable(static_cast<size_t>(v));
    const bool tiled = !p_.tiled.empty() && (v == p_.tile_var || v == p_.vector_var), edges = p_.unaligned && v == p_.vector_var;
    const bool first = tiled || edges || v == p_.unroll_var;
    const int step = tiled ? p_.tile : v == p_.vector_var ? p_.vector : v == p_.unroll_var ? p_.unroll : 1;
    const std::string size = e_.index(tiled ? sym::ceil_div(p_.extent(v), step) : sym::floor_div(p_.extent(v), step) + Expr(edges ? 2 : 0)),
                      times = step > 1 ? fmt::format(" * {}", step) : "";
    e_.line(fmt::format("const idx {}{} = {}{};", name, first ? "_first" : "", i ? fmt::format("{} % {}", rest, size) : rest, times));
    if (i == 0) break;
    e_.line(fmt::format("const idx {}_up = {} / {};", name, rest, size));
    rest = name + "_up";
  }
}

void CudaWriter::emit(int k) {
  const Statement& s = p_.step(k);
  if (std::string value = short_form(k); !value.empty()) {
    e_.line(fmt::format("const sf32 v{} = {};", k, value));
    return e_.define(k, "v" + std::to_string(k), false);
  }
  if (s.step == Step::Scan) return fold_in(k);
  if (s.step == Step::Store) return emit_store(k);
  e_.emit(k, false);
}

// Cheaper than the common text where that makes no difference, or more exact where it does; empty for most steps.
std::string CudaWriter::short_form(int k) {
  const Statement& s = p_.step(k);
  if (s.step != Step::Scalar || s.dtype != DType::F32) return "";
  const auto at = static_cast<size_t>(k);
  if (s.op == ScalarOp::Cast && p_.step(s.args[0]).dtype == DType::BF16 && is_packed(s.args[0]) && p_.step(s.args[0]).step == Step::Load)
    if (const std::string x = e_.scalar(s.args[0]); x.ends_with(kElement))
      return fmt::format("f32_at({}, l)", x.substr(0, x.size() - kElement.size()));
  auto call = [&](const char* stem, const std::string& x) { return fmt::format("{}({})", e_.function(stem, DType::F32, false), x); };
  const bool is_summed = std::count(p_.powers.begin(), p_.powers.end(), k) > 0;  // among others of which one is 1
  if (s.op == ScalarOp::Exp && (rounded_[at] || is_summed)) return call("shortexp", e_.scalar(s.args[0]));
  if (rounded_[at]) {
    if (s.op == ScalarOp::Erf) return call("shorterf", e_.scalar(s.args[0]));
    if (s.op == ScalarOp::Sigmoid) return call("shortsigmoid", e_.scalar(s.args[0]));
    if (const int x = argument_of_gelu(k); x >= 0) return call("shortgelu", e_.scalar(x));
    for (int i : {0, 1}) {  // 1 + erf, 1 + tanh, of which gelu is made
      if (s.op != ScalarOp::Add || !is_constant(s.args[1 - i]) || p_.step(s.args[1 - i]).value.as_double() != 1) continue;
      const Statement& f = p_.step(s.args[i]);
      if (f.step != Step::Scalar || (f.op != ScalarOp::Erf && f.op != ScalarOp::Tanh)) continue;
      const std::string x = e_.scalar(f.args[0]);
      return f.op == ScalarOp::Erf ? call("shorterf1", x) : "2.0f * " + call("shortsigmoid", "2.0f * " + x);
    }
  }
  if (s.op != ScalarOp::Div) return "";
  // What a row has one of may be a scale, by which others divide what they round.
  if (e_.is_exact(k) || (!p_.varies[at] && e_.reduced(k)))
    return call("exactdiv", fmt::format("{}, {}", e_.scalar(s.args[0]), e_.scalar(s.args[1])));
  if (!p_.varies[at] || p_.varies[static_cast<size_t>(s.args[1])] || is_constant(s.args[1])) return "";
  // Rows over what a row has one of: the compiler divides once.
  const std::string by = e_.scalar(s.args[1]), power = fmt::format("{}({})", e_.function("quotient_power", DType::F32, false), by);
  return fmt::format("{0}({1}, 1.0f / ({2} * {3}), {3})", e_.function("quotient", DType::F32, false), e_.scalar(s.args[0]), by, power);
}

// x where step k is (x * 0.5) * (1 + erf(x * sqrt(0.5))); -1 where it is not.
int CudaWriter::argument_of_gelu(int k) const {
  auto is = [&](int j, ScalarOp op) { return p_.step(j).step == Step::Scalar && p_.step(j).op == op; };
  // The other operand of step j, of which one is the number `value`.
  auto beside = [&](int j, ScalarOp op, double value) {
    if (!is(j, op)) return -1;
    for (int i : {0, 1})
      if (const int c = p_.step(j).args[1 - i]; is_constant(c) && std::abs(p_.step(c).value.as_double() - value) < 1e-7)
        return p_.step(j).args[i];
    return -1;
  };
  if (!is(k, ScalarOp::Mul)) return -1;
  for (int i : {0, 1}) {
    const int x = beside(p_.step(k).args[i], ScalarOp::Mul, 0.5), erf = beside(p_.step(k).args[1 - i], ScalarOp::Add, 1);
    if (x >= 0 && erf >= 0 && is(erf, ScalarOp::Erf) && beside(p_.step(erf).args[0], ScalarOp::Mul, 0.7071067811865476) == x) return x;
  }
  return -1;
}

bool CudaWriter::is_constant(int k) const { return p_.step(k).step == Step::Scalar && p_.step(k).op == ScalarOp::Const; }

void CudaWriter::emit_store(int k) {
  const Statement& s = p_.step(k);
  const std::string guard = store_guard(s);
  if (!guard.empty()) e_.open(fmt::format("if ({})", guard));
  const std::string value = e_.scalar(s.args[0]);
  const std::string at = loop::stores_sum(s) ? "" : fmt::format("{} + {}", pointer(s.buffer, s.dtype), e_.index(s.index));
  if (p_.row_blocks > 0 && loop::stores_sum(s)) {
    e_.line(fmt::format("c{}[j][{}] += {};", k, p_.vector > 1 ? "l" : "0", value));
  } else if (loop::stores_sum(s)) {
    e_.line(fmt::format("{}[l] = {};", pointer(s.buffer, s.dtype), value));
  } else if (s.mode == StoreMode::Set) {
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
  std::string out = valid_;
  auto add = [&](const std::string& condition) { out += (out.empty() || condition.empty() ? "" : " && ") + condition; };
  add(guard_);
  if (s.mask >= 0) add(e_.scalar(s.mask));
  return out;
}

bool CudaWriter::is_packed(int k) const { return p_.vector > 1 && std::count(p_.packs.begin(), p_.packs.end(), k) > 0; }

bool CudaWriter::is_streamed(int k) const { return std::count(p_.streamed.begin(), p_.streamed.end(), k) > 0; }

bool CudaWriter::is_around(int k) const { return std::count(p_.around.begin(), p_.around.end(), k) > 0; }

void CudaWriter::load_packs(const std::vector<int>& steps) {
  for (int k : steps) {
    const Statement& s = p_.step(k);
    if (!is_packed(k)) continue;
    const std::string type = fmt::format("Pack<{}, {}>", memory_type(s.dtype), p_.vector);
    if (s.step == Step::Store) {
      e_.line(fmt::format("{} x{};", type, k));
      continue;
    }
    const std::string from = is_streamed(k) ? fmt::format("s{} + {}", k, vector_text_)
                                            : fmt::format("{} + {}", pointer(s.buffer, s.dtype), e_.index(s.index)),
                      load = is_around(k) ? fmt::format("load_around<{}, {}>({}, left)", memory_type(s.dtype), p_.vector, from)
                                          : fmt::format("load_pack<{}, {}>({})", memory_type(s.dtype), p_.vector, from),
                      taken = !is_around(k) ? "" : fmt::format(".{}({})", placed_by_vector(k) ? "pack_alike" : "pack", from);
    if (loads_early(k)) {
      const bool is_near = placed_by_vector(k);
      CudaEarly& early = is_near ? *near_ : *far_;
      const char* const name = is_near ? "near" : "far";
      early.members +=
          is_around(k) ? fmt::format("Around<{}, {}> x{};\n", memory_type(s.dtype), p_.vector, k) : fmt::format("{} x{};\n", type, k);
      const int bytes = p_.vector * static_cast<int>(size_of(s.dtype));
      early.registers += (bytes + (is_around(k) ? std::min(bytes, 16) : 0) + 3) / 4;
      early.loads += fmt::format("{}.x{} = {};\n", name, k, load);
      early.prefetches += fmt::format("asm volatile(\"prefetch.global.L2 [%0];\" ::\"l\"({}));\n", from);
      e_.line(fmt::format("const {}& x{} = {}.x{}{};", type, k, name, k, taken));
    } else if (s.mask < 0) {
      e_.line(fmt::format("const {} x{} = {}{};", type, k, load, taken));
    } else {
      e_.line(fmt::format("{} x{} = {{}};", type, k));
      e_.line(fmt::format("if ({}) x{} = {}{};", e_.scalar(s.mask), k, load, taken));
    }
    if (is_kept(k) && p_.kept_bytes > 0)
      e_.line(fmt::format("store_pack<{0}, {1}>(k{2}[j * {3}].x, x{2});", memory_type(s.dtype), p_.vector, k, p_.row_threads));
    else if (is_kept(k))
      e_.line(fmt::format("k{0}[j] = x{0};", k));
  }
}

// One element.
void CudaWriter::load_early(int k) {
  const Statement& s = p_.step(k);
  const std::string name = fmt::format("x{}", k);
  far_->members += fmt::format("{} {};\n", memory_type(s.dtype), name);
  far_->registers += (static_cast<int>(size_of(s.dtype)) + 3) / 4;
  far_->loads += fmt::format("far.{} = {}[{}];\n", name, pointer(s.buffer, s.dtype), e_.index(s.index));
  e_.define(k, is_bool(s.dtype) ? fmt::format("(far.{} != 0)", name) : "far." + name, false);
}

// Element l of a vector of memory.
std::string CudaWriter::element(DType t, const std::string& pack) const {
  return is_bool(t) ? fmt::format("({}{} != 0)", pack, kElement) : fmt::format("{}{}", pack, kElement);
}

bool CudaWriter::is_kept(int k) const { return std::count(p_.keeps.begin(), p_.keeps.end(), k) > 0; }

// What a thread keeps of its vectors between passes: vectors of memory as they are.
void CudaWriter::declare_kept(int k) {
  const DType t = p_.step(k).dtype;
  if (p_.kept_bytes > 0) {
    if (kept_before_ == 0) e_.line("extern __shared__ uint4 kept_rows[];");
    const std::string type = fmt::format("Pack<{}, {}>", memory_type(t), p_.vector);
    e_.line(fmt::format("{0}* const k{1} = ({0}*)((u8*)kept_rows + {2}) + part;", type, k, kept_before_));
    kept_before_ += p_.repeats * p_.row_threads * p_.vector * static_cast<int64_t>(size_of(t));
  } else if (is_packed(k))
    e_.line(fmt::format("Pack<{}, {}> k{}[{}];", memory_type(t), p_.vector, k, p_.repeats));
  else
    e_.line(fmt::format("s{} k{}[{}];", name_of(t), k, p_.repeats * p_.vector));
  if (p_.unaligned) e_.line(fmt::format("s{} e{};", name_of(t), k));
}

std::string CudaWriter::kept(int k) const {
  if (at_edge_) return "e" + std::to_string(k);
  if (p_.kept_bytes > 0) return element(p_.step(k).dtype, fmt::format("y{}", k));
  if (is_packed(k)) return element(p_.step(k).dtype, fmt::format("k{}[j]", k));
  return p_.vector == 1 ? fmt::format("k{}[j]", k) : fmt::format("k{}[j * {} + l]", k, p_.vector);
}

void CudaWriter::store_packs(const std::vector<int>& steps) {
  for (int k : steps) {
    const Statement& s = p_.step(k);
    if (!is_packed(k) || s.step != Step::Store) continue;
    if (is_around(k)) {
      const std::string type = fmt::format("{}, {}", memory_type(s.dtype), p_.vector);
      carried_ += fmt::format("u32 carried{}[Around<{}>::kBack] = {{}};\n", k, type);
      e_.line(fmt::format("store_around<{}, {}>({} + {}, x{}, carried{}, begins, ends, {});", p_.around_lanes, type,
                          pointer(s.buffer, s.dtype), e_.index(s.index), k, k,
                          s.mask < 0 ? "left" : fmt::format("{} ? left : -{}", e_.scalar(s.mask), p_.vector)));
      continue;
    }
    const std::string guard = store_guard(s);
    e_.line(fmt::format("{}store_pack<{}, {}>({} + {}, x{});", guard.empty() ? "" : fmt::format("if ({}) ", guard), memory_type(s.dtype),
                        p_.vector, pointer(s.buffer, s.dtype), e_.index(s.index), k));
  }
}

// Steps in order, for one vector: what is equal for its elements once, whole vectors of memory at once, the rest an element at a time.
// `each`, where there is one, follows the steps of every element.
void CudaWriter::emit_vector(const std::vector<int>& steps, const std::function<void()>& each) {
  auto once = [&](int k) { return p_.vector == 1 || !p_.on_vector[static_cast<size_t>(k)]; };
  auto keep = [&](int k) {
    if (is_kept(k) && !is_packed(k)) e_.line(fmt::format("{} = {};", kept(k), e_.scalar(k)));
  };
  if (p_.vector == 1) {
    for (int k : steps) loads_early(k) ? load_early(k) : emit(k), keep(k);
    if (each) each();
    return;
  }
  if (p_.cut) guard_ = "left > 0";
  for (int k : steps)
    if (once(k)) emit(k);
  load_packs(steps);
  if (!each && std::all_of(steps.begin(), steps.end(), [&](int k) { return is_packed(k) && p_.step(k).step == Step::Load; })) return;
  const StepEmitter::Values before = e_.values();
  e_.line(kCudaUnroll);
  e_.open(fmt::format("for (int l = 0; l < {}; ++l)", p_.vector));
  // What is behind the end reads what the last element does.
  std::string lane = fmt::format("({} + l)", vector_text_);
  if (p_.cut) lane = fmt::format("({0} < {1} ? {0} : {1} - 1)", lane, e_.index(p_.extent(p_.vector_var)));
  const std::string first = std::exchange(vector_text_, lane);
  if (p_.cut) guard_ = "l < left";
  for (int k : steps) {
    const Statement& s = p_.step(k);
    if (is_packed(k) && s.step == Step::Load) {
      e_.define(k, element(s.dtype, "x" + std::to_string(k)), false);
    } else if (is_packed(k)) {
      const std::string value = e_.scalar(s.args[0]);
      e_.line(fmt::format("x{}.x[l] = {};", k, is_bool(s.dtype) ? "(u8)(" + value + " & 1)" : value));
    } else if (!once(k)) {
      emit(k);
    }
    if (s.step != Step::Store) keep(k);
  }
  if (each) each();
  vector_text_ = first;
  e_.close();
  e_.restore(before);
  store_packs(steps);
  if (p_.cut) guard_.clear();
}

void CudaWriter::wait() {
  if (p_.overlaps) e_.line("wait_for_predecessor();");
  if (p_.faults < 0) return;
  valid_ = "valid";
  arguments_.mark_read(p_.faults);
  e_.line(fmt::format("const bool valid = {}[0] == 0;  // no index was found out of range", arguments_.pointer(p_.faults, DType::I64)));
}

void CudaWriter::flat() {
  wait();
  const bool apart = p_.unroll > 1 && p_.unroll_var < 0;  // whole blocks
  auto open_unrolled = [&] {
    e_.line(kCudaUnroll);
    e_.open(fmt::format("for (int u = 0; u < {}; ++u)", p_.unroll));
  };
  if (apart) {
    open_unrolled();
    e_.line(fmt::format("const idx t = {} * {} + u * {} + threadIdx.x;", block_, p_.block * p_.unroll, p_.block));
  } else {
    e_.line(fmt::format("const idx t = {} * {} + threadIdx.x;", block_, p_.block));
    if (!sym::known_multiple(p_.rows, p_.block)) e_.line(fmt::format("if (t >= {}) return;", e_.index(p_.rows)));
  }
  decode(p_.space, "t");
  if (p_.unroll_var >= 0) {
    open_unrolled();
    const std::string name = cuda_variable(static_cast<size_t>(p_.unroll_var));
    e_.line(fmt::format("const idx {0} = {0}_first + u;", name));
  }
  const std::string end = p_.rest || p_.unaligned ? e_.index(p_.extent(p_.vector_var)) : "";
  if (p_.unaligned) {
    e_.line(
        fmt::format("const idx {0} = {0}_first - {1} + (-({2}) & {3});", vector_text_, p_.vector, e_.index(*p_.unaligned), p_.vector - 1));
    if (!p_.around.empty()) e_.line(fmt::format("constexpr int left = {};", p_.vector));
    e_.open(fmt::format("if ({0} >= 0 && {0} + {1} <= {2})", vector_text_, p_.vector, end));
  }
  if (p_.rest) e_.open(fmt::format("if ({} + {} <= {})", vector_text_, p_.vector, end));
  emit_vector(all_steps());
  if (p_.rest || p_.unaligned) cut_vector();
  if (p_.unroll > 1) e_.close();
}

// The other branch: elements of a vector that is not all in its row, one after another.
void CudaWriter::cut_vector() {
  const StepEmitter::Values before = e_.values();
  std::string end = e_.index(p_.extent(p_.vector_var));
  e_.close();
  e_.open("else");
  if (p_.unaligned) {
    e_.line(fmt::format("const idx first = {0} < 0 ? 0 : {0}, last = {0} + {1} < {2} ? {0} + {1} : {2};", vector_text_, p_.vector, end));
    end = "last";
  } else {
    e_.line(fmt::format("const idx first = {};", vector_text_));
  }
  e_.open(fmt::format("for (idx {0} = first; {0} < {1}; ++{0})", vector_text_, end));
  const int vector = std::exchange(p_.vector, 1);
  emit_vector(all_steps());
  p_.vector = vector;
  e_.close();
  e_.close();
  e_.restore(before);
}

// Threads take neighbours along the one variable to bring a tile into shared memory, and along the other one for everything else.
void CudaWriter::tiles() {
  wait();
  const std::string across = cuda_variable(static_cast<size_t>(p_.tile_var)), along = vector_text_;
  const std::string tile_end = e_.index(p_.extent(p_.tile_var)), vector_end = e_.index(p_.extent(p_.vector_var));
  const std::string inside = fmt::format("if ({} < {} && {} < {})", across, tile_end, along, vector_end);
  const bool whole = sym::known_multiple(p_.extent(p_.tile_var), p_.tile) && sym::known_multiple(p_.extent(p_.vector_var), p_.tile);
  auto open_points = [&](int vector, const char* fast, const char* slow) {
    e_.line(kCudaUnroll);
    e_.open(fmt::format("for (int n = 0; n < {}; ++n)", std::max(p_.tile * p_.tile / (vector * p_.block), 1)));
    e_.line(fmt::format("const int at = n * {}, {} = at % {} * {}, {} = at / {};", fmt::format("{} + threadIdx.x", p_.block), fast,
                        p_.tile / vector, vector, slow, p_.tile / vector));
    e_.line(fmt::format("const idx {0} = {0}_first + a, {1} = {1}_first + b;", across, along));
    e_.open(whole ? "" : inside);
  };
  for (int k : p_.tiled) {
    const auto bytes = static_cast<int>(size_of(p_.step(k).dtype));  // rows are padded: neighbours of a column lie in different banks
    e_.line(fmt::format("__shared__ {} t{}[{}][{}];", memory_type(p_.step(k).dtype), k, p_.tile, p_.tile + std::max(4 / bytes, 1)));
  }
  decode(p_.space, block_);
  const StepEmitter::Values before = e_.values();
  open_points(p_.tile_vector, "a", "b");
  std::set<size_t> needed;  // by masks
  for (int k : p_.tiled)
    if (p_.step(k).mask >= 0) needed.insert(static_cast<size_t>(p_.step(k).mask));
  for (auto at = needed.rbegin(); at != needed.rend(); ++at)
    loop::for_each_use(p_.step(static_cast<int>(*at)), [&](size_t use) { needed.insert(use); });
  for (size_t k : needed) emit(static_cast<int>(k));
  for (int k : p_.tiled) {
    const Statement& s = p_.step(k);
    const std::string type = memory_type(s.dtype), from = fmt::format("{} + {}", pointer(s.buffer, s.dtype), e_.index(s.index));
    const std::string load = fmt::format("load_pack<{}, {}>({})", type, p_.tile_vector, from);
    e_.line(fmt::format("{}Pack<{}, {}> x{} = {};", s.mask < 0 ? "const " : "", type, p_.tile_vector, k, s.mask < 0 ? load : "{}"));
    if (s.mask >= 0) e_.line(fmt::format("if ({}) x{} = {};", e_.scalar(s.mask), k, load));
    e_.line(fmt::format("_Pragma(\"unroll\") for (int l = 0; l < {0}; ++l) t{1}[a + l][b] = x{1}.x[l];", p_.tile_vector, k));
  }
  e_.close();
  e_.close();
  e_.line("__syncthreads();");
  open_points(p_.vector, "b", "a");
  std::vector<int> steps;
  for (int k : all_steps()) {
    const std::string value = fmt::format("t{}[a][b{}]", k, p_.vector > 1 ? " + l" : "");
    if (std::count(p_.tiled.begin(), p_.tiled.end(), k) == 0)
      steps.push_back(k);
    else
      e_.define(k, is_bool(p_.step(k).dtype) ? fmt::format("({} != 0)", value) : value, false);
  }
  emit_vector(steps);
  e_.close();
  e_.close();
  e_.restore(before);
}

}  // namespace toroid::codegen
