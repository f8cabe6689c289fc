// Tensors of ONNX files as tensors of Toroid.
#pragma once

#include <variant>

#include "import/onnx/model.h"
#include "toroid/tensor.h"

namespace toroid::import::onnx {

// What a name of a model stands for: a tensor (undefined: an optional value that is absent), or a list of tensors, whose length is known
// when the model is imported.
using Item = std::variant<Tensor, std::vector<Tensor>>;

// The same with f(tensor) in place of each tensor that is there.
template <class F>
Item with_tensors(Item item, F&& f) {
  if (auto* t = std::get_if<Tensor>(&item)) return t->defined() ? Item(f(*t)) : item;
  for (auto& t : std::get<std::vector<Tensor>>(item)) t = f(t);
  return item;
}

// UserError, with the name, unless it is a tensor that is there.
const Tensor& tensor_of(const Item& item, std::string_view name);

// nullopt for what Toroid does not have (texts, 8-bit floats, types of fewer than 8 bits).
std::optional<DType> dtype_of(int32_t data_type);
// UserError, naming the type and `what` has it, where there is none.
DType need_dtype(int32_t data_type, std::string_view what);

// Numbers of 4 bits become tensors of I8 or U8, which hold the same numbers: whoever asks sees to it that nothing depends on the type.
inline bool is_4bit(int32_t data_type) { return data_type == kUInt4 || data_type == kInt4; }

// The tensor, as a view of the mapped file (which it keeps alive) where alignment allows, else as a copy. UserError for a type that
// Toroid does not have and for sizes that do not fit the data.
Tensor load_tensor(const TensorProto& proto, const std::shared_ptr<const ModelFile>& file);
// The same of a tensor outside of a model, always as a copy. `source` is for messages.
Tensor copy_tensor(const TensorProto& proto, const std::string& source);
// What a file holds that has just one value of that kind.
Item read_item_file(const std::filesystem::path& path, TypeKind kind);

}  // namespace toroid::import::onnx
