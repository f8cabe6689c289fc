// The constants of programs as one safetensors file, each on a boundary of 64 bytes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/store.h"
#include "package/manifest.h"

namespace toroid::package {

Layout layout_of(const Tensor& t);

// What is to be written. Elements are views of the tensors, which the object keeps.
class WeightsWriter {
 public:
  // The constants of a program that is named by content, under the names that its inputs and buffers have. One that is here stays, and
  // tensors of whoever loads the program are left out.
  void add(const exec::Loadable& l);
  // One constant. UserError where it is here, is made of weights, and has other elements.
  void add(const std::string& constant, const std::string& name, const Tensor& tensor);
  // Their places, by the name in plans.
  const std::map<std::string, Constant>& constants() const { return constants_; }
  // What the file begins with: the length of its header, and that.
  std::string head() const;
  std::vector<std::string_view> contents() const;

 private:
  void add(const exec::Plan& plan, const exec::Store& store);
  void add(const std::string& constant, const std::string& name, const exec::Store& store);
  struct Item {
    std::string name;
    Tensor tensor;
    std::string_view bytes;
  };
  std::vector<Item> in_order() const;
  std::map<std::string, Constant> constants_;
  std::map<std::string, Item> items_;  // by their name in the file
};

// The constants of a package as tensors in the bytes of its weights, which `owner` keeps. UserError for weights that are not as the
// manifest says: the header is hashed, elements are not.
std::map<std::string, Tensor> read_weights(const Manifest& m, std::string_view weights, const std::shared_ptr<void>& owner,
                                           const std::string& source);

}  // namespace toroid::package
