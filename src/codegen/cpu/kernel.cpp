#include "codegen/cpu/kernel.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/mutants.h"
#include "codegen/cpu/passes.h"
#include "codegen/cpu/plan.h"
#include "codegen/emit.h"
#include "codegen/prelude/prelude.h"

namespace toroid::codegen {
namespace {

using loop::Statement;
using loop::Step;

constexpr const char* kTail = "#pragma clang loop vectorize(disable) unroll(disable)";

// Of a kernel: which buffers and sizes it takes.
struct Arguments {
  const std::vector<loop::Buffer>& known;
  std::vector<int> ids;
  std::vector<Expr> params;

  size_t param(const Expr& e) {
    auto at = std::find_if(params.begin(), params.end(), [&](const Expr& p) { return p == e; });
    if (at == params.end()) at = params.insert(at, e);
    return static_cast<size_t>(at - params.begin());
  }
};

class KernelWriter {
 public:
  // `names`: of the template that the text is written into.
  KernelWriter(KernelPlan plan, Arguments& arguments, const TemplateNames* names = nullptr)
      : plan_(std::move(plan)),
        arguments_(arguments),
        template_names_(names),
        emitter_(plan_.body, plan_.inner_symbol(), plan_.on_inner, plan_.lanes,
                 {[this](int b, DType t) { return pointer(b, t); }, [this](const sym::Node& n) { return symbol(n); }, "", ""}),
        passes_(plan_, emitter_, inner_text_),
        scans_(plan_, emitter_) {
    if (plan_.inner >= 0) inner_name_ = inner_text_ = plan_.inner_symbol().node()->name;
  }

  KernelText write() {
    KernelText k;
    k.name = name_kernel(plan_.body);
    const std::string text = write_function(k.name);
    if (!plan_.scratch.empty()) k.scratch_bytes_per_thread = plan_.scratch_at.back();
    k.source = needs().text(plan_.lanes) + text;
    k.buffers = arguments_.ids;
    k.params = arguments_.params;
    k.tasks = plan_.tasks;
    k.serial = plan_.serial;
    k.plan = to_string(plan_);
    return k;
  }

  // A function of a kernel's signature.
  std::string write_function(const std::string& name) {
    write_tasks();
    const std::string text = emitter_.take();
    return header(name) + text + "}\n";
  }

  const KernelPlan& plan() const { return plan_; }
  PreludeNeeds needs() const { return {emitter_.functions(), emitter_.helpers()}; }

  RowText write_row() {
    RowText row;
    if (!plan_.scratch.empty()) row.scratch_bytes = plan_.scratch_at.back();
    Expr points = 1;
    for (int v : plan_.outer) points = points * plan_.domain.vars[static_cast<size_t>(v)].extent();
    if (plan_.tile >= 0) points = points * sym::ceil_div(plan_.domain.vars[static_cast<size_t>(plan_.tile)].extent(), plan_.lanes);
    emitter_.line(fmt::format("const i64 begin = 0, end = {};", emitter_.index(points)));
    write_tasks();
    row.statements = kept_rows() + emitter_.take();
    row.needs = needs();
    return row;
  }

 private:
  std::string pointer(int buffer, DType dtype) {
    if (template_names_) return template_names_->pointer(buffer, dtype);
    std::vector<int>& ids = arguments_.ids;
    auto at = static_cast<size_t>(std::find(ids.begin(), ids.end(), buffer) - ids.begin());
    if (at == ids.size()) {
      bool known = std::any_of(arguments_.known.begin(), arguments_.known.end(), [&](auto& b) { return b.id == buffer; });
      TOROID_CHECK(known, "the loop uses buffer %{}, which is not given", buffer);
      ids.push_back(buffer);
    }
    std::string& name = pointers_[{at, dtype}];
    bool second = std::any_of(pointers_.begin(), pointers_.end(), [&](auto& p) { return p.first.first == at && p.first.second != dtype; });
    if (name.empty()) name = fmt::format("b{}{}", at, second ? "_" + memory_type(dtype) : "");
    return name;
  }

