#include "base/check.h"
#include "package/package.h"
#include "toroid/package.h"

namespace toroid {

PackageFile PackageFile::open(const std::string& path) {
  PackageFile out;
  out.package_ = package::Package::open(path);
  return out;
}

std::vector<std::string> PackageFile::entries() const {
  std::vector<std::string> out;
  for (auto& e : package_->manifest().entries) out.push_back(e.name);
  return out;
}

PackageSession PackageFile::session(const std::string& entry, const Device& device) const {
  PackageSession out;
  out.session_ = package_->load(entry, device)->session();
  return out;
}

std::vector<std::string> PackageFile::weights() const {
  std::vector<std::string> out;
  for (auto& w : package_->manifest().weights)
    if (w.sha256.empty()) out.insert(out.end(), w.names.begin(), w.names.end());
  return out;
}

void PackageFile::swap_weights(const std::map<std::string, Tensor>& tensors) const { package_->swap_weights(tensors); }
void PackageFile::swap_weights(const std::string& path) const { package_->swap_weights(std::filesystem::path(path)); }

void PackageFile::verify() const { package_->verify(); }

std::vector<Tensor> PackageSession::run(std::span<const Tensor> inputs) {
  TOROID_USER_CHECK(session_, "the session holds no program; get one with PackageFile::session()");
  return session_->run(inputs);
}

std::vector<std::string> PackageSession::input_names() const {
  TOROID_USER_CHECK(session_, "the session holds no program; get one with PackageFile::session()");
  std::vector<std::string> out;
  for (auto& in : session_->program().inputs()) out.push_back(in.name);
  return out;
}

}  // namespace toroid
