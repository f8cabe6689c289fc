#include "compile/steps_text.h"

#include <fmt/format.h>

#include "base/json_text.h"

namespace toroid::compiler {
namespace {

// A step that no kernel is made for, by the operation or the problem that it is.
std::string call_name(const program::Node& n) {
  if (auto* call = std::get_if<program::Extern>(&n.problem)) return call->op->name;
  if (auto* c = std::get_if<program::Collective>(&n.problem)) return std::string(distributed::name_of(c->kind));
  return n.origins.empty() ? "" : n.origins.back();
}

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (auto& name : names) out += (out.empty() ? "" : ",") + json_string(name);
  return "[" + out + "]";
}

// block: the blocks around the program, "cond_1 / true".
void add_steps(const Kernels& k, const std::map<const codegen::KernelText*, std::string>& files, const std::string& block,
               std::string& out) {
  for (size_t i = 0; i < k.program.nodes.size(); ++i) {
    const program::Node& n = k.program.nodes[i];
    const auto text = k.texts.find(i);
    const bool is_kernel = text != k.texts.end();
    const std::string name = is_kernel ? text->second.name : call_name(n);
    out += fmt::format("{}\n {{\"name\":{},\"by\":{},\"block\":{},\"origins\":{},\"where\":{},\"file\":{},\"plan\":{}}}",
                       out.empty() ? "" : ",", json_string(name),
                       json_string(is_kernel        ? "kernel"
                                   : n.is_library() ? program::name_of(n.by)
                                                    : "host"),
                       json_string(block), list_of(n.origins), json_string(n.where), json_string(is_kernel ? files.at(&text->second) : ""),
                       json_string(is_kernel ? text->second.plan : ""));
    const auto blocks = k.blocks.find(i);
    if (blocks == k.blocks.end()) continue;
    for (auto& b : blocks->second) add_steps(b.program, files, (block.empty() ? "" : block + " / ") + b.name, out);
  }
}

}  // namespace

std::string steps_json(const Kernels& kernels, const std::map<const codegen::KernelText*, std::string>& files) {
  std::string out;
  add_steps(kernels, files, "", out);
  return "[" + out + "\n]\n";
}

}  // namespace toroid::compiler
