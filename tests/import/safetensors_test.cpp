#include "import/safetensors.h"

#include <gtest/gtest.h>

#include "import/zip_builder.h"
#include "toroid/error.h"

namespace toroid::import {
namespace {

std::string image(const std::string& header, size_t data) { return ZipBuilder::number(header.size(), 8) + header + std::string(data, 'd'); }

std::string error_of(const std::string& header, size_t data) {
  const std::string file = image(header, data);
  return message_of<UserError>([&] { parse_safetensors(bytes_of(file), "t.safetensors"); });
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string file =
      image(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
            R"("a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"e":{"dtype":"BF16","shape":[4,0],"data_offsets":[8,8]}}  )",
            32);
  StringMap metadata;
  const auto records = parse_safetensors(bytes_of(file), "t", &metadata);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].name, "a");
  EXPECT_EQ(records[0].numel(), 1);
  EXPECT_EQ(records[1].name, "e");
  EXPECT_EQ(records[2].strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(records[2].bytes().size(), 24u);
  EXPECT_EQ(metadata.at("format"), "pt");
}

TEST(Safetensors, RefusesInexactHeaders) {
  const auto one = [](const char* dtype, const char* shape, const char* range) {
    return std::string(R"({"a":{"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + range + "}}";
  };
  EXPECT_EQ(error_of(one("F32", "[2]", "[0,8]"), 8), "");
  EXPECT_NE(error_of(one("F32", "[2]", "[0,8]"), 9).find("belong to none"), std::string::npos);
  EXPECT_NE(error_of(one("F32", "[2]", "[1,9]"), 9).find("holes"), std::string::npos);
  EXPECT_NE(error_of(one("F32", "[2]", "[0,8]"), 7).find("outside"), std::string::npos);
  EXPECT_NE(error_of(one("F32", "[3]", "[0,8]"), 8).find("do not hold"), std::string::npos);
  EXPECT_NE(error_of(one("F32", "[4611686018427387904,4]", "[0,8]"), 8), "");
  EXPECT_NE(error_of(one("F32", "[-2,-1]", "[0,8]"), 8), "");
  EXPECT_NE(error_of(one("F8_E4M3", "[8]", "[0,8]"), 8).find("F8_E4M3 is not supported"), std::string::npos);
  EXPECT_NE(error_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
            "");
  EXPECT_NE(error_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2),
            "");
  const std::string long_header = ZipBuilder::number(1000, 8) + "{}";
  EXPECT_THROW(parse_safetensors(bytes_of(long_header), "t"), UserError);
  EXPECT_THROW(parse_safetensors({}, "t"), UserError);
  for (const char* saved : {"PK\x03\x04 what torch.save writes",
                            "\x80\x02\x8a\x0al\xfc\x9c"
                            "F\xf9 before 1.6"})
    try {
      parse_safetensors(bytes_of(saved), "net.pth");
      ADD_FAILURE() << "what torch.save writes was read";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("net.pth: a file as torch.save writes it"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("save_file(net.state_dict(), path)"), std::string::npos) << e.what();
    }
}

TEST(Safetensors, WritesWhatItReads) {
  const std::string halves(6, 'h'), words(16, 'w');
  const std::vector<SafetensorsItem> items = {{"x\"y\n", DType::F16, {3}, bytes_of(halves)}, {"z", DType::I64, {1, 2}, bytes_of(words)}};
  const std::string file = format_safetensors(items, {{"k", "v"}});
  StringMap metadata;
  const auto records = parse_safetensors(bytes_of(file), "t", &metadata);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "z");  // larger elements first
  EXPECT_EQ(records[1].name, "x\"y\n");
  EXPECT_EQ(records[1].dtype, DType::F16);
  EXPECT_EQ(metadata.at("k"), "v");
  EXPECT_EQ((file.size() - 22) % 8, 0u);
  EXPECT_THROW(format_safetensors(std::vector<SafetensorsItem>{{"a", DType::F32, {3}, bytes_of(words)}}), UserError);
}

class Folder : public testing::Test {
 protected:
  void SetUp() override { dir_ = make_temp_dir("toroid-safetensors-test"); }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  void write(const std::string& name, const std::string& tensor) const {
    const std::string data(4, 'x');
    write_safetensors(dir_ / name, std::vector<SafetensorsItem>{{tensor, DType::F32, {1}, bytes_of(data)}});
  }
  std::filesystem::path dir_;
};

TEST_F(Folder, ShardsAreReadThroughTheIndex) {
  write("s1.safetensors", "a");
  write("s2.safetensors", "b");
  write_file_atomic(dir_ / "model.safetensors.index.json", R"({"metadata":{},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  const auto reader = SafetensorsReader::open(dir_);
  EXPECT_EQ(reader.tensors().size(), 2u);
  EXPECT_EQ(reader.at("b").bytes().size(), 4u);
  EXPECT_EQ(reader.find("c"), nullptr);
}

TEST_F(Folder, BadIndexIsRefused) {
  write("s1.safetensors", "a");
  for (const char* map : {R"({"a":"../s1.safetensors"})", R"({"a":"s1.safetensors","b":"s1.safetensors"})", R"({"a":".."})"}) {
    write_file_atomic(dir_ / "i.safetensors.index.json", std::string(R"({"weight_map":)") + map + "}");
    EXPECT_THROW(SafetensorsReader::open(dir_ / "i.safetensors.index.json"), UserError) << map;
  }
  EXPECT_THROW(SafetensorsReader::open(dir_), UserError);
}

}  // namespace
}  // namespace toroid::import
