// A tensor as it lies in a file: type, geometry and a view of its storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toroid/dtype.h"

namespace toroid::import {

struct TensorRecord {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;  // in elements, never negative
  int64_t offset = 0;                   // of the first element, in elements
  std::span<const std::byte> storage;   // little-endian, of any alignment; a view into the file
  size_t storage_id = 0;                // records of one file with equal ids share their storage (tied weights, views)

  int64_t numel() const;
  bool is_contiguous() const;
  // The bytes of a contiguous record. UserError when it is not contiguous.
  std::span<const std::byte> bytes() const;
};

// Row-major strides. Sizes must have passed check_record or come from code.
std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);

// Throws UserError ("<source>: tensor <name>: ...") unless sizes and strides are of equal rank and not negative, all elements lie
// inside the storage, and the number of elements is sane (a tensor expanded by zero strides has at most 2^31 elements).
void check_record(const TensorRecord& record, std::string_view source);

}  // namespace toroid::import
