// Products of matrices whose operand, or result, the ranks of a group exchange in pieces: one moves while the next is multiplied.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/collective.h"
#include "extern/cublaslt/problem.h"
#include "extern/library_call.h"
#include "toroid/device.h"

namespace toroid::exec {

// All ranks meet before the stages that meets_before names; a stage waits for no other rank. What is on its way is moved by a copy engine.
//
//   AllGather, a: [m, k] a rank, result: [ranks * m, n], in pieces of m rows. Stage 0: the own rows go to the other ranks, while their
//     product is computed. Stage 1: the products of the others' rows.
//   ReduceScatter, a: [2 * ranks * m, k], result: [2 * m, n], the sum over all ranks of the product's rows from rank * 2 * m on, in pieces
//   of
//     m rows, two of which are under way. Pieces go around the ranks (a ring): at stage s of 2 * ranks a rank adds a product of its own to
//     what the rank before it has sent, and keeps the sum, rounded, for the next rank, or, at the last two stages, as the result; meanwhile
//     what it has kept at the stage before goes to the next rank. A rank's own product is not rounded before it is added.
//
// Both are forms of the decomposition in "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models"
// (ASPLOS 2023).
struct PiecesProblem {
  distributed::Kind kind = distributed::Kind::AllGather;
  std::string group;
  int64_t ranks = 2, stage = 0;
  external::CublasLtProblem product;  // of a piece: m is its rows; a and out are dense
};

// Pieces of the rows of a rank.
int64_t pieces_of_rank(distributed::Kind kind);
int64_t stages_of(const PiecesProblem& p);
bool meets_before(const PiecesProblem& p);
// Slots of memory for pieces that come, or wait to be sent, which each rank has.
int64_t slots_of(const PiecesProblem& p);

// What a rank does at a stage, in any order.
struct Stage {
  // Piece `number` of the left operand, of the result, or of the rank's own slots.
  struct Place {
    enum class In : uint8_t { None, Operand, Result, Slot } in = In::None;
    int64_t number = 0;
  };
  struct Move {
    Place from;
    int to_rank = 0;
    int64_t to_slot = 0;
  };
  struct Product {
    Place rows, to, addend;
  };
  std::vector<Move> moves;
  std::vector<Product> products;
};
Stage stage_of(const PiecesProblem& p, int rank);

// Why some rank of the group has no cuBLASLt; empty where all have it. All ranks ask when one does; the answer is kept.
std::string library_refusal(const std::string& group, const Device& device);
// Why the pieces have no product or memory that fits; empty when they do.
std::string refusal_of(const PiecesProblem& p);

// Of the calling thread's rank, on its GPU. Buffers: a, b, result. All ranks prepare it alike. UserError for a group of another size;
// EnvironmentError where the library has no such product, or the GPUs share no memory.
std::shared_ptr<const external::LibraryCall> prepare_pieces(const PiecesProblem& p, const Device& device);

}  // namespace toroid::exec
