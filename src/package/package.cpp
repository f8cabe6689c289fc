#include "package/package.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/files.h"
#include "base/sha256.h"
#include "device/cuda/architecture.h"
#include "exec/plan_file.h"
#include "exec/run/lane.h"
#include "import/safetensors.h"
#include "package/opening.h"
#include "package/recipes.h"
#include "package/weight_files.h"
#include "package/weights.h"

namespace toroid::package {
namespace {

// Weights that are mapped while plan and kernels are read. Of large ones a program may read a part alone (rows of embeddings).
constexpr size_t kMappedAhead = size_t{64} << 20;

// The names of a list, for messages.
template <class T, class F>
std::string names(const std::vector<T>& items, F&& name) {
  std::string out;
  for (auto& item : items) out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", name(item));
  return out.empty() ? "none" : out;
}

}  // namespace

exec::Loaded Memory::bound(const Loaded& program, exec::Loaded parts) {
  const exec::Plan& plan = program.plan();
  std::vector<std::pair<size_t, std::pair<const Loaded*, int>>> kept;  // inputs, and their keys
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (!plan.inputs[i].mutated || !parts.inputs[i].defined()) continue;
    const auto& states = program.states();
    const auto shared = std::find_if(states.begin(), states.end(), [&](auto& s) { return s.input == static_cast<int>(i); });
    kept.push_back({i, shared == states.end() ? std::pair(&program, static_cast<int>(i)) : std::pair(nullptr, shared->state)});
    if (tensors_.count(kept.back().second)) parts.inputs[i] = {};
  }
  parts = exec::with_own_state(plan, std::move(parts));
  for (auto& [i, key] : kept) parts.inputs[i] = tensors_.try_emplace(key, parts.inputs[i]).first->second;
  return parts;
}

Loaded::Loaded(exec::Plan plan, const exec::Store& store, std::shared_ptr<void> file, std::vector<StateUse> states)
    : file_(std::move(file)), plan_(std::move(plan)), states_(std::move(states)) {
  std::map<int, const exec::InputPlan*> users;
  for (auto& in : plan_.inputs) {
    if (in.user >= 0) users[in.user] = &in;
    stateful_ = stateful_ || (in.user < 0 && in.mutated);
  }
  for (auto& [place, in] : users) inputs_.push_back({in->name, in->type, in->mutated});
  for (auto& out : plan_.outputs) {
    if (out.mutates >= 0) continue;
    outputs_.push_back(out.type), defined_.push_back(out.buffer >= 0);
  }
  version_ = made_of(exec::load_parts(plan_, store));
}

void Version::begin_call(const exec::Plan& plan) const {
  if (!plan.device.is_cuda()) return;
  const device::StreamKey stream = exec::stream_key(plan.device);
  std::lock_guard lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) != streams_.end()) return;
  device::DeviceMemory& memory = device::memory_of(plan.device);
  exec::for_each_constant(plan, parts, [&](auto&, const Tensor& t) { memory.record_stream(t.raw_data(), stream); });
  streams_.push_back(stream);
}

std::shared_ptr<const Version> Loaded::made_of(exec::Loaded parts) const {
  auto out = std::make_shared<Version>();
  out->parts = std::move(parts);
  if (!stateful_) out->shared = std::make_shared<exec::Executable>(plan_, out->parts);
  return out;
}

std::shared_ptr<const Version> Loaded::version() const {
  std::lock_guard lock(mutex_);
  return version_;
}

std::shared_ptr<const Version> Loaded::with(Tensors& constants) const {
  return made_of(exec::with_constants(plan_, version()->parts, constants));
}

void Loaded::use(std::shared_ptr<const Version> version) noexcept {
  std::lock_guard lock(mutex_);
  version_.swap(version);  // what was there goes without the lock
}

std::shared_ptr<Session> Loaded::session(std::shared_ptr<Memory> memory) {
  return std::make_shared<Session>(shared_from_this(), std::move(memory));
}

std::vector<Tensor> Session::run(std::span<const Tensor> inputs) {
  const exec::Plan& plan = program_->plan();
  const auto current = [&] {
    auto version = program_->version();
    version->begin_call(plan);
    return version;
  };
  if (const auto now = current(); now->shared) return now->shared->run(inputs);
  std::lock_guard turn(memory_->turn);
  const auto now = current();
  if (now != version_) {
    own_ = std::make_unique<exec::Executable>(
        plan, own_ ? exec::with_state_of(plan, now->parts, own_->loaded()) : memory_->bound(*program_, now->parts));
    version_ = now;
  }
  return own_->run(inputs);
}

bool Package::is_package(const std::filesystem::path& path) {
  // The manifest is the first entry: its name stands behind the 30 bytes of a local header.
  const std::string head = read_head(path, 30 + std::string_view(kManifest).size());
  return head.starts_with("PK\3\4") && head.ends_with(kManifest);
}

