// Module: named parameters, buffers and child modules, as in torch.nn.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "toroid/nn/init.h"
#include "toroid/tensor.h"

namespace toroid::nn {

// Ranks that share products (toroid/nn/parallel.h), and which of them this one is.
struct TensorRanks {
  int64_t rank = 0, count = 1;
  std::string group;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// The base of all modules. A module has a forward() of its own signature. Its tensors are members that it names in its constructor.
// Modules are neither copied nor moved; to compile one: compile([&](const Tensor& x) { return module.forward(x); }). Such functions see
// what load_state(), to(), train() and assignments to members change: tensors of the same dtype, sizes, strides and device take the place
// of the former ones without another compile; training and evaluation are two. None of these may run beside a call of the module or of such
// a function, which would read tensors, or elements, of both. A child that is added after the first call is not seen.
class Module {
 public:
  Module() = default;
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters, those of children included, by path ("encoder.layer.0.output.dense.weight"), in the order of their registration.
  // A tensor that stands under two names (tied weights) has the first of them here, and both in state().
  NamedTensors named_parameters() const;
  // Tensors that belong to the module without being trained, such as running statistics; each once.
  NamedTensors named_buffers() const;
  // Those of named_parameters().
  std::vector<Tensor> parameters() const;
  // Elements of all parameters, each counted once.
  int64_t parameter_count() const;
  std::vector<std::pair<std::string, Module*>> named_children() const;
  // Where it stands in the modules that it was added to: "encoder.layer.0"; empty for a root. That of the last add_child() where several
  // have added it.
  std::string path() const;

  // Parameters and persistent buffers by path, which load_state() takes.
  std::map<std::string, Tensor> state() const;
  // Copies the given elements into the module's tensors, which keep their dtype and device, so that optimizers and views of them stay
  // right. Tensors without memory (Init::shapes_only()) are replaced by the given ones, which are shared, not copied (other dtypes are
  // converted): so two modules have one set of weights, and files need no second copy; an optimizer is made afterwards then.
  // UserError that lists the names that are missing, that the module does not have, and those of other sizes; the module is unchanged
  // then. Without `strict`, missing and unknown names are ignored. Members that are one tensor (tied weights) stay one: one of their names
  // suffices, and others have the same contents.
  void load_state(const std::map<std::string, Tensor>& state, bool strict = true);
  // Writes state() as a safetensors file, see save_tensors() in toroid/weights.h.
  void save(const std::string& path) const;
  // load_state() of a safetensors file (or folder of shards). Its UserErrors name the file.
  void load(const std::string& path, bool strict = true);

  // Replaces every parameter and float buffer by one of another dtype.
  void to(DType dtype);
  // Replaces every parameter and buffer by one on another device. EnvironmentError where there is none.
  void to(const Device& device);
  // Dropout and batch statistics are in use while training. Modules start in evaluation.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  // Marks all parameters.
  void requires_grad(bool on = true);

  // See parallelize() in toroid/nn/parallel.h. Whether something was divided.
  virtual bool divide(const TensorRanks& ranks);

 protected:
  // Names a member. A tensor that is given must live as long as the module. An undefined parameter (no bias) has no name. UserError for a
  // name that a parameter, a buffer or a child of the module has already. A child that has been destroyed leaves its name to the next one,
  // as when a head is replaced; until then whatever goes through the children is a UserError that names it.
  void add_parameter(const std::string& name, Tensor& member);
  // exact: to(DType) leaves it as it is.
  void add_buffer(const std::string& name, Tensor& member, bool persistent = true, bool exact = false);
  void add_child(const std::string& name, Module& child);
  // UserError unless a list of so many items has one of this index.
  static void require_item(const char* list, size_t index, size_t size);
  // Leaves the rank's part of a parameter along a dimension, which is made of so many blocks that are each divided (query, key and value in
  // one weight: 3). An undefined parameter stays so. UserError where the ranks do not divide it.
  void divide_parameter(Tensor& member, int64_t dim, const TensorRanks& ranks, int64_t blocks = 1);

