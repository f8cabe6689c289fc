#include "sched/in_place.h"

#include <algorithm>

#include "base/mutants.h"
#include "program/users_calls.h"

namespace toroid::sched {
namespace {

using loop::Statement;
using loop::Step;
using program::Node;

bool is_among(const std::vector<int>& list, int x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// Whether steps whose value differs between the points of a reduction follow from step `k`.
bool reaches_varying(const loop::Nest& nest, size_t k) {
  const std::vector<bool> varies = loop::varies_over_reduction(nest.domain, nest.body);
  std::vector<bool> follows(nest.body.steps.size(), false);
  follows[k] = true;
  for (size_t i = k; i < follows.size(); ++i) {
    loop::for_each_use(nest.body.steps[i], [&](size_t use) { follows[i] = follows[i] || follows[use]; });
    if (follows[i] && varies[i]) return true;
  }
  return false;
}

// Points of a reduction share what does not vary over it: only one of the threads that compute it may need the old value then, the one
// that stores the new one. A store that varies is of one point, which loads the element in this pass and in those before, each of which
// ends before the next one begins.
bool keeps_to_its_element(const loop::Nest& nest, int old, int result) {
  const auto& steps = nest.body.steps;
  std::vector<size_t> loads, stores;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].step == Step::Load && steps[k].buffer == old) loads.push_back(k);
    if (steps[k].step == Step::Store && steps[k].buffer == result) stores.push_back(k);
  }
  if (loads.empty()) return true;
  if (stores.size() != 1 || loads.back() > stores[0]) return false;
  const Statement& store = steps[stores[0]];
  if (store.mode != loop::StoreMode::Set || loop::uses_values(store.index)) return false;
  if (mutant(Mutant::OverAnyElement)) return true;
  const bool varies = loop::has_reduction(nest.domain) && loop::varies_over_reduction(nest.domain, nest.body)[stores[0]];
  return std::all_of(loads.begin(), loads.end(), [&](size_t k) {
    return steps[k].index == store.index && (varies || !loop::has_reduction(nest.domain) || !reaches_varying(nest, k));
  });
}

// What the problem of a product reads, without its epilogue.
bool multiplies(const Node& n, int buffer) {
  Node bare = n;
  bare.body = {};
  return is_among(program::reads(bare), buffer);
}

}  // namespace

bool may_write_over(const Node& n, int old, int result) {
  if (std::holds_alternative<program::Gemm>(n.problem) && !n.is_library())
    return !n.producer && !multiplies(n, old) && keeps_to_its_element({n.domain, n.body}, old, result);
  if (auto* call = std::get_if<program::Extern>(&n.problem)) return program::writes_over(*call, old, result);
  if (!n.is_loop()) return false;
  return keeps_to_its_element({n.domain, n.body}, old, result) && std::all_of(n.beside.begin(), n.beside.end(), [&](auto& nest) {
           // Nests run side by side: none may read what another one writes.
           return !is_among(loop::buffers_read(nest.body), old) && !is_among(loop::buffers_written(nest.body), result);
         });
}

}  // namespace toroid::sched
