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

// Statements at a point of a result. Those of the head have no acc and are the same in all rows of a column (or of a vector of columns):
// templates that hand on several rows run them once for all.
struct PointText {
  PointText() = default;
  PointText(std::string statements) : rest(std::move(statements)) {}         // NOLINT: texts convert on purpose
  PointText(const char* statements) : PointText(std::string(statements)) {}  // NOLINT
  std::string head, rest;
  std::string all() const { return head + rest; }
};

// Caller's text printed in place. `declarations` runs once per tile, before the loop (pointers, hoisted scalars; it may use
// `bufs`, `params` and `batch`/`image`); `vector` and `scalar` are statements that each template documents.
struct Hole {
  std::string declarations;
  PointText vector;
  PointText scalar;
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

// How a template hands on tiles of finished sums.
struct TileEpilogue {
  std::string name, row, column, around;  // of the kernel, and what the hole's text calls a point
  bool integers = false;                  // the sums are int, and acc a t_vi32; else float and vf32
  int64_t pitch = 0;                      // numbers between rows of a tile
  bool ragged = false;                    // columns need not be whole vectors
  bool overlaps = false;                  // those that are left may be a vector that overlaps the one before
};
// static void name_epilogue(const T* tile, int64_t row0, int64_t rows, int64_t column0, int64_t columns, int64_t around, void* const* bufs,
// const int64_t* params)
std::string epilogue_text(const TileEpilogue& how, const Hole& hole);

// Types and helpers used by every template (guarded, so several templates can share one translation unit):
// vf32 and int64_t must come from the prelude before it, `lanes` is the prelude's vector width in floats (8 or 16).
std::string template_head(int lanes);

// C expressions that read storage of type `t` as f32: one vector of lanes at `pointer`, or one scalar.
std::string load_vector(DType t, const std::string& pointer);
std::string load_scalar(DType t, const std::string& pointer);
// static void name_turn(const T* from, int64_t stride, int64_t columns, int64_t length, float* to): columns of `length` numbers, `stride`
// apart, become rows of a panel of `width` columns, a multiple of lanes; number i of each lands in the row that `row` (C text) makes of
// `i`. It reads nothing but the columns.
std::string turn_text(const std::string& name, DType type, int lanes, int64_t width, const std::string& row);
// C name of the storage type ("float", "uint16_t" for bf16, "_Float16").
std::string storage_type(DType t);

}  // namespace toroid::codegen
