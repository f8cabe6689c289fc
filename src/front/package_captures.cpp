#include "front/package_captures.h"

#include <algorithm>

#include "base/check.h"
#include "front/package_names.h"
#include "graph/pass.h"
#include "tensor/layout.h"

namespace toroid::front {
namespace {

constexpr const char *kCaptured = "captured", *kParameter = "parameter";

bool is_same(const Tensor& a, const Tensor& b) {
  return a.impl() == b.impl() ||
         (a.numel() > 0 && a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides());
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto end = [](const Tensor& t) { return t.raw_data() + toroid::extent_of(t) * static_cast<int64_t>(size_of(t.dtype())); };
  return a.numel() > 0 && b.numel() > 0 && a.raw_data() < end(b) && b.raw_data() < end(a);
}

bool is_captured(const graph::Input& in) {
  return in.data.defined() && (in.kind == graph::InputKind::Parameter || in.kind == graph::InputKind::Buffer);
}

// "captured", "captured_12": what a tensor without a name is called.
bool is_number(std::string_view name) {
  for (const std::string_view before : {kCaptured, kParameter}) {
    if (!name.starts_with(before)) continue;
    const std::string_view rest = name.substr(before.size());
    if (rest.empty() || (rest.size() > 1 && rest[0] == '_' && rest.find_first_not_of("0123456789", 1) == rest.npos)) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<graph::Graph> functional(std::unique_ptr<graph::Graph> g) {
  const graph::PassRow row = graph::find_pass("functionalize");
  return graph::run_passes(std::move(g), std::span(&row, 1));
}

PackageCaptures::PackageCaptures(const std::map<std::string, Tensor>& names) : given_(names) {
  std::vector<std::string> all;
  for (auto& [name, t] : names) {
    TOROID_USER_CHECK(t.defined(), "PackageOptions::weight_names: \"{}\" is an undefined tensor", name);
    TOROID_USER_CHECK(!is_number(name), "PackageOptions::weight_names: \"{}\" is what a tensor without a name is called", name);
    all.push_back(name);
  }
  check_names(all, "weight");
}

std::vector<std::string> PackageCaptures::names_of(const Tensor& t) const {
  std::vector<std::string> out;
  for (auto& [name, named] : given_)
    if (is_same(named, t)) out.push_back(name);
  return out;
}

void PackageCaptures::add(const std::string& entry, graph::Graph& g, bool several) {
  std::vector<Tensor> written;
  if (several) {
    const auto f = functional(clone(g));
    for (auto& o : f->outputs)
      if (o.mutates >= 0) written.push_back(f->inputs[static_cast<size_t>(o.mutates)].data);
  }
  for (auto& in : g.inputs) {
    if (!is_captured(in)) continue;
    const auto same = [&](auto& c) { return is_same(c.tensor, in.data); };
    const auto known = std::find_if(captured_.begin(), captured_.end(), same);
    const auto names = names_of(in.data);
    if (!names.empty()) {
      in.name = names[0];
    } else if (known != captured_.end()) {
      in.name = known->name;
    } else {
      const char* const before = in.kind == graph::InputKind::Parameter ? kParameter : kCaptured;
      const int number = numbers_[before]++;
      in.name = number == 0 ? before : fmt::format("{}_{}", before, number);
    }
    const bool writes = std::any_of(written.begin(), written.end(), [&](auto& t) { return t.defined() && is_same(t, in.data); });
    captured_.push_back({entry, in.name, in.data, writes});
  }
}

void PackageCaptures::settle() {
  const auto is_used = [&](auto& g) {
    return std::any_of(captured_.begin(), captured_.end(), [&](auto& c) { return is_same(c.tensor, g.second); });
  };
  TOROID_USER_CHECK(given_.empty() || std::any_of(given_.begin(), given_.end(), is_used),
                    "PackageOptions::weight_names: none of its {} tensors (\"{}\" ...) is one that a function of the package captures; it "
                    "names the very tensors that the functions read, such as those of Module::state()",
                    given_.size(), given_.begin()->first);
  for (auto& a : captured_)
    for (auto& b : captured_) {
      if (!a.written || a.entry == b.entry || !overlap(a.tensor, b.tensor)) continue;
      TOROID_USER_CHECK(is_same(a.tensor, b.tensor),
                        "the entry \"{}\" writes to the tensor \"{}\", of whose memory the entry \"{}\" has a part as \"{}\"; expected one "
                        "tensor in both, whose views the functions take",
                        a.entry, a.name, b.entry, b.name);
      a.state = b.state = true;
    }
}

std::vector<package::NamedWeight> PackageCaptures::unused() const {
  std::vector<package::NamedWeight> out;
  for (auto& [name, t] : given_) {
    if (std::any_of(captured_.begin(), captured_.end(), [&](auto& c) { return is_same(c.tensor, t); })) continue;
    const auto known = std::find_if(out.begin(), out.end(), [&](auto& w) { return is_same(w.tensor, t); });
    if (known != out.end())
      known->names.push_back(name);
    else
      out.push_back({{name}, t, false});
  }
  return out;
}

const PackageCaptures::Captured* PackageCaptures::find(const std::string& entry, const std::string& name) const {
  const auto at = std::find_if(captured_.begin(), captured_.end(), [&](auto& c) { return c.entry == entry && c.name == name; });
  return at == captured_.end() ? nullptr : &*at;
}

void PackageCaptures::open_states(const std::string& entry, graph::Graph& g) const {
  for (auto& in : g.inputs) {
    const Captured* c = is_captured(in) ? find(entry, in.name) : nullptr;
    if (c && c->state && !c->written) in.kind = graph::InputKind::User, in.data = {};
  }
}

std::map<int, std::string> PackageCaptures::bind_states(const std::string& entry, size_t arguments, exec::Loadable& program) const {
  std::map<int, std::string> out;
  for (size_t i = 0; i < program.plan.inputs.size(); ++i) {
    exec::InputPlan& in = program.plan.inputs[i];
    const bool opened = in.user >= static_cast<int>(arguments);
    const Captured* c = opened || (in.user < 0 && in.mutated) ? find(entry, in.name) : nullptr;
    if (!c || !c->state) continue;
    if (opened) in.user = -1, in.constant = program.store.constants.add(c->tensor);
    out[static_cast<int>(i)] = c->name;
  }
  for (auto& [constant, t] : program.store.constants.all())
    for (auto& c : captured_) {
      const auto is_bound = [&](auto& o) { return program.plan.inputs[static_cast<size_t>(o.first)].constant == constant; };
      TOROID_USER_CHECK(
          !c.state || c.entry != entry || !overlap(t, c.tensor) || std::any_of(out.begin(), out.end(), is_bound),
          "the entry \"{}\" has the tensor \"{}\", to which other entries write, as a constant; expected it outside of control "
          "flow",
          entry, c.name);
    }
  return out;
}

}  // namespace toroid::front
