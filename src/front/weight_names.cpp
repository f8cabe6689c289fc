#include "front/weight_names.h"

#include <algorithm>

#include "tensor/tensor_impl.h"

namespace toroid::front {

void WeightNames::note(const std::string& entry, const std::string& name, const Tensor& t) {
  const Tensor whole = moved(t, Device::cpu()).contiguous();
  Hasher h;
  h.add(t.dtype());
  for (int64_t n : t.sizes()) h.add(n);
  h.add_bytes(whole.raw_data(), static_cast<size_t>(whole.numel()) * size_of(whole.dtype()));
  by_name_[name].push_back(weights_.size());
  weights_.push_back({entry, name, h.finish()});
}

bool WeightNames::is_apart(const std::string& entry) const {
  return std::any_of(weights_.begin(), weights_.end(), [&](auto& w) {
    const auto& others = by_name_.at(w.name);
    return w.entry == entry && std::any_of(others.begin(), others.end(), [&](size_t i) { return weights_[i].contents != w.contents; });
  });
}

WeightNames::Names WeightNames::of(const std::string& entry) const {
  std::map<std::string, bool> apart;
  for (auto& w : weights_)
    if (!apart.count(w.entry)) apart[w.entry] = is_apart(w.entry);
  Names out;
  for (auto& w : weights_) {
    if (w.entry != entry) continue;
    auto& names = out[w.name];
    for (size_t i : by_name_.at(w.name)) {
      const Weight& other = weights_[i];
      if (other.contents != w.contents) continue;
      std::string name = apart.at(other.entry) ? other.entry + "/" + other.name : other.name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
  }
  return out;
}

std::vector<std::string> WeightNames::replaced(const Names& in_package, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (auto& name : names) {
    const auto known = in_package.find(name);
    if (known == in_package.end())
      out.push_back(name);
    else
      for (auto& n : known->second)
        if (std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
  }
  return out;
}

}  // namespace toroid::front
