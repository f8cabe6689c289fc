// Arguments of models and packages that share memory, where the program writes to one of them: the other's elements must not be those of
// before the call without a word.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "errors.h"
#include "temp_folder.h"
#include "toroid/compile.h"
#include "toroid/export_graph.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;
using List = std::vector<Tensor>;

List write_first(const List& in) {
  Tensor a = in[0];
  add_(a, 1);
  return {in[1] * 1.0};
}

struct Pair {
  const char* name;
  bool shares;
  std::function<List()> make;
};

const Pair kPairs[] = {
    {"one tensor twice", true,
     [] {
       Tensor z = zeros({4, 4});
       return List{z, z};
     }},
    {"a tensor and its view", true,
     [] {
       Tensor z = zeros({4, 4});
       return List{z, transpose(z, 0, 1)};
     }},
    {"rows that overlap", true,
     [] {
       Tensor z = zeros({6, 4});
       return List{narrow(z, 0, 0, 4), narrow(z, 0, 2, 4)};
     }},
    {"columns that overlap", true,
     [] {
       Tensor z = zeros({4, 6});
       return List{narrow(z, 1, 0, 4), narrow(z, 1, 2, 4)};
     }},
    {"one column, four times", true,
     [] {
       Tensor z = zeros({4, 6});
       return List{narrow(z, 1, 0, 4), expand(narrow(z, 1, 3, 1), {4, 4})};
     }},
    {"rows apart", false,
     [] {
       Tensor z = zeros({8, 4});
       return List{narrow(z, 0, 0, 4), narrow(z, 0, 4, 4)};
     }},
    {"columns apart", false,
     [] {
       Tensor z = zeros({4, 8});
       return List{narrow(z, 1, 0, 4), narrow(z, 1, 4, 4)};
     }},
    {"every other column", false,
     [] {
       Tensor z = zeros({4, 8});
       return List{slice(z, 1, 0, {}, 2), slice(z, 1, 1, {}, 2)};
     }},
    {"two tensors", false,
     [] {
       return List{zeros({4, 4}), zeros({4, 4})};
     }},
};

TEST(SharedArguments, AreRefusedWhereOneIsWritten) {
  const test::TempFolder folder;
  const std::string graph = folder / "f.tgraph", package = folder / "f.tpk";
  export_graph(write_first, {zeros({4, 4}), zeros({4, 4})}, graph);
  save_package(write_first, {zeros({4, 4}), zeros({4, 4})}, package);
  for (const Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    Model model = Model::load(graph, {.mode = mode});
    PackageSession session = PackageFile::open(package).session();
    for (auto& pair : kPairs) {
      const auto expect = [&](const char* by, const std::function<List(const List&)>& run) {
        const List in = pair.make();
        if (pair.shares) {
          const std::string error = user_error([&] { run(in); });
          EXPECT_TRUE(contains(error, "shares memory with input 1") && contains(error, "clone()"))
              << by << ", " << pair.name << ": " << error;
          EXPECT_EQ(in[0].to_vector(), std::vector<double>(16, 0)) << by << ", " << pair.name;
          return;
        }
        const List out = run(in);
        EXPECT_EQ(out[0].to_vector(), std::vector<double>(16, 0)) << by << ", " << pair.name;
        EXPECT_EQ(in[0].to_vector(), std::vector<double>(16, 1)) << by << ", " << pair.name;
        EXPECT_EQ(in[1].to_vector(), std::vector<double>(16, 0)) << by << ", " << pair.name;
      };
      expect("model", [&](const List& in) { return model.run(in); });
      expect("package", [&](const List& in) { return session.run(in); });
    }
  }
}

// A compiled function sees the writes, as the function does.
TEST(SharedArguments, OfCompiledFunctionsAreAsWritten) {
  auto f = compile([](const Tensor& a, const Tensor& b) { return write_first({a, b})[0]; });
  for (auto& pair : kPairs) {
    const List in = pair.make(), own = pair.make();
    const Tensor want = write_first(own)[0];
    EXPECT_EQ(f(in[0], in[1]).to_vector(), want.to_vector()) << pair.name;
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(in[i].to_vector(), own[i].to_vector()) << pair.name;
  }
}

}  // namespace
}  // namespace toroid
