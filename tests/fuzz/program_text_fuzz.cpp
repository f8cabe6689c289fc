// Fuzzes the text form of programs: what parses prints, and parses again to the same; the verifier accepts or refuses it.
#include <cstddef>
#include <cstdint>
#include <span>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "base/check.h"
#include "choice/parse.h"
#include "choice/verify.h"
#include "fuzz/harness.h"

namespace {

using namespace toroid;

void run(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::optional<choice::Program> p;
  fuzz::ignoring_user_errors([&] { p = choice::parse(text); });
  if (!p) return;
  const std::string printed = choice::to_string(*p);
  TOROID_CHECK(choice::to_string(choice::parse(printed)) == printed, "this reads back as something else:\n{}", printed);
  for (auto stage : {choice::Stage::Lowered, choice::Stage::Scheduled}) try {
      choice::verify(*p, stage, "reading it");
    } catch (const InternalError& e) {
      TOROID_CHECK(std::string_view(e.what()).find("is broken: ") != std::string_view::npos, "not refused by a rule: {}", e.what());
    }
}

}  // namespace

#ifdef TOROID_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
#else
TEST(Fuzz, ProgramText) { EXPECT_GT(fuzz::replay_mutants(TOROID_SOURCE_DIR "/tests/data/programs", run, 500), 10000u); }
#endif
