// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace toroid {

enum class DType : uint8_t { F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, C64, C128 };
inline constexpr int kDTypeCount = 15;

// Size of one element in bytes.
size_t size_of(DType t);
// Short name: "f32", "bool", "c64" ...
std::string_view name_of(DType t);
// Inverse of name_of. Throws UserError for an unknown name.
DType dtype_from_name(std::string_view name);

inline bool is_complex(DType t) { return t == DType::C64 || t == DType::C128; }
inline bool is_float(DType t) { return t == DType::F32 || t == DType::F64 || t == DType::F16 || t == DType::BF16; }
inline bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }
inline bool is_bool(DType t) { return t == DType::Bool; }
inline bool is_int(DType t) { return !is_float(t) && !is_complex(t) && !is_bool(t); }

}  // namespace toroid
