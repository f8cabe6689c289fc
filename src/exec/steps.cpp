#include "exec/steps.h"

#include "base/check.h"
#include "ops/table.h"

namespace toroid::exec {

const std::string& name_of(const StepPlan& step) {
  return std::visit([](auto& s) -> const std::string& { return s.name; }, step);
}

const std::string& where_of(const StepPlan& step) {
  return std::visit([](auto& s) -> const std::string& { return s.where; }, step);
}

std::span<const Block> blocks_of(const StepPlan& step) {
  if (auto* b = std::get_if<Branch>(&step)) return b->blocks;
  if (auto* l = std::get_if<Loop>(&step)) return l->blocks;
  return {};
}

std::span<Block> blocks_of(StepPlan& step) {
  const auto blocks = blocks_of(std::as_const(step));
  return {const_cast<Block*>(blocks.data()), blocks.size()};
}

const ops::Op& operation_named(const std::string& name) {
  const ops::Op* op = ops::table().find(name);
  constexpr std::string_view kFunctional = ".functional";  // of what writes to arguments
  TOROID_USER_CHECK(
      op,
      "unknown operation \"{}\"; one of your own (custom_op, opaque_op) is known by its name alone: register it in this process "
      "before its programs are read",
      name.ends_with(kFunctional) ? name.substr(0, name.size() - kFunctional.size()) : name);
  return *op;
}

std::vector<HostCall::View> block_operands(const StepPlan& step) {
  std::vector<HostCall::View> out;
  auto add = [&](const std::vector<HostCall::View>& views) { out.insert(out.end(), views.begin(), views.end()); };
  if (auto* b = std::get_if<Branch>(&step)) {
    if (b->conditions.empty()) out.push_back(b->predicate);
    add(b->operands);
  } else if (auto* l = std::get_if<Loop>(&step)) {
    add(l->carried);
    add(l->slices);
    add(l->unchanging);
  }
  return out;
}

const std::vector<HostCall::View>& block_results(const StepPlan& step) {
  if (auto* b = std::get_if<Branch>(&step)) return b->results;
  return std::get<Loop>(step).results;
}

}  // namespace toroid::exec
