#include "toroid/nn/module.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "nn/errors.h"
#include "nn/layer_scope.h"
#include "toroid/autograd.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/tensor_notes.h"
#include "toroid/weights.h"

namespace toroid::nn {
namespace {

std::string sizes_text(const Tensor& t) { return fmt::format("[{}]", fmt::join(t.sizes(), ", ")); }

// The first names of a list, for a message.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string out =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown)), ", "));
  return names.size() > kShown ? fmt::format("{} and {} more", out, names.size() - kShown) : out;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.impl() == b.impl()) return true;
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.to(Device::cpu()).contiguous(), y = b.to(Device::cpu()).contiguous();
  return std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

void note_exchange(const Tensor& was, const Tensor& now, const std::string& name, const char* by) {
  if (was.impl() != now.impl()) detail::note_replaced(was, fmt::format("{}, by {}", name, by));
  detail::withdraw_replaced(now);
}

}  // namespace

Module::~Module() = default;

void Module::require_item(const char* list, size_t index, size_t size) {
  require(index < size, "{}: there is no item {}; it has {}{}", list, index, size,
          size == 0   ? ""
          : size == 1 ? ", number 0"
                      : fmt::format(", 0 to {}", size - 1));
}

template <class F>
void Module::for_each_child(F&& f) const {
  for (auto& c : children_) {
    require(!c.place.expired(),
            "the child \"{}\" of {} has been destroyed: it must live as long as the module, or be replaced: add_child(\"{}\", ...) of the "
            "object that takes its place",
            c.name, path().empty() ? "a module" : fmt::format("the module \"{}\"", path()), c.name);
    f(c.name, *c.module);
  }
}

std::vector<std::pair<std::string, Module*>> Module::named_children() const {
  std::vector<std::pair<std::string, Module*>> out;
  for_each_child([&](const std::string& name, Module& child) { out.emplace_back(name, &child); });
  return out;
}

template <class F>
void Module::for_each_slot(const std::string& prefix, F&& f) const {
  for (auto& s : slots_)
    if (s.tensor->defined()) f(prefix + s.name, s);
  for_each_child([&](const std::string& name, Module& child) { child.for_each_slot(prefix + name + ".", f); });
}

void Module::require_free(const char* by, const std::string& name) const {
  const auto has_name = [&](auto& list, auto name_in) { return std::any_of(list.begin(), list.end(), name_in); };
  const char* what = has_name(children_, [&](auto& c) { return c.name == name && !c.place.expired(); }) ? "child" : nullptr;
  for (auto& s : slots_)
    if (s.name == name) what = s.buffer ? "buffer" : "parameter";
  require(!what, "{}: the module has a {} \"{}\" already; give each member a name of its own", by, what ? what : "", name);
}

void Module::add_parameter(const std::string& name, Tensor& member) {
  require_free("add_parameter", name);
  slots_.push_back({name, &member, false, true, false, place_, {}});
}
void Module::add_buffer(const std::string& name, Tensor& member, bool persistent, bool exact) {
  require_free("add_buffer", name);
  slots_.push_back({name, &member, true, persistent, exact, place_, {}});
}

void Module::add_child(const std::string& name, Module& child) {
  require_free("add_child", name);
  const Child added{name, &child, child.place_};
  const auto former = std::find_if(children_.begin(), children_.end(), [&](auto& c) { return c.name == name; });
  if (former != children_.end())
    *former = added;  // which has been destroyed
  else
    children_.push_back(added);
  child.place_->name = name;
  child.place_->within = place_;
  child.train(training_);
}

std::string Module::path() const {
  std::string out = place_->name;
  for (auto p = place_->within.lock(); p && !p->name.empty(); p = p->within.lock()) out = p->name + "." + out;
  return out;
}

NamedTensors Module::named(bool buffers) const {
  NamedTensors out;
  std::set<const TensorImpl*> seen;
  for_each_slot("", [&](std::string name, const Slot& s) {
    if (s.buffer == buffers && seen.insert(s.tensor->impl()).second) out.emplace_back(std::move(name), *s.tensor);
  });
  return out;
}
NamedTensors Module::named_parameters() const {
  NamedTensors out = named(false);
  watch_assignments(out);
  return out;
}

