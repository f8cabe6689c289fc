// Weights of packages for GPUs are swapped: what is made of them on the host is what a compile makes, without a GPU; on one, no call has a
// part of each.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "data_models.h"
#include "errors.h"
#include "exec/plan_file.h"
#include "exec/stored.h"
#include "front/save_package.h"
#include "import/load_model.h"
#include "jit/nvrtc.h"
#include "package/package.h"
#include "package/swaps.h"
#include "temp_folder.h"
#include "toroid/device_memory.h"
#include "toroid/device_stream.h"
#include "toroid/ops.h"
#include "toroid/package.h"

namespace toroid {
namespace {

using test::changed;
using test::graph_of;
using test::GraphMaker;
using test::TempFolder;
using test::Tensors;
using test::weights_of;
using test::with_weights;

bool is_there() { return cuda_device_count() > 0; }

// NVRTC makes what these tests look at.
class GpuSwap : public testing::Test {
  void SetUp() override {
    try {
      jit::nvrtc_info();
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

// Packages of a graph with two sets of weights, for one target.
struct Pair {
  const TempFolder folder;
  const Tensors first, second;
  Pair(const GraphMaker& graph, const std::string& target, Mode mode = Mode::Default)
      : first(weights_of(*graph())), second(changed(first, 7)) {
    const PackageOptions options{.model = {.mode = mode}, .targets = {target}, .swappable = true};
    front::save_package(graph, folder / "a.tpk", options);
    front::save_package(with_weights(graph, second), folder / "b.tpk", options);
  }
};

// The constants of a package that are made of weights, by their recipes.
std::map<int, Tensor> made_by_recipes(const package::Manifest& m, const Tensors& constants) {
  std::map<int, Tensor> out;
  for (auto& [name, c] : m.constants)
    if (auto it = constants.find(name); c.recipe >= 0 && it != constants.end()) out[c.recipe] = it->second;
  return out;
}

// By content.
std::set<std::string> names_without_recipe(const package::Manifest& m) {
  std::set<std::string> out;
  for (auto& [name, c] : m.constants)
    if (c.recipe < 0) out.insert(name);
  return out;
}

// What a package makes of the other weights is what the package of those holds, bit by bit.
void expect_constants_of_the_other(const Pair& p, const std::string& what) {
  const auto a = package::Package::open(p.folder / "a.tpk"), b = package::Package::open(p.folder / "b.tpk");
  const auto calls = [&] {
    const auto has = [&](auto& part) { return part.name == package::kRecipes; };
    const auto& parts = a->manifest().parts;
    return std::any_of(parts.begin(), parts.end(), has) ? exec::read_plan(a->part(package::kRecipes)) : exec::Plan();
  };
  EXPECT_EQ(names_without_recipe(a->manifest()), names_without_recipe(b->manifest())) << what << ": weights have a part in these";
  const auto found = made_by_recipes(a->manifest(), package::remade(a->manifest(), calls(), p.second, a->constants(), what));
  const auto wanted = made_by_recipes(b->manifest(), b->constants());
  EXPECT_FALSE(wanted.empty()) << what;
  EXPECT_EQ(found.size(), wanted.size()) << what;
  for (auto& [recipe, t] : wanted) {
    ASSERT_TRUE(found.count(recipe)) << what << ", recipe " << recipe;
    EXPECT_EQ(test::bit_difference({found.at(recipe)}, {t}), "") << what << ", recipe " << recipe;
  }
}

std::vector<Tensor> on_gpu(std::vector<Tensor> tensors) {
  for (auto& t : tensors) t = t.to(Device::cuda());
  return tensors;
}

std::vector<Tensor> on_host(std::vector<Tensor> tensors) {
  for (auto& t : tensors) t = t.to(Device::cpu());
  return tensors;
}

void expect_results_of_the_other(const Pair& p, const std::vector<Tensor>& inputs, const std::string& what) {
  const PackageFile a = PackageFile::open(p.folder / "a.tpk"), b = PackageFile::open(p.folder / "b.tpk");
  const auto given = on_gpu(inputs);
  const auto of = [&](const PackageFile& file) { return on_host(file.session("", Device::cuda()).run(given)); };
  PackageSession lasting = a.session("", Device::cuda());  // a program that keeps memory gives other results each time
  const bool stateless = test::bit_difference(on_host(lasting.run(given)), on_host(lasting.run(given))) == "";
  const auto run = [&] { return stateless ? on_host(lasting.run(given)) : of(a); };
  const auto old_results = of(a), new_results = of(b);
  EXPECT_NE(test::bit_difference(old_results, new_results), "") << what << ": the weights do not matter";
  for (int round = 0; round < 2; ++round) {
    a.swap_weights(p.second);
    EXPECT_EQ(test::bit_difference(run(), new_results), "") << what;
    EXPECT_EQ(test::bit_difference(run(), new_results), "") << what << ", once more";
    a.swap_weights(p.first);
    EXPECT_EQ(test::bit_difference(run(), old_results), "") << what << ", back again";
  }
}

TEST_F(GpuSwap, MakesOfEachModelThatOfTheOtherWeights) {
  for (const char* name : {"digitsnet", "encoder", "tied"})
    for (const char* target : {"sm_90a", "compute_80"})
      for (const Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
        const std::string what = std::string(name) + " for " + target;
        const Pair p([&] { return import::load_model(test::kModels + name + "/core.pt2"); }, target, mode);
        expect_constants_of_the_other(p, what);
        if (is_there()) expect_results_of_the_other(p, test::inputs_of(name), what);
      }
}

GraphMaker layers(const Tensor& x) {
  return graph_of([](auto& t, auto& w) { return linear(relu(linear(t, w[0], w[1])), w[2] * 0.5); }, x, {{512, 512}, {512}, {512, 512}});
}

// Threads with a stream each, while weights come and go: what was swapped out is not handed out again while a call still reads it.
TEST_F(GpuSwap, UnderLoadEachResultIsOfOneSet) {
  if (!is_there()) GTEST_SKIP() << "there is no GPU";
  const Tensor x = test::random({64, 512}, 5), there = x.to(Device::cuda());
  for (const Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    const Pair p(layers(x), "compute_80", mode);
    const PackageFile file = PackageFile::open(p.folder / "a.tpk");
    PackageSession session = file.session("", Device::cuda());
    const auto old_results = on_host(session.run({there}));
    file.swap_weights(p.second);
    const auto new_results = on_host(session.run({there}));
    ASSERT_NE(test::bit_difference(old_results, new_results), "");
    std::atomic<bool> ended{false};
    std::atomic<int64_t> calls{0}, mixed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, own = file.session("", Device::cuda())]() mutable {
        const Stream stream(Device::cuda());
        const StreamGuard guard(stream);
        while (!ended) {
          std::vector<std::vector<Tensor>> under_way;  // none is waited for before all have begun
          for (int k = 0; k < 8; ++k) under_way.push_back(own.run({there}));
          for (auto& results : under_way) {
            const auto out = on_host(results);
            mixed += test::bit_difference(out, old_results) != "" && test::bit_difference(out, new_results) != "";
            ++calls;
          }
        }
      });
    constexpr int kSwaps = 60;
    const size_t allocated = memory_stats(Device::cuda()).allocated;
    int late = 0;
    for (int i = 0; i < kSwaps; ++i) {
      file.swap_weights(i % 2 ? p.second : p.first);
      late += test::bit_difference(on_host(session.run({there})), i % 2 ? new_results : old_results) != "";
    }
    ended = true;
    for (auto& t : threads) t.join();
    EXPECT_EQ(late, 0) << "calls that began after a swap and had other weights";
    EXPECT_EQ(mixed, 0);
    EXPECT_GT(calls, kSwaps);
    synchronize(Device::cuda());
    constexpr size_t kWeights = 2 * 512 * 512 * sizeof(float);
    EXPECT_LT(memory_stats(Device::cuda()).allocated, allocated + 8 * kWeights) << "weights of earlier swaps are still there";
  }
}

// Weights that two entries read are in the memory of the GPU once, before and after a swap, and also where one entry is loaded later.
TEST_F(GpuSwap, EntriesHaveTheirWeightsOnce) {
  if (!is_there()) GTEST_SKIP() << "there is no GPU";
  constexpr int64_t kRows = 2048;
  constexpr size_t kBytes = kRows * kRows * sizeof(float);
  const TempFolder folder;
  const Tensor w = test::random({kRows, kRows}, 1), x = test::random({4, kRows}, 2), there = x.to(Device::cuda());
  const auto function = [&](double factor) {
    return [w, factor](const std::vector<Tensor>& in) { return std::vector<Tensor>{linear(in[0], w) * factor}; };
  };
  save_package({{.name = "once", .function = function(1), .examples = {x}}, {.name = "twice", .function = function(2), .examples = {x}}},
               folder / "m.tpk", {.targets = {"compute_80"}, .swappable = true, .weight_names = {{"w", w}}});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  const auto in_use = [] {
    synchronize(Device::cuda());
    return memory_stats(Device::cuda()).allocated;
  };
  const size_t before = in_use();
  PackageSession once = file.session("once", Device::cuda());
  once.run({there});
  EXPECT_LT(in_use(), before + 3 * kBytes / 2);
  file.swap_weights({{"w", w * 3.0}});
  PackageSession twice = file.session("twice", Device::cuda());
  const auto read = [&](PackageSession& s) { return s.run({there})[0].to(Device::cpu()).to_vector().at(5); };
  const double one = read(once), two = read(twice);
  EXPECT_NEAR(two, 2 * one, 1e-3 * std::abs(two));
  EXPECT_NEAR(one, linear(x, w * 3.0).to_vector().at(5), 1e-3 * std::abs(one));
  EXPECT_LT(in_use(), before + 3 * kBytes / 2);
  file.swap_weights({{"w", w}});
  EXPECT_NEAR(read(twice), 2.0 / 3 * one, 1e-3 * std::abs(one));
  EXPECT_LT(in_use(), before + 3 * kBytes / 2);
}

}  // namespace
}  // namespace toroid
