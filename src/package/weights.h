// The constants of programs as safetensors files, each on a boundary of 64 bytes: one in the package, and, where they are to lie beside it,
// one for each that is large.
#pragma once

#include <filesystem>
#include <functional>
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
  // beside: whether large constants are files of their own.
  explicit WeightsWriter(bool beside = false) : beside_(beside) {}
  // The constants of a program that is named by content, under the names that its inputs and buffers have. One that is here stays, and
  // tensors of whoever loads the program are left out.
  void add(const exec::Loadable& l);
  // One constant. UserError where it is here, is made of weights, and has other elements.
  void add(const std::string& constant, const std::string& name, const Tensor& tensor);
  // Their places, by the name in plans; those in files() too.
  const std::map<std::string, Constant>& constants() const { return constants_; }
  // Those beside the package. Equal constants of any two packages are equal files.
  const std::vector<WeightFile>& files() const { return files_; }
  // Writes those that the folder has not, or has with other bytes, each in one step.
  void write_files(const std::filesystem::path& folder) const;
  // What the package's own begins with: the length of its header, and that.
  std::string head() const;
  std::vector<std::string_view> contents() const;

 private:
  void add(const exec::Plan& plan, const exec::Store& store);
  void add(const std::string& constant, const std::string& name, const exec::Store& store);
  // A tensor and its name in the file that it is in.
  struct Item {
    std::string name;
    Tensor tensor;
    std::string_view bytes;
    int file = -1;  // see Constant
  };
  static std::string head_of(const std::vector<Item>& items);
  static std::vector<std::string_view> contents_of(const std::vector<Item>& items);
  // Those in the package's own file.
  std::vector<Item> in_order() const;
  int add_file(const Item& item);
  const bool beside_;
  std::vector<WeightFile> files_;
  std::vector<Item> held_;  // what each of them holds
  std::map<std::string, Constant> constants_;
  std::map<std::string, Item> items_;  // by their name in the file or the manifest
};

// The header of weights, with the number that it begins with. UserError where the bytes end within it.
std::string_view header_in(std::string_view bytes, const std::string& source);

// The constants of a package as tensors in the bytes of its weights, which `owner` keeps, and in files beside it. UserError for weights
// that are not as the manifest says: headers are hashed, elements are not.
std::map<std::string, Tensor> read_weights(const Manifest& m, std::string_view weights, const std::shared_ptr<void>& owner,
                                           const std::filesystem::path& folder, const std::string& source);

}  // namespace toroid::package
