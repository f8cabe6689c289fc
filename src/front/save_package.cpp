#include "front/save_package.h"

#include <fmt/ranges.h>

#include "backend/backend.h"
#include "base/check.h"
#include "base/files.h"
#include "base/option_table.h"
#include "base/sha256.h"
#include "base/std_errors.h"
#include "base/text.h"
#include "compile/source_revision.h"
#include "device/cpu/isa.h"
#include "device/cuda/architecture.h"
#include "exec/steps.h"
#include "front/compile_model.h"
#include "front/function_graph.h"
#include "front/package_captures.h"
#include "front/package_names.h"
#include "front/precision.h"
#include "front/settings.h"
#include "front/weight_names.h"
#include "graph/recipe.h"
#include "import/load_model.h"
#include "jit/jit.h"
#include "jit/nvrtc.h"
#include "package/write.h"
#include "tensor/layout.h"
#include "toroid/version.h"
#include "tune/memory/lock_file.h"

namespace toroid {
namespace {

constexpr const char* kNative = "native";
// The option `isa` of each processor.
constexpr std::pair<std::string_view, std::string_view> kProcessors[] = {
    {"x86-64", "scalar"}, {"x86-64-v3", "avx2"}, {"x86-64-v4", "avx512"}};

// A machine that programs are made for.
struct Machine {
  ModelOptions options;
  std::optional<device::cuda::GpuInfo> absent = {};  // where it need not be there: the GPU, of a processor nothing
  std::string compiler = {};                         // of its kernels
  int driver = 0;                                    // the least version of a GPU's driver that takes them
};

[[noreturn]] void refuse(const std::string& target) {
  std::vector<std::string_view> known = {kNative};
  for (auto& [name, isa] : kProcessors) known.push_back(name);
  for (std::string_view code : device::cuda::known_gpu_codes()) known.push_back(code);
  fail<UserError>("unknown target \"{}\"; there are {}{}", target, fmt::join(known, ", "), did_you_mean(target, known));
}

// For a machine that need not be there.
void check_that_nothing_is_timed(const std::string& target, const char* machine, const CompileOptions& options) {
  TOROID_USER_CHECK(!options.get(options::kTuneLock).empty() || options.get(options::kDeterministic) || !tunes(options.mode()),
                    "mode {} times kernels on the {}, and one for the target {} need not be there; expected another mode, a lock file of "
                    "tuning (option tune_lock, toroid compile --lock), or the target native",
                    name_of(options.mode()), machine, target);
}

// The GPU of an architecture that the lock file decides for, else a typical one.
device::cuda::GpuInfo gpu_for(const std::string& target, const CompileOptions& options) {
  check_that_nothing_is_timed(target, "GPU", options);
  const std::string path = options.get(options::kTuneLock);
  std::vector<device::cuda::GpuInfo> locked;
  if (!path.empty())
    for (auto& key : tune::LockFile::read(path).devices())
      if (auto gpu = device::cuda::gpu_of_tuning_key(key); gpu && gpu->architecture == target) locked.push_back(*gpu);
  TOROID_USER_CHECK(locked.size() < 2, "{} decides for {} and for {}, which are both {}; expected decisions for one GPU", path,
                    locked[0].name, locked[1].name, target);
  return locked.empty() ? device::cuda::typical_gpu(target) : locked[0];
}

// By NVIDIA's rules of compatibility: machine code runs with all drivers of its major version, PTX with those that are not older.
int oldest_driver(const std::string& code_for) {
  const jit::NvrtcInfo& nvrtc = jit::nvrtc_info();
  return nvrtc.major * 1000 + (device::cuda::is_ptx(code_for) ? nvrtc.minor * 10 : 0);
}

Machine machine_of(const std::string& target, const ModelOptions& options) {
  Machine out{options};
  std::string code = "auto";
  if (device::cuda::is_gpu_code(target)) {
    const auto known = device::cuda::known_gpu_codes();
    if (std::find(known.begin(), known.end(), target) == known.end()) refuse(target);
    if (!out.options.device.is_cuda()) out.options.device = Device::cuda();
    out.absent = gpu_for(target, front::setup_of(options).options);
    code = target;
  } else if (target != kNative) {
    const auto row = std::find_if(std::begin(kProcessors), std::end(kProcessors), [&](auto& p) { return p.first == target; });
    if (row == std::end(kProcessors)) refuse(target);
    out.options.device = Device::cpu(), out.options.options["isa"] = code = row->second;
    if (device::isa_from_name(code) > device::host().isa) {
      check_that_nothing_is_timed(target, "processor", front::setup_of(options).options);
      out.absent.emplace();
    }
  } else if (options.device.is_cuda()) {
    code = device::cuda::gpu(options.device.index).info().architecture;
  }
  out.compiler = jit::compiler_revision(code);
  if (out.options.device.is_cuda()) out.driver = oldest_driver(code);
  return out;
}

bool is_dense(const Tensor& t) { return toroid::extent_of(t) == t.numel(); }

// Whether all calls are alike, so that the first one can be recorded.
bool has_fixed_sizes(const graph::Graph& g) {
  return std::all_of(g.inputs.begin(), g.inputs.end(), [](auto& in) {
    const auto& sizes = in.value->type.sizes;
    return std::all_of(sizes.begin(), sizes.end(), [](auto& n) { return n.is_const(); });
  });
}

// The graph's parameters and buffers, each with its names. Those that others can take the place of have recipes from now on: what a program
// writes to is a session's own, and of integers programs know the values.
std::vector<package::NamedWeight> name_weights(graph::Graph& g, const front::PackageCaptures& captures,
                                               const front::WeightNames::Names& in_package) {
  std::vector<package::NamedWeight> out;
  std::vector<std::vector<graph::Input*>> users;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    graph::Input& in = g.inputs[i];
    if (!in.data.defined() || (in.kind != graph::InputKind::Parameter && in.kind != graph::InputKind::Buffer)) continue;
    size_t same = 0;
    while (same < out.size() && !(out[same].tensor.raw_data() == in.data.raw_data() && users[same][0]->value->type == in.value->type))
      ++same;
    if (same == out.size()) out.push_back({captures.names_of(in.data), in.data}), users.emplace_back();
    auto& names = out[same].names;
    if (std::find(names.begin(), names.end(), in.name) == names.end()) names.push_back(in.name);
    users[same].push_back(&in);
  }
  for (size_t k = 0; k < out.size(); ++k) {
    const bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) {
      return o.mutates >= 0 && std::find(users[k].begin(), users[k].end(), &g.inputs[static_cast<size_t>(o.mutates)]) != users[k].end();
    });
    out[k].names = front::WeightNames::replaced(in_package, out[k].names);
    if (written || !is_float(out[k].tensor.dtype()) || !is_dense(out[k].tensor)) continue;
    out[k].tensor = graph::named_weight(out[k].tensor, out[k].names);
    for (graph::Input* in : users[k]) in->data = out[k].tensor;
  }
  return out;
}