  std::string symbol(const sym::Node& n) {
    auto is_same = [&](const loop::Var& v) { return sym::same_symbol(*v.symbol.node(), n); };
    const bool own = std::any_of(plan_.domain.vars.begin(), plan_.domain.vars.end(), is_same);
    if (template_names_ && !own) return template_names_->symbol(n);
    TOROID_CHECK(own || sym::is_size(n), "{} is no variable of the loop", n.name);
    if (own) return n.name == inner_name_ ? inner_text_ : n.name;
    return fmt::format("n{}", arguments_.param(sym::symbol(n.name, n.lo, n.hi)));
  }

  std::string header(const std::string& name) {
    std::string scratch;
    if (!plan_.scratch.empty()) {
      std::string bytes = emitter_.index(plan_.scratch_at.back());
      scratch = fmt::format("  char* scratch = (char*)bufs[{}] + (i64)thread * {};\n", arguments_.ids.size(), bytes) + kept_rows();
    }
    std::string out = fmt::format("void {}(void* const* bufs, const i64* params, i64 begin, i64 end, int thread) {{\n", name);
    for (auto& [key, variable] : pointers_) {
      bool written = std::any_of(plan_.body.steps.begin(), plan_.body.steps.end(), [&, at = key.first](auto& s) {
        return (s.step == Step::Store || s.step == Step::Check) && s.buffer == arguments_.ids[at];
      });
      std::string type = (written ? "" : "const ") + memory_type(key.second);
      out += fmt::format("  {0}* {1} = ({0}*)bufs[{2}];\n", type, variable, key.first);
    }
    for (size_t i = 0; i < arguments_.params.size(); ++i) out += fmt::format("  const i64 n{0} = params[{0}];\n", i);
    return out + scratch;
  }

  std::string kept_rows() {
    std::string out;
    for (size_t i = 0; i < plan_.scratch.size() && !plan_.crossed; ++i) {
      std::string type = memory_type(plan_.step(plan_.scratch[i]).dtype);
      out += fmt::format("  {0}* c{1} = ({0}*)(scratch + {2});\n", type, plan_.scratch[i], emitter_.index(plan_.scratch_at[i]));
    }
    return out;
  }

  std::string extent(int v) { return emitter_.index(plan_.domain.vars[static_cast<size_t>(v)].extent()); }
  std::string name(int v) const { return plan_.domain.vars[static_cast<size_t>(v)].symbol.node()->name; }

  // The loop over [begin, end): outer points, or pairs of an outer point and a chunk of the inner variable.
  void write_tasks() {
    StepEmitter& e = emitter_;
    std::vector<std::pair<std::string, std::string>> digits;  // name, extent
    Expr points = 1;
    for (int v : plan_.outer) {
      digits.emplace_back(name(v), extent(v));
      points = points * plan_.domain.vars[static_cast<size_t>(v)].extent();
    }
    if (plan_.tile >= 0) {
      Expr tiles = sym::ceil_div(plan_.domain.vars[static_cast<size_t>(plan_.tile)].extent(), plan_.lanes);
      digits.emplace_back("tile", e.index(tiles));
      points = points * tiles;
    }
    if (plan_.chunk) {
      digits.emplace_back("chunk", "chunks");
      e.line(fmt::format("const i64 chunks = ({} + {}) / {};", extent(plan_.inner), plan_.chunk - 1, plan_.chunk));
    }
    if (digits.empty()) {
      e.line("if (begin >= end) return;");
      write_point();
      return;
    }
    std::string first = "begin", last = "end";
    if (plan_.group > 1) {
      e.line(fmt::format("const i64 first = begin * {}, points = {};", plan_.group, e.index(points)));
      std::string overrun = mutant(Mutant::TaskOverrun) ? " || 1" : "";
      e.line(fmt::format("const i64 last = end * {0} < points{1} ? end * {0} : points;", plan_.group, overrun));
      first = "first", last = "last";
    }
    e.line(fmt::format("if ({} >= {}) return;", first, last));
    std::string rest = first;
    for (size_t i = digits.size(); i-- > 1;) {
      e.line(fmt::format("i64 {} = {} % {};", digits[i].first, rest, digits[i].second));
      rest = fmt::format("{} / {}", rest, digits[i].second);
    }
    e.line(fmt::format("i64 {} = {};", digits[0].first, rest));
    e.open(fmt::format("for (i64 task = {}; task < {}; ++task)", first, last));
    write_point();
    for (size_t i = digits.size(); i-- > 0;) {
      e.line(i ? fmt::format("if (++{0} == {1}) {{", digits[i].first, digits[i].second) : fmt::format("++{};", digits[i].first));
      if (i) e.line(fmt::format("  {} = 0;", digits[i].first));
    }
    if (digits.size() > 1) e.line(std::string(digits.size() - 1, '}'));
    e.close();
  }

