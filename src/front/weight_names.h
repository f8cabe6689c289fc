// Names of weights in a package whose entries have different ones under one name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "toroid/tensor.h"

namespace toroid::front {

// Entries that have a weight of the same name as another entry, and with other elements, dtype or sizes, are apart: all their weights are
// called ENTRY/NAME. A weight that several entries have is one, of the names that it has in each.
class WeightNames {
 public:
  using Names = std::map<std::string, std::vector<std::string>>;  // in the package, by a name that the entry has

  void note(const std::string& entry, const std::string& name, const Tensor& t);
  // When all are noted. Empty: the names stay.
  Names of(const std::string& entry) const;
  static std::vector<std::string> replaced(const Names& in_package, const std::vector<std::string>& names);

 private:
  struct Weight {
    std::string entry, name;
    Hash128 contents;
  };
  bool is_apart(const std::string& entry) const;
  std::vector<Weight> weights_;
  std::map<std::string, std::vector<size_t>> by_name_;
};

}  // namespace toroid::front
