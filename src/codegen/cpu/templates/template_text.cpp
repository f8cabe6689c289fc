#include "codegen/cpu/templates/template_text.h"

#include "base/check.h"
#include "codegen/cpu/templates/template.c.h"
#include "codegen/transposition.h"

namespace toroid::codegen {
Extent Extent::at(int param) {
  TOROID_CHECK(param >= 0, "negative parameter index");
  Extent e;
  e.param_ = param;
  return e;
}

std::string Extent::text() const { return is_constant() ? std::to_string(value_) : fmt::format("params[{}]", param_); }

std::string row_function_text(const std::string& name, const RowProducer& producer) {
  if (producer.empty()) return "";
  return expand(R"(
static void @NAME@_row(float* restrict row, int64_t m, int64_t batch, char* restrict scratch, void* const* bufs, const int64_t* params) {
  @STATEMENTS@
}
)",
                {{"NAME", name}, {"STATEMENTS", producer.statements}});
}

std::string epilogue_text(const TileEpilogue& how, const Hole& hole) {
  const Substitutions values = {{"NAME", how.name},
                                {"ROW", how.row},
                                {"COLUMN", how.column},
                                {"AROUND", how.around},
                                {"TYPE", how.integers ? "int" : "float"},
                                {"VEC", how.integers ? "t_vi32" : "vf32"},
                                {"LOAD", how.integers ? "t_load_i32" : "t_load"},
                                {"PITCH", std::to_string(how.pitch)},
                                {"DECLARATIONS", hole.declarations},
                                {"LAST", how.overlaps ? "if (columns < T_LANES) break;\nj = columns - T_LANES;" : "break;"},
                                {"VECTOR_HEAD", hole.vector.head},
                                {"VECTOR", hole.vector.rest},
                                {"SCALAR_HEAD", hole.scalar.head},
                                {"SCALAR", hole.scalar.rest}};
  Substitutions all = values;
  all.emplace_back("TAIL", how.ragged ? expand(template_c::kEpilogueTail, values) : "");
  return expand(template_c::kEpilogue, all);
}

std::string template_head(int lanes) {
  std::string splat = "x";
  for (int i = 1; i < lanes; ++i) splat += ", x";
  return expand(template_c::kHead, {{"LANES", std::to_string(lanes)}, {"SPLAT", splat}});
}

std::string storage_type(DType t) {
  switch (t) {
    case DType::F32:
      return "float";
    case DType::BF16:
      return "t_u16";
    case DType::F16:
      return "_Float16";
    default:
      fail<InternalError>("no CPU template reads {} storage; expected f32, bf16 or f16", name_of(t));
  }
}

std::string load_vector(DType t, const std::string& pointer) {
  switch (t) {
    case DType::BF16:
      return fmt::format("t_load_bf16({})", pointer);
    case DType::F16:
      return fmt::format("t_load_f16({})", pointer);
    default:
      return fmt::format("t_load({})", pointer);
  }
}

std::string load_scalar(DType t, const std::string& pointer) {
  switch (t) {
    case DType::BF16:
      return fmt::format("t_scalar_bf16({})", pointer);
    case DType::F16:
      return fmt::format("(float)*({})", pointer);
    default:
      return fmt::format("*({})", pointer);
  }
}

std::string turn_text(const std::string& name, DType type, int lanes, int64_t width, const std::string& row) {
  return expand(template_c::kTurn, {{"NAME", name},
                                    {"TYPE", storage_type(type)},
                                    {"TRANSPOSE", transposition_text(lanes)},
                                    {"WIDTH", std::to_string(width)},
                                    {"VECTOR", load_vector(type, "from + j * stride + k")},
                                    {"SCALAR", load_scalar(type, "from + j * stride + i")},
                                    {"ROW", row}});
}

}  // namespace toroid::codegen
