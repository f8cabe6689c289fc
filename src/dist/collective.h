// Collectives: operations that all ranks of a group call together, in one order, each with memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "toroid/dtype.h"

namespace toroid::distributed {

enum class Kind : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Barrier };
// As in ATen's c10d operations.
inline constexpr std::string_view kKindNames[] = {
    "all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast", "barrier"};
std::string_view name_of(Kind k);

enum class ReduceOp : uint8_t { Sum, Avg, Min, Max, Product };
// c10d's.
inline constexpr std::string_view kReduceOpNames[] = {"sum", "avg", "min", "max", "product"};
std::string_view name_of(ReduceOp op);
// UserError for another name.
ReduceOp reduce_op_from_name(std::string_view name);

// What a rank brings to one. `in` and `out` are memory of the host that does not overlap; counts are elements.
//
//   AllReduce      in and out: count. out = the op over all ranks' inputs, in the order of the ranks: the same bits on every rank.
//   AllGather      in: count; out: count times the size of the group, in the order of the ranks.
//   ReduceScatter  in: count times the size of the group; out: count, this rank's part of the reduced inputs.
//   AllToAll       in: for each rank in_splits elements; out: from each rank out_splits elements; no count.
//   Broadcast      in and out: count. out = the input of rank `root` of the group.
//   Barrier        nothing.
struct Collective {
  Kind kind = Kind::Barrier;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t count = 0;
  std::vector<int64_t> in_splits = {}, out_splits = {};
  std::string where = {};  // source line, or empty
};

// "all_reduce(sum) of f32[1024]".
std::string to_string(const Collective& c);

// Whether what must be equal of two ranks' calls is equal: all but the splits.
bool alike(const Collective& a, const Collective& b);

// Why the calls of a group's ranks do not fit together; empty where they do. "rank 1 called all_reduce(sum) of f32[8] at a.cpp:7, rank 0
// all_reduce(sum) of f32[4] at a.cpp:7".
std::string mismatch(const std::vector<const Collective*>& calls);
// The same of two ranks alone, a < b.
std::string mismatch(int rank_a, const Collective& a, int rank_b, const Collective& b);

// UserError for an operation that the dtype does not have: complex numbers have no order, integers no average.
void check_reducible(DType dtype, ReduceOp op);

// out[i] = the op over inputs[0][i], inputs[1][i], ... in this order. Floats of 16 bits are folded in f32 and rounded once; integers wrap
// around; of bools the sum is "any of them".
void reduce(DType dtype, ReduceOp op, const std::vector<const std::byte*>& inputs, std::byte* out, int64_t count);

}  // namespace toroid::distributed
