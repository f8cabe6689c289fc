#include "package/write.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/sha256.h"
#include "device/cpu/launch.h"
#include "device/cuda/architecture.h"
#include "exec/plan_file.h"
#include "exec/steps.h"
#include "graph/recipe.h"
#include "package/manifest.h"
#include "package/recipes.h"
#include "package/weights.h"
#include "package/zip_writer.h"

namespace toroid::package {
namespace {

std::string type_text(const TensorType& t) {
  std::string out;
  for (auto& n : t.sizes) out += (out.empty() ? "" : ", ") + sym::to_string(n);
  return fmt::format("{}[{}]", name_of(t.dtype), out);
}

void describe(Entry& e, const exec::Plan& plan, const std::vector<std::string>& outputs) {
  std::map<int, const exec::InputPlan*> users;
  for (auto& in : plan.inputs)
    if (in.user >= 0) users[in.user] = &in;
  for (auto& [place, in] : users) e.inputs.push_back({in->name, type_text(in->type), in->mutated});
  for (auto& out : plan.outputs)
    if (out.mutates < 0) {
      const size_t i = e.outputs.size();
      e.outputs.push_back({outputs.empty() ? fmt::format("output{}", i) : outputs.at(i), out.buffer < 0 ? "none" : type_text(out.type)});
    }
  for (auto& [s, unbacked] : plan.symbols)
    if (!unbacked) e.sizes.push_back({s.node()->name, s.node()->lo, s.node()->hi});
}

bool same(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](auto& x, auto& y) { return x.name == y.name && x.type == y.type && x.written == y.written; });
}

// What has no recipe is part of the program, and must not lie where a weight does.
void check_no_weight(const Compiled& c, const std::string& name, const Tensor& t) {
  for (auto& w : c.weights) {
    const Tensor& weight = w.tensor;
    const std::byte* const begin = weight.raw_data();
    TOROID_CHECK(!graph::recipe_of(weight) || t.raw_data() < begin ||
                     t.raw_data() >= begin + static_cast<size_t>(weight.numel()) * size_of(weight.dtype()),
                 "the constant {} of \"{}\" is made of the weight {}, but nothing says how", name, c.entry, w.names[0]);
  }
}

// The number of a state, whose layout is that of the input.
int state_of(Manifest& m, const std::string& name, const exec::Loadable& l, size_t input) {
  const Layout layout = layout_of(l.store.constants.at(l.plan.inputs.at(input).constant));
  const auto known = std::find_if(m.states.begin(), m.states.end(), [&](auto& s) { return s.name == name; });
  TOROID_CHECK(known == m.states.end() || known->layout == layout, "the entries have the state {} in two layouts", name);
  const auto number = static_cast<int>(known - m.states.begin());
  if (known == m.states.end()) m.states.push_back({name, layout});
  return number;
}

const char* library_of(const exec::LibraryCall& c) { return std::array{"onednn", "cublaslt", "cudnn", "cublaslt"}[c.problem.index()]; }

struct Needs {
  std::set<std::string> libraries, operations, functions;
};

void note_needs(const exec::Plan& plan, Needs& needs) {
  for (auto& step : plan.steps) {
    if (auto* c = std::get_if<exec::LibraryCall>(&step)) needs.libraries.insert(library_of(*c));
    if (auto* h = std::get_if<exec::HostCall>(&step)) {
      needs.operations.insert(h->name);
      if (h->on_gpu) needs.functions.insert(h->name);
    }
    for (auto& block : exec::blocks_of(step)) note_needs(*block.plan, needs);
  }
}

}  // namespace

