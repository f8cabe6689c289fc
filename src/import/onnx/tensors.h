// Tensors of ONNX files as tensors of Toroid.
#pragma once

#include "import/onnx/model.h"
#include "toroid/tensor.h"

namespace toroid::import::onnx {

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
// The tensor in a file that holds just one.
Tensor read_tensor_file(const std::filesystem::path& path);

}  // namespace toroid::import::onnx
