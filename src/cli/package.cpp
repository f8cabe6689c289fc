// toroid compile, and what other commands do with packages.
#include "package/package.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/stopwatch.h"
#include "cli/bench_subject.h"
#include "cli/commands.h"
#include "cli/package_text.h"
#include "cli/runner.h"
#include "cli/tensor_files.h"
#include "exec/verify.h"
#include "package/opening.h"
#include "toroid/save_package.h"

namespace toroid::cli {
namespace {

class SessionRunner : public Runner {
 public:
  SessionRunner(package::Package& package, const std::string& entry, const Device& device)
      : device_(device), session_(package.load(entry, device)->session()) {}
  std::vector<Tensor> run(std::span<const Tensor> user_inputs) override {
    std::vector<Tensor> inputs;
    for (auto& t : user_inputs) inputs.push_back(t.to(device_));
    auto outputs = session_->run(inputs);
    for (auto& t : outputs)
      if (t.defined()) t = t.to(Device::cpu());
    return outputs;
  }

 private:
  const Device device_;
  const std::shared_ptr<package::Session> session_;
};

// "NAME=FILE" or "FILE".
PackageEntry entry_of(const std::string& text, size_t models) {
  const size_t at = text.find('=');
  if (at != text.npos) return {text.substr(0, at), text.substr(at + 1)};
  TOROID_USER_CHECK(models == 1, "\"{}\": expected NAME=FILE, since the package has {} models", text, models);
  return {"main", text};
}

// Names of the entries that have a state.
std::vector<std::string> users_of(const package::Manifest& m, int state) {
  std::vector<std::string> out;
  for (auto& e : m.entries) {
    const auto has = [&](auto& p) { return std::any_of(p.states.begin(), p.states.end(), [&](auto& s) { return s.state == state; }); };
    if (std::any_of(e.programs.begin(), e.programs.end(), has)) out.push_back(shown(e.name));
  }
  return out;
}

}  // namespace

void check_entry(const std::string& path, const std::string& entry) {
  const auto package = package::Package::open(path);
  std::string names;
  for (auto& e : package->manifest().entries) names += (names.empty() ? "" : ", ") + shown(e.name);
  const size_t count = package->manifest().entries.size();
  TOROID_USER_CHECK(count == 1 || !entry.empty(), "{}: it has {} entries; say which one: --entry NAME, of {}", path, count, names);
  package->entry(entry);
}

PackageRunner make_package_runner(const std::string& path, const std::string& entry, const std::string& device, const std::string& weights,
                                  const std::string& folder) {
  const Device where = device_from_name(device);
  const auto package = package::Package::open(path, folder);
  PackageRunner out{std::make_unique<SessionRunner>(*package, entry, where), package->choose(package->entry(entry), where).tolerance};
  if (!weights.empty()) package->swap_weights(std::filesystem::path(weights), entry);
  return out;
}

int compile_package(const CompileArgs& args) {
  std::vector<PackageEntry> entries;
  for (auto& m : args.models) entries.push_back(entry_of(m, args.models.size()));
  if (!args.inputs.empty()) {
    TOROID_USER_CHECK(entries.size() == 1,
                      "--inputs is of one model, and {} are given: make the package by save_package, whose entries "
                      "have examples",
                      entries.size());
    const auto given = read_calls(args.inputs, [&] { return input_names(entries[0].model); });
    for (auto& [index, t] : given.calls.at(0)) entries[0].examples.push_back(t);
  }
  PackageOptions options;
  options.model.device = device_from_name(args.device), options.model.mode = mode_from_name(args.mode);
  options.model.freeze = !args.no_freeze, options.targets = args.targets, options.swappable = args.swappable;
  options.weights_beside = args.weights_beside;
  if (!args.lock.empty()) options.model.options["tune_lock"] = args.lock, options.model.options["deterministic"] = "1";
  const Stopwatch watch;
  save_package(entries, args.out, options);
  const double seconds = watch.ms() / 1e3;
  const uint64_t bytes = std::filesystem::file_size(args.out);
  if (args.json)
    fmt::print("{{\"package\":{},\"bytes\":{},\"seconds\":{:.3f}}}\n", json_string(args.out), bytes, seconds);
  else
    fmt::print("{}: {:.1f} MB, made in {:.1f} s\n", args.out, static_cast<double>(bytes) / 1e6, seconds);
  return kOk;
}

int inspect_package(const std::string& path, bool json) {
  const auto p = package::Package::open(path);
  const package::Manifest& m = p->manifest();
  if (json) {
    fmt::print("{}", to_json(m));
    return kOk;
  }
  uint64_t bytes = 0;
  for (auto& part : m.parts) bytes += part.name == package::kWeights ? part.bytes : 0;
  fmt::print("{}: package, format {}, {} parts, {} constants ({:.1f} MB), mode {}\n  made by {}\n", path, m.format, m.parts.size(),
             m.constants.size(), static_cast<double>(bytes) / 1e6, m.mode, m.compiler);
  if (!m.files.empty()) {
    uint64_t beside = 0;
    for (auto& f : m.files) beside += f.bytes;
    fmt::print("  {} files of weights beside it ({:.1f} MB), in {}\n", m.files.size(), static_cast<double>(beside) / 1e6,
               p->weights_folder().string());
  }
  if (!m.weights.empty())
    fmt::print("  {} weights, of which {} can be swapped\n", m.weights.size(),
               std::count_if(m.weights.begin(), m.weights.end(), [](auto& w) { return w.sha256.empty(); }));
  for (size_t i = 0; i < m.states.size(); ++i)
    fmt::print("  memory of a session {}: {}[{}], shared by the entries {}\n", shown(m.states[i].name), name_of(m.states[i].layout.dtype),
               fmt::join(m.states[i].layout.sizes, ", "), fmt::join(users_of(m, static_cast<int>(i)), ", "));
  for (auto& e : m.entries) {
    fmt::print("  entry {}\n", shown(e.name));
    for (auto& v : e.inputs) fmt::print("    input  {}: {}{}\n", shown(v.name), shown(v.type), v.written ? ", written" : "");
    for (auto& v : e.outputs) fmt::print("    output {}: {}\n", shown(v.name), shown(v.type));
    for (auto& s : e.sizes)
      fmt::print("    size   {}: {} to {}\n", shown(s.name), s.least, s.greatest >= sym::kInf - 1 ? "any" : std::to_string(s.greatest));
    for (auto& q : e.programs) {
      const auto missing = package::unknown_operations(q);
      fmt::print("    program for {}: {} {}, {} kernels, {}\n", q.target, q.device, q.code_for, q.kernels.size(),
                 missing.empty() ? fmt::format("{} steps", p->plan(q).steps.size()) : "whose steps cannot be read here");
      for (auto& o : missing) fmt::print("      needs the operation {}, which this process has not registered\n", shown(o));
      for (auto& o : q.gpu_functions) fmt::print("      calls the function for GPUs of {}\n", shown(o));
      if (!q.precision.empty()) fmt::print("      computes in {}: f32 results within {} of their range\n", shown(q.precision), q.tolerance);
      if (q.tuning.by == "lock" || q.tuning.by == "timing")
        fmt::print("      tuned for {}, by {}\n", shown(q.tuning.device),
                   q.tuning.by == "lock" ? "the lock file with the SHA-256 " + shown(q.tuning.lock) : "timing");
      for (auto& l : q.libraries) fmt::print("      needs {} when it runs\n", l);
      for (auto& o : q.operations) fmt::print("      reference code: {}\n", o);
    }
  }
  return kOk;
}

int verify_package(const std::string& path, const std::string& weights_folder, bool json) {
  const auto p = package::Package::open(path, weights_folder);
  p->verify();
  for (auto& e : p->manifest().entries)
    for (auto& q : e.programs) exec::verify(p->plan(q));
  if (json)
    fmt::print("{{\"parts\":{},\"files\":{}}}\n", p->manifest().parts.size(), p->manifest().files.size());
  else
    fmt::print("{}: all {} parts{} are as the manifest says\n", path, p->manifest().parts.size(),
               p->manifest().files.empty() ? "" : fmt::format(" and {} files beside it", p->manifest().files.size()));
  return kOk;
}

int bench_package(const BenchArgs& args) {
  TOROID_USER_CHECK(!args.inputs.empty(), "toroid bench of a package needs --inputs");
  check_entry(args.model, args.entry);
  const auto calls = read_calls(args.inputs, [&] { return input_names(args.model, args.entry); }).calls;
  std::vector<Tensor> inputs;
  for (auto& [place, t] : calls.at(0)) inputs.push_back(t.to(device_from_name(args.device)));
  const Stopwatch opening;
  const auto p = package::Package::open(args.model, args.weights_folder);
  const auto session = p->load(args.entry, device_from_name(args.device))->session();
  const double ready = opening.ms();
  session->run(inputs);
  synchronize(device_from_name(args.device));
  const double first = opening.ms();
  std::vector<double> ms;
  const Stopwatch all;
  while (args.iterations > 0 ? ms.size() < static_cast<size_t>(args.iterations) : ms.size() < 3 || (ms.size() < 100 && all.ms() < 3000)) {
    const Stopwatch watch;
    session->run(inputs);
    synchronize(device_from_name(args.device));
    ms.push_back(watch.ms());
  }
  std::sort(ms.begin(), ms.end());
  if (args.json)
    fmt::print("{{\"ready_ms\":{:.3f},\"first_ms\":{:.3f},\"median_ms\":{:.4f},\"least_ms\":{:.4f},\"runs\":{}}}\n", ready, first,
               ms[ms.size() / 2], ms.front(), ms.size());
  else
    fmt::print("ready in {:.2f} ms, first result after {:.2f} ms; a call takes {:.3f} ms (median of {}, least {:.3f})\n", ready, first,
               ms[ms.size() / 2], ms.size(), ms.front());
  return kOk;
}

}  // namespace toroid::cli
