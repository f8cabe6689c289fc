#include "toroid/dtype.h"

#include "base/check.h"

namespace toroid {
namespace {

struct Row {
  std::string_view name;
  size_t size;
};
constexpr Row kRows[kDTypeCount] = {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"i8", 1},   {"i16", 2}, {"i32", 4},  {"i64", 8},
                                    {"u8", 1},  {"u16", 2}, {"u32", 4}, {"u64", 8},  {"bool", 1}, {"c64", 8}, {"c128", 16}};

}  // namespace

size_t size_of(DType t) { return kRows[static_cast<int>(t)].size; }

std::string_view name_of(DType t) { return kRows[static_cast<int>(t)].name; }

DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  fail<UserError>("unknown dtype \"{}\"; expected one of f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool c64 c128", name);
}

}  // namespace toroid
