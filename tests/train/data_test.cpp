// Files of tokens, rows of tensors, and the order in which samples come.
#include "toroid/train/data.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "base/files.h"
#include "toroid/ops.h"
#include "toroid/weights.h"
#include "train/harness.h"

namespace toroid::train {
namespace {

namespace fs = std::filesystem;

class TokenFiles : public testing::Test {
 protected:
  ~TokenFiles() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  const fs::path folder_ = make_temp_dir();
};

std::vector<double> of(const DataSource& data, std::vector<int64_t> samples) { return data.batch(samples).at(0).to_vector(); }

TEST_F(TokenFiles, EachFormatGivesTheSameWindows) {
  const std::vector<double> first{0, 1, 2, 3}, last{6, 7, 8, 9};  // 11 tokens in windows of 3 + 1
  std::string text, u16, u32;
  for (char i = 0; i < 11; ++i) (text += i), (u16 += i) += '\0', ((u32 += i) += '\0') += std::string(2, '\0');
  save_tensors((folder_ / "t.safetensors").string(), {{"tokens", to(arange(11), DType::I32)}});
  const std::pair<std::string, TokenFormat> files[] = {{write("t", text), TokenFormat::Text},
                                                       {write("t16", u16), TokenFormat::U16},
                                                       {write("t32", u32), TokenFormat::U32},
                                                       {(folder_ / "t.safetensors").string(), TokenFormat::Safetensors}};
  for (auto& [path, format] : files) {
    const TokenData data(path, {.length = 3, .format = format});
    EXPECT_EQ(data.size(), 3) << path;
    EXPECT_EQ(of(data, {0}), first) << path;
    EXPECT_EQ(of(data, {2}), last) << path;
    EXPECT_EQ(data.batch(std::vector<int64_t>{2, 0}).at(0).sizes(), (std::vector<int64_t>{2, 4})) << path;
    EXPECT_REFUSED(of(data, {3}), "there is no sample 3; there are 3");
    EXPECT_REFUSED(of(data, {-1}), "there is no sample -1");
  }
}

TEST_F(TokenFiles, TokensBeyondABytesRangeAreUnsigned) {
  const TokenData u16(write("a", std::string("\xff\xff\x00\x80", 4)), {.length = 1, .format = TokenFormat::U16});
  EXPECT_EQ(of(u16, {0}), (std::vector<double>{65535, 32768}));
  const TokenData u32(write("b", std::string("\xff\xff\xff\xff\x01\x00\x00\x00", 8)), {.length = 1, .format = TokenFormat::U32});
  EXPECT_EQ(of(u32, {0}), (std::vector<double>{4294967295.0, 1}));
  const TokenData text(write("c", "\xff\x80"), {.length = 1});
  EXPECT_EQ(of(text, {0}), (std::vector<double>{255, 128}));
}

TEST_F(TokenFiles, PartsDoNotOverlap) {
  const std::string path = write("t", std::string("abcdefghij"));
  const TokenData a(path, {.length = 2, .to = 0.5}), b(path, {.length = 2, .from = 0.5});
  EXPECT_EQ(of(a, {1}), (std::vector<double>{'c', 'd', 'e'}));
  EXPECT_EQ(of(b, {0}), (std::vector<double>{'f', 'g', 'h'}));
  EXPECT_NE(a.describe(), b.describe());
}

TEST_F(TokenFiles, OtherContentsAreDescribedOtherwise) {
  const TokenData a(write("a", "abcdefghij"), {.length = 2}), same(write("b", "abcdefghij"), {.length = 2});
  EXPECT_EQ(a.describe(), same.describe());
  EXPECT_NE(a.describe(), TokenData(write("c", "abcdefghiX"), {.length = 2}).describe());
  EXPECT_NE(a.describe(), TokenData(write("d", "Xbcdefghij"), {.length = 2}).describe());
  EXPECT_NE(a.describe(), TokenData(write("e", "abcdefghij"), {.length = 3}).describe());
}

TEST_F(TokenFiles, BadOnesAreRefused) {
  EXPECT_REFUSED(TokenData((folder_ / "none").string()), "No such file or directory; check the path");
  EXPECT_REFUSED(TokenData(folder_.string()), "it is not a regular file");
  EXPECT_REFUSED(TokenData(write("odd", "abc"), {.length = 1, .format = TokenFormat::U16}), "3 bytes are no multiple of the 2");
  EXPECT_REFUSED(TokenData(write("short", "abc"), {.length = 3}), "a sample of length 3 needs 4");
  EXPECT_REFUSED(TokenData(write("empty", ""), {.length = 3}), "0 tokens");
  EXPECT_REFUSED(TokenData(write("t", "abcdef"), {.length = 0}), "a length of 0 is not positive");
  EXPECT_REFUSED(TokenData(write("t", "abcdef"), {.length = 1, .from = 0.7, .to = 0.3}), "is not within 0 to 1");
  EXPECT_REFUSED(parse_token_format("u8"), "there is no token format \"u8\"");
  const std::string path = (folder_ / "t.safetensors").string();
  save_tensors(path, {{"words", filled({4}, 1, DType::I64)}});
  EXPECT_REFUSED(TokenData(path, {.length = 1, .format = TokenFormat::Safetensors}), "there is no tensor \"tokens\"");
  save_tensors(path, {{"tokens", filled({4}, 1)}});
  EXPECT_REFUSED(TokenData(path, {.length = 1, .format = TokenFormat::Safetensors}), "must be integers of one dimension");
}

TEST_F(TokenFiles, OneThatBecomesShorterIsAnError) {
  const std::string path = write("t", std::string(4000, 'a'));
  const TokenData data(path, {.length = 10});
  fs::resize_file(path, 100);
  EXPECT_EQ(of(data, {0}).size(), 11u);
  EXPECT_THROW(of(data, {300}), EnvironmentError);
}

TEST(TensorRows, AreStackedInTheOrderAskedFor) {
  const TensorData data({Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2}), Tensor::of({7, 8, 9}, {3}, DType::I64)});
  const Batch b = data.batch(std::vector<int64_t>{2, 0, 2});
  EXPECT_EQ(b.at(0).to_vector(), (std::vector<double>{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(b.at(1).to_vector(), (std::vector<double>{9, 7, 9}));
  EXPECT_REFUSED(data.batch(std::vector<int64_t>{3}), "there is no sample 3");
  EXPECT_REFUSED(TensorData({}), "no tensors");
  EXPECT_REFUSED(TensorData({Tensor::of({1, 2}, {2}), Tensor::of({1}, {1})}), "tensor 1 has 1 rows, the first one 2");
  EXPECT_REFUSED(TensorData({filled({0, 2}, 0)}), "have no rows");
  EXPECT_NE(data.describe(), TensorData({Tensor::of({1, 2, 3, 4, 5, 7}, {3, 2}), Tensor::of({7, 8, 9}, {3}, DType::I64)}).describe());
}

TEST(SampleOrders, EachEpochHasEachSampleOnceInAnotherOrder) {
  for (const int64_t n : {1, 2, 3, 5, 16, 17, 100, 1000}) {
    const SampleOrder order(n, 7), other(n, 8), plain(n, 7, false);
    std::vector<std::vector<int64_t>> epochs(3);
    for (int64_t e = 0; e < 3; ++e) {
      for (int64_t i = 0; i < n; ++i) epochs[static_cast<size_t>(e)].push_back(order.at(e * n + i));
      const std::set<int64_t> distinct(epochs[static_cast<size_t>(e)].begin(), epochs[static_cast<size_t>(e)].end());
      EXPECT_EQ(static_cast<int64_t>(distinct.size()), n);
      EXPECT_EQ(*distinct.begin(), 0);
      EXPECT_EQ(*distinct.rbegin(), n - 1);
    }
    EXPECT_EQ(plain.at(n + n / 2), n / 2);
    if (n < 16) continue;
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
    int64_t as_other = 0, in_place = 0, after_its_neighbour = 0;
    for (int64_t i = 0; i < n; ++i) {
      as_other += order.at(i) == other.at(i), in_place += order.at(i) == i;
      after_its_neighbour += i > 0 && order.at(i) == order.at(i - 1) + 1;
    }
    EXPECT_LE(as_other, n / 4 + 2) << n;
    EXPECT_LE(in_place, n / 4 + 2) << n;
    EXPECT_LE(after_its_neighbour, n / 4 + 2) << n;
  }
  EXPECT_REFUSED(SampleOrder(0, 1), "no samples");
  EXPECT_REFUSED(SampleOrder(3, 1).at(-1), "is no place");
}

}  // namespace
}  // namespace toroid::train
