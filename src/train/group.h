// The parameters of one group of an optimizer, and its state.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::train {

class Group {
 public:
  Group(std::vector<Tensor> parameters, double lr, std::vector<std::string> slots);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Where a module has put another tensor in the place of parameter i since the group was made; empty where none has.
  std::string replaced(size_t i) const;

  std::vector<Tensor> parameters;
  Tensor lr, step;  // f64, without dimensions; `step`: how many steps have begun

  // State of parameter i, of its sizes and dtype unless it was replaced.
  Tensor& at(const std::string& slot, size_t i) { return state_.at(slot).at(i); }
  // A slot for the whole group, f64 without dimensions.
  Tensor& number(const std::string& name, double initial);
  std::vector<std::pair<std::string, Tensor>> state(const std::string& prefix) const;

 private:
  std::vector<std::string> replaced_before_;  // it was given all the same
  std::map<std::string, std::vector<Tensor>> state_;
  std::map<std::string, Tensor> numbers_;
};

}  // namespace toroid::train