void write_package(const std::filesystem::path& path, const std::vector<Compiled>& programs, const Making& making) {
  TOROID_USER_CHECK(!programs.empty(), "a package needs a program");
  Manifest m;
  m.plan_version = exec::kPlanVersion, m.kernel_abi = device::cpu::kKernelAbi;
  m.system = "linux", m.machine = "x86-64", m.compiler = making.compiler, m.mode = making.mode;
  m.toroid = making.toroid;
  WeightsWriter weights(making.weights_beside);
  RecipesWriter recipes(weights);
  std::map<std::string, int> made;           // constants by the number of their recipe
  std::map<std::string, std::string> files;  // by name
  for (auto& c : programs) {
    exec::Loadable l = exec::by_content(c.program.plan, c.program.store, c.theirs);
    l.plan.name = c.entry;
    weights.add(l);
    for (auto& w : c.weights) recipes.add(w);
    for (auto& [name, t] : l.store.constants.all()) {
      if (graph::recipe_of(t))
        made[name] = recipes.add(t);
      else
        check_no_weight(c, name, t);
    }
    auto at = std::find_if(m.entries.begin(), m.entries.end(), [&](auto& e) { return e.name == c.entry; });
    const bool fresh = at == m.entries.end();
    if (fresh) at = m.entries.insert(at, Entry{c.entry, {}, {}, {}, {}});
    Entry described{c.entry, {}, {}, {}, {}};
    describe(described, l.plan, c.outputs);
    if (fresh) *at = described;
    TOROID_USER_CHECK(same(at->inputs, described.inputs) && same(at->outputs, described.outputs),
                      "entry \"{}\": the program for {} takes or gives other tensors than the one for {}", c.entry, c.target,
                      at->programs.empty() ? c.target : at->programs[0].target);
    for (auto& other : at->programs) TOROID_USER_CHECK(other.target != c.target, "entry \"{}\" has two programs for {}", c.entry, c.target);
    Program p{c.target,
              l.plan.device.is_cuda() ? "cuda" : "cpu",
              l.plan.code_for,
              fmt::format("plans/{}.{}.plan", c.entry, c.target),
              {},
              {},
              {},
              c.driver,
              c.precision,
              c.tolerance,
              c.tuning,
              {}};
    for (auto& [input, name] : c.states) p.states.push_back({input, state_of(m, name, l, static_cast<size_t>(input))});
    Needs needs;
    note_needs(l.plan, needs);
    p.libraries.assign(needs.libraries.begin(), needs.libraries.end());
    p.operations.assign(needs.operations.begin(), needs.operations.end());
    p.gpu_functions.assign(needs.functions.begin(), needs.functions.end());
    for (auto& [name, k] : l.store.kernels.all()) {
      const char* ending = !l.plan.device.is_cuda() ? "o" : device::cuda::is_ptx(l.plan.code_for) ? "ptx" : "cubin";
      const std::string file = fmt::format("kernels/{}.{}", name, ending);
      files[file] = *k.object;
      p.kernels.push_back(file);
    }
    files[p.plan] = exec::write_plan(l.plan);
    at->programs.push_back(std::move(p));
  }
  if (!recipes.calls().steps.empty()) files[kRecipes] = exec::write_plan(recipes.calls());
  m.constants = weights.constants(), m.weights = recipes.weights(), m.recipes = recipes.recipes();
  for (auto& [name, recipe] : made) m.constants.at(name).recipe = recipe;
  m.files = weights.files();
  m.format = !m.states.empty() ? kFormat : m.files.empty() ? kFormatInOneFile : kFormatBeside;
  const std::string head = weights.head();
  m.weights_head = sha256(head);
  std::vector<ZipPart> parts;
  for (auto& [name, bytes] : files) {
    m.parts.push_back({name, bytes.size(), sha256(bytes)});
    parts.push_back({name, {bytes}});
  }
  ZipPart last{kWeights, {head}};
  Sha256 hash;
  uint64_t size = 0;
  for (auto& b : weights.contents()) last.bytes.push_back(b);
  for (auto& b : last.bytes) hash.add(b), size += b.size();
  m.parts.push_back({kWeights, size, hash.finish()});
  const std::string manifest = to_json(m), sum = fmt::format("{}  {}\n", sha256(manifest), kManifest);
  parts.insert(parts.begin(), {{kManifest, {manifest}}, {kManifestHash, {sum}}});
  parts.push_back(std::move(last));
  weights.write_files(path.parent_path() / kWeightsFolder);
  write_zip(path, parts);
}

}  // namespace toroid::package
