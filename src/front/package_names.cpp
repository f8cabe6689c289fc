#include "front/package_names.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::front {
namespace {

constexpr size_t kLongestName = 255;

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = byte(i);
    const size_t more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first < 0xf5 ? 3 : 4;
    if ((first >= 0x80 && first < 0xc2) || more > 3 || i + more >= text.size()) return false;
    uint32_t code = more == 0 ? first : first & (0x3f >> more);
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace

void check_names(const std::vector<std::string>& names, const char* kind) {
  std::set<std::string_view> known;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
    TOROID_USER_CHECK(!name.empty() && name.size() <= kLongestName, "PackageOptions::{}_names: name {} has {} bytes, expected 1 to {}",
                      kind, i, name.size(), kLongestName);
    TOROID_USER_CHECK(is_utf8(name) && std::none_of(name.begin(), name.end(), is_control),
                      "PackageOptions::{}_names: name {} is no UTF-8 text without control characters: {}", kind, i,
                      sym::quoted(is_utf8(name) ? name : "..."));
    TOROID_USER_CHECK(known.insert(name).second, "PackageOptions::{0}_names: \"{1}\" stands there twice; give each {0} a name of its own",
                      kind, name);
  }
}

std::vector<std::string> names_for(size_t count, const std::vector<std::string>& given, const char* kind) {
  TOROID_USER_CHECK(given.empty() || given.size() == count, "PackageOptions::{0}_names has {1} names, the function has {2} {0}s", kind,
                    given.size(), count);
  std::vector<std::string> out = given;
  for (size_t i = out.size(); i < count; ++i) out.push_back(fmt::format("{}{}", kind, i));
  return out;
}

}  // namespace toroid::front
