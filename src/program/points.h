// The points of a problem: what its template computes a value for, and what it reads for that.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace toroid::program {

// Extents of the points at which a problem has results (Gemm: batch..., m, n); nullopt where it computes none of its own (loops, sorts,
// calls).
std::optional<std::vector<Expr>> points_of(const Node& n);

// Rows of points of a template that StoreMode::Sum adds up: as many as a warpgroup multiplies at once.
inline constexpr int64_t kSummedRows = 64;
// Where a node may store sums (StoreMode::Sum): at the sum that a point's row is in, and its column. Columns are those of a product without
// batches, or the channels of a convolution, whose rows are pixels, and whose sums are those of neighbouring rows; or of a loop that stores
// sums, which has a variable of rows, dealt out to its sums one by one, and then one of a reduction over columns. nullopt: there are no
// such points, or their number is not known.
struct SumsPlace {
  Expr index;
  int64_t rows = 0, columns = 0;
  int64_t sums = 0;  // of each column
  int column = 0;    // the number of the columns' variable
};
std::optional<SumsPlace> sums_place(const Node& n);

// The buffer to which a node stores what its problem computes, rounded at most, point by point in row-major order, and does nothing else;
// -1: it does more, or its problem has no points.
int plain_result(const Node& n);

// Calls visit for each operand of a node's problem in memory, with the extents along its strides and what it is ("the left operand").
// Left out: operands that are absent, and a left operand whose rows a producer computes.
using VisitView = std::function<void(const Operand& operand, const std::vector<Expr>& extents, std::string_view what)>;
void for_each_view(const Node& n, const VisitView& visit);

}  // namespace toroid::program
