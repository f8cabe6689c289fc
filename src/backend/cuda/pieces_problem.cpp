#include "backend/cuda/pieces_problem.h"

#include "backend/cuda/cublaslt_problem.h"
#include "base/check.h"
#include "program/points.h"

namespace toroid::backend {
namespace {

using distributed::Kind;
using exec::PiecesProblem;
using program::Meeting;

// Below, what the ranks lose by meeting, and by products of fewer tiles, is more than they gain. Measured on two H100s that NVLink joins.
constexpr int64_t kLeastBytes = int64_t{4} << 20;   // of a piece that moves
constexpr int64_t kLeastFlops = int64_t{12} << 30;  // of the product of a piece

// Without the stage; a reason where there is no such problem. out: the dtype of the result.
std::string read(const Meeting& m, DType out, PiecesProblem& p) {
  p.kind = m.kind, p.group = m.group, p.ranks = m.ranks;
  if (std::string why = read_cublaslt(*m.product, p.product); !why.empty()) return why;
  if (m.kind == Kind::ReduceScatter) {
    const int64_t pieces = m.ranks * exec::pieces_of_rank(m.kind);
    if (p.product.m % pieces != 0) return fmt::format("its {} rows are no {} pieces", p.product.m, pieces);
    p.product.m /= pieces;
  }
  p.product.out_dtype = out;
  p.product.out = {.row = p.product.n};
  return exec::refusal_of(p);
}

}  // namespace

std::string pieces_refusal(const program::Node& node, const Device& device, const CompileOptions& options) {
  const auto& m = std::get<Meeting>(node.problem);
  if (m.ranks > 2 && options.get(options::kCollectiveOrder) != "any")
    return "more than two ranks add pieces in another order than theirs, and round in between: see the option collective_order";
  PiecesProblem p;
  if (std::string why = read(m, m.input.dtype, p); !why.empty()) return why;
  const auto& g = p.product;
  const int64_t moves = g.m * (m.kind == Kind::AllGather ? g.k : g.n) * static_cast<int64_t>(size_of(g.dtype));
  if (moves < kLeastBytes || 2 * g.m * g.n * g.k < kLeastFlops) return "its pieces are too small";
  return exec::library_refusal(m.group, device);
}

std::vector<exec::LibraryCall> pieces_calls(const program::Node& node) {
  const auto& m = std::get<Meeting>(node.problem);
  const int out = program::plain_result(node);
  TOROID_CHECK(out >= 0, "{} does more than to store its sums", program::label(node));
  PiecesProblem p;
  const std::string why = read(m, node.body.steps.back().dtype, p);
  TOROID_CHECK(why.empty(), "{}: {}", program::label(node), why);
  std::vector<exec::LibraryCall> calls;
  for (p.stage = 0; p.stage < exec::stages_of(p); ++p.stage)
    calls.push_back(
        {fmt::format("{}_in_pieces_{}", distributed::name_of(m.kind), p.stage), p, 0, {m.product->a.buffer, m.product->b.buffer, out}});
  return calls;
}

}  // namespace toroid::backend
