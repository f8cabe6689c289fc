#include "import/zip.h"

#include <gtest/gtest.h>

#include "import/zip_builder.h"
#include "toroid/error.h"

namespace toroid::import {
namespace {

TEST(Zip, ReadsEntriesInPlace) {
  const std::string file = ZipBuilder{}.build({{"b/two", "22"}, {"a", "1"}, {"empty", ""}});
  const auto zip = ZipArchive::open(bytes_of(file), "t.zip");
  EXPECT_EQ(zip.entries().size(), 3u);
  EXPECT_EQ(zip.at("b/two").text(), "22");
  EXPECT_EQ(zip.at("a").text(), "1");
  EXPECT_EQ(zip.at("empty").text(), "");
  EXPECT_EQ(zip.find("c"), nullptr);
  EXPECT_THROW(zip.at("c"), UserError);
}

TEST(Zip, TheDirectoryIsAuthoritativeForSizesAndTheLocalHeaderForTheOffset) {
  ZipBuilder builder;
  builder.sizes_in_directory_only = true;
  builder.local_padding = 37;
  const std::string file = builder.build({{"x", "content"}});
  EXPECT_EQ(ZipArchive::open(bytes_of(file), "t").at("x").text(), "content");
}

TEST(Zip, OpensAZipInsideAZip) {
  const std::string file = ZipBuilder{}.build({{"inner.zip", ZipBuilder{}.build({{"x", "deep"}})}});
  const auto outer = ZipArchive::open(bytes_of(file), "t");
  EXPECT_EQ(ZipArchive::open(outer.at("inner.zip").data, "inner").at("x").text(), "deep");
}

TEST(Zip, Zip64SizesAreRead) {
  const auto n = ZipBuilder::number;
  const std::string local = "PK\3\4" + n(45, 2) + n(0, 20) + n(1, 2) + n(0, 2) + "x" + "data";
  const std::string extra = n(1, 2) + n(24, 2) + n(4, 8) + n(4, 8) + n(0, 8);
  const std::string dir = "PK\1\2" + n(45, 2) + n(45, 2) + n(0, 12) + n(0xffffffff, 4) + n(0xffffffff, 4) + n(1, 2) + n(extra.size(), 2) +
                          n(0, 10) + n(0xffffffff, 4) + "x" + extra;
  const std::string end64 = "PK\6\6" + n(44, 8) + n(45, 2) + n(45, 2) + n(0, 8) + n(1, 8) + n(1, 8) + n(dir.size(), 8) + n(local.size(), 8);
  const std::string locator = "PK\6\7" + n(0, 4) + n(local.size() + dir.size(), 8) + n(1, 4);
  const std::string end = "PK\5\6" + n(0, 4) + n(0xffff, 2) + n(0xffff, 2) + n(0xffffffff, 4) + n(0xffffffff, 4) + n(0, 2);
  const std::string file = local + dir + end64 + locator + end;
  EXPECT_EQ(ZipArchive::open(bytes_of(file), "t").at("x").text(), "data");
}

TEST(Zip, RefusesCompressedEntriesAndDuplicates) {
  ZipBuilder deflated;
  deflated.method = 8;
  const std::string packed = deflated.build({{"x", "y"}}), twice = ZipBuilder{}.build({{"x", "1"}, {"x", "2"}});
  const auto error = message_of<UserError>([&] { ZipArchive::open(bytes_of(packed), "t.zip"); });
  EXPECT_NE(error.find("\"x\" is compressed (zip method 8)"), std::string::npos) << error;
  EXPECT_NE(message_of<UserError>([&] { ZipArchive::open(bytes_of(twice), "t.zip"); }).find("two entries named \"x\""), std::string::npos);
}

TEST(Zip, EveryTruncationIsRefused) {
  const std::string file = ZipBuilder{}.build({{"name", "some content"}, {"other", "more"}});
  for (size_t n = 0; n < file.size(); ++n) {
    const std::string cut = file.substr(0, n);
    EXPECT_THROW(ZipArchive::open(bytes_of(cut), "t"), UserError) << n;
  }
}

}  // namespace
}  // namespace toroid::import
