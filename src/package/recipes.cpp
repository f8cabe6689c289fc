#include "package/recipes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/sha256.h"
#include "base/text.h"
#include "codegen/packing.h"
#include "exec/load.h"
#include "exec/steps.h"
#include "exec/store.h"
#include "graph/recipe.h"
#include "ops/fold_batch_norm.h"
#include "tensor/layout.h"

namespace toroid::package {
namespace {

std::string sha256_of(const Tensor& t) {
  const Tensor whole = moved(t, Device::cpu()).contiguous();
  return sha256({reinterpret_cast<const char*>(whole.raw_data()), static_cast<size_t>(whole.numel()) * size_of(whole.dtype())});
}

// A copy that lies as it should.
Tensor copy_as(const Layout& layout, const Tensor& from) {
  const Tensor memory = Tensor::empty({toroid::extent_of(layout.sizes, layout.strides)}, layout.dtype);
  Tensor out = memory.as_strided(layout.sizes, layout.strides);
  copy_elements(from, out);
  return out;
}

class Maker {
 public:
  Maker(const Manifest& m, const exec::Plan& calls, const Tensors& given, const Tensors& now, const std::string& source)
      : m_(m), calls_(calls), source_(source) {
    for (auto& [name, t] : given) take(name, t);
    TOROID_USER_CHECK(!given.empty(), "{}: no weights are given", source_);
    const auto used = [&](auto& g) {
      return std::any_of(m_.recipes.begin(), m_.recipes.end(), [&](auto& r) { return r.weight == g.first; });
    };
    TOROID_USER_CHECK(given_.empty() || std::any_of(given_.begin(), given_.end(), used),
                      "{}: no program of the package uses a weight of those that are given ({} ...)", source_, given.begin()->first);
    for (auto& [name, c] : m_.constants)
      if (c.recipe >= 0) constants_[c.recipe] = &now.at(name);
    for (auto& r : m_.recipes)
      changes_.push_back(r.weight >= 0 ? given_.count(r.weight) > 0
                                       : std::any_of(r.of.begin(), r.of.end(), [&](int i) { return i >= 0 && changes_[at(i)]; }));
    made_.resize(m_.recipes.size());
    literals_ = &now;
  }

  Tensors all() {
    std::set<std::string> missing;
    for (auto& [name, c] : m_.constants)
      if (c.recipe >= 0 && changes_[at(c.recipe)]) look_for(c.recipe, missing);
    TOROID_USER_CHECK(
        missing.empty(),
        "{}: constants of the package are made of the given weights and of others, which it keeps in that form alone; give {} too", source_,
        fmt::join(missing, ", "));
    Tensors out;
    for (auto& [name, c] : m_.constants)
      if (c.recipe >= 0 && changes_[at(c.recipe)]) out[name] = make(c.recipe);
    return out;
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }

  void take(const std::string& name, const Tensor& t) {
    const auto row = std::find_if(m_.weights.begin(), m_.weights.end(),
                                  [&](auto& w) { return std::find(w.names.begin(), w.names.end(), name) != w.names.end(); });
    if (row == m_.weights.end()) refuse_name(name);
    TOROID_USER_CHECK(t.defined(), "{}: the tensor that is given for \"{}\" is undefined", source_, name);
    TOROID_USER_CHECK(t.dtype() == row->layout.dtype && t.sizes() == row->layout.sizes,
                      "{}: the weight \"{}\" is {}[{}], a tensor {}[{}] was given", source_, name, name_of(row->layout.dtype),
                      fmt::join(row->layout.sizes, ", "), name_of(t.dtype()), fmt::join(t.sizes(), ", "));
    if (!row->sha256.empty()) {
      TOROID_USER_CHECK(sha256_of(t) == row->sha256,
                        "{}: \"{}\" has other elements than the package; it is part of the program, as it holds integers or is written to, "
                        "and cannot be swapped",
                        source_, name);
      return;
    }
    const auto [known, fresh] = given_.try_emplace(static_cast<int>(row - m_.weights.begin()), t);
    TOROID_USER_CHECK(fresh || sha256_of(known->second) == sha256_of(t), "{}: {} are one tensor in the model, but two others were given",
                      source_, fmt::join(row->names, ", "));
  }

