#include "import/json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "import/zip_builder.h"
#include "toroid/error.h"

namespace toroid::import {
namespace {

std::string error_of(std::string_view text) {
  return message_of<UserError>([&] { JsonDocument::parse(text, "t.json"); });
}

TEST(Json, ReadsEveryKind) {
  const auto doc = JsonDocument::parse(R"( {"a": [1, -2.5, true, null, "x"], "b": {}, "c": [] } )", "t");
  const Json root = doc.root(), a = root.at("a");
  EXPECT_EQ(a.size(), 5u);
  EXPECT_EQ(a[0].as_int(), 1);
  EXPECT_EQ(a[1].as_double(), -2.5);
  EXPECT_TRUE(a[2].as_bool());
  EXPECT_TRUE(a[3].is_null());
  EXPECT_EQ(a[4].as_str(), "x");
  EXPECT_EQ(root.at("b").size(), 0u);
  EXPECT_EQ(root.key(2), "c");
  EXPECT_FALSE(root.find("d"));
}

TEST(Json, IntegersAreExactTo64Bits) {
  const auto doc = JsonDocument::parse("[9223372036854775807, -9223372036854775808, 9223372036854775808]", "t");
  EXPECT_EQ(doc.root()[0].as_int(), INT64_MAX);
  EXPECT_EQ(doc.root()[1].as_int(), INT64_MIN);
  EXPECT_THROW(doc.root()[2].as_int(), UserError);
  EXPECT_EQ(doc.root()[2].as_double(), 9223372036854775808.0);
}

TEST(Json, NonFiniteNumbersAreBareTokensOrStrings) {
  const auto doc = JsonDocument::parse(R"([Infinity, -Infinity, NaN, "Infinity", "-Infinity", "NaN"])", "t");
  for (const size_t i : {0, 3}) {
    EXPECT_EQ(doc.root()[i].as_double(), INFINITY);
    EXPECT_EQ(doc.root()[i + 1].as_double(), -INFINITY);
    EXPECT_TRUE(std::isnan(doc.root()[i + 2].as_double()));
  }
}

TEST(Json, EscapesAndSurrogatePairs) {
  const auto doc = JsonDocument::parse(R"(["a\"\\\/\b\f\n\r\t", "\u00e9\u20ac\ud83d\ude00", "\ud83dx"])", "t");
  EXPECT_EQ(doc.root()[0].as_str(), "a\"\\/\b\f\n\r\t");
  EXPECT_EQ(doc.root()[1].as_str(), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(doc.root()[2].as_str(), "\xef\xbf\xbdx");
}

TEST(Json, StringsWithoutEscapesAreViewsOfTheText) {
  const std::string text = R"({"key": "plain"})";
  const auto doc = JsonDocument::parse(text, "t");
  EXPECT_EQ(doc.root().at("key").as_str().data(), text.data() + 9);
}

TEST(Json, WrongKindNamesThePathAndBothKinds) {
  const auto doc = JsonDocument::parse(R"({"graph": {"nodes": [{"target": 7}]}})", "t.json");
  const Json node = doc.root().at("graph").at("nodes")[0];
  EXPECT_EQ(message_of<UserError>([&] { node.at("target").as_str(); }),
            "t.json: $.graph.nodes[0].target: expected a string, found an integer");
  EXPECT_EQ(message_of<UserError>([&] { node.at("name"); }), "t.json: $.graph.nodes[0]: expected a member \"name\", found none");
  EXPECT_NE(message_of<UserError>([&] { doc.root().at("graph").at("nodes")[1]; }), "");
}

TEST(Json, SyntaxErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": tru\n}"), "t.json: invalid JSON at line 2, column 8: expected a value, found 't'");
  for (const char* text :
       {"", "[1,]", "[1 2]", "{\"a\" 1}", "{a: 1}", "\"\\x\"", "\"\\u12g4\"", "\"abc", "01", "1.", "1e", "-", "1e999", "[] []", "\"\n\""})
    EXPECT_NE(error_of(text), "") << text;
}

TEST(Json, DepthIsLimited) {
  EXPECT_EQ(error_of(std::string(200, '[') + std::string(200, ']')), "");
  EXPECT_NE(error_of(std::string(100000, '[')).find("256 levels"), std::string::npos);
}

}  // namespace
}  // namespace toroid::import
