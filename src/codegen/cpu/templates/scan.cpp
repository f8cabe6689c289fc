// Scans of long rows of a CPU: one kernel of the pieces' totals, one of the rows, in both a piece a task.
#include "codegen/cpu/parts.h"
#include "codegen/cpu/template.h"
#include "codegen/cpu/templates/scan.c.h"

namespace toroid::codegen {
namespace {

using program::Scan;

std::string scan_refusal(const Scan& s) {
  if (s.input.dtype != DType::F32 && s.input.dtype != DType::F64) return "the template takes f32 and f64";
  const auto apart = [](const program::Operand& o) { return !o.strides.empty() && !(o.strides.back() == Expr(1)); };
  return apart(s.input) || apart(s.totals) ? "the elements of a row do not lie one after the other" : "";
}

// Declares a pointer to the operand's first element of the row.
std::string pointer_text(const char* name, const program::Operand& o, const Scan& s, Slots& slots) {
  std::string at = slots.text(o.offset);
  for (size_t d = 0; d < s.rows.size(); ++d) {
    const std::string stride = slots.text(o.strides[d]);
    at += fmt::format(" + {} * {}", unflatten("row", s.rows, d, slots), stride);
  }
  return fmt::format("{0}* const {1} = ({0}*)bufs[{2}] + ({3});\n", name_of(o.dtype), name, slots.buffer(o.buffer), at);
}

KernelText scan_kernel(const Scan& s, device::Isa isa) {
  KernelText kernel;
  Slots slots(kernel);
  const bool totals = s.part == program::ScanPart::Totals;
  const std::string type(name_of(s.input.dtype)), name = totals ? "scan_totals" : "scan_rows";
  kernel.name = name;
  std::string pointers = pointer_text("input", s.input, s, slots);
  pointers += pointer_text("totals", s.totals, s, slots) + fmt::format("const {0}* const x = input + first;\n", type);
  if (!totals) pointers += pointer_text("values", s.values, s, slots);
  auto total = [&](const std::string& t) { return expand(scan_c::kTotal, {{"NAME", name}, {"T", t}}); };
  PreludeNeeds needs{{"v_max_f64", "v_exp_f64", "s_max_f64", "s_isfinite_f64", "s_exp_f64", "s_log_f64"}, {}};
  std::string helpers = total(type), body;
  if (totals) {
    body = expand(scan_c::kTotals, {{"NAME", name}, {"T", type}, {"TSTEP", slots.text(s.totals.strides.back())}});
  } else {
    needs.functions.insert({"v_min_f64", "v_isinf_f64", "v_sel_f64", "v_log1p_f64"});
    if (type != "f64") helpers += total("f64");
    helpers += expand(scan_c::kAdd, {{"NAME", name}});
    body = expand(scan_c::kRows, {{"NAME", name}, {"T", type}, {"VSTEP", slots.text(s.values.strides.back())}});
  }
  kernel.source = needs.text(lanes_of(isa)) + expand(scan_c::kText, {{"NAME", name},
                                                                     {"HELPERS", helpers},
                                                                     {"LENGTH", slots.text(s.length)},
                                                                     {"PIECE", std::to_string(program::kScanPiece)},
                                                                     {"POINTERS", pointers},
                                                                     {"BODY", body}});
  kernel.tasks = program::product(s.rows) * program::pieces(s);
  kernel.plan = fmt::format("{} of rows of {}, {} elements a task", name, sym::to_string(s.length), program::kScanPiece);
  return kernel;
}

}  // namespace

Form cpu_scan_form(const CpuSite& site) {
  const auto& s = site.problem<Scan>();
  return make_form("scan", scan_refusal(s), [&s, site] { return scan_kernel(s, site.isa); });
}

}  // namespace toroid::codegen
