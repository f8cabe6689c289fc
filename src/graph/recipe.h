// How constants were made of weights when a program was compiled, so that they can be made anew of other weights.
//
// A weight is a tensor with a recipe that names it. What a compile computes of weights has a recipe of its own, and what has none is part
// of the program. Recipes are kept while a RecipeScope lives; without one, as usual, none are made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/reference.h"

namespace toroid::graph {

struct Recipe {
  std::vector<std::string> weight = {};  // its names, which mean one tensor; or
  const ops::Op* op = nullptr;           // a call of the reference evaluator with these arguments, of which it is this result; or
  CallArgs args = {};
  size_t result = 0;
  std::string layout = {};  // what codegen::Packing or fold_batch_norm of this name and these numbers makes of others
  std::vector<int64_t> numbers = {};
  std::vector<Tensor> of = {};
};

// Keeps recipes and what they are recipes for until the last one of the process ends.
class RecipeScope {
 public:
  RecipeScope();
  ~RecipeScope();
  RecipeScope(const RecipeScope&) = delete;
  RecipeScope& operator=(const RecipeScope&) = delete;
};

// Null: the tensor is part of the program.
std::shared_ptr<const Recipe> recipe_of(const Tensor& t);
// The tensors that a recipe is a recipe for.
std::vector<Tensor> ingredients(const Recipe& r);
// Gives `made` the recipe, where one of its ingredients has one.
void set_recipe(const Tensor& made, Recipe r);
// The tensor as a weight of these names: a handle of its own to the same memory.
Tensor named_weight(const Tensor& t, std::vector<std::string> names);

// ops::evaluate(), whose results have recipes.
std::vector<Tensor> evaluate_constant(const ops::Op& op, const CallArgs& args);
// The same of whatever is called.
class ConstantDispatcher : public ops::ReferenceDispatcher {
 public:
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
};

// The same for equal recipes of tensors that are part of the program and have equal elements, in any process.
std::string key_of(const Recipe& r);

}  // namespace toroid::graph
