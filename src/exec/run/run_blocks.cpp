// Steps that run blocks of other steps: branches and loops. Each block is an executable of its own; what it makes is handed on, and
// copied only where two results would share memory.
#include <algorithm>

#include "exec/run/executable.h"
#include "exec/run/run.h"
#include "exec/steps.h"
#include "tensor/layout.h"

namespace toroid::exec {
namespace {

Tensor slice_of(const Tensor& t, int64_t index) {
  return seen_as(t, std::span(t.sizes()).subspan(1), std::span(t.strides()).subspan(1), index * t.strides()[0]);
}

bool share_storage(const Tensor& a, const Tensor& b) { return a.defined() && b.defined() && a.impl()->storage == b.impl()->storage; }

bool any_shares(std::span<const Tensor> list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](auto& x) { return share_storage(x, t); });
}

}  // namespace

void Executable::make_blocks() {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    auto& list = blocks_.emplace_back();
    const auto blocks = blocks_of(std::as_const(plan_.steps[s]));
    for (size_t i = 0; i < blocks.size(); ++i)
      list.push_back(std::make_unique<Executable>(*blocks[i].plan, loaded_.steps[s].blocks[i], true));
  }
}

// `this` is the executable of the block. Sizes of the program around it that the block uses are known beforehand.
std::vector<Tensor> Executable::run_block(const Block& block, std::span<const Tensor> operands, const Symbols& around,
                                          std::span<const Tensor> into) {
  Symbols symbols;
  for (auto& [e, unbacked] : plan_.symbols)
    for (auto& known : around)
      if (!unbacked && known.first == e.node()->name) symbols.push_back(known);
  std::vector<Tensor> places(into.size());
  for (size_t i = 0; i < into.size(); ++i)
    if (block.results[i] >= 0) places[static_cast<size_t>(block.results[i])] = into[i];
  auto made = run(operands, std::move(symbols), places);
  std::vector<Tensor> out;
  for (int r : block.results) out.push_back(r >= 0 ? made.at(static_cast<size_t>(r)) : operands[static_cast<size_t>(~r)]);
  return out;
}

void Executable::run_blocks(size_t step, Run& run) {
  if (blocks_[step].empty()) return;
  const auto* loop = std::get_if<Loop>(&plan_.steps[step]);
  auto results = loop ? run_loop(*loop, step, run) : run_branch(std::get<Branch>(plan_.steps[step]), step, run);
  const auto& views = block_results(plan_.steps[step]);
  for (size_t r = 0; r < views.size(); ++r) run.memory.hold(static_cast<size_t>(views[r].buffer), std::move(results.at(r)));
}

std::vector<Tensor> Executable::run_branch(const Branch& branch, size_t step, const Run& run) {
  const Symbols& symbols = run.bound.symbols;
  auto holds = [&](const sym::Relation& r) { return sym::holds(r, [&](const sym::Node& s) { return value_of(symbols, s.name); }); };
  const auto& conditions = branch.conditions;
  const size_t chosen = conditions.empty()
                            ? (tensor_at(branch.predicate, run).item() != 0 ? 0 : 1)
                            : static_cast<size_t>(std::find_if(conditions.begin(), conditions.end(), holds) - conditions.begin());
  const Block& block = branch.blocks[chosen];
  std::vector<Tensor> operands;
  for (auto& v : branch.operands) operands.push_back(tensor_at(v, run));
  auto results = blocks_[step][chosen]->run_block(block, operands, symbols, {});
  for (size_t i = 0; i < results.size(); ++i)
    if (block.results[i] < 0) results[i] = copy_of(results[i]);
  return results;
}

std::vector<Tensor> Executable::run_loop(const Loop& loop, size_t step, const Run& run) {
  const Symbols& symbols = run.bound.symbols;
  auto tensors = [&](const std::vector<HostCall::View>& views) {
    std::vector<Tensor> out;
    for (auto& v : views) out.push_back(tensor_at(v, run));
    return out;
  };
  auto carried = tensors(loop.carried);
  const auto slices = tensors(loop.slices), unchanging = tensors(loop.unchanging);
  const size_t count = carried.size();
  auto with_unchanging = [&](std::vector<Tensor> list) {
    list.insert(list.end(), unchanging.begin(), unchanging.end());
    return list;
  };
  std::vector<Tensor> answer(1);
  auto goes_on = [&](int64_t i) {
    if (loop.blocks.size() == 1) return i < slices.at(0).sizes()[0];
    answer = blocks_[step][1]->run_block(loop.blocks[1], with_unchanging(carried), symbols, answer);
    return answer[0].item() != 0;
  };
  std::vector<Tensor> stacked;
  for (size_t k = count; k < loop.results.size(); ++k) {
    const auto& whole = loop.results[k];
    stacked.push_back(Tensor::empty(evaluate(whole.sizes, symbols), whole.dtype, plan_.device));
  }
  // The loop owns carried tensors that a block made. Those of the last step but one are the memory of the next: two sets take turns.
  std::vector<Tensor> spare(count);
  std::vector<bool> own(count, false);
  for (int64_t i = 0; goes_on(i); ++i) {
    std::vector<Tensor> operands = carried, into = spare;
    for (auto& t : slices) operands.push_back(slice_of(t, i));
    for (auto& t : stacked) into.push_back(slice_of(t, i));
    auto next = blocks_[step][0]->run_block(loop.blocks[0], with_unchanging(std::move(operands)), symbols, into);
    for (size_t k = count; k < next.size(); ++k)
      if (next[k].raw_data() != into[k].raw_data()) copy_elements(next[k], into[k]);
    next.resize(count);
    std::vector<bool> made(count);
    std::vector<Tensor> free;
    for (size_t k = 0; k < count; ++k) {
      int from = loop.blocks[0].results[k];
      made[k] = from >= 0 || (~from < static_cast<int>(count) && own[static_cast<size_t>(~from)]);
      bool reusable = own[k] && !any_shares(next, carried[k]) && !any_shares(free, carried[k]);
      free.push_back(reusable ? carried[k] : Tensor());
    }
    own = std::move(made);
    spare = std::move(free);
    carried = std::move(next);
  }
  std::vector<Tensor> out;
  for (size_t k = 0; k < count; ++k) out.push_back(own[k] && !any_shares(out, carried[k]) ? carried[k] : copy_of(carried[k]));
  out.insert(out.end(), stacked.begin(), stacked.end());
  return out;
}

}  // namespace toroid::exec
