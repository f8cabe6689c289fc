// Files that are generated from tables say what the tables say, and every public operation can be called from C++.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "generate.h"
#include "ops/descriptions.h"
#include "ops/table.h"

namespace toroid {
namespace {

bool of_another_library(std::string_view base) {
  return base == "prims" || base == "torchvision" || base == "torch_nn" || base == "transformers" || base == "higher_order";
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

TEST(Generated, EveryPublicOperationIsDescribed) {
  for (const ops::Op& op : ops::table().rows()) {
    const std::string base = op.name.substr(0, op.name.find('.'));
    if (base.starts_with("_") || base.ends_with("_copy") || op.inplace_of || of_another_library(base)) continue;
    EXPECT_FALSE(ops::description(base).empty()) << op.name << " needs a sentence in src/ops/descriptions.inc";
  }
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