  // All that happens at one outer point: values that are equal for the whole inner loop, then that loop.
  void write_point() {
    StepEmitter::Values saved = emitter_.values();
    for (size_t k = 0; k < plan_.body.steps.size(); ++k) {
      const Statement& s = plan_.body.steps[k];
      if (!plan_.on_inner[k] && !plan_.on_tile[k] && !plan_.varies[k] && plan_.pass[k] == 1 && s.step != Step::Reduce &&
          s.step != Step::Store)
        emitter_.emit(static_cast<int>(k), false);
    }
    if (plan_.inner < 0 || plan_.inner_reduces()) {
      write_body(false);
    } else if (plan_.crossed) {
      write_crossed();
    } else if (plan_.tile >= 0) {
      write_tile();
    } else if (plan_.weave >= 0) {
      write_woven();
    } else {
      auto [lo, hi] = inner_range();
      write_inner_loop(lo, hi);
    }
    emitter_.restore(std::move(saved));
  }

  // Range of the inner variable within a task.
  std::pair<std::string, std::string> inner_range() {
    std::string hi = extent(plan_.inner);
    if (!plan_.chunk) return {"0", hi};
    emitter_.line(
        fmt::format("const i64 from = chunk * {}, to = from + {} < {} ? from + {} : {};", plan_.chunk, plan_.chunk, hi, plan_.chunk, hi));
    return {"from", "to"};
  }

  // Squares of lanes x lanes: each staged load reads rows along the tile variable and turns them into vectors along the inner one.
  void write_tile() {
    StepEmitter& e = emitter_;
    auto [lo, hi] = inner_range();
    int w = plan_.lanes;
    std::string t = name(plan_.tile), t_extent = extent(plan_.tile);
    e.line(fmt::format("const i64 {0}_from = tile * {1}, {0}_to = {0}_from + {1} < {2} ? {0}_from + {1} : {2};", t, w, t_extent));
    e.line(fmt::format("i64 {0} = {1};", inner_name_, lo));
    e.open(fmt::format("for (; {0}_to - {0}_from == {1} && {2} + {1} <= {3}; {2} += {1})", t, w, inner_name_, hi));
    StepEmitter::Values saved = e.values();
    for (int k : plan_.staged) e.line(fmt::format("v{} tile{}[{}];", name_of(plan_.step(k).dtype), k, w));
    e.open(fmt::format("for (int l = 0; l < {}; ++l)", w));
    e.line(fmt::format("const i64 {0} = {0}_from;", t));
    inner_text_ = fmt::format("({} + l)", inner_name_);
    for (int k : plan_.staged) {
      const Statement& s = plan_.step(k);
      e.line(fmt::format("tile{}[l] = {}({} + {});", k, e.function("load", s.dtype, true), pointer(s.buffer, s.dtype), e.index(s.index)));
    }
    inner_text_ = inner_name_;
    e.close();
    for (int k : plan_.staged) e.line(fmt::format("{}(tile{});", e.transpose(plan_.step(k).dtype), k));
    e.open(fmt::format("for (i64 {0} = {0}_from; {0} < {0}_to; ++{0})", t));
    for (int k : plan_.staged) e.define(k, fmt::format("tile{}[{} - {}_from]", k, t, t), true);
    write_body(true);
    e.close();
    e.restore(saved);
    e.close();
    // What is left over along either variable.
    if (sym::known_multiple(plan_.domain.vars[static_cast<size_t>(plan_.inner)].extent(), w) &&
        sym::known_multiple(plan_.domain.vars[static_cast<size_t>(plan_.tile)].extent(), w))
      return;
    e.line(fmt::format("const i64 {0}_rest = {0};", inner_name_));
    e.line(kTail);
    e.open(fmt::format("for (i64 {0} = {0}_from; {0} < {0}_to; ++{0})", t));
    e.line(kTail);
    e.open(fmt::format("for (i64 {0} = {0}_rest; {0} < {1}; ++{0})", inner_name_, hi));
    write_body(false);
    e.restore(std::move(saved));
    e.close();
    e.close();
  }

