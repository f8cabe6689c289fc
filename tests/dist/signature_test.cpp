// Calls as numbers: equal for equal calls alone, in all processes.
#include "dist/signature.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "errors.h"

namespace toroid {
namespace {

using namespace distributed;

const Collective kCall{.kind = Kind::AllReduce, .dtype = DType::F32, .op = ReduceOp::Sum, .count = 64, .where = "a.cpp:7"};

TEST(Signatures, DifferWhereCallsDo) {
  std::vector<Collective> others(7, kCall);
  others[0].kind = Kind::ReduceScatter;
  others[1].dtype = DType::BF16;
  others[2].op = ReduceOp::Max;
  others[3].count = 65;
  others[4].where = "a.cpp:8";
  others[5].kind = Kind::Broadcast;
  others[6].kind = Kind::Broadcast, others[6].root = 1;
  std::set<uint32_t> seen = {signature_of(kCall)};
  for (auto& c : others) EXPECT_TRUE(seen.insert(signature_of(c)).second) << to_string(c);
  EXPECT_EQ(signature_of(kCall), signature_of(site_signature(kCall), 64)) << "a kernel adds the elements";
}

// Sizes and places as programs have them: about as many meet by chance as of random numbers of 32 bits (100000 of them: 1.2).
TEST(Signatures, HardlyEverMeet) {
  std::set<uint32_t> seen;
  int calls = 0;
  for (int line = 1; line <= 100; ++line) {
    Collective c = kCall;
    c.where = "model.cpp:" + std::to_string(line);
    const uint32_t site = site_signature(c);
    for (int64_t n = 0; n < 1000; ++n, ++calls) seen.insert(signature_of(site, n * (line % 2 ? 1 : 4096)));
  }
  EXPECT_GT(static_cast<int>(seen.size()), calls - 8);
  EXPECT_FALSE(seen.count(0));
}

// Ranks may be built by other compilers.
TEST(Signatures, AreTheSameEverywhere) {
  EXPECT_EQ(site_signature(kCall), 1765211440u);
  EXPECT_EQ(signature_of(kCall), 872092269u);
}

TEST(Signatures, NameBothCalls) {
  Collective other = kCall;
  other.kind = Kind::AllGather;
  const uint32_t own = remember_signature(kCall), its = remember_signature(other);
  EXPECT_EQ(signature_mismatch(1, its, 0, own),
            "rank 1 called all_gather_into_tensor of f32[64] at a.cpp:7, rank 0 all_reduce(sum) of f32[64] at a.cpp:7");
  EXPECT_EQ(signature_mismatch(1, own, 0, own), "");
  EXPECT_TRUE(
      test::contains(signature_mismatch(2, 0x1234abcd, 0, own), "rank 2 called something else (signature 0x1234abcd), rank 0 all_reduce"));
}

}  // namespace
}  // namespace toroid
