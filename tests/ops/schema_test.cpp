// Schemas: what is well-formed is read, and whatever else there is gives a clean UserError.
#include "ops/schema.h"

#include <gtest/gtest.h>

#include <random>

#include "errors.h"
#include "ops/table.h"
#include "samples.h"
#include "toroid/error.h"

namespace toroid::ops {
namespace {

const char* const kSchemas[] = {
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "demo::scale(Tensor x, float by=2.0) -> Tensor",
    "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
    "split(Tensor(a -> *) self, SymInt[] sizes=[1, 2], int[2]? dim=0, bool[3] mask=[True, False, True]) -> Tensor(a)[]",
    "pad(Tensor self, str mode=\"constant\", str? how='none', float? value=None, float[] by=[0.5, 1e-3]) -> (Tensor out, Tensor indices)",
    "none(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Scalar by=-1.5) -> ()"};

TEST(Schema, IsReadWhole) {
  for (const char* text : kSchemas) EXPECT_NO_THROW(parse_schema(text)) << text;
  const Schema s = parse_schema(kSchemas[3]);
  ASSERT_EQ(s.params.size(), 4u);
  EXPECT_TRUE(s.params[0].alias && !s.params[0].mutated && s.params[1].list && s.params[2].optional && s.params[2].has_default);
  EXPECT_EQ(std::get<std::vector<Expr>>(s.params[1].default_value), (std::vector<Expr>{1, 2}));
  EXPECT_EQ(std::get<std::vector<Expr>>(s.params[2].default_value), (std::vector<Expr>{0, 0}));
  EXPECT_TRUE(s.returns.at(0).list);
  const Schema p = parse_schema(kSchemas[4]);
  EXPECT_EQ(std::get<std::string>(p.params[1].default_value), "constant");
  EXPECT_EQ(p.returns.size(), 2u);
  EXPECT_EQ(parse_schema("f.default(Tensor? x) -> Tensor").name, "f");
}

TEST(Schema, WhatIsWrongIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> wrong[] = {
      {"demo::a(Tensor x -> Tensor", "at character 18: expected \")\""},
      {"demo::a", "a parameter list in parentheses is missing"},
      {"demo::a(Tensor x)", "expected \"->\""},
      {"demo::a(Tensor x) ->", "a type is expected"},
      {"demo::a(Tesnor x) -> Tensor", "at character 9: a type is expected, \"Tesnor\" is none: Tensor, Scalar"},
      {"demo::a(Tensor) -> Tensor", "a parameter's name is expected"},
      {"demo::a(Tensor x, int x) -> Tensor", "there is a parameter \"x\" before"},
      {"demo::a(Tensor x, int n=) -> Tensor", "a value is expected"},
      {"demo::a(Tensor x, str s=True) -> Tensor", "\"True\" is no default of this type"},
      {"demo::a(Tensor x, int n=two) -> Tensor", "\"two\" is no integer"},
      {"demo::a(Tensor x, int n=1.5) -> Tensor", "\"1.5\" is no integer"},
      {"demo::a(Tensor x, int[9999999999] n=1) -> Tensor", "is no number of items"},
      {"demo::a(Tensor x, str s=\") -> Tensor", "the quotes do not end"},
      {"demo::a(Tensor(a x) -> Tensor", "expected"},
      {"demo::a(Tensor x,) -> Tensor", "a type is expected"},
      {"demo::a(Tensor x) -> Tensor)", "nothing should follow"},
      {"(Tensor x) -> Tensor", "a name of letters"}};
  for (auto& [text, says] : wrong) {
    const std::string what = test::error_of<UserError>([&] { parse_schema(text); });
    EXPECT_TRUE(test::contains(what, says)) << text << ": " << what;
  }
}

// Whatever is done to a schema.
TEST(Schema, MutatedSchemasGiveCleanErrors) {
  std::mt19937 random(7);
  const std::string_view letters = "()[]!?*,=->.:\"' aT109_\x80";
  size_t refused = 0;
  for (int round = 0; round < test::samples(40'000); ++round) {
    std::string text = kSchemas[random() % std::size(kSchemas)];
    for (size_t changes = 1 + random() % 4; changes-- > 0 && !text.empty();) {
      const size_t at = random() % text.size(), count = 1 + random() % 5;
      switch (random() % 5) {
        case 0:
          text.erase(at, count);
          break;
        case 1:
          text.insert(at, 1, letters[random() % letters.size()]);
          break;
        case 2:
          text[at] = letters[random() % letters.size()];
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), count));
          break;
        default:
          text.resize(at);
      }
    }
    try {
      parse_schema(text);
    } catch (const UserError& e) {
      ++refused;
      ASSERT_TRUE(test::contains(e.what(), "is malformed at character")) << e.what();
    } catch (const std::exception& e) {
      FAIL() << text << ": " << e.what();
    }
  }
  EXPECT_GT(refused, test::samples(20'000u));
}

// Results of other sizes or dtypes cannot be written to the operand.
TEST(Schema, RowsInPlaceGiveWhatTheirOperandHolds) {
  for (const char* name : {"multinomial_", "multilabel_margin_loss_", "sum_", "softmax_", "mm_", "conv2d_", "zeros_like_", "gather_"})
    EXPECT_EQ(table().find(name), nullptr) << name;
  for (const char* name : {"add_.Tensor", "add_.Scalar", "gelu_", "index_add_", "cumsum_", "addmm_", "scatter_.src", "bernoulli_.float"})
    EXPECT_NE(table().find(name), nullptr) << name;
  for (const Op& row : table().rows())
    EXPECT_FALSE(row.inplace_of && (row.reduce || row.index_map || row.schema.returns.size() != 1)) << row.name;
}

}  // namespace
}  // namespace toroid::ops