  // All points of the weave variable for a vector along the inner one, then the runs of memory that they make up. The last vector overlaps
  // the one before it.
  void write_woven() {
    StepEmitter& e = emitter_;
    const std::string at = inner_name_, w = name(plan_.weave);
    const Expr& woven = plan_.domain.vars[static_cast<size_t>(plan_.weave)].symbol;
    const auto [lo, hi] = inner_range();
    const int count = static_cast<int>(plan_.domain.vars[static_cast<size_t>(plan_.weave)].extent().constant());
    e.open(fmt::format("for (i64 {0} = {3}; {0} < {1}; {0} += {2})", at, hi, plan_.lanes, lo));
    e.line(fmt::format("if ({0} > {1} - {2}) {0} = {1} - {2};", at, hi, plan_.lanes));
    const StepEmitter::Values saved = e.values();
    std::vector<int> stores;
    for (size_t k = 0; k < plan_.body.steps.size(); ++k)
      if (plan_.body.steps[k].step == Step::Store) stores.push_back(static_cast<int>(k));
    for (int k : stores) e.line(fmt::format("v{} woven{}[{}];", name_of(plan_.step(k).dtype), k, count));
    e.line("#pragma clang loop unroll(full)");
    e.open(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0})", w, count));
    for (size_t k = 0; k < plan_.body.steps.size(); ++k)
      if (plan_.body.steps[k].step != Step::Store && !e.known(static_cast<int>(k))) e.emit(static_cast<int>(k), true);
    for (int k : stores) e.line(fmt::format("woven{}[{}] = {};", k, w, e.vector(plan_.step(k).args[0])));
    e.close();
    e.restore(saved);
    for (int k : stores) {
      const Statement& s = plan_.step(k);
      const Expr first = sym::substitute(s.index, [&](const sym::Node& n) -> std::optional<Expr> {
        return sym::same_symbol(n, *woven.node()) ? std::optional<Expr>(0) : std::nullopt;
      });
      e.line(fmt::format("{}({} + {}, woven{});", e.store_woven(s.dtype, count), pointer(s.buffer, s.dtype), e.index(first), k));
    }
    e.close();
  }

  // The reduction loops around the inner loop.
  void write_crossed() {
    auto [lo, hi] = inner_range();
    for (size_t i = 0; i < plan_.scratch.size(); ++i)
      scans_.begin_row(plan_.scratch[i], emitter_.index(plan_.scratch_at[i]), fmt::format("({} - {})", hi, lo));
    for (int v : plan_.reduction) emitter_.open(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0})", name(v), extent(v)));
    inner_start_ = lo;
    write_inner_loop(lo, hi);
    for (size_t i = 0; i < plan_.reduction.size(); ++i) emitter_.close();
  }

  // A point, or a vector of points, of a crossed loop.
  void write_crossed_body(bool vector) {
    std::string at = fmt::format("{} - {}", inner_name_, inner_start_);
    for (int k = 0; k < static_cast<int>(plan_.body.steps.size()); ++k) {
      if (emitter_.known(k)) continue;
      if (plan_.step(k).step != Step::Scan) {
        emitter_.emit(k, vector);
        continue;
      }
      scans_.take(k, vector, at);
      scans_.emit(k, vector, false, passes_.position(true));
      scans_.keep(k, vector, at);
    }
  }

