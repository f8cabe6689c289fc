// How the constants of a package are made of weights: written down, and done again with other weights.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "package/manifest.h"
#include "package/weights.h"
#include "package/write.h"

namespace toroid::package {

class RecipesWriter {
 public:
  // literals: gets the constants that recipes take and that are part of the program.
  explicit RecipesWriter(WeightsWriter& literals) : literals_(literals) {}

  // One that is here stays. UserError where another has one of its names.
  void add(const NamedWeight& w);
  // The number of the recipe that a tensor has.
  int add(const Tensor& t);
  const std::vector<Weight>& weights() const { return weights_; }
  const std::vector<Recipe>& recipes() const { return recipes_; }
  // Its steps are the calls of recipes.
  const exec::Plan& calls() const { return calls_; }

 private:
  WeightsWriter& literals_;
  std::vector<Weight> weights_;
  std::vector<Recipe> recipes_;
  exec::Plan calls_;
  std::map<std::string, int> numbers_;  // of recipes, by exec::content_name
};

// The name that a weight of an entry's model has in the package: "ENTRY/NAME" where another entry has a different one of this name.
std::string name_in_package(const Manifest& m, const std::string& entry, const std::string& name);

// Names of the weights that the constants of a plan are made of.
std::set<std::string> weights_of(const Manifest& m, const exec::Plan& plan);

using Tensors = std::map<std::string, Tensor>;

// The constants that other weights change, by name, made of these and of copies of what is given. calls: RecipesWriter::calls(). now: all
// constants as they are. UserError, before anything is made, for names that the package has not, other dtypes and sizes, elements that are
// part of the program, and where a constant is made of several weights of which some are neither given nor a constant: these are named.
Tensors remade(const Manifest& m, const exec::Plan& calls, const Tensors& given, const Tensors& now, const std::string& source);

}  // namespace toroid::package
