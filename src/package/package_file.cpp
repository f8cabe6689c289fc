#include <map>
#include <mutex>

#include "base/check.h"
#include "package/package.h"
#include "toroid/package.h"

namespace toroid {

struct PackageFile::Impl {
  std::shared_ptr<package::Package> package;
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<package::Loaded>> loaded;  // by entry and device
};

PackageFile PackageFile::open(const std::string& path) {
  PackageFile out;
  out.impl_ = std::make_shared<Impl>();
  out.impl_->package = package::Package::open(path);
  return out;
}

std::vector<std::string> PackageFile::entries() const {
  std::vector<std::string> out;
  for (auto& e : impl_->package->manifest().entries) out.push_back(e.name);
  return out;
}

PackageSession PackageFile::session(const std::string& entry, const Device& device) const {
  const std::string& name = impl_->package->entry(entry).name;
  PackageSession out;
  {
    std::lock_guard lock(impl_->mutex);
    auto& loaded = impl_->loaded[{name, to_string(device)}];
    if (!loaded) loaded = impl_->package->load(name, device);
    out.program_ = loaded;
  }
  out.executable_ = out.program_->session();
  return out;
}

void PackageFile::verify() const { impl_->package->verify(); }

std::vector<Tensor> PackageSession::run(std::span<const Tensor> inputs) {
  TOROID_USER_CHECK(executable_, "the session holds no program; get one with PackageFile::session()");
  return executable_->run(inputs);
}

std::vector<std::string> PackageSession::input_names() const {
  TOROID_USER_CHECK(program_, "the session holds no program; get one with PackageFile::session()");
  std::vector<std::string> out;
  for (auto& in : program_->inputs()) out.push_back(in.name);
  return out;
}

}  // namespace toroid