  void write_inner_loop(const std::string& lo, const std::string& hi) {
    StepEmitter& e = emitter_;
    bool tail = !plan_.overlaps &&
                (plan_.lanes == 1 || !sym::known_multiple(plan_.domain.vars[static_cast<size_t>(plan_.inner)].extent(), plan_.lanes));
    e.line(fmt::format("i64 {} = {};", inner_name_, lo));
    if (plan_.lanes > 1) {
      std::vector<int> steps;
      for (size_t k = 0; k < plan_.body.steps.size(); ++k) steps.push_back(static_cast<int>(k));
      e.splat_operands(steps);
      if (plan_.overlaps) {
        e.open(fmt::format("for (; {0} < {2}; {0} += {1})", inner_name_, plan_.lanes, hi));
        e.line(fmt::format("if ({0} > {2} - {1}) {0} = {2} - {1};", inner_name_, plan_.lanes, hi));
      } else {
        e.open(fmt::format("for (; {0} + {1} <= {2}; {0} += {1})", inner_name_, plan_.lanes, hi));
      }
      StepEmitter::Values saved = e.values();
      write_body(true);
      e.restore(std::move(saved));
      e.close();
    }
    if (!tail || (mutant(Mutant::SkippedTail) && plan_.lanes > 1)) return;
    e.line(kTail);
    e.open(fmt::format("for (; {0} < {1}; ++{0})", inner_name_, hi));
    StepEmitter::Values saved = e.values();
    write_body(false);
    e.restore(std::move(saved));
    e.close();
  }

  // The steps that depend on the inner variable, pass after pass.
  void write_body(bool vector) {
    if (plan_.crossed) return write_crossed_body(vector);
    auto step = [&](size_t k) -> const Statement& { return plan_.body.steps[k]; };
    for (size_t q = 0; q < std::max<size_t>(plan_.passes.size(), 1); ++q) {
      for (size_t k = 0; k < plan_.body.steps.size(); ++k) {
        bool ready = !plan_.varies[k] && (plan_.passes.empty() || plan_.pass[k] == static_cast<int>(q) + 1);
        if (!ready || step(k).step == Step::Reduce || emitter_.known(static_cast<int>(k))) continue;
        if (step(k).step == Step::Store && !plan_.passes.empty()) continue;
        emitter_.emit(static_cast<int>(k), vector);
      }
      if (q < plan_.passes.size() && !plan_.passes[q].empty()) passes_.write(q, vector);
    }
    if (plan_.passes.empty()) return;
    for (size_t k = 0; k < plan_.body.steps.size(); ++k)
      if (step(k).step == Step::Store && !plan_.varies[k]) emitter_.emit(static_cast<int>(k), vector);
  }

  KernelPlan plan_;
  Arguments& arguments_;
  const TemplateNames* template_names_;
  std::map<std::pair<size_t, DType>, std::string> pointers_;
  std::string inner_name_;
  std::string inner_text_;
  std::string inner_start_;  // crossed: where the inner variable begins
  StepEmitter emitter_;
  PassWriter passes_;
  ScanWriter scans_;
};

}  // namespace

int lanes_of(device::Isa isa) { return isa == device::Isa::Avx512 ? 16 : isa == device::Isa::Avx2 ? 8 : 1; }

KernelText generate_loop(const loop::Domain& d, const loop::Body& b, const std::vector<loop::Buffer>& buffers, device::Isa isa) {
  for (auto& s : b.steps) TOROID_CHECK(s.step != Step::Accumulate, "a loop kernel has no template to take Accumulate from");
  Arguments arguments{buffers, {}, {}};
  return KernelWriter(make_plan(d, b, lanes_of(isa)), arguments).write();
}