  [[noreturn]] void refuse_name(const std::string& name) const {
    std::vector<std::string_view> known;
    for (auto& w : m_.weights) known.insert(known.end(), w.names.begin(), w.names.end());
    for (std::string_view n : known)
      if (n.ends_with("/" + name))
        fail<UserError>("{}: several entries have a weight \"{}\", and each its own; say which entry the weights are of, or give \"{}\"",
                        source_, name, n);
    const auto is_number = [](std::string_view n) { return n.starts_with("captured") || n.starts_with("parameter"); };
    const bool unnamed = !known.empty() && std::all_of(known.begin(), known.end(), is_number);
    fail<UserError>("{}: it has no weight \"{}\" among its {}{}{}", source_, name, known.size(), did_you_mean(name, known),
                    unnamed
                        ? fmt::format(", which have numbers for names (\"{}\" ...), as they are captured by a function; give them names "
                                      "where the package is made: PackageOptions::weight_names, such as Module::state()",
                                      known.back())
                        : "");
  }

  // Weights that a recipe needs and nobody has.
  void look_for(int recipe, std::set<std::string>& missing) const {
    const Recipe& r = m_.recipes[at(recipe)];
    if (r.weight >= 0 && !changes_[at(recipe)] && !constants_.count(recipe)) missing.insert(m_.weights[at(r.weight)].names.at(0));
    for (int i : r.of)
      if (i >= 0 && !(constants_.count(i) && !changes_[at(i)])) look_for(i, missing);
  }

  Tensor make(int number) {
    if (number < 0) return {};
    Tensor& made = made_[at(number)];
    if (made.defined()) return made;
    const Recipe& r = m_.recipes[at(number)];
    const auto constant = constants_.find(number);
    if (constant != constants_.end() && !changes_[at(number)]) return made = *constant->second;
    const Tensor from = r.weight >= 0 ? given_.at(r.weight) : computed(r);
    TOROID_USER_CHECK(from.sizes() == r.layout.sizes, "{}: recipe {} gives sizes [{}], the manifest says [{}]; the package is damaged",
                      source_, number, fmt::join(from.sizes(), ", "), fmt::join(r.layout.sizes, ", "));
    made = r.weight >= 0 || layout_of(from) != r.layout ? copy_as(r.layout, from) : from;
    return made;
  }

  Tensor computed(const Recipe& r) {
    if (!r.constant.empty()) return literals_->at(r.constant);
    std::vector<Tensor> of;
    for (int i : r.of) of.push_back(make(i));
    if (!r.call.empty()) return called(r, of);
    if (r.packing.starts_with("fold_batch_norm")) {
      const auto folded = ops::fold_batch_norm(of, std::bit_cast<double>(r.numbers.at(0)), r.numbers.at(1));
      return r.packing == "fold_batch_norm.weight" ? folded.weight : folded.bias;
    }
    const codegen::Packed packed = codegen::pack({r.packing, r.numbers}, of);
    for (auto& job : packed.jobs) job();  // on this thread: calls go on meanwhile
    return packed.tensor;
  }

  Tensor called(const Recipe& r, const std::vector<Tensor>& of) const {
    const auto& steps = calls_.steps;
    const auto* step = r.step >= 0 && at(r.step) < steps.size() ? std::get_if<exec::HostCall>(&steps[at(r.step)]) : nullptr;
    TOROID_USER_CHECK(step, "{}: a recipe has the call number {}, which {} lacks", source_, r.step, kRecipes);
    return exec::call(*step, of, [](const Expr& e) { return e; }).at(static_cast<size_t>(r.result));
  }

