// Functions and graphs as files: what is read back computes the same, for every model and for random graphs.
#include "toroid/export_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/files.h"
#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "front/export_graph.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/random_graph.h"
#include "import/load_model.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using test::bit_difference;
using test::contains;
using test::TempFolder;
using test::user_error;

TEST(ExportGraph, AFunctionComesBack) {
  const TempFolder folder;
  const std::string path = folder / "f.tgraph";
  const Tensor w = Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2}), x = full({4, 3}, 2);
  const auto fn = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{matmul(exp(in[0]), w), sum(in[0], {0})}; };
  mark_dynamic(x, 0, 2, 50);
  export_graph(fn, {x}, path, {.input_names = {"rows"}, .output_names = {"product", "sums"}});
  Model model = Model::load(path);
  const Tensor other = full({7, 3}, 0.5);
  EXPECT_EQ(bit_difference(model.run({other}), fn({other})), "");
  EXPECT_EQ(model.inputs()[0].name, "rows");
  EXPECT_EQ(model.outputs()[1].name, "sums");
  EXPECT_EQ(model.inputs()[0].greatest[0], 50);
  EXPECT_TRUE(contains(user_error([&] { model.run({full({51, 3}, 1)}); }), "50"));
  save_package(path, folder / "f.tpk");
  EXPECT_EQ(bit_difference(PackageFile::open(folder / "f.tpk").session().run({other}), fn({other})), "");
  export_graph(fn, {x}, folder / "again.tgraph", {.input_names = {"rows"}, .output_names = {"product", "sums"}});
  EXPECT_EQ(read_file(path).size(), read_file(folder / "again.tgraph").size());
}

TEST(ExportGraph, StateAndStridesComeBack) {
  const TempFolder folder;
  const Tensor count = full({3, 2}, 1), turned = transpose(Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3}), 0, 1), x = full({3, 2}, 10);
  export_graph(
      [&](const std::vector<Tensor>& in) {
        Tensor c = count;
        add_(c, in[0]);
        return std::vector<Tensor>{c * turned};
      },
      {x}, folder / "f.tgraph");
  Model model = Model::load(folder / "f.tgraph");
  EXPECT_EQ(model.run({x})[0].to_vector(), (std::vector<double>{11, 44, 22, 55, 33, 66}));
  EXPECT_EQ(model.run({x})[0].to_vector()[0], 21) << "the second call finds what the first has written";
}

TEST(ExportGraph, AllModelsComeBack) {
  const TempFolder folder;
  int models = 0;
  for (auto& entry : std::filesystem::recursive_directory_iterator(test::kModels)) {
    if (entry.path().extension() != ".pt2") continue;
    std::vector<std::string> outputs;
    const auto original = import::load_model(entry.path(), {}, nullptr, &outputs);
    front::export_graph(*original, outputs, folder / "m.tgraph");
    std::vector<std::string> names;
    const auto read = import::load_model(folder / "m.tgraph", {}, nullptr, &names);
    EXPECT_EQ(graph::to_string(*original), graph::to_string(*read)) << entry.path();
    EXPECT_EQ(names, outputs);
    ++models;
    const auto given = entry.path().parent_path() / "in.safetensors";
    if (entry.path().filename() != "core.pt2" || !std::filesystem::exists(given)) continue;
    std::vector<Tensor> inputs;
    for (auto& [name, t] : load_tensors(given)) inputs.push_back(t);
    EXPECT_EQ(bit_difference(Model::load(entry.path()).run(inputs), Model::load(folder / "m.tgraph").run(inputs)), "") << entry.path();
  }
  EXPECT_GE(models, 6);
}

std::vector<Tensor> interpreted(std::unique_ptr<graph::Graph> g, std::span<const Tensor> inputs) {
  const graph::PassRow row = graph::find_pass("functionalize");
  return graph::interpret(*graph::run_passes(std::move(g), std::span(&row, 1)), inputs);
}

TEST(ExportGraph, RandomGraphsComeBack) {
  const TempFolder folder;
  const char* wanted = std::getenv("TOROID_FUZZ_COUNT");
  const uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 300;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    graph::RandomGraphOptions o;
    o.control_flow = seed % 3 == 0, o.complex_numbers = seed % 5 == 0, o.degenerate = seed % 7 == 0;
    auto g = graph::random_graph(seed, o);
    const auto inputs = graph::random_inputs(*g, seed);
    front::export_graph(*g, {}, folder / "g.tgraph");
    auto read = import::load_model(folder / "g.tgraph");
    ASSERT_EQ(graph::to_string(*g), graph::to_string(*read)) << "seed " << seed;
    const auto copies = [&] {
      std::vector<Tensor> out;
      for (auto& t : inputs) out.push_back(clone(t));
      return out;
    };
    std::vector<Tensor> theirs;
    std::string error;
    try {
      theirs = interpreted(std::move(g), copies());
    } catch (const UserError& e) {
      error = e.what();
    }
    if (error.empty())
      ASSERT_EQ(bit_difference(theirs, interpreted(std::move(read), copies())), "") << "seed " << seed;
    else
      ASSERT_EQ(user_error([&] { interpreted(std::move(read), copies()); }), error) << "seed " << seed;
  }
}

TEST(ExportGraph, WritesToSharedMemoryAreRefused) {
  const TempFolder folder;
  const Tensor memory = full({4}, 1), x = full({2}, 1);
  const Tensor first = memory.as_strided(std::vector<int64_t>{2}, std::vector<int64_t>{1}), both = memory;
  const std::string error = user_error([&] {
    export_graph(
        [&](const std::vector<Tensor>& in) {
          Tensor f = first;
          add_(f, in[0]);
          return std::vector<Tensor>{sum(both, {0}) + f};
        },
        {x}, folder / "f.tgraph");
  });
  EXPECT_TRUE(contains(error, "shares memory with") && contains(error, "clone")) << error;
}

// An error, or the same graph: what is in no checksum of the reader's is compared.
TEST(ExportGraph, DamageIsAnError) {
  const TempFolder folder;
  const Tensor w = full({8}, 3), x = full({8}, 1);
  export_graph([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * w}; }, {x}, folder / "f.tgraph");
  const std::string whole = read_file(folder / "f.tgraph");
  std::mt19937_64 random(5);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    if (i % 3 == 0)
      bytes.resize(random() % whole.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    write_file_atomic(folder / "damaged.tgraph", bytes);
    try {
      import::load_model(folder / "damaged.tgraph");
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace toroid
