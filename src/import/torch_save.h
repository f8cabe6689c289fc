// Reads what torch.save wrote (state dicts, constants, checkpoints such as pytorch_model.bin, example inputs).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/tensor_record.h"

namespace toroid::import {

// All tensors of a torch.save zip, in the order of the file. A tensor in a dict, list or tuple is named by the keys and indices that
// lead to it, joined by dots: "encoder.weight", "0.1", "model.encoder.weight". Values that are no tensors are skipped, objects of
// other classes are a UserError that names the class. Records are views into `bytes`; those on one storage share storage_id.
std::vector<TensorRecord> read_torch_save(std::span<const std::byte> bytes, std::string_view source);

}  // namespace toroid::import