  const Manifest& m_;
  const exec::Plan& calls_;
  const std::string& source_;
  std::map<int, Tensor> given_;             // by the number of their weight
  std::map<int, const Tensor*> constants_;  // by the number of their recipe, as they are
  const Tensors* literals_ = nullptr;
  std::vector<bool> changes_;  // of each recipe: whether what is given changes it
  std::vector<Tensor> made_;   // by each recipe
};

}  // namespace

std::string name_in_package(const Manifest& m, const std::string& entry, const std::string& name) {
  const std::string whole = entry + "/" + name;
  const bool is_there = !entry.empty() && std::any_of(m.weights.begin(), m.weights.end(), [&](auto& w) {
    return std::find(w.names.begin(), w.names.end(), whole) != w.names.end();
  });
  return is_there ? whole : name;
}

namespace {

void add_constants(const exec::Plan& plan, std::set<std::string>& out) {
  for (auto& b : plan.buffers)
    if (!b.constant.empty()) out.insert(b.constant);
  for (auto& i : plan.inputs)
    if (!i.constant.empty()) out.insert(i.constant);
  for (auto& step : plan.steps) {
    if (auto* c = std::get_if<exec::LibraryCall>(&step); c && !c->constant.empty()) out.insert(c->constant);
    for (auto& block : exec::blocks_of(step)) add_constants(*block.plan, out);
  }
}

}  // namespace

std::set<std::string> weights_of(const Manifest& m, const exec::Plan& plan) {
  std::set<std::string> constants, out;
  add_constants(plan, constants);
  std::vector<bool> reached(m.recipes.size());
  for (auto& name : constants)
    if (auto c = m.constants.find(name); c != m.constants.end() && c->second.recipe >= 0)
      reached[static_cast<size_t>(c->second.recipe)] = true;
  for (size_t i = m.recipes.size(); i-- > 0;) {  // each is made of those before it
    if (!reached[i]) continue;
    for (int part : m.recipes[i].of)
      if (part >= 0) reached[static_cast<size_t>(part)] = true;
    if (m.recipes[i].weight >= 0)
      for (auto& name : m.weights[static_cast<size_t>(m.recipes[i].weight)].names) out.insert(name);
  }
  return out;
}

Tensors remade(const Manifest& m, const exec::Plan& calls, const Tensors& given, const Tensors& now, const std::string& source) {
  return Maker(m, calls, given, now, source).all();
}

void RecipesWriter::add(const NamedWeight& w) {
  const auto known = std::find_if(weights_.begin(), weights_.end(), [&](const Weight& other) {
    return std::any_of(w.names.begin(), w.names.end(),
                       [&](auto& name) { return std::find(other.names.begin(), other.names.end(), name) != other.names.end(); });
  });
  const Weight row{w.names, layout_of(w.tensor), !w.used || graph::recipe_of(w.tensor) ? "" : sha256_of(w.tensor)};
  if (known == weights_.end()) return weights_.push_back(row);
  TOROID_USER_CHECK(
      known->names == row.names && known->layout == row.layout && known->sha256 == row.sha256,
      "two programs have different tensors of the name \"{}\"; a package whose weights can be swapped has them once: give one of "
      "them another name (PackageOptions::weight_names of functions), or make a package of each",
      w.names.at(0));
}

int RecipesWriter::add(const Tensor& t) {
  const std::string name = exec::content_name(t);
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  Recipe out;
  out.layout = layout_of(t);
  const auto r = graph::recipe_of(t);
  if (!r) {
    literals_.add(name, "constant", t);
    out.constant = name;
  } else if (!r->weight.empty()) {
    const auto row = std::find_if(weights_.begin(), weights_.end(), [&](auto& w) { return w.names == r->weight; });
    TOROID_CHECK(row != weights_.end(), "the weight {} has no row", r->weight[0]);
    out.weight = static_cast<int>(row - weights_.begin());
  } else {
    const auto place = [&](const Tensor& part) {
      out.of.push_back(part.defined() ? add(part) : -1);
      return static_cast<int>(out.of.size()) - 1;
    };
    if (r->op) {
      exec::HostCall call{r->op->name, r->op, {}, {}, {}};
      for (auto& a : r->args) call.args.push_back(map_arg<int>(a, place));
      out.call = call.name, out.step = static_cast<int>(calls_.steps.size()), out.result = static_cast<int64_t>(r->result);
      calls_.steps.push_back(std::move(call));
    }
    out.packing = r->layout, out.numbers = r->numbers;
    for (auto& part : r->of) place(part);
  }
  recipes_.push_back(std::move(out));
  return numbers_[name] = static_cast<int>(recipes_.size()) - 1;
}

}  // namespace toroid::package
