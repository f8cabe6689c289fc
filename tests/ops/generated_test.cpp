// Files that are generated from tables say what the tables say, and every public operation can be called from C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "generate.h"
#include "ops/descriptions.h"
#include "ops/refused.h"
#include "ops/row_text.h"
#include "ops/table.h"

namespace toroid {
namespace {

bool of_another_library(std::string_view base) {
  return base == "prims" || base == "torchvision" || base == "quantized_decomposed" || base == "torch_nn" || base == "transformers" ||
         base == "higher_order";
}

// With TOROID_TEST_WRITE the files are written (scripts/generate.sh).
TEST(Generated, FilesSayWhatTheTablesSay) {
  for (const generate::File& file : generate::files()) {
    const std::string path = std::string(TOROID_SOURCE_DIR) + "/" + file.path;
    if (std::getenv("TOROID_TEST_WRITE")) std::ofstream(path) << file.text;
    std::ostringstream held;
    held << std::ifstream(path).rdbuf();
    EXPECT_TRUE(held.str() == file.text) << file.path << " differs from the table; run scripts/generate.sh";
  }
}

TEST(Generated, NamesThatAreLeftToTheHandAreDeclaredThere) {
  std::ostringstream header;
  header << std::ifstream(std::string(TOROID_SOURCE_DIR) + "/include/toroid/ops.h").rdbuf();
  for (const std::string& name : generate::names_by_hand())
    EXPECT_NE(header.str().find(" " + name + "("), std::string::npos) << "toroid/ops.h does not declare " << name;
}

// A Scalar may be an integer that no double is: what becomes elements is an Operand in C++, never a double.
TEST(Generated, ScalarsAreNoDoubles) {
  const std::set<std::string> real = {"var", "std_dev", "var_mean", "std_mean", "norm"};  // corrections and orders
  std::ostringstream header;
  header << std::ifstream(std::string(TOROID_SOURCE_DIR) + "/include/toroid/ops.h").rdbuf();
  int looked_at = 0;
  for (const ops::Op& op : ops::table().rows()) {
    const std::string name = op.name.substr(0, op.name.find('.'));
    const auto& params = op.schema.params;
    if (real.count(name == "std" ? "std_dev" : name) ||
        std::none_of(params.begin(), params.end(), [](auto& p) { return p.type == ops::ParamType::Scalar; }))
      continue;
    const std::string text = header.str();
    for (size_t at = text.find(" " + name + "("); at != text.npos; at = text.find(" " + name + "(", at + 1)) {
      const std::string declaration = text.substr(at, text.find_first_of(";{", at) - at);
      EXPECT_EQ(declaration.find("double"), std::string::npos) << declaration;
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 30);
}

TEST(Generated, EveryPublicOperationIsDescribed) {
  for (const ops::Op& op : ops::table().rows()) {
    const std::string base = op.name.substr(0, op.name.find('.'));
    if (base.starts_with("_") || base.ends_with("_copy") || op.inplace_of || of_another_library(base)) continue;
    EXPECT_FALSE(ops::description(base).empty()) << op.name << " needs a sentence in src/ops/descriptions.inc";
  }
}

// What is said to be missing is, what another name is given for has that name, and limits.md tells of both.
TEST(Generated, RefusedOperationsAre) {
  std::ostringstream limits;
  limits << std::ifstream(std::string(TOROID_SOURCE_DIR) + "/docs/limits.md").rdbuf();
  for (const ops::Refused& r : ops::refused()) {
    std::string name(r.name.substr(0, r.name.find('*')));
    bool found = false;
    for (const ops::Op& op : ops::table().rows())
      found = found || op.name == r.name || ops::base_name(op) == r.name || (r.name.ends_with('*') && op.name.starts_with(name));
    EXPECT_EQ(found, r.how == ops::Refusal::InPart) << r.name;
    EXPECT_EQ(ops::find_refused(name), &r);
    if (r.how == ops::Refusal::OtherName) {
      const std::string other(r.reason.substr(0, r.reason.find_first_of(", ")));
      EXPECT_TRUE(std::any_of(ops::table().rows().begin(), ops::table().rows().end(), [&](auto& op) {
        return ops::base_name(op) == other;
      })) << other;
    } else {
      EXPECT_NE(limits.str().find("`" + name), std::string::npos) << "docs/limits.md does not name " << name;
    }
  }
  EXPECT_EQ(ops::find_refused("linalg_matrix_rank.atol_rtol_tensor"), ops::find_refused("linalg_matrix_rank"));
  EXPECT_EQ(ops::find_refused("folding"), nullptr);
}

// A reader finds a name by looking for it: operations are in the order of their names.
TEST(Generated, OperationsAreSortedByName) {
  std::ifstream page(std::string(TOROID_SOURCE_DIR) + "/docs/ops.md");
  std::string last, line;
  size_t rows = 0;
  while (std::getline(page, line) && !line.starts_with("## ")) {
    if (!line.starts_with("| `")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    EXPECT_LE(last, name);
    last = name, ++rows;
  }
  EXPECT_GT(rows, 800u);
}

TEST(Generated, NamesAsPeopleWriteThem) {
  for (auto [written, name] : {std::pair{"aten::add", "add"},
                               {"torch.ops.aten.add.default", "add"},
                               {"aten.add.Tensor", "add.Tensor"},
                               {"torch.special.erfcx", "special_erfcx"},
                               {"torch.nn.functional.gelu", "gelu"},
                               {"torchvision::nms", "torchvision.nms"},
                               {"prims::iota", "prims.iota"},
                               {"fold", "fold"}})
    EXPECT_EQ(ops::table_name(written), name);
}

TEST(Generated, EverySentenceIsOfAnOperation) {
  for (std::string_view name : ops::described()) {
    bool found = false;
    for (const ops::Op& op : ops::table().rows()) found = found || op.name.substr(0, op.name.find('.')) == name;
    EXPECT_TRUE(found) << name << " is no operation";
  }
}

}  // namespace
}  // namespace toroid