// What decides for a machine.
// What a program still asks when it runs. How it was made, and from which files and folders, is not of it.
CompileOptions options_of_runs(CompileOptions options) {
  for (const OptionRow& row : option_rows())
    if (row.scope == OptionScope::Tuning || (row.scope == OptionScope::Watching && row.id != OptionId::Nvtx) ||
        row.id == OptionId::KernelDir)
      options.set(row.name, row.default_value);
  return options;
}

// The plan, its blocks included, with those options alone.
exec::Plan for_runs(exec::Plan plan) {
  plan.options = options_of_runs(std::move(plan.options));
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) block.plan = std::make_shared<const exec::Plan>(for_runs(*block.plan));
  return plan;
}

package::Tuning tuning_of(const Machine& m, const compiler::Setup& setup) {
  const std::string lock = setup.options.get(options::kTuneLock);
  if (!tunes(setup.options.mode()) || (lock.empty() && setup.options.get(options::kDeterministic))) return {"nothing", "", ""};
  return {lock.empty() ? "timing" : "lock", lock.empty() ? "" : sha256(read_file(lock)),
          backend::make_backend(m.options.device, setup.options, m.absent ? &*m.absent : nullptr)->facts().key};
}

class Packer {
 public:
  explicit Packer(const PackageOptions& options) : options_(options), captures_(options.weight_names) {
    TOROID_USER_CHECK(!options.targets.empty(), "PackageOptions::targets is empty; expected one target at least");
    for (auto& target : options.targets) {
      const Machine& m = machines_.emplace_back(machine_of(target, options.model));
      if (std::find(compilers_.begin(), compilers_.end(), m.compiler) == compilers_.end()) compilers_.push_back(m.compiler);
    }
  }

  // Names what functions capture, and says what entries have in common. Before the first add().
  front::PackageCaptures& captures() { return captures_; }

  // graph: makes it anew at each call. outputs: names of what it returns, read when it has been made; none: they have none. arguments: how
  // many a function takes.
  void add(const std::string& entry, const std::function<std::unique_ptr<graph::Graph>()>& graph,
           const std::vector<std::string>& outputs = {}, size_t arguments = 0) {
    for (size_t i = 0; i < machines_.size(); ++i) {
      const Machine& m = machines_[i];
      auto g = options_.swappable ? front::functional(graph()) : graph();
      captures_.open_states(entry, *g);
      auto weights = options_.swappable ? name_weights(*g, captures_, names_.of(entry)) : std::vector<package::NamedWeight>();
      compiler::Setup setup = front::setup_of(m.options);
      if (has_fixed_sizes(*g) && !m.options.options.count("capture_warmups")) setup.options.set("capture_warmups", "0");
      const front::Precision precision = front::precision_of(*g, m.options.device, setup.options);
      auto made = compiler::loadable(std::move(g), setup, m.absent ? &*m.absent : nullptr);
      made.plan = for_runs(std::move(made.plan));
      auto states = captures_.bind_states(entry, arguments, made);
      programs_.push_back({entry,
                           options_.targets[i],
                           std::move(made),
                           {},
                           std::move(weights),
                           outputs,
                           m.driver,
                           precision.name,
                           precision.tolerance,
                           tuning_of(m, setup),
                           std::move(states)});
    }
  }

