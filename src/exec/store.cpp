#include "exec/store.h"

#include "base/check.h"
#include "base/hash.h"
#include "exec/steps.h"
#include "graph/recipe.h"
#include "tensor/layout.h"

namespace toroid::exec {
namespace {

// Renames the constants of a plan and of its blocks.
class ByContent {
 public:
  ByContent(const Store& from, const std::map<std::string, std::string>& theirs) : from_(from), names_(theirs), theirs_(theirs) {
    if (from_.filling.valid()) from_.filling.wait();
  }

  Plan rename(const Plan& plan) {
    Plan out = plan;
    for (auto& b : out.buffers)
      if (!b.constant.empty()) b.constant = constant(b.constant, false, b.name);
    for (auto& in : out.inputs)
      if (!in.constant.empty()) in.constant = constant(in.constant, in.mutated, in.name);
    for (auto& step : out.steps) {
      if (auto* l = std::get_if<Launch>(&step)) add(from_.kernels.at(l->kernel));
      if (auto* c = std::get_if<LibraryCall>(&step); c && !c->constant.empty()) c->constant = constant(c->constant, false, c->name);
      for (auto& block : blocks_of(step)) block.plan = std::make_shared<const Plan>(rename(*block.plan));
    }
    return out;
  }

  Store finish() {
    for (auto& a : places_)
      for (auto& b : places_)
        TOROID_USER_CHECK(
            !a.written || a.name == b.name || a.end <= b.begin || b.end <= a.begin || (theirs_.count(a.name) && theirs_.count(b.name)),
            "the program writes to \"{}\", in whose memory \"{}\" lies, too; such a program cannot be stored: let the "
            "function capture one tensor, and take views of it within",
            a.label, b.label);
    return std::move(store_);
  }

 private:
  void add(const KernelStore::Kernel& k) {
    TOROID_USER_CHECK(k.object, "a kernel of the program is a function of this process, which cannot be stored");
    store_.kernels.add(*k.object);
  }

  std::string constant(const std::string& name, bool written, const std::string& label) {
    const Tensor& t = from_.constants.at(name);
    const std::byte* const begin = t.raw_data();
    if (written || names_.find(name) == names_.end() || theirs_.count(name))
      places_.push_back({name, label, begin, begin + extent_of(t) * static_cast<int64_t>(size_of(t.dtype())), written});
    auto [it, fresh] = names_.try_emplace(name);
    if (!fresh) return it->second;
    const Tensor here = moved(t, Device::cpu());
    it->second = content_name(here);
    store_.constants.add(it->second, here);
    return it->second;
  }

  const Store& from_;
  Store store_;
  std::map<std::string, std::string> names_;
  const std::map<std::string, std::string>& theirs_;
  struct Place {
    std::string name, label;
    const std::byte *begin, *end;
    bool written;
  };
  std::vector<Place> places_;
};

}  // namespace

std::string KernelStore::add(std::string object) {
  std::string name = hash_text(object).hex();
  Kernel& k = kernels_[name];
  if (!k.object) k.object = std::make_shared<const std::string>(std::move(object));
  return name;
}

std::string KernelStore::add(KernelFunction function) {
  std::string name = fmt::format("function {}", reinterpret_cast<const void*>(function));
  kernels_[name].function = function;
  return name;
}

const KernelStore::Kernel& KernelStore::at(const std::string& name) const {
  const auto it = kernels_.find(name);
  if (it == kernels_.end()) fail<UserError>("the store has no kernel {}: plan and store do not belong together", name);
  return it->second;
}

std::string ConstantStore::add(const Tensor& t) {
  auto [it, fresh] = names_.try_emplace(t.impl());
  if (fresh) {
    it->second = fmt::format("#{}", tensors_.size());
    tensors_.emplace(it->second, t);
  }
  return it->second;
}

void ConstantStore::add(const std::string& name, const Tensor& t) { tensors_.emplace(name, t); }

const Tensor& ConstantStore::at(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) fail<UserError>("the store has no constant {}: plan and store do not belong together", name);
  return it->second;
}

std::string content_name(const Tensor& t) {
  if (const auto r = graph::recipe_of(t)) return graph::key_of(*r);
  Hasher h;
  h.add(t.dtype()).add(t.sizes().size());
  for (int64_t n : t.sizes()) h.add(n);
  for (int64_t n : t.strides()) h.add(n);
  h.add_bytes(t.raw_data(), static_cast<size_t>(extent_of(t)) * size_of(t.dtype()));
  return h.finish().hex();
}

Loadable by_content(const Plan& plan, const Store& store, const std::map<std::string, std::string>& theirs) {
  ByContent names(store, theirs);
  Plan renamed = names.rename(plan);
  return {std::move(renamed), names.finish()};
}

}  // namespace toroid::exec
