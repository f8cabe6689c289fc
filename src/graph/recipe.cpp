#include "graph/recipe.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "base/hash.h"
#include "tensor/tensor_impl.h"

namespace toroid::graph {
namespace {

struct Table {
  std::atomic<int> scopes{0};
  std::mutex mutex;
  struct Row {
    Tensor tensor;
    std::shared_ptr<const Recipe> recipe;
  };
  std::unordered_map<const TensorImpl*, Row> rows;

  void add(const Tensor& t, Recipe r) {
    std::lock_guard lock(mutex);
    TOROID_CHECK(scopes > 0, "recipes are made within a RecipeScope");
    rows.try_emplace(t.impl(), Row{t, std::make_shared<const Recipe>(std::move(r))});
  }
};
Table& table() {
  static Table& t = *new Table;
  return t;
}

void hash_tensor(Hasher& h, const Tensor& t) {
  if (!t.defined()) return void(h.add("none"));
  if (const auto r = recipe_of(t)) return void(h.add(key_of(*r)));
  const Tensor whole = moved(t, Device::cpu()).contiguous();
  h.add(whole.dtype()).add(whole.sizes().size());
  for (int64_t n : whole.sizes()) h.add(n);
  h.add_bytes(whole.raw_data(), static_cast<size_t>(whole.numel()) * size_of(whole.dtype()));
}

void add(Hasher& h, const Tensor&) { h.add("tensor"); }  // key_of() adds what it is
void add(Hasher&, std::monostate) {}
void add(Hasher& h, const Expr& e) { h.add(sym::to_string(e)); }
void add(Hasher& h, const std::string& s) { h.add(s); }
void add(Hasher& h, double v) { h.add(v); }
void add(Hasher& h, bool v) { h.add(v); }
void add(Hasher& h, DType t) { h.add(t); }
void add(Hasher& h, const std::complex<double>& c) { h.add(c.real()).add(c.imag()); }
template <class T>
void add(Hasher& h, const std::vector<T>& list) {
  h.add(list.size());
  for (const T& x : list) add(h, x);
}

void hash_argument(Hasher& h, const Arg<Tensor>& a) {
  h.add(a.index());
  std::visit([&](auto& v) { add(h, v); }, a);
}

std::vector<Tensor> with_recipes(const ops::Op& op, const CallArgs& args, std::vector<Tensor> results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined()) set_recipe(results[i], {.op = &op, .args = args, .result = i});
  return results;
}

}  // namespace

RecipeScope::RecipeScope() {
  std::lock_guard lock(table().mutex);
  ++table().scopes;
}

RecipeScope::~RecipeScope() {
  std::lock_guard lock(table().mutex);
  if (--table().scopes == 0) table().rows.clear();
}

std::shared_ptr<const Recipe> recipe_of(const Tensor& t) {
  if (!t.defined() || table().scopes == 0) return nullptr;
  std::lock_guard lock(table().mutex);
  const auto row = table().rows.find(t.impl());
  return row == table().rows.end() ? nullptr : row->second.recipe;
}

std::vector<Tensor> ingredients(const Recipe& r) {
  std::vector<Tensor> out = r.of;
  for (auto& a : r.args) {
    if (auto* t = std::get_if<Tensor>(&a)) out.push_back(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&a)) out.insert(out.end(), list->begin(), list->end());
  }
  return out;
}

void set_recipe(const Tensor& made, Recipe r) {
  const std::vector<Tensor> of = ingredients(r);
  if (std::any_of(of.begin(), of.end(), [](auto& t) { return recipe_of(t); })) table().add(made, std::move(r));
}

Tensor named_weight(const Tensor& t, std::vector<std::string> names) {
  const Tensor out(std::make_shared<TensorImpl>(*t.impl()));
  table().add(out, {.weight = std::move(names)});
  return out;
}

std::vector<Tensor> evaluate_constant(const ops::Op& op, const CallArgs& args) { return with_recipes(op, args, ops::evaluate(op, args)); }

std::vector<Tensor> ConstantDispatcher::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  TOROID_CHECK(!op.inplace_of, "{} writes to a constant", op.name);
  return with_recipes(op, args, ops::ReferenceDispatcher::call(op, args, where));
}

std::string key_of(const Recipe& r) {
  Hasher h;
  for (auto& name : r.weight) h.add(name);
  if (r.op) {
    h.add(r.op->name).add(r.result);
    for (auto& a : r.args) hash_argument(h, a);
  }
  h.add(r.layout);
  for (int64_t n : r.numbers) h.add(n);
  for (auto& t : ingredients(r)) hash_tensor(h, t);
  return h.finish().hex();
}

}  // namespace toroid::graph
