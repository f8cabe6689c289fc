#include "base/check.h"
#include "base/std_errors.h"
#include "exec/specs.h"
#include "front/outside.h"
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

std::vector<std::string> names_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> out;
  for (auto& s : specs) out.push_back(s.name);
  return out;
}

}  // namespace

PackageFile PackageFile::open(const std::string& path, const std::string& weights_folder) {
  return with_our_errors(fmt::format("cannot open the package \"{}\"", path), [&] {
    PackageFile out;
    out.package_ = package::Package::open(path, weights_folder);
    return out;
  });
}

std::vector<std::string> PackageFile::entries() const {
  std::vector<std::string> out;
  for (auto& e : opened(package_).manifest().entries) out.push_back(e.name);
  return out;
}

PackageSession PackageSession::begin(const std::shared_ptr<package::Package>& package, const std::string& entry, const Device& device,
                                     std::shared_ptr<package::Memory> memory) {
  PackageSession out;
  package::Package& file = *package;
  const package::Entry& which = file.entry(entry);
  out.package_ = package;
  out.session_ = file.load(which.name, device)->session(std::move(memory));
  const exec::Plan& plan = out.session_->program().plan();
  PackageSession::Signature signature{fmt::format("the entry \"{}\"", which.name), exec::inputs_of(plan), exec::outputs_of(plan, {})};
  TOROID_USER_CHECK(which.outputs.size() == signature.outputs.size(), "{}: {} of the manifest has {} outputs, its program {}",
                    file.source(), signature.name, which.outputs.size(), signature.outputs.size());
  for (size_t i = 0; i < which.outputs.size(); ++i) signature.outputs[i].name = which.outputs[i].name;
  out.signature_ = std::make_shared<const PackageSession::Signature>(std::move(signature));
  return out;
}

PackageSession PackageFile::session(const std::string& entry, const Device& device) const {
  opened(package_);
  return PackageSession::begin(package_, entry, device, std::make_shared<package::Memory>());
}

PackageSession PackageSession::entry(const std::string& name) const {
  const package::Session& mine = begun(session_);
  return begin(package_, name, mine.program().plan().device, mine.memory());
}

std::vector<std::string> PackageFile::weights() const { return swappable_weights(opened(package_).manifest()); }

void PackageFile::swap_weights(const std::map<std::string, Tensor>& tensors, const std::string& entry) const {
  opened(package_).swap_weights(tensors, entry);
}
void PackageFile::swap_weights(const std::string& path, const std::string& entry) const {
  with_our_errors(fmt::format("cannot take the weights of \"{}\"", path),
                  [&] { opened(package_).swap_weights(std::filesystem::path(path), entry); });
}

void PackageFile::verify() const { opened(package_).verify(); }

std::vector<Tensor> PackageSession::run(std::span<const Tensor> inputs) {
  package::Session& session = begun(session_);
  const front::OutsideOfGraphs outside("a session of a package", inputs);
  return session.run(inputs);
}

std::map<std::string, Tensor> PackageSession::run(const std::map<std::string, Tensor>& inputs) {
  package::Session& session = begun(session_);
  const Signature& s = signature();
  const std::vector<Tensor> in_order = exec::in_order(s.inputs, inputs, s.name);
  const front::OutsideOfGraphs outside("a session of a package", in_order);
  return exec::by_name(s.outputs, session.run(in_order), s.name);
}

const PackageSession::Signature& PackageSession::signature() const {
  begun(session_);
  return *signature_;
}

std::vector<TensorSpec> PackageSession::inputs() const { return signature().inputs; }
std::vector<TensorSpec> PackageSession::outputs() const { return signature().outputs; }
std::vector<std::string> PackageSession::input_names() const { return names_of(signature().inputs); }
std::vector<std::string> PackageSession::output_names() const { return names_of(signature().outputs); }

}  // namespace toroid
