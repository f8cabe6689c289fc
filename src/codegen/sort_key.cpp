#include "codegen/sort_key.h"

#include <fmt/format.h>

namespace toroid::codegen {

std::string sort_key_text(DType t, bool descending, const std::string& type, const std::string& signed_type) {
  const size_t bits = 8 * size_of(t);
  const std::string sign = fmt::format("({})1 << {}", type, bits - 1);
  std::string key = "x";
  if (is_float(t)) {
    const int fraction = t == DType::F64 ? 52 : t == DType::F32 ? 23 : t == DType::F16 ? 10 : 7;
    const std::string infinity = fmt::format("((({0})1 << {1}) - ({0})1) << {2}", type, bits - 1 - static_cast<size_t>(fraction), fraction);
    key = fmt::format("size > ({3}) ? ({0})~({0})0 : size == ({0})0 ? ({0})({1}) : ({0})(x ^ (({0})(({2})x >> {4}) | ({1})))", type, sign,
                      signed_type, infinity, bits - 1);
    key = fmt::format("const {0} size = ({0})(x & ({0})~({1}));\n  const {0} key = {2};", type, sign, key);
  } else {
    const bool has_sign = !is_bool(t) && name_of(t)[0] == 'i';
    key = fmt::format("const {0} key = {1};", type, has_sign ? fmt::format("({})(x ^ ({}))", type, sign) : "x");
  }
  return key + fmt::format("\n  return {};", descending ? fmt::format("({})~key", type) : "key");
}

}  // namespace toroid::codegen