 private:
  // What path() is made of. `within`: that of the module that it was added to, if that lives.
  struct Place {
    std::string name;
    std::weak_ptr<const Place> within;
  };
  // What a divided parameter is of the whole one.
  struct Part {
    int64_t dim = 0, blocks = 1, rank = 0, ranks = 1;
  };
  struct Slot {
    std::string name;
    Tensor* tensor;
    bool buffer, persistent, exact;
    std::weak_ptr<const Place> place;  // of the module that has it, while that lives
    Part part = {};
    std::vector<int64_t> whole_sizes() const;
  };
  struct Child {
    std::string name;
    Module* module;
    std::weak_ptr<const Place> place;  // of the module, while that lives
  };
  static Tensor part_of(const Tensor& whole, const Part& part);
  // What of a state tensors that have several names here are given under, and names whose contents differ from that: pairs of both.
  struct Ties {
    std::map<const TensorImpl*, std::string> given;
    std::vector<std::pair<std::string, std::string>> torn;
  };
  Ties ties(const std::map<std::string, Tensor>& state) const;
  // f(name, child). UserError for one that has been destroyed.
  template <class F>
  void for_each_child(F&& f) const;
  void require_free(const char* by, const std::string& name) const;
  // Puts made(slot) in the place of each tensor; tied ones stay tied.
  void replace(const std::function<Tensor(const Slot&)>& made);
  // The parameters or the buffers, each tensor under its first name.
  NamedTensors named(bool buffers) const;
  void watch_assignments(const NamedTensors& parameters) const;
  template <class F>
  void for_each_slot(const std::string& prefix, F&& f) const;

  std::vector<Slot> slots_;
  std::vector<Child> children_;
  const std::shared_ptr<Place> place_ = std::make_shared<Place>();
  Watched<bool> training_ = false;
};

// A module that only gives its children, which live elsewhere, a common part of their paths.
class Scope : public Module {
 public:
  void adopt(const std::string& name, Module& child) { add_child(name, child); }
};

// A module from one tensor to one tensor.
class Layer : public Module {
 public:
  virtual Tensor forward(const Tensor& x) = 0;
  // forward(), with the caller's line for errors and reports: "fc2 (Linear), model.cpp:12".
  Tensor operator()(const Tensor& x, Tensor::Where where = Tensor::Where::current());
};

// Modules under the names "0", "1", ... An index that is out of range is a UserError.
template <class M>
class ModuleList : public Module {
 public:
  template <class... A>
  M& emplace(A&&... args) {
    items_.push_back(std::make_unique<M>(std::forward<A>(args)...));
    add_child(std::to_string(items_.size() - 1), *items_.back());
    return *items_.back();
  }
  size_t size() const { return items_.size(); }
  M& operator[](size_t i) {
    require_item("ModuleList", i, items_.size());
    return *items_[i];
  }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  std::vector<std::unique_ptr<M>> items_;
};

// Layers one after the other, under the names "0", "1", ...
class Sequential : public Layer {
 public:
  Sequential() = default;
  // Layers that were made by std::make_unique.
  template <class... L>
  requires(sizeof...(L) > 0 && (std::is_base_of_v<Layer, L> && ...)) explicit Sequential(std::unique_ptr<L>... layers) {
    (append(std::move(layers)), ...);
  }
  template <class L, class... A>
  L& add(A&&... args) {
    auto layer = std::make_unique<L>(std::forward<A>(args)...);
    L& out = *layer;
    append(std::move(layer));
    return out;
  }
  size_t size() const { return layers_.size(); }
  Layer& operator[](size_t i) {
    require_item("Sequential", i, layers_.size());
    return *layers_[i];
  }
  Tensor forward(const Tensor& x) override;

 private:
  void append(std::unique_ptr<Layer> layer);
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace toroid::nn
