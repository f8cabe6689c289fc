#include "import/treespec.h"

#include "base/check.h"
#include "import/json.h"

namespace toroid::import {
namespace {

constexpr size_t kMaxNameBytes = size_t{64} << 20;

// Children of a node are named by its key list, when it has one that fits, else by index.
std::vector<std::string> child_keys(const Json& node, size_t count) {
  std::vector<std::string> out;
  const auto context = node.find("context");
  if (context && context->is_string() && context->as_str().starts_with("[")) {
    try {
      const auto doc = JsonDocument::parse(context->as_str(), "context");
      const Json keys = doc.root();
      for (size_t i = 0; i < keys.size() && keys.size() == count; ++i)
        out.push_back(keys[i].is_string() ? std::string(keys[i].as_str()) : std::to_string(keys[i].as_int()));
    } catch (const UserError&) {
      out.clear();  // the context of a registered class may be anything
    }
  }
  if (out.size() != count) {
    out.clear();
    for (size_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
  }
  return out;
}

void walk(const Json& node, const std::string& prefix, std::vector<std::string>& out, size_t& bytes) {
  const Json children = node.at("children_spec");
  bytes += prefix.size() + 64;
  if (bytes > kMaxNameBytes) node.refuse("the names of the leaves are too long");
  if (node.at("type").is_null()) {
    if (children.size() != 0) node.refuse("a leaf with children");
    out.push_back(prefix);
    return;
  }
  const auto keys = child_keys(node, children.size());
  for (size_t i = 0; i < children.size(); ++i) walk(children[i], prefix.empty() ? keys[i] : prefix + "." + keys[i], out, bytes);
}

JsonDocument parse(std::string_view spec, std::string_view source, std::string_view what) {
  return JsonDocument::parse(spec, fmt::format("{}: {}", source, what));
}

}  // namespace

std::vector<std::string> treespec_leaf_names(std::string_view spec, std::string_view source) {
  const auto doc = parse(spec, source, "out_spec");
  std::vector<std::string> out;
  size_t bytes = 0;
  walk(doc.root()[1], "", out, bytes);
  return out;
}

std::vector<std::string> input_leaf_names(std::string_view in_spec, const std::vector<std::string>& argument_names,
                                          std::string_view source) {
  const auto doc = parse(in_spec, source, "in_spec");
  const Json root = doc.root()[1], halves = root.at("children_spec");
  if (halves.size() != 2) root.refuse("expected a pair of args and kwargs");
  std::vector<std::string> out;
  size_t bytes = 0;
  const Json args = halves[0].at("children_spec");
  for (size_t i = 0; i < args.size(); ++i) walk(args[i], i < argument_names.size() ? argument_names[i] : std::to_string(i), out, bytes);
  walk(halves[1], "", out, bytes);
  return out;
}

}  // namespace toroid::import