  // The weights of an entry, before the first add() where there are several entries: names that they have in the package follow.
  void note_weights(const std::string& entry, const graph::Graph& g) {
    for (auto& in : g.inputs) {
      if (!in.data.defined() || (in.kind != graph::InputKind::Parameter && in.kind != graph::InputKind::Buffer)) continue;
      for (auto& name : captures_.names_of(in.data)) names_.note(entry, name, in.data);
      names_.note(entry, in.name, in.data);
    }
  }

  void write(const std::string& path) {
    if (options_.swappable && !programs_.empty())
      for (auto& w : captures_.unused()) programs_[0].weights.push_back(std::move(w));
    package::write_package(path, programs_,
                           {fmt::format("{}", fmt::join(compilers_, "; ")), std::string(name_of(options_.model.mode)),
                            fmt::format("{} {}", TOROID_VERSION, compiler::source_revision()), options_.weights_beside});
  }

 private:
  const PackageOptions& options_;
  const graph::RecipeScope recipes_;
  front::PackageCaptures captures_;
  front::WeightNames names_;
  std::vector<Machine> machines_;  // of the targets
  std::vector<package::Compiled> programs_;
  std::vector<std::string> compilers_;
};

std::string cannot_make(const std::string& path) { return fmt::format("cannot make the package \"{}\"", path); }

}  // namespace

void front::save_package(const std::function<std::unique_ptr<graph::Graph>()>& graph, const std::string& path,
                         const PackageOptions& options) {
  with_our_errors(cannot_make(path), [&] {
    Packer packer(options);
    packer.add("main", graph);
    packer.write(path);
  });
}

namespace {

void check_entry(const PackageEntry& e) {
  TOROID_USER_CHECK(e.model.empty() != !e.function, "the entry \"{}\" has {}; expected one of both: PackageEntry::model or function",
                    e.name, e.function ? "a model and a function" : "neither a model nor a function");
  front::check_names(e.input_names, "input"), front::check_names(e.output_names, "output");
}

// Puts the names that the caller gives in place of those that a model has.
void rename(const PackageEntry& e, const char* what, const std::vector<std::string>& given, const std::vector<std::string*>& own) {
  if (given.empty()) return;
  std::vector<std::string> has;
  for (auto* name : own) has.push_back(*name);
  TOROID_USER_CHECK(given.size() == own.size(), "the entry \"{}\" has {} {}s ({}), and {}_names has {}; expected one for each", e.name,
                    own.size(), what, fmt::join(has, ", "), what, given.size());
  for (size_t i = 0; i < own.size(); ++i) *own[i] = given[i];
}

std::unique_ptr<graph::Graph> model_graph(const PackageEntry& e, std::vector<std::string>& outputs) {
  auto g = import::load_model(e.model, e.examples, nullptr, &outputs);
  std::vector<std::string*> inputs, results;
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::User) inputs.push_back(&in.name);
  for (auto& name : outputs) results.push_back(&name);
  rename(e, "input", e.input_names, inputs), rename(e, "output", e.output_names, results);
  return g;
}

// A function that has been traced.
struct Traced {
  std::unique_ptr<graph::Graph> graph;
  std::vector<std::string> outputs;
};

}  // namespace

void save_package(std::span<const PackageEntry> entries, const std::string& path, const PackageOptions& options) {
  TOROID_USER_CHECK(options.input_names.empty() && options.output_names.empty(),
                    "PackageOptions::input_names and output_names are of one function or model; entries have PackageEntry::input_names and "
                    "output_names");
  bool is_of_function = false;  // then it is the caller's own error
  try {
    for (size_t i = 0; i < entries.size(); ++i) {
      check_entry(entries[i]);
      for (size_t k = 0; k < i; ++k)
        TOROID_USER_CHECK(entries[k].name != entries[i].name, "two entries have the name \"{}\"; expected a name of its own for each",
                          entries[i].name);
    }
    Packer packer(options);
    std::vector<Traced> traced(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      const PackageEntry& e = entries[i];
      if (!e.function) continue;
      const auto run = [&](std::span<const Tensor> in) {
        is_of_function = true;
        auto results = e.function({in.begin(), in.end()});
        is_of_function = false;
        return results;
      };
      traced[i].graph = front::graph_of_function(e.name, e.examples, run, e.input_names, e.output_names, traced[i].outputs);
      packer.captures().add(e.name, *traced[i].graph, entries.size() > 1);
    }
    packer.captures().settle();
    const auto graph_of = [&](size_t i) {
      return entries[i].function ? clone(*traced[i].graph) : model_graph(entries[i], traced[i].outputs);
    };
    if (options.swappable && entries.size() > 1)
      for (size_t i = 0; i < entries.size(); ++i) packer.note_weights(entries[i].name, *graph_of(i));
    for (size_t i = 0; i < entries.size(); ++i)
      packer.add(
          entries[i].name, [&] { return graph_of(i); }, traced[i].outputs, entries[i].function ? entries[i].examples.size() : 0);
    packer.write(path);
  } catch (...) {
    if (is_of_function) throw;
    rethrow_as_ours(cannot_make(path));
  }
}

}  // namespace toroid
