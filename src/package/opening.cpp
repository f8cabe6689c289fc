#include "package/opening.h"

#include <set>

#include "base/check.h"
#include "base/sha256.h"
#include "device/cpu/isa.h"
#include "device/cuda/architecture.h"
#include "exec/load.h"
#include "ops/cuda_kernels.h"
#include "ops/table.h"

namespace toroid::package {
namespace {

constexpr const char* kMakeOne = "make one: toroid compile MODEL -o FILE. A model (.pt2, ONNX) is loaded and compiled by Model::load";

// Of an operation that may be named by its functional form, as what writes to arguments is.
std::string registered_name(const std::string& name) {
  constexpr std::string_view kFunctional = ".functional";
  return name.ends_with(kFunctional) ? name.substr(0, name.size() - kFunctional.size()) : name;
}

}  // namespace

auto archive_in(const MappedFile& file, const std::string& source) -> import::ZipArchive {
  const auto bytes = file.span();
  const bool is_other = bytes.size() >= 2 && (bytes[0] != std::byte{'P'} || bytes[1] != std::byte{'K'});
  TOROID_USER_CHECK(!is_other, "{}: this is no package, which is an archive (zip); {}", source, kMakeOne);
  return import::ZipArchive::open(bytes, source);
}

std::string_view manifest_text(const import::ZipArchive& zip) {
  TOROID_USER_CHECK(zip.find(kManifest), "{}: this archive is no package (it has no {}); {}", zip.source(), kManifest, kMakeOne);
  const std::string_view json = zip.at(kManifest).text();
  const std::string its = fmt::format("{}  {}\n", sha256(json), kManifest);
  TOROID_USER_CHECK(zip.at(kManifestHash).text() == its, "{}: {} has not the SHA-256 that {} says; the file is damaged", zip.source(),
                    kManifest, kManifestHash);
  return json;
}

void check_parts(const Manifest& m, const import::ZipArchive& zip) {
  std::set<std::string_view> parts{kManifest, kManifestHash};
  for (auto& p : m.parts) {
    const auto* entry = zip.find(p.name);
    TOROID_USER_CHECK(entry, "{}: the part \"{}\" of the manifest is missing", zip.source(), p.name);
    TOROID_USER_CHECK(entry->data.size() == p.bytes, "{}: the part \"{}\" has {} bytes, the manifest says {}", zip.source(), p.name,
                      entry->data.size(), p.bytes);
    parts.insert(p.name);
  }
  for (auto& e : zip.entries())
    TOROID_USER_CHECK(parts.count(e.name), "{}: \"{}\" is not in the manifest; nothing may be added to a package", zip.source(), e.name);
}

std::vector<std::string> unknown_operations(const Program& p) {
  std::vector<std::string> out;
  for (auto& name : p.operations)
    if (!ops::table().find(name)) out.push_back(registered_name(name));
  return out;
}

std::vector<std::string> unknown_functions(const Program& p) {
  std::vector<std::string> out;
  for (auto& name : p.gpu_functions)
    if (const ops::Op* op = ops::table().find(name); !op || !ops::has_cuda_function(*op)) out.push_back(registered_name(name));
  return out;
}

Fit fit_of(const Program& p, const Device& device) {
  if (p.device != (device.is_cuda() ? "cuda" : "cpu")) return Fit::OtherKind;
  if (!device.is_cuda()) return p.code_for.empty() || exec::processor_runs(p.code_for) ? Fit::Fits : Fit::OtherCode;
  const device::cuda::GpuInfo& gpu = device::cuda::gpu(device.index).info();
  if (!p.code_for.empty() && !device::cuda::runs(p.code_for, gpu)) return Fit::OtherCode;
  return p.driver <= gpu.driver_version ? Fit::Fits : Fit::NewerDriver;
}

std::string machine_code(const Device& device) {
  return device.is_cuda() ? device::cuda::gpu(device.index).info().architecture : exec::code_for_this_processor();
}

}  // namespace toroid::package