// Who has a parameter, as an optimizer, hears of it when it stands in none of its members any more.
void Module::watch_assignments(const NamedTensors& parameters) const {
  using Member = std::pair<const Tensor*, std::weak_ptr<const Place>>;
  std::map<const TensorImpl*, std::vector<Member>> members;
  for_each_slot("", [&](const std::string&, const Slot& s) {
    if (!s.buffer) members[s.tensor->impl()].emplace_back(s.tensor, s.place);
  });
  for (auto& [name, t] : parameters)
    detail::note_held(
        t, [name = name, impl = t.impl(), root = std::weak_ptr(place_), held_by = std::move(members[t.impl()])]() -> std::string {
          if (root.expired()) return "";
          bool assigned = false;
          for (auto& [member, place] : held_by) {
            if (place.expired()) continue;
            if (member->impl() == impl) return "";
            assigned = true;
          }
          return name + (assigned ? ", by an assignment: write the elements with copy_() where it is to stay the one that is trained"
                                  : ", whose module has been destroyed");
        });
}
NamedTensors Module::named_buffers() const { return named(true); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (auto& [name, t] : named_parameters()) out.push_back(t);
  return out;
}

int64_t Module::parameter_count() const {
  int64_t n = 0;
  for (auto& t : parameters()) n += t.numel();
  return n;
}

std::map<std::string, Tensor> Module::state() const {
  std::map<std::string, Tensor> out;
  for_each_slot("", [&](const std::string& name, const Slot& s) {
    if (s.persistent) out[name] = *s.tensor;
  });
  return out;
}

void Module::load_state(const std::map<std::string, Tensor>& state, bool strict) {
  std::vector<std::string> missing, unexpected, unfit;
  std::map<std::string, Tensor*> own;
  struct Load {
    Tensor* mine;
    Tensor given;
    std::string name;
  };
  std::vector<Load> loads;
  const Ties ties = this->ties(state);
  for (auto& [first, name] : ties.torn) unfit.push_back(fmt::format("{} (which is {} here, given with other contents)", name, first));
  for_each_slot("", [&](const std::string& name, const Slot& s) {
    if (!s.persistent) return;
    own[name] = s.tensor;
    auto it = state.find(name);
    if (const auto tied = ties.given.find(s.tensor->impl()); tied != ties.given.end()) it = state.find(tied->second);
    if (it == state.end())
      missing.push_back(name);
    else if (!it->second.defined())
      unfit.push_back(fmt::format("{} (given as an undefined tensor)", name));
    else if (s.part.ranks > 1 && it->second.sizes() == s.whole_sizes())
      loads.push_back({s.tensor, part_of(it->second, s.part), name});
    else if (it->second.sizes() != s.tensor->sizes())
      unfit.push_back(fmt::format("{} (given {}, the module has {})", name, sizes_text(it->second), sizes_text(*s.tensor)));
    else
      loads.push_back({s.tensor, it->second, name});
  });
  for (auto& [name, t] : state)
    if (!own.count(name)) unexpected.push_back(name);
  std::string what;
  auto tell = [&](const char* kind, const std::vector<std::string>& names) {
    if (!names.empty()) what += fmt::format("{}{} {}: {}", what.empty() ? "" : "; ", names.size(), kind, some_of(names));
  };
  tell("that do not fit", unfit);
  if (strict) {
    tell("missing", missing);
    tell("that the module does not have", unexpected);
  }
  require(what.empty(), "load_state: the tensors do not fit the module: {}", what);
  const NoGrad copies;
  // Tensors of the module under other names are read before they are written.
  std::set<const TensorImpl*> written;
  for (auto& load : loads) written.insert(load.mine->impl());
  for (auto& load : loads)
    if (load.given.impl() != load.mine->impl() && written.count(load.given.impl()) && !Init::is_shape_only(*load.mine))
      load.given = clone(load.given);
  std::map<const TensorImpl*, std::pair<Tensor, Tensor>> done;  // what was, which keeps its address, and what is
  for (auto& [mine, given, name] : loads) {
    const Tensor was = *mine;
    const auto [it, fresh] = done.try_emplace(was.impl(), was, was);
    Tensor& now = it->second.second;
    if (!Init::is_shape_only(was)) {
      if (fresh && given.impl() != was.impl()) copy_(was, given.to(was.device()));
      continue;
    }
    if (fresh) now = given.dtype() == was.dtype() ? given : toroid::to(given, was.dtype());
    *mine = now;
    note_exchange(was, now, name, "load_state()");
    if (was.requires_grad()) mine->set_requires_grad(true);
  }
}

