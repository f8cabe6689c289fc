#include "codegen/cuda/vectors.h"

#include <algorithm>

#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

using loop::Statement;
using loop::Step;
using loop::StoreMode;

bool stores_along(const CudaPlan& p, const Expr& var) {
  const std::vector<bool> contiguous = contiguous_along(p, var);
  for (size_t k = 0; k < contiguous.size(); ++k)
    if (contiguous[k] && p.body.steps[k].step == Step::Store) return true;
  return false;
}

// Loads and stores that move `n` neighbours along the vector variable at once if vectors begin where those of the others do, which need not
// be at the variable's start: the accesses of most bytes of which that is known. Gives the index of such an access at the start.
std::optional<Expr> unaligned_packs(const CudaPlan& p, int64_t n, std::vector<int>* packs) {
  const Expr& var = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  const sym::Substitution at_zero = [&](const sym::Node& s) {
    return sym::same_symbol(s, *var.node()) ? std::optional<Expr>(0) : std::nullopt;
  };
  const std::vector<bool> contiguous = contiguous_along(p, var);
  std::optional<Expr> best;
  int64_t most = 0;
  for (size_t k = 0; k < contiguous.size(); ++k) {
    if (!contiguous[k] || loop::uses_values(p.body.steps[k].index)) continue;
    const Expr start = sym::substitute(p.body.steps[k].index, at_zero);
    std::vector<int> alike;
    int64_t bytes = 0;
    for (size_t other = 0; other < contiguous.size(); ++other) {
      const Statement& s = p.body.steps[other];
      if (!contiguous[other] || !p.on_vector[other] || (s.step == Step::Store && s.mode != StoreMode::Set)) continue;
      if (s.mask >= 0 && p.on_vector[static_cast<size_t>(s.mask)]) continue;
      if (!sym::known_multiple(sym::substitute(s.index, at_zero) - start, n)) continue;
      alike.push_back(static_cast<int>(other));
      bytes += static_cast<int64_t>(size_of(s.dtype));
    }
    if (bytes > most) best = start, most = bytes, *packs = std::move(alike);
  }
  return best;
}

// Bytes of the narrowest elements that lie side by side along the vector variable.
int64_t narrowest(const CudaPlan& p) {
  int64_t bytes = kAccess;
  const std::vector<bool> contiguous = contiguous_along(p, p.domain.vars[static_cast<size_t>(p.vector_var)].symbol);
  for (size_t k = 0; k < contiguous.size(); ++k)
    if (contiguous[k]) bytes = std::min(bytes, static_cast<int64_t>(size_of(p.body.steps[k].dtype)));
  return bytes;
}

}  // namespace

bool accesses(const loop::Statement& s) { return s.step == Step::Load || s.step == Step::Store; }

std::vector<bool> contiguous_along(const CudaPlan& p, const Expr& var) {
  const std::vector<bool> differs = depends_on_variable(p.domain, p.body, var);
  std::vector<bool> out(p.body.steps.size(), false);
  for (size_t k = 0; k < out.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (!accesses(s)) continue;
    bool same = true;  // what values of steps the index uses
    sym::for_each_symbol(s.index, [&](const Expr& e) {
      if (const int at = loop::step_of_symbol(*e.node()); at >= 0) same = same && !differs[static_cast<size_t>(at)];
    });
    const auto c = same ? sym::linear_coefficient(s.index, var) : std::nullopt;
    out[k] = c && *c == Expr(1);
  }
  return out;
}

