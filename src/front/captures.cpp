#include "front/captures.h"

#include <cstring>

#include "base/check.h"
#include "front/taped_function.h"
#include "tensor/layout.h"

namespace toroid::front {
namespace {

std::string type_text(const Tensor& t) {
  std::string out = fmt::format("{}[", name_of(t.dtype()));
  for (size_t d = 0; d < t.sizes().size(); ++d) out += fmt::format("{}{}", d ? ", " : "", t.sizes()[d]);
  out += "]";
  if (!t.is_contiguous()) {
    out += " with strides [";
    for (size_t d = 0; d < t.strides().size(); ++d) out += fmt::format("{}{}", d ? ", " : "", t.strides()[d]);
    out += "]";
  }
  if (t.device().is_cuda()) out += " on " + to_string(t.device());
  return out + (t.requires_grad() ? " that requires gradients" : "");
}

bool same_type(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() && a.device() == b.device() &&
         a.requires_grad() == b.requires_grad();
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (!same_type(a, b)) return false;
  const Tensor x = made_dense(moved(a, Device::cpu())), y = made_dense(moved(b, Device::cpu()));
  return x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

}  // namespace

Captures::Captures(trace::Segment& s, bool frozen)
    : device_(s.device),
      output_devices_(s.output_devices),
      reads_(std::move(s.reads)),
      elements_(std::move(s.elements)),
      stood_(WatchedReads::changes() - 1) {
  const std::vector<size_t> written = frozen ? written_inputs(*s.graph) : std::vector<size_t>();
  for (size_t i = 0; i < s.graph->inputs.size(); ++i) {
    const graph::Input& in = s.graph->inputs[i];
    if (!in.data.defined()) continue;
    tensors_.push_back(in.data);
    names_.push_back(in.name);
    if (frozen && !std::count(written.begin(), written.end(), i)) frozen_.add(in.data);
  }
  frozen_.settle();
}

bool Captures::stand() const {
  if (!elements_stand() || !frozen_stand()) return false;
  const uint64_t now = WatchedReads::changes();
  if (stood_.load(std::memory_order_acquire) == now) return true;
  if (!reads_.stand()) return false;
  stood_.store(now, std::memory_order_release);
  return true;
}

std::string Captures::difference(const Captures& now) const {
  for (size_t i = 0; i < std::min(tensors_.size(), now.tensors_.size()); ++i)
    if (!same_type(tensors_[i], now.tensors_[i]))
      return fmt::format("captured tensor {} ({}) was {}, is {}", i, names_[i], type_text(tensors_[i]), type_text(now.tensors_[i]));
  if (tensors_.size() != now.tensors_.size())
    return fmt::format("captured variables have changed: the function reads {} captured tensors, it read {}", now.tensors_.size(),
                       tensors_.size());
  if (device_ != now.device_) return fmt::format("the function ran on {}, now on {}", to_string(device_), to_string(now.device_));
  if (output_devices_ != now.output_devices_) return "results belong to other devices";
  return "";
}

std::vector<std::pair<Tensor, Tensor>> Captures::exchanged(const Captures& now) const {
  std::vector<std::pair<Tensor, Tensor>> out;
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].impl() != now.tensors_[i].impl()) out.emplace_back(tensors_[i], now.tensors_[i]);
  return out;
}

std::string Captures::untold(const Captures& now) const {
  if (std::string types = difference(now); !types.empty()) return types;
  for (auto& [was, is] : exchanged(now)) {
    const bool made_by_the_trace = is.shared_impl().use_count() == 3;  // the graph's handle, that of `now`, and this one
    if (made_by_the_trace && same_bytes(was, is)) continue;
    return made_by_the_trace ? fmt::format("a tensor that the function makes ({}) has other elements now", type_text(is))
                             : fmt::format("another tensor ({}) is in the place of a captured one", type_text(is));
  }
  return "";
}

std::string first_difference(const std::string& recorded, const std::string& now) {
  size_t at = 0;
  while (at < now.size() && at < recorded.size() && now[at] == recorded[at]) ++at;
  auto line = [at](const std::string& text) {
    size_t begin = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    begin = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  return fmt::format("\"{}\" was recorded, now it is \"{}\"", line(recorded), line(now));
}

}  // namespace toroid::front