// Names that are one tensor here are given under any of them: the first that the state has.
Module::Ties Module::ties(const std::map<std::string, Tensor>& state) const {
  Ties out;
  for_each_slot("", [&](const std::string& name, const Slot& s) {
    const auto it = state.find(name);
    if (!s.persistent || it == state.end() || !it->second.defined()) return;
    const auto [first, fresh] = out.given.try_emplace(s.tensor->impl(), name);
    if (!fresh && !same_elements(state.at(first->second), it->second)) out.torn.emplace_back(first->second, name);
  });
  return out;
}

void Module::save(const std::string& path) const { save_tensors(path, state()); }

void Module::load(const std::string& path, bool strict) {
  const auto tensors = load_tensors(path);
  try {
    load_state(tensors, strict);
  } catch (const UserError& e) {
    throw UserError(fmt::format("{}: {}", path, e.what()));
  }
}

bool Module::divide(const TensorRanks& ranks) {
  bool any = false;
  for_each_child([&](const std::string&, Module& child) { any = child.divide(ranks) || any; });
  return any;
}

std::vector<int64_t> Module::Slot::whole_sizes() const {
  std::vector<int64_t> sizes = tensor->sizes();
  sizes[static_cast<size_t>(part.dim)] *= part.ranks;
  return sizes;
}

// What lies in one piece stays where it is.
Tensor Module::part_of(const Tensor& whole, const Part& part) {
  const NoGrad copies;
  const int64_t block = whole.sizes()[static_cast<size_t>(part.dim)] / part.blocks, length = block / part.ranks;
  std::vector<Tensor> pieces;
  for (int64_t b = 0; b < part.blocks; ++b)
    pieces.push_back(slice(whole, part.dim, b * block + part.rank * length, b * block + (part.rank + 1) * length));
  return part.blocks == 1 ? pieces[0].contiguous() : cat(pieces, part.dim);
}

void Module::divide_parameter(Tensor& member, int64_t dim, const TensorRanks& ranks, int64_t blocks) {
  if (!member.defined()) return;
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](auto& s) { return s.tensor == &member; });
  require(slot != slots_.end() && slot->part.ranks == 1, "parallelize: a parameter has been divided already");
  const int64_t size = member.sizes()[static_cast<size_t>(dim)];
  require(size % (blocks * ranks.count) == 0, "parallelize: {} ranks do not divide {} of \"{}\"", ranks.count, size, slot->name);
  slot->part = {dim, blocks, ranks.rank, ranks.count};
  const bool grad = member.requires_grad();
  const NoGrad copies;
  Tensor part = part_of(member, slot->part);
  if (dim == 0 && blocks == 1) part = clone(part);  // so that the rest of the memory goes back
  member = part;
  if (grad) member.set_requires_grad(true);
}

void Module::replace(const std::function<Tensor(const Slot&)>& made) {
  const NoGrad conversions;
  std::map<const TensorImpl*, std::pair<Tensor, Tensor>> done;  // what was, which keeps its address, and what is
  for_each_slot("", [&](const std::string& name, const Slot& s) {
    auto [it, fresh] = done.try_emplace(s.tensor->impl(), *s.tensor, Tensor());
    if (fresh) it->second.second = made(s);
    if (s.tensor->requires_grad()) it->second.second.requires_grad_();
    const Tensor now = it->second.second;
    note_exchange(*s.tensor, now, name, "to()");
    done.try_emplace(now.impl(), now, now);
    *s.tensor = now;
  });
}

void Module::to(DType dtype) {
  require(is_float(dtype), "a module cannot be of the dtype {}: parameters are floats", name_of(dtype));
  replace([&](const Slot& s) { return is_float(s.tensor->dtype()) && !s.exact ? toroid::to(*s.tensor, dtype) : *s.tensor; });
}

void Module::to(const Device& device) {
  replace([&](const Slot& s) { return s.tensor->to(device); });
}

void Module::train(bool on) {
  training_ = on;
  for_each_child([&](const std::string&, Module& child) { child.train(on); });
}

void Module::requires_grad(bool on) {
  for (auto& t : parameters()) t.set_requires_grad(on);
}

Tensor Layer::operator()(const Tensor& x, Tensor::Where where) {
  const CallerScope called(where);
  return forward(x);
}

void Sequential::append(std::unique_ptr<Layer> layer) {
  require(layer != nullptr, "Sequential: layer {} is null", layers_.size());
  layers_.push_back(std::move(layer));
  add_child(std::to_string(layers_.size() - 1), *layers_.back());
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& layer : layers_) y = layer->forward(y);
  return y;
}

}  // namespace toroid::nn
