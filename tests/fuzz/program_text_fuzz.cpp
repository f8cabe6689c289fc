// Fuzzes the text form of programs: what parses prints, and parses again to the same; the verifier accepts or refuses it.
#include <cstddef>
#include <cstdint>
#include <span>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "base/check.h"
#include "fuzz/harness.h"
#include "program/parse.h"
#include "program/verify.h"

namespace {

using namespace toroid;

void run(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::optional<program::Program> p;
  fuzz::ignoring_user_errors([&] { p = program::parse(text); });
  if (!p) return;
  const std::string printed = program::to_string(*p);
  TOROID_CHECK(program::to_string(program::parse(printed)) == printed, "this reads back as something else:\n{}", printed);
  for (auto stage : {program::Stage::Lowered, program::Stage::Scheduled}) try {
      program::verify(*p, stage, "reading it");
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
// Texts that mostly parse: a number is another one, or a line is gone, there twice, or in another place.
std::string with_other_tokens(std::string text, std::minstd_rand& random) {
  constexpr std::string_view kNumbers[] = {"0", "1", "2", "7", "-1", "99", "2147483648", "9223372036854775807", "-9223372036854775808"};
  if (random() % 3) {
    std::vector<size_t> digits;
    for (size_t i = 0; i < text.size(); ++i)
      if (std::isdigit(static_cast<unsigned char>(text[i])) && !std::isdigit(static_cast<unsigned char>(text[i - 1]))) digits.push_back(i);
    const size_t at = digits[random() % digits.size()], end = text.find_first_not_of("0123456789", at);
    return text.replace(at, end - at, kNumbers[random() % std::size(kNumbers)]);
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) lines.push_back(text.substr(at, text.find('\n', at) + 1 - at));
  const size_t i = random() % lines.size(), k = random() % lines.size();
  const auto how = random() % 3;
  if (how == 0) lines[i].clear();
  if (how == 1) lines[k] += lines[i];
  if (how == 2) std::swap(lines[i], lines[k]);
  std::string out;
  for (auto& line : lines) out += line;
  return out;
}

TEST(Fuzz, ProgramTokens) {
  std::minstd_rand random(1);
  for (auto& entry : std::filesystem::directory_iterator(TOROID_SOURCE_DIR "/tests/data/programs"))
    for (int i = 0; i < 300; ++i) {
      std::string text = read_file(entry.path());
      for (uint32_t n = 0; n <= random() % 3; ++n) text = with_other_tokens(text, random);
      SCOPED_TRACE(text);
      ASSERT_NO_THROW(run(std::as_bytes(std::span(text))));
    }
}

TEST(Fuzz, ProgramText) { EXPECT_GT(fuzz::replay_mutants(TOROID_SOURCE_DIR "/tests/data/programs", run, 500), 10000u); }
#endif
