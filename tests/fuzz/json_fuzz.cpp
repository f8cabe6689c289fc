// Fuzzes the JSON reader and the parsers of the small languages inside export archives.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "base/check.h"
#include "fuzz/harness.h"
#include "import/json.h"
#include "import/sym_expr_parser.h"
#include "import/treespec.h"

namespace {

using namespace toroid::import;
using toroid::fuzz::ignoring_user_errors;

size_t visit(const Json& v) {
  size_t sum = 1;
  switch (v.kind()) {
    case JsonKind::String:
      return sum + v.as_str().size();
    case JsonKind::Int:
      return sum + static_cast<size_t>(v.as_int() & 1);
    case JsonKind::Array:
      for (size_t i = 0; i < v.size(); ++i) sum += visit(v[i]);
      return sum;
    case JsonKind::Object:
      for (size_t i = 0; i < v.size(); ++i) sum += v.key(i).size() + visit(v.value(i));
      return sum;
    default:
      return sum;
  }
}

void run(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ignoring_user_errors([&] {
    const auto doc = JsonDocument::parse(text, "fuzz");
    TOROID_CHECK(visit(doc.root()) > 0);
    doc.root().at("missing");
  });
  ignoring_user_errors([&] { to_string(parse_sym_expr(text)); });
  ignoring_user_errors([&] { treespec_leaf_names(text, "fuzz"); });
  ignoring_user_errors([&] { input_leaf_names(text, {"x"}, "fuzz"); });
}

}  // namespace

#ifdef TOROID_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
#else
TEST(Fuzz, JsonAndSmallLanguages) { EXPECT_GT(toroid::fuzz::replay_mutants(TOROID_SOURCE_DIR "/tests/data/import", run, 300), 600u); }
#endif