std::shared_ptr<Package> Package::open(const std::filesystem::path& path, const std::filesystem::path& weights) {
  return std::shared_ptr<Package>(new Package(path, weights));
}

Package::Package(const std::filesystem::path& path, const std::filesystem::path& weights)
    : file_(std::make_shared<MappedFile>(path)),
      zip_(archive_in(*file_, path.string())),
      weights_(weights.empty() ? path.parent_path() / kWeightsFolder : weights) {
  manifest_ = read_manifest(manifest_text(zip_), source());
  check_parts(manifest_, zip_);
}

const Part& Package::listed(const std::string& name) const {
  const auto& parts = manifest_.parts;
  const auto at = std::find_if(parts.begin(), parts.end(), [&](auto& p) { return p.name == name; });
  TOROID_USER_CHECK(at != parts.end(), "{}: the manifest names the part \"{}\", but has no hash of it", source(), name);
  return *at;
}

std::string_view Package::part(const std::string& name) const {
  const Part& p = listed(name);
  const std::string_view bytes = zip_.at(name).text();
  const std::string its = sha256(bytes);
  TOROID_USER_CHECK(its == p.sha256, "{}: the part \"{}\" has the SHA-256 {}, the manifest says {}; the file is damaged", source(), name,
                    its, p.sha256);
  return bytes;
}

void Package::verify() const {
  for (auto& p : manifest_.parts) part(p.name);
  for (auto& f : manifest_.files) open_weight_file(weights_, f, source(), true);
}

const Entry& Package::entry(const std::string& name) const {
  const auto& entries = manifest_.entries;
  if (name.empty() && entries.size() == 1) return entries[0];
  const auto at = std::find_if(entries.begin(), entries.end(), [&](auto& e) { return e.name == name; });
  TOROID_USER_CHECK(at != entries.end(), "{}: expected the name of an entry, found \"{}\"; it has {}", source(), name,
                    names(entries, [](auto& e) { return e.name; }));
  return *at;
}

const Program& Package::choose(const Entry& entry, const Device& device) const {
  const std::string kind = device.is_cuda() ? "cuda" : "cpu";
  if (device.is_cuda() && std::none_of(entry.programs.begin(), entry.programs.end(), [](auto& p) { return p.device == "cuda"; }))
    fail<EnvironmentError>(
        "{}: \"{}\" has programs for CPUs alone; make a package that fits: toroid compile MODEL -o FILE --target sm_90a,compute_80",
        source(), entry.name);
  const Program* newer = nullptr;
  for (auto& p : entry.programs) {
    const Fit fit = fit_of(p, device);
    if (fit == Fit::Fits) return p;
    if (fit == Fit::NewerDriver) newer = &p;
  }
  if (newer)
    fail<EnvironmentError>(
        "{}: the field \"driver\" of the program of \"{}\" for {} is {}, the driver of {} has {}; install a newer driver, or make the "
        "package with an older NVRTC",
        source(), entry.name, newer->target, newer->driver, to_string(device), device::cuda::gpu(device.index).info().driver_version);
  const std::string has = machine_code(device);
  fail<EnvironmentError>(
      "{}: the field \"code_for\" of the programs of \"{}\" is {}, this machine has \"{}\" ({}); make a package that fits: toroid compile "
      "MODEL -o FILE --target {}",
      source(), entry.name, names(entry.programs, [](auto& p) { return p.code_for; }), has, kind, device.is_cuda() ? has : "native");
}

exec::Plan Package::plan(const Program& p) const { return exec::read_plan(part(p.plan)); }

// What others write to changes between runs, also where the program itself does not write to it.
exec::Plan Package::with_states(exec::Plan plan, const Program& p) const {
  for (auto& use : p.states) {
    const auto i = static_cast<size_t>(use.input);
    const State& state = manifest_.states.at(static_cast<size_t>(use.state));
    const bool bound = i < plan.inputs.size() && plan.inputs[i].user < 0 && manifest_.constants.count(plan.inputs[i].constant);
    TOROID_USER_CHECK(bound && manifest_.constants.at(plan.inputs[i].constant).layout == state.layout,
                      "{}: the state \"{}\" of the manifest is not what input {} of {} has", source(), state.name, i, p.plan);
    plan.inputs[i].mutated = true;
  }
  return plan;
}

void Package::check_operations(const Entry& entry, const Program& p) const {
  const auto missing = unknown_operations(p);
  TOROID_USER_CHECK(missing.empty(),
                    "{}: the entry \"{}\" calls the operation \"{}\", which this process does not know; where it is one of your own "
                    "(custom_op, opaque_op), register it before the entry is loaded, in a program that links the core library "
                    "(PackageFile). The runtime in C cannot register any",
                    source(), entry.name, missing.front());
  const auto functions = unknown_functions(p);
  TOROID_USER_CHECK(functions.empty(),
                    "{}: the entry \"{}\" calls the function for GPUs of the operation \"{}\", which this process has not registered; "
                    "call register_cuda_function before the entry is loaded",
                    source(), entry.name, functions.front());
}