KernelText generate_loops(std::span<const loop::Nest> nests, const std::vector<loop::Buffer>& buffers, device::Isa isa) {
  if (nests.size() == 1) return generate_loop(nests[0].domain, nests[0].body, buffers, isa);
  Arguments arguments{buffers, {}, {}};
  KernelText k;
  k.tasks = 0;
  PreludeNeeds needs;
  std::string functions, calls, from = "0";
  for (size_t i = 0; i < nests.size(); ++i) {
    KernelWriter writer(make_plan(nests[i].domain, nests[i].body, lanes_of(isa), {.widen = false}), arguments);
    const KernelPlan& plan = writer.plan();
    TOROID_CHECK(plan.passes.empty() && !plan.serial, "only loops whose points are independent share a launch");
    const std::string part = name_kernel(plan.body);
    k.name += (i ? "_and_" : "") + part;
    functions += "static " + writer.write_function(fmt::format("{}_{}", part, i));
    k.tasks = k.tasks + plan.tasks;
    const std::string to = k.tasks.is_const() ? std::to_string(k.tasks.constant()) : fmt::format("params[{}]", arguments.param(k.tasks));
    calls += fmt::format(
        "  if (begin < {1} && end > {0}) {2}_{3}(bufs, params, (begin > {0} ? begin : {0}) - {0}, (end < {1} ? end : {1}) - {0}, "
        "thread);\n",
        from, to, part, i);
    from = to;
    needs.add(writer.needs());
    k.plan += (i ? "beside: " : "") + to_string(plan);
  }
  k.source = needs.text(lanes_of(isa)) + functions +
             fmt::format("void {}(void* const* bufs, const i64* params, i64 begin, i64 end, int thread) {{\n{}}}\n", k.name, calls);
  k.buffers = arguments.ids;
  k.params = arguments.params;
  return k;
}

void PreludeNeeds::add(const PreludeNeeds& other) {
  functions.insert(other.functions.begin(), other.functions.end());
  helpers.insert(other.helpers.begin(), other.helpers.end());
}

std::string PreludeNeeds::text(int lanes) const {
  const std::vector<std::string_view> used(functions.begin(), functions.end());
  std::string out = prelude_for(used, lanes > 1 ? lanes : 4);
  for (auto& [name, text] : helpers) out += text;
  return out;
}

RowText emit_row(const loop::Domain& d, const loop::Body& b, int lanes, const TemplateNames& names) {
  Arguments none{{}, {}, {}};
  return KernelWriter(make_plan(d, b, lanes, {.widen = false, .one_task = true}), none, &names).write_row();
}

namespace {

// For each step, whether it gives the same in all rows: it reads nothing but columns, in memory that the body does not write.
std::vector<bool> same_in_rows(const loop::Domain& d, const loop::Body& b, size_t column_vars) {
  std::vector<bool> same(b.steps.size(), true);
  for (size_t v = 0; v + column_vars < d.vars.size(); ++v) {
    const std::vector<bool> varies = depends_on_variable(d, b, d.vars[v].symbol);
    for (size_t k = 0; k < same.size(); ++k) same[k] = same[k] && !varies[k];
  }
  const std::vector<int> written = loop::buffers_written(b);
  for (size_t k = 0; k < same.size(); ++k) {
    const Statement& s = b.steps[k];
    const bool reads = s.step == Step::Load && std::find(written.begin(), written.end(), s.buffer) == written.end();
    same[k] = same[k] && (reads || s.step == Step::Scalar || s.step == Step::Index);
    loop::for_each_use(s, [&](size_t u) { same[k] = same[k] && same[u]; });
  }
  return same;
}

}  // namespace

EpilogueText emit_epilogue(const loop::Domain& d, const loop::Body& b, size_t column_vars, int lanes, const TemplateNames& names) {
  for (auto& s : b.steps) TOROID_CHECK(s.step != Step::Reduce && s.step != Step::Scan, "a template's epilogue has no reductions");
  const Expr& vector_var = d.vars.back().symbol;
  std::vector<bool> on_inner = depends_on_variable(d, b, vector_var);
  for (size_t k = 0; k < b.steps.size(); ++k) on_inner[k] = on_inner[k] || b.steps[k].step == Step::Store;
  const std::vector<bool> same = same_in_rows(d, b, column_vars);
  StepEmitter e(b, vector_var, on_inner, lanes, {names.pointer, names.symbol, names.vector_accumulator, names.scalar_accumulator});
  e.set_indent(0);
  EpilogueText out;
  StepEmitter::Values none = e.values();
  for (bool vector : {true, false}) {
    e.restore(none);
    PointText& text = vector ? out.vector : out.scalar;
    for (bool head : {true, false}) {
      for (size_t k = 0; k < b.steps.size(); ++k)
        if (same[k] == head) e.emit(static_cast<int>(k), vector);
      (head ? text.head : text.rest) = e.take();
    }
  }
  out.needs = {e.functions(), e.helpers()};
  return out;
}

}  // namespace toroid::codegen
