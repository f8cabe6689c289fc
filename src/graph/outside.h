// What is known of tensors that come into a graph from outside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor_impl.h"

namespace toroid::graph {

// A dispatcher that takes tensors from outside into its graph, or stands above one that does.
class Outside {
 public:
  virtual ~Outside() = default;
  // The sizes that a tensor from outside has there. They may be open where an earlier segment has made it.
  virtual std::vector<Expr> sizes_outside(const Tensor& t) = 0;
  // The tensor that a stand-in is for, where t is one of a tensor that was given as an argument; else t.
  virtual Tensor behind(const Tensor& t) = 0;
  // What an open size is in the inputs at hand; null: they do not tell.
  virtual std::optional<int64_t> usual_size(const std::string& symbol) = 0;
  // Who stands above records this call ("slice.Tensor (m.cpp:7)"), which is the place of what is asked next.
  virtual void note_call(const std::string& call) = 0;
};

}  // namespace toroid::graph
