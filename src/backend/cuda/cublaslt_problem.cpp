#include "backend/cuda/cublaslt_problem.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::backend {
namespace {

using external::CublasLtProblem;
using loop::Statement;
using loop::Step;

std::optional<int64_t> number(const Expr& e) { return e.maybe_constant(); }

// A matrix of a batch whose dimensions are one: elements from one of the batch to the next. A reason in `why` where it is none.
std::optional<CublasLtProblem::Matrix> matrix(const std::vector<Expr>& batch, const program::Operand& o, const Expr& rows,
                                              const Expr& columns, std::string& why) {
  const size_t nb = batch.size();
  CublasLtProblem::Matrix x;
  std::vector<int64_t> strides;
  for (auto& s : o.strides) {
    if (!number(s)) return why = "its sizes are symbolic", std::nullopt;
    strides.push_back(*number(s));
  }
  if (!number(o.offset)) return why = "its sizes are symbolic", std::nullopt;
  x.offset = *number(o.offset);
  x.row = strides[nb], x.column = strides[nb + 1];
  const int64_t m = *number(rows), n = *number(columns);
  if (n == 1) x.column = 1;
  if (m == 1 && x.column != 1) x.row = 1;
  if (x.column != 1 && x.row != 1) return why = "no dimension is contiguous", std::nullopt;
  if (x.column == 1 ? m > 1 && x.row < n : x.column < m) return why = "rows overlap", std::nullopt;
  int64_t inner = 0, count = 1;  // of the batch dimensions within
  for (size_t d = nb; d-- > 0;) {
    const int64_t size = *number(batch[d]);
    if (size == 1) continue;
    if (count > 1 && strides[d] != inner * count) return why = "its batch dimensions are not one", std::nullopt;
    if (count == 1) inner = strides[d];
    count *= size;
  }
  x.batch = inner;
  return x;
}

}  // namespace

std::string read_cublaslt(const program::Gemm& g, CublasLtProblem& p) {
  if (g.b2) return "it has two right operands";
  if (!is_float(g.a.dtype) || g.a.dtype != g.b.dtype) return "its operands are not floats of one type";
  if (g.accumulate != (g.a.dtype == DType::F64 ? DType::F64 : DType::F32)) return "its sums are of another type";
  for (auto* e : {&g.m, &g.n, &g.k})
    if (!number(*e)) return "its sizes are symbolic";
  p.batch = 1;
  for (auto& e : g.batch) {
    if (!number(e)) return "its sizes are symbolic";
    p.batch *= *number(e);
  }
  p.dtype = g.a.dtype;
  p.tf32 = g.tf32;
  p.m = *number(g.m), p.n = *number(g.n), p.k = *number(g.k);
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0) return "it is empty";
  std::string why;
  const auto a = matrix(g.batch, g.a, g.m, g.k, why);
  const auto b = a ? matrix(g.batch, g.b, g.k, g.n, why) : std::nullopt;
  if (!b) return why;
  p.a = *a, p.b = *b;
  return "";
}

namespace {

// The sums of a node as an operand without gaps.
program::Operand own_memory(const program::Gemm& g, int buffer, DType t) {
  program::Operand o{buffer, t, 0, {}};
  std::vector<Expr> sizes = g.batch;
  sizes.insert(sizes.end(), {g.m, g.n});
  o.strides.resize(sizes.size());
  Expr step = 1;
  for (size_t d = sizes.size(); d-- > 0; step = step * sizes[d]) o.strides[d] = step;
  return o;
}

// Where a body that does nothing but store the sums, perhaps rounded, puts them; nullptr for other bodies. `step`: the value it stores.
const Statement* plain_store(const loop::Body& body, int& step) {
  const Statement* store = nullptr;
  int sums = -1;
  step = -1;
  for (size_t k = 0; k < body.steps.size(); ++k) {
    const Statement& s = body.steps[k];
    if (s.step == Step::Accumulate) {
      sums = step = static_cast<int>(k);
    } else if (s.step == Step::Scalar && s.op == ScalarOp::Cast && s.args[0] == sums && step == sums && is_float(s.dtype)) {
      step = static_cast<int>(k);
    } else if (s.step == Step::Store && !store && s.mode == loop::StoreMode::Set && s.mask < 0 && s.args[0] == step) {
      store = &s;
    } else {
      return nullptr;
    }
  }
  return store;
}

}  // namespace

std::string cublaslt_refusal(const program::Node& node) {
  external::cublaslt_version();
  if (node.producer) return "rows of its left operand are computed";
  CublasLtProblem p;
  return read_cublaslt(std::get<program::Gemm>(node.problem), p);
}

namespace {

// Of a node that sched::leave_sums has seen. out: the buffer of the sums.
CublasLtProblem problem_of(const program::Node& node, int& out) {
  const auto& g = std::get<program::Gemm>(node.problem);
  int step = -1;
  const Statement* store = plain_store(node.body, step);
  TOROID_CHECK(store, "the epilogue of {} is not one that cuBLASLt computes", program::label(node));
  CublasLtProblem p;
  std::string why = read_cublaslt(g, p);
  TOROID_CHECK(why.empty(), "{}: {}", program::label(node), why);
  p.out = *matrix(g.batch, own_memory(g, store->buffer, store->dtype), g.m, g.n, why), p.out_dtype = store->dtype;
  out = store->buffer;
  return p;
}

// Which of the library's implementations a configuration names.
int number_of(const program::Config& c) {
  if (c.empty()) return 0;
  constexpr int64_t kMost = 64;
  if (c.form != "cublaslt" || c.fields.size() != 1 || c.fields[0].first != "algo" || c.fields[0].second < 0 || c.fields[0].second >= kMost)
    fail<UserError>("{} is no configuration of cuBLASLt; expected cublaslt(algo=i) with i from 0 to {}: tune it again",
                    program::to_string(c), kMost - 1);
  return static_cast<int>(c.fields[0].second);
}

}  // namespace

exec::LibraryCall cublaslt_call(const program::Node& node) {
  const auto& g = std::get<program::Gemm>(node.problem);
  int out = -1;
  const CublasLtProblem p = problem_of(node, out);
  return {"cublaslt_gemm", p, number_of(node.config), {g.a.buffer, g.b.buffer, out}};
}

std::vector<program::Config> cublaslt_configs(const program::Node& node, device::cuda::Gpu& gpu, int most) {
  int out = -1;
  const size_t count = external::prepare_cublaslt(problem_of(node, out), gpu, most).size();
  std::vector<program::Config> configs;
  for (size_t i = 0; i < count; ++i) configs.push_back({"cublaslt", {{"algo", static_cast<int64_t>(i)}}});
  return configs;
}

}  // namespace toroid::backend
