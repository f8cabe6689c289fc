#include "package/check_up.h"

#include <functional>
#include <set>

#include "base/check.h"
#include "base/stopwatch.h"
#include "device/cuda/gpu.h"
#include "exec/steps.h"
#include "exec/verify.h"
#include "package/opening.h"
#include "package/package.h"
#include "package/weight_files.h"

namespace toroid::package {
namespace {

class CheckUp {
 public:
  void passed(const std::string& name, std::string text) { add(Check::State::Passed, name, std::move(text)); }
  void note(const std::string& name, std::string text) { add(Check::State::Note, name, std::move(text)); }
  void failed(const std::string& name, std::string text, bool of_machine = false) {
    add(Check::State::Failed, name, std::move(text));
    checks_.back().of_machine = of_machine;
  }
  // What it says, or what it throws. Whether it has passed.
  bool check(const std::string& name, const std::function<std::string()>& body) {
    try {
      passed(name, body());
      return true;
    } catch (const EnvironmentError& e) {
      failed(name, e.what(), true);
    } catch (const UserError& e) {
      failed(name, e.what());
    }
    return false;
  }
  std::vector<Check> take() { return std::move(checks_); }

 private:
  void add(Check::State state, const std::string& name, std::string text) { checks_.push_back({state, name, std::move(text)}); }
  std::vector<Check> checks_;
};

bool check_fields(CheckUp& out, const import::ZipArchive& zip) {
  bool all = true;
  std::vector<Requirement> fields;
  try {
    fields = requirements(manifest_text(zip), zip.source());
  } catch (const UserError& e) {
    out.failed("manifest", e.what());
    return false;
  }
  for (auto& r : fields) {
    all = all && r.met;
    if (r.met)
      out.passed(r.field, r.its == r.ours ? r.its : fmt::format("{}, this runtime takes {}", r.its, r.ours));
    else
      out.failed(r.field, fmt::format("{}, this runtime takes {}; {}", r.its, r.ours, r.remedy));
  }
  return all;
}

void check_hashes(CheckUp& out, const Package& p) {
  size_t right = 0;
  for (auto& part : p.manifest().parts) try {
      p.part(part.name), ++right;
    } catch (const UserError& e) {
      out.failed("hash", std::string(e.what()) + "; copy it again, or make it again");
    }
  if (right == p.manifest().parts.size()) out.passed("hashes", fmt::format("all {} parts are as the manifest says", right));
  size_t whole = 0;
  for (auto& f : p.manifest().files) try {
      open_weight_file(p.weights_folder(), f, p.source(), true), ++whole;
    } catch (const UserError& e) {
      out.failed("weights", e.what());
    }
  if (whole > 0 && whole == p.manifest().files.size())
    out.passed("weights", fmt::format("all {} files in \"{}\" are as the manifest says", whole, p.weights_folder().string()));
}

// What a device has to say of a program.
std::string remark(const Program& p, const Device& device) {
  const std::string has = machine_code(device);
  switch (fit_of(p, device)) {
    case Fit::Fits:
      return fmt::format("\"{}\", which {} (\"{}\") runs", p.code_for, to_string(device), has);
    case Fit::NewerDriver:
      return fmt::format("its driver is {}, that of {} is {}: install a newer one", p.driver, to_string(device),
                         device::cuda::gpu(device.index).info().driver_version);
    default:
      return fmt::format("\"{}\", which {} (\"{}\") does not run", p.code_for, to_string(device), has);
  }
}

// The devices on which an entry is looked for.
std::vector<Device> places(CheckUp& out, const Entry& e, const std::optional<Device>& wanted) {
  if (wanted) return {*wanted};
  std::set<std::string> kinds;
  for (auto& p : e.programs) kinds.insert(p.device);
  std::vector<Device> devices;
  if (kinds.count("cpu") || !kinds.count("cuda")) devices.push_back(Device::cpu());
  if (!kinds.count("cuda")) return devices;
  if (cuda_device_count() > 0 || devices.empty())
    devices.push_back(Device::cuda());
  else
    out.note("entry", fmt::format("\"{}\" has programs for GPUs, of which none is here", e.name));
  return devices;
}

// Whether the programs are whole and all that they call is there.
void check_programs(CheckUp& out, const Package& p, const Entry& e) {
  for (auto& q : e.programs) {
    const std::string name = fmt::format("\"{}\" for {}", e.name, q.target);
    size_t known = 0;
    for (auto& operation : q.operations)
      known += out.check("operation", [&] {
        exec::operation_named(operation);
        return fmt::format("\"{}\" of {} is known here", operation, name);
      });
    if (known < q.operations.size()) continue;  // its plan cannot be read either
    for (auto& missing : unknown_functions(q))
      out.note("operation", fmt::format("{} calls the function for GPUs of \"{}\", which this process has not registered", name, missing));
    out.check("plan", [&] {
      const exec::Plan plan = p.plan(q);
      exec::verify(plan);
      return fmt::format("{}: {} steps keep all rules", name, plan.steps.size());
    });
  }
}

void check_entry(CheckUp& out, Package& p, const Entry& e, const std::optional<Device>& wanted) {
  CheckUp tries;
  bool loads = false;
  for (const Device& device : places(out, e, wanted)) {
    for (auto& q : e.programs) try {
        if (fit_of(q, device) != Fit::OtherKind) out.note("program", fmt::format("\"{}\" for {}: {}", e.name, q.target, remark(q, device)));
      } catch (const Error&) {  // no such GPU, or no such instructions: loading says so
      }
    loads = tries.check("load", [&] {
      const Stopwatch watch;
      const Program& taken = p.choose(e, device);
      p.load(e.name, device);
      return fmt::format("\"{}\" on {}: the program for {}, in {:.1f} ms", e.name, to_string(device), taken.target, watch.ms());
    }) || loads;
  }
  for (const Check& c : tries.take()) {
    if (c.state == Check::State::Failed && !loads)
      out.failed(c.name, c.text, c.of_machine);
    else if (c.state == Check::State::Failed)
      out.note(c.name, c.text);
    else
      out.passed(c.name, c.text);
  }
}

}  // namespace

std::vector<Check> check_up(const std::filesystem::path& path, const std::optional<Device>& device, const std::filesystem::path& weights) {
  CheckUp out;
  std::shared_ptr<MappedFile> file;
  std::optional<import::ZipArchive> zip;
  std::shared_ptr<Package> package;
  const bool open = out.check("archive", [&] {
    file = std::make_shared<MappedFile>(path);
    zip = archive_in(*file, path.string());
    return fmt::format("{} files, {} bytes", zip->entries().size(), file->span().size());
  }) && out.check("manifest", [&] { return fmt::format("{} bytes, with the hash of {}", manifest_text(*zip).size(), kManifestHash); });
  if (!open || !check_fields(out, *zip)) return out.take();
  const bool whole = out.check("parts", [&] {
    package = Package::open(path, weights);
    return fmt::format("all {} are there, with their sizes", package->manifest().parts.size());
  });
  if (!whole) return out.take();
  check_hashes(out, *package);
  for (auto& e : package->manifest().entries) check_programs(out, *package, e);
  for (auto& e : package->manifest().entries) check_entry(out, *package, e, device);
  return out.take();
}

}  // namespace toroid::package
