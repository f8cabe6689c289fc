// Passes over a reduction.
#pragma once

#include <algorithm>
#include <vector>

#include "loop/node.h"

namespace toroid::codegen {

// What each pass folds, stores of values that vary over the reduction, and checks of such that nobody reads: they tell what they find.
// pass: of each step, from 1 on. A buffer that is read, too, is written when all has been read.
template <class Pass>
void assign_work(std::vector<Pass>& passes, const loop::Body& body, const std::vector<int>& pass, const std::vector<bool>& varies) {
  passes.assign(pass.empty() ? 0 : static_cast<size_t>(*std::max_element(pass.begin(), pass.end())), {});
  std::vector<int> stores, read;
  std::vector<bool> used(body.steps.size(), false);
  for (auto& s : body.steps) loop::for_each_use(s, [&](size_t u) { used[u] = true; });
  size_t last = 0;
  for (size_t k = 0; k < body.steps.size(); ++k) {
    const loop::Statement& s = body.steps[k];
    if (s.step == loop::Step::Load) read.push_back(s.buffer);
    const auto q = static_cast<size_t>(pass[k] - 1);
    if (s.step == loop::Step::Reduce)
      passes[q].reduces.push_back(static_cast<int>(k));
    else if (s.step == loop::Step::Store && varies[k])
      stores.push_back(static_cast<int>(k));
    else if (s.step == loop::Step::Check && varies[k] && !used[k])
      passes[q].checks.push_back(static_cast<int>(k));
    else
      continue;
    last = std::max(last, q);
  }
  for (const int k : stores) {
    const auto at = static_cast<size_t>(k);
    const bool in_place = std::count(read.begin(), read.end(), body.steps[at].buffer) > 0;
    passes[in_place ? last : static_cast<size_t>(pass[at] - 1)].stores.push_back(k);
  }
}

}  // namespace toroid::codegen
