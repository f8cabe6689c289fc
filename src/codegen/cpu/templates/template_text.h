// The text tools that all CPU templates share: extents that are constants or run-time parameters, the C head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/expand.h"
#include "toroid/dtype.h"
#include "toroid/sym_expr.h"

namespace toroid::codegen {

// A size or stride in generated C: a constant, or entry `param` of the kernel's int64 params array.
class Extent {
 public:
  Extent(int64_t value = 0) : value_(value) {}  // NOLINT: constants convert on purpose
  static Extent at(int param);

  bool is_constant() const { return param_ < 0; }
  // The value, given the params array (unused, and allowed to be null, for constants).
  int64_t value(const int64_t* params = nullptr) const { return is_constant() ? value_ : params[param_]; }
  // C expression: "768" or "params[2]".
  std::string text() const;

 private:
  int64_t value_ = 0;
  int param_ = -1;
};

// Caller's text printed in place. `declarations` runs once per tile, before the loop (pointers, hoisted scalars; it may use
// `bufs`, `params` and `batch`/`image`); `vector` and `scalar` are statements that each template documents.
struct Hole {
  std::string declarations;
  std::string vector;
  std::string scalar;
  bool empty() const { return vector.empty() && scalar.empty(); }
};

// Text that fills `row` with the f32 elements of one row of an operand, m of batch `batch`, in place of reading it. Its statements see
// bufs, params and `scratch`: scratch_bytes of memory of the thread's own, 64-byte aligned.
struct RowProducer {
  std::string statements;
  Expr scratch_bytes = 0;
  std::string scratch_text = "0";  // the same, a C expression over `params`
  bool empty() const { return statements.empty(); }
};
// static void name_row(float* row, int64_t m, int64_t batch, char* scratch, void* const* bufs, const int64_t* params)
std::string row_function_text(const std::string& name, const RowProducer& producer);

// Types and helpers used by every template (guarded, so several templates can share one translation unit):
// vf32 and int64_t must come from the prelude before it, `lanes` is the prelude's vector width in floats (8 or 16).
std::string template_head(int lanes);

// C expressions that read storage of type `t` as f32: one vector of lanes at `pointer`, or one scalar.
std::string load_vector(DType t, const std::string& pointer);
std::string load_scalar(DType t, const std::string& pointer);
// C name of the storage type ("float", "uint16_t" for bf16, "_Float16").
std::string storage_type(DType t);

}  // namespace toroid::codegen
