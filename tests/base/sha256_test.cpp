#include "base/sha256.h"

#include <gtest/gtest.h>

#include <random>

namespace toroid {
namespace {

// The examples of FIPS 180-4, and lengths around those of a block.
TEST(Sha256, KnownTexts) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, InstructionsGiveWhatWordsGive) {
  if (!has_sha_instructions()) GTEST_SKIP() << "the processor has no SHA-NI";
  std::mt19937 random(1);
  for (size_t n = 0; n < 400; ++n) {
    std::string text(n, '\0');
    for (char& c : text) c = static_cast<char>(random());
    Sha256 one(false), other(true);
    one.add(text), other.add(text);
    ASSERT_EQ(one.finish(), other.finish()) << n;
  }
}

TEST(Sha256, PartsGiveWhatTheWholeGives) {
  for (size_t n = 50; n < 140; ++n) {
    const std::string text(n, 'x');
    Sha256 h;
    h.add(std::string_view(text).substr(0, n / 3)), h.add(std::string_view(text).substr(n / 3));
    EXPECT_EQ(h.finish(), sha256(text)) << n;
  }
}

}  // namespace
}  // namespace toroid
