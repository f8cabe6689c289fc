// Calls as keys: what the types of a call's results follow from, so that equal calls are looked at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/dispatch.h"

namespace toroid::graph {

// The operation, its attributes, and the dtypes, sizes and strides of its tensors; the same tensor in two places is none of it.
class CallKey {
 public:
  // Nothing where a size or number of the call is open: what holds for it then follows from guards, too.
  // type_of(tensor, append) hands the rank, the sizes and the strides to append, and returns the dtype; nothing where append refused one.
  template <class TypeOf>
  static std::optional<CallKey> of(const ops::Op& op, const CallArgs& args, TypeOf&& type_of) {
    CallKey key;
    key.words_.reserve(8 * args.size() + 2);
    key.words_.push_back(reinterpret_cast<intptr_t>(&op));
    for (auto& a : args)
      if (!key.add(a, type_of)) return std::nullopt;
    return key;
  }
  bool operator==(const CallKey&) const = default;

  struct HashOf {
    size_t operator()(const CallKey& k) const;
  };

 private:
  template <class TypeOf>
  bool add(const Arg<Tensor>& a, TypeOf& type_of) {
    words_.push_back(static_cast<int64_t>(a.index()));
    if (auto* t = std::get_if<Tensor>(&a)) return add(*t, type_of);
    if (auto* list = std::get_if<std::vector<Tensor>>(&a)) {
      words_.push_back(static_cast<int64_t>(list->size()));
      for (auto& t : *list)
        if (!add(t, type_of)) return false;
      return true;
    }
    return add_attribute(a);
  }
  template <class TypeOf>
  bool add(const Tensor& t, TypeOf& type_of) {
    if (!t.defined()) {
      words_.push_back(-1);
      return true;
    }
    const size_t head = words_.size();
    words_.resize(head + 2);
    const auto append = [&](const Expr& e) {
      if (!e.is_const()) return false;
      words_.push_back(e.constant());
      return true;
    };
    const std::optional<DType> dtype = type_of(t, append);
    if (!dtype) return false;
    words_[head] = static_cast<int64_t>(*dtype);
    words_[head + 1] = static_cast<int64_t>(words_.size() - head);
    return true;
  }
  bool add_attribute(const Arg<Tensor>& a);

  std::vector<int64_t> words_;
};

template <class V>
using ByCall = std::unordered_map<CallKey, V, CallKey::HashOf>;

}  // namespace toroid::graph
