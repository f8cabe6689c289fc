#include "backend/candidates.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "program/ways.h"

namespace toroid::backend {
namespace {

using program::Candidate;
using program::Implementation;

constexpr Implementation kAll[] = {Implementation::Template, Implementation::OneDnn, Implementation::CublasLt, Implementation::CuDnn};

}  // namespace

std::vector<Candidate> listed(const std::string& option, const Refusal& refusal) {
  std::vector<Implementation> order;
  for (auto name : split_list(option))
    for (auto by : kAll)
      if (name == name_of(by)) order.push_back(by);
  const bool alone = order.size() == 1;
  if (std::find(order.begin(), order.end(), Implementation::Template) == order.end()) order.push_back(Implementation::Template);
  std::vector<Candidate> out;
  for (auto by : order) {
    try {
      out.push_back({by, refusal(by)});
    } catch (const EnvironmentError& e) {
      if (alone) throw;
      out.push_back({by, e.what()});
    }
  }
  return out;
}

std::string reason_of(const std::function<std::string()>& refusal) {
  try {
    return refusal();
  } catch (const EnvironmentError& e) {
    return e.what();
  }
}

const Candidate* first_taker(const std::vector<Candidate>& list) {
  auto it = std::find_if(list.begin(), list.end(), [](auto& c) { return c.refusal.empty(); });
  return it == list.end() ? nullptr : &*it;
}

std::string refusal_of(const std::vector<Candidate>& list) {
  if (first_taker(list)) return "";
  std::string out;
  for (auto& c : list) out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", name_of(c.by), c.refusal);
  return out;
}

void decide(program::Node& node, const std::vector<Candidate>& list, std::vector<std::string>& decisions) {
  if (list.empty() || !node.config.empty()) return;
  const Candidate* taker = first_taker(list);
  TOROID_CHECK(taker, "nothing computes {}", program::label(node));
  if (list.size() > 1) {
    std::string line = fmt::format("{}: {}", program::label(node), name_of(taker->by));
    for (auto* c = list.data(); c != taker; ++c) line += fmt::format("; not {}: {}", name_of(c->by), c->refusal);
    decisions.push_back(std::move(line));
  }
  node.by = taker->by;
}

void take_chosen(program::Node& node, Implementation library, const std::function<std::string()>& refusal) {
  const auto by = program::library_of(node.config);
  if (!by) return;
  TOROID_USER_CHECK(*by == library, "{} was chosen to compute {}, where of the libraries {} alone can; tune it again",
                    program::to_string(node.config), program::label(node), name_of(library));
  const std::string why = refusal();
  TOROID_USER_CHECK(why.empty(), "{} was chosen to compute {}, which it does not: {}", program::to_string(node.config),
                    program::label(node), why);
  node.by = *by;
}

CompileOptions of_node(const program::Node& node, const CompileOptions& options) {
  return node.options ? options.with(*node.options) : options;
}

bool is_constant(const program::Program& p, const program::Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

}  // namespace toroid::backend
