#include "base/check.h"
#include "package/package.h"
#include "toroid/package.h"

namespace toroid {
namespace {

template <class T>
T& held(const std::shared_ptr<T>& p, const char* what) {
  TOROID_USER_CHECK(p, "{}", what);
  return *p;
}

package::Package& opened(const std::shared_ptr<package::Package>& p) {
  return held(p, "no package has been opened; PackageFile::open() gives one");
}
package::Session& begun(const std::shared_ptr<package::Session>& s) {
  return held(s, "the session holds no program; get one with PackageFile::session()");
}

}  // namespace

PackageFile PackageFile::open(const std::string& path) {
  PackageFile out;
  out.package_ = package::Package::open(path);
  return out;
}

std::vector<std::string> PackageFile::entries() const {
  std::vector<std::string> out;
  for (auto& e : opened(package_).manifest().entries) out.push_back(e.name);
  return out;
}

PackageSession PackageFile::session(const std::string& entry, const Device& device) const {
  PackageSession out;
  out.session_ = opened(package_).load(entry, device)->session();
  return out;
}

std::vector<std::string> PackageFile::weights() const {
  std::vector<std::string> out;
  for (auto& w : opened(package_).manifest().weights)
    if (w.sha256.empty()) out.insert(out.end(), w.names.begin(), w.names.end());
  return out;
}

void PackageFile::swap_weights(const std::map<std::string, Tensor>& tensors) const { opened(package_).swap_weights(tensors); }
void PackageFile::swap_weights(const std::string& path) const { opened(package_).swap_weights(std::filesystem::path(path)); }

void PackageFile::verify() const { opened(package_).verify(); }

std::vector<Tensor> PackageSession::run(std::span<const Tensor> inputs) { return begun(session_).run(inputs); }

std::vector<std::string> PackageSession::input_names() const {
  std::vector<std::string> out;
  for (auto& in : begun(session_).program().inputs()) out.push_back(in.name);
  return out;
}

}  // namespace toroid
