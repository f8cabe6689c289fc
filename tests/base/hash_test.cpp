#include "base/hash.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(Hash, KnownValueIsStableOverBuilds) {
  EXPECT_EQ(hash_text("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash_text("a"), hash_text("b"));
}

TEST(Hash, LengthPrefixKeepsPartsApart) {
  EXPECT_NE(Hasher().add("ab").add("c").finish(), Hasher().add("a").add("bc").finish());
  EXPECT_EQ(Hasher().add("ab").add("c").finish(), Hasher().add(std::string_view("ab")).add("c").finish());
}

TEST(Hash, WidthOfAnIntegerDoesNotMatterButItsValueDoes) {
  EXPECT_EQ(Hasher().add(int8_t{-1}).finish(), Hasher().add(int64_t{-1}).finish());
  EXPECT_NE(Hasher().add(1).finish(), Hasher().add(2).finish());
  EXPECT_NE(Hasher().add(0.0).finish(), Hasher().add(-0.0).finish());
}

TEST(Hash, MoreMayBeAddedAfterFinish) {
  Hasher hasher;
  hasher.add("a");
  const Hash128 first = hasher.finish();
  EXPECT_EQ(first, hasher.finish());
  EXPECT_EQ(hasher.add("b").finish(), Hasher().add("a").add("b").finish());
}

TEST(Hash, CombineDependsOnOrder) { EXPECT_NE(hash_combine(1, 2), hash_combine(2, 1)); }

}  // namespace
}  // namespace toroid
