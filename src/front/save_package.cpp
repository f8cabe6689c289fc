#include "toroid/save_package.h"

#include "base/check.h"
#include "base/text.h"
#include "front/compile_model.h"
#include "front/settings.h"
#include "import/load_model.h"
#include "jit/jit.h"
#include "package/write.h"
#include "trace/tracer.h"

namespace toroid {
namespace {

// The option `isa` of each target.
constexpr std::pair<std::string_view, std::string_view> kTargets[] = {
    {"native", "auto"}, {"x86-64", "scalar"}, {"x86-64-v3", "avx2"}, {"x86-64-v4", "avx512"}};

std::string isa_of(const std::string& target) {
  std::vector<std::string_view> known;
  for (auto& [name, isa] : kTargets) {
    if (name == target) return std::string(isa);
    known.push_back(name);
  }
  fail<UserError>("unknown target \"{}\"; there are native, x86-64, x86-64-v3 and x86-64-v4{}", target, did_you_mean(target, known));
}

class Packer {
 public:
  explicit Packer(const PackageOptions& options) : options_(options) {
    TOROID_USER_CHECK(!options.targets.empty(), "PackageOptions::targets is empty; expected one target at least");
    for (auto& target : options.targets) {
      ModelOptions& o = targets_.emplace_back(options.model);
      const std::string isa = isa_of(target);
      TOROID_USER_CHECK(!o.device.is_cuda() || target == "native", "the target \"{}\" is a processor, the device is a GPU", target);
      if (target != "native") o.options["isa"] = isa;
      revision_ = revision_.empty() ? jit::compiler_revision(isa) : revision_;
    }
  }

  // graph: makes it anew at each call.
  void add(const std::string& entry, const std::function<std::unique_ptr<graph::Graph>()>& graph) {
    for (size_t i = 0; i < targets_.size(); ++i)
      programs_.push_back({entry, options_.targets[i], compiler::loadable(graph(), front::setup_of(targets_[i]))});
  }

  void write(const std::string& path) { package::write_package(path, programs_, revision_, std::string(name_of(options_.model.mode))); }

 private:
  const PackageOptions& options_;
  std::vector<ModelOptions> targets_;
  std::vector<package::Compiled> programs_;
  std::string revision_;
};

std::unique_ptr<graph::Graph> graph_of(std::span<const Tensor> examples,
                                       const std::function<std::vector<Tensor>(std::span<const Tensor>)>& fn) {
  trace::Tracer tracer("main", nullptr);
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < examples.size(); ++i) {
      TOROID_USER_CHECK(examples[i].defined(), "example {} is an undefined tensor", i);
      const auto marks = front::marks_of(examples[i]);
      std::vector<trace::SizePolicy> policy(examples[i].sizes().size());
      for (size_t d = 0; d < std::min(policy.size(), marks.size()); ++d)
        if (marks[d].kind == front::Mark::kDynamic) policy[d] = {true, true, marks[d].min, marks[d].max};
      stand_ins.push_back(tracer.argument(examples[i], fmt::format("input {}", i), policy));
    }
    trace::Tracer::Scope scope(&tracer);
    results = fn(stand_ins);
  }
  trace::Segment s = tracer.finish(std::move(results));
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
  size_t user = 0;
  for (auto& in : s.graph->inputs) {
    if (in.kind != graph::InputKind::User) continue;
    if (user >= s.arguments) in.kind = graph::InputKind::Buffer, in.data = s.inputs[user];
    ++user;
  }
  return std::move(s.graph);
}

}  // namespace

void save_package(std::span<const PackageEntry> entries, const std::string& path, const PackageOptions& options) {
  Packer packer(options);
  for (auto& e : entries) packer.add(e.name, [&] { return import::load_model(e.model); });
  packer.write(path);
}

void detail::save_package(std::span<const Tensor> examples, const std::function<std::vector<Tensor>(std::span<const Tensor>)>& fn,
                          const std::string& path, const PackageOptions& options) {
  Packer packer(options);
  packer.add("main", [&] { return graph_of(examples, fn); });
  packer.write(path);
}

}  // namespace toroid