exec::Loadable Package::parts(const std::string& name, const Device& device, const Tensors& there) const {
  const Entry& which = entry(name);
  const Program& p = choose(which, device);
  check_operations(which, p);
  exec::Store store;
  for (auto& k : p.kernels) store.kernels.add(std::string(part(k)));
  for (auto& [constant, t] : constants()) store.constants.add(constant, there.count(constant) ? there.at(constant) : t);
  return {plan(p), std::move(store)};
}

Tensors Package::constants() const {
  listed(kWeights);
  return read_weights(manifest_, zip_.at(kWeights).text(), file_, weights_, source());
}

std::shared_ptr<Loaded> Package::load(const std::string& name, const Device& device) {
  std::lock_guard lock(mutex_);
  auto& loaded = loaded_[{entry(name).name, to_string(device)}];
  if (loaded) return loaded;
  if (const auto* weights = zip_.find(kWeights); weights && !device.is_cuda())
    ahead_.begin(file_, weights->data.first(std::min(weights->data.size(), kMappedAhead)));
  const Tensors there = constants_on(device);
  exec::Loadable l = parts(name, device, there);
  const Program& p = choose(entry(name), device);
  auto fresh = std::make_shared<Loaded>(with_states(exec::verified(std::move(l.plan), device), p), l.store, file_, p.states);
  Tensors changed = changed_;
  for (auto& [constant, t] : there) changed.erase(constant);
  if (!changed.empty()) fresh->use(fresh->with(changed));
  return loaded = fresh;
}

// Those of the host are views of the file, which all programs have.
Tensors Package::constants_on(const Device& device) const {
  Tensors out;
  if (!device.is_cuda()) return out;
  for (auto& [key, program] : loaded_)
    if (program && program->plan().device == device)
      exec::for_each_constant(program->plan(), program->version()->parts, [&](auto& name, const Tensor& t) { out.emplace(name, t); });
  return out;
}

// A weight that no program reads may be given for every entry: a checkpoint has such.
void Package::check_owner(const std::string& whose, const Tensors& given) const {
  std::map<std::string, std::set<std::string>> readers;  // entries by weight
  for (const Entry& e : manifest_.entries)
    for (const Program& p : e.programs)
      for (const std::string& weight : weights_of(manifest_, plan(p))) readers[weight].insert(e.name);
  for (auto& [name, t] : given) {
    const auto found = readers.find(name);
    if (found == readers.end() || found->second.count(whose)) continue;
    fail<UserError>(
        "{}: the entry \"{}\" has no weight \"{}\": it is one of the entry \"{}\", which would change; give the weights of \"{}\" "
        "alone, or name the entry that they are of (no entry: those of the whole package)",
        source(), whose, name, fmt::join(found->second, "\", \""), whose);
  }
}

void Package::swap_weights(const Tensors& tensors, const std::string& entry) {
  TOROID_USER_CHECK(!manifest_.weights.empty(),
                    "{}: its weights cannot be swapped; make it with toroid compile --swappable (PackageOptions::swappable)", source());
  const std::string whose = entry.empty() ? entry : this->entry(entry).name;
  Tensors given;
  for (auto& [name, t] : tensors) given[name_in_package(manifest_, whose, name)] = t;
  if (!whose.empty() && manifest_.entries.size() > 1) check_owner(whose, given);
  std::lock_guard lock(mutex_);
  Tensors now = changed_;
  now.merge(constants());
  const exec::Plan calls = zip_.find(kRecipes) ? exec::read_plan(part(kRecipes)) : exec::Plan();
  Tensors changed = remade(manifest_, calls, given, now, source());
  std::vector<std::pair<Loaded*, std::shared_ptr<const Version>>> versions;
  std::map<std::string, Tensors> there;  // by device
  for (auto& [key, program] : loaded_)
    if (program) versions.emplace_back(program.get(), program->with(there.try_emplace(key.second, changed).first->second));
  changed.merge(changed_);
  for (auto& [program, version] : versions) program->use(std::move(version));
  changed_.swap(changed);
}

void Package::swap_weights(const std::filesystem::path& file, const std::string& entry) {
  const auto reader = import::SafetensorsReader::open(file);
  Tensors given;
  for (auto& r : reader.tensors())
    given[std::string(r.name)] = Tensor::from_blob(const_cast<std::byte*>(r.bytes().data()), {r.sizes.begin(), r.sizes.end()}, r.dtype);
  swap_weights(given, entry);
}

}  // namespace toroid::package