int choose_fast(const CudaPlan& p, bool scans) {
  std::vector<std::vector<bool>> differs;
  for (auto& v : p.domain.vars) differs.push_back(depends_on_variable(p.domain, p.body, v.symbol));
  int best = -1;
  int64_t most = 0;
  for (size_t v = 0; v < p.domain.vars.size(); ++v) {
    if (scans && p.domain.vars[v].reduction) continue;
    int64_t bytes = 0;
    const std::vector<bool> contiguous = contiguous_along(p, p.domain.vars[v].symbol);
    for (size_t k = 0; k < p.body.steps.size(); ++k) {
      const bool everywhere = std::all_of(differs.begin(), differs.end(), [&](auto& d) { return d[k]; });
      if (contiguous[k]) bytes += static_cast<int64_t>(size_of(p.body.steps[k].dtype)) * (everywhere ? 16 : 1);
    }
    const bool equal = best >= 0 && bytes == most;
    const bool transposes = equal && bytes > 0 && std::none_of(p.body.steps.begin(), p.body.steps.end(), [&](auto& s) {
                              return s.mask >= 0 && (differs[v][static_cast<size_t>(s.mask)] ||
                                                     differs[static_cast<size_t>(best)][static_cast<size_t>(s.mask)]);
                            });
    if (best < 0 || bytes > most || (equal && (!transposes || stores_along(p, p.domain.vars[v].symbol))))
      best = static_cast<int>(v), most = bytes;
  }
  return best;
}

std::vector<int> packs_of(const CudaPlan& p, int64_t n) {
  std::vector<int> out;
  const Expr& var = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  const sym::Substitution at_zero = [&](const sym::Node& s) {
    return sym::same_symbol(s, *var.node()) ? std::optional<Expr>(0) : std::nullopt;
  };
  const std::vector<bool> contiguous = contiguous_along(p, var);
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (!contiguous[k] || !p.on_vector[k] || (s.step == Step::Store && s.mode != StoreMode::Set)) continue;
    if (s.mask >= 0 && p.on_vector[static_cast<size_t>(s.mask)]) continue;
    if (sym::known_multiple(sym::substitute(s.index, at_zero), n)) out.push_back(static_cast<int>(k));
  }
  return out;
}

void set_vector_var(CudaPlan& p, int var) {
  p.vector_var = var;
  p.on_vector = var < 0 ? std::vector<bool>(p.body.steps.size(), false)
                        : depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(var)].symbol);
}

void choose_vector(CudaPlan& p, int64_t most) {
  p.vector = 1;
  p.packs.clear();
  if (p.vector_var < 0) return;
  for (int64_t n = std::min(kAccess / narrowest(p), most); n > 1; n /= 2) {
    const bool cut = p.shape == CudaPlan::Shape::Flat && p.domain.vars.size() == 1;  // the last vector may be
    if (!cut && !sym::known_multiple(p.extent(p.vector_var), n)) continue;
    std::vector<int> packs = packs_of(p, n);
    if (packs.empty()) continue;
    p.vector = static_cast<int>(n);
    p.packs = std::move(packs);
    return;
  }
}

void choose_unaligned_vector(CudaPlan& p) {
  static constexpr int64_t kLeastRow = 512;
  if (p.vector_var < 0 || p.reduction.size() != 1 || p.extent(p.vector_var).maybe_constant().value_or(kLeastRow) < kLeastRow) return;
  const int64_t n = std::min(kAccess / narrowest(p), kMostVector);
  std::vector<int> packs;
  if (n <= p.vector) return;
  p.unaligned = unaligned_packs(p, n, &packs);
  if (!p.unaligned) return;
  p.vector = static_cast<int>(n);
  p.packs = std::move(packs);
}

void choose_unaligned_rows(CudaPlan& p) {
  static constexpr int64_t kLeastRow = 512, kNarrow = 4;  // elements; bytes
  if (p.domain.vars.size() < 2 || p.extent(p.vector_var).maybe_constant().value_or(0) < kLeastRow) return;
  const int64_t n = std::min(kAccess / narrowest(p), kMostVector);
  if (p.vector * narrowest(p) > kNarrow || n <= p.vector) return;
  std::vector<int> packs;
  p.unaligned = unaligned_packs(p, n, &packs);
  if (!p.unaligned) return;
  p.vector = static_cast<int>(n);
  for (int k : packs_of(p, 1))
    if (p.step(k).step == Step::Load && std::count(packs.begin(), packs.end(), k) == 0) p.around.push_back(k);
  packs.insert(packs.end(), p.around.begin(), p.around.end());
  p.packs = std::move(packs);
}

}  // namespace toroid::codegen
