// Weights of a loaded package are swapped: what is folded and packed is made anew, and no call has a part of each.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "front/save_package.h"
#include "graph/recorder.h"
#include "import/load_model.h"
#include "package/package.h"
#include "package/swaps.h"
#include "temp_folder.h"
#include "toroid/device_memory.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/weights.h"
#include "toroid_runtime.h"

namespace toroid {
namespace {

using test::Body;
using test::changed;
using test::contains;
using test::error_of;
using test::graph_of;
using test::GraphMaker;
using test::others;
using test::random;
using test::Sizes;
using test::TempFolder;
using test::Tensors;
using test::weights_of;
using test::with_weights;

constexpr const char* kTargets[] = {"native", "x86-64-v3", "x86-64"};

// Packages of a graph with two sets of weights. One, given the other's weights while it is loaded, must be the other, bit by bit.
// The names of the layouts that its recipes have.
std::set<std::string> expect_swaps_to_the_other(const GraphMaker& graph, const std::vector<Tensor>& inputs, const std::string& what,
                                                const ModelOptions& model = {}) {
  std::set<std::string> layouts;
  const TempFolder folder;
  const Tensors first = weights_of(*graph()), second = changed(first, 7);
  EXPECT_FALSE(first.empty()) << what;
  for (const char* target : kTargets) {
    const PackageOptions options{.model = model, .targets = {target}, .swappable = true};
    front::save_package(graph, folder / "a.tpk", options);
    front::save_package(with_weights(graph, second), folder / "b.tpk", options);
    const PackageFile a = PackageFile::open(folder / "a.tpk"), b = PackageFile::open(folder / "b.tpk");
    const auto of = [&](const PackageFile& file) { return file.session().run(inputs); };
    const auto old_results = of(a), new_results = of(b);
    EXPECT_NE(test::bit_difference(old_results, new_results), "") << what << ": the weights do not matter";
    const auto package = package::Package::open(folder / "a.tpk");
    for (auto& r : package->manifest().recipes) layouts.insert(r.packing + r.call);
    a.swap_weights(second);
    EXPECT_EQ(test::bit_difference(of(a), new_results), "") << what << " for " << target;
    a.swap_weights(first);
    EXPECT_EQ(test::bit_difference(of(a), old_results), "") << what << " for " << target << ", back again";
  }
  return layouts;
}

TEST(SwapWeights, MakesOfEachModelThatOfTheOtherWeights) {
  for (const char* name : {"digitsnet", "encoder", "tied", "regions"})
    expect_swaps_to_the_other([&] { return import::load_model(test::kModels + name + "/core.pt2"); }, test::inputs_of(name), name);
}

TEST(SwapWeights, EveryPackingAndFoldIsMadeAnew) {
  const auto norm = [](const Tensor& x, const std::vector<Tensor>& w, size_t at) {
    return batch_norm(x, w[at], w[at + 1], w[at + 2], w[at + 3], false, 0.1, 1e-5);
  };
  struct Case {
    const char* name;
    Body body;
    Sizes x;
    std::vector<Sizes> weights;
    DType dtype = DType::F32;
  };
  const Case cases[] = {
      {"linear", [](auto& x, auto& w) { return linear(x, w[0], w[1]); }, {5, 33}, {{47, 33}, {47}}},
      {"linear of one row", [](auto& x, auto& w) { return linear(x, w[0]); }, {1, 64}, {{96, 64}}},
      {"halves", [](auto& x, auto& w) { return linear(x, w[0]); }, {9, 64}, {{96, 64}}, DType::BF16},
      {"halves of one row", [](auto& x, auto& w) { return linear(x, w[0]); }, {1, 64}, {{96, 64}}, DType::F16},
      {"three products of an input",
       [](auto& x, auto& w) { return linear(x, w[0]) * linear(x, w[1]) + linear(x, w[2]); },
       {8, 32},
       {{60, 32}, {60, 32}, {60, 32}}},  // in no whole panels
      {"convolution", [](auto& x, auto& w) { return conv2d(x, w[0], w[1], 1, 1); }, {1, 3, 12, 12}, {{24, 3, 3, 3}, {24}}},
      {"deep convolution", [](auto& x, auto& w) { return conv2d(x, w[0], {}, 1, 1); }, {1, 32, 14, 14}, {{32, 32, 3, 3}}},
      {"depthwise convolution", [](auto& x, auto& w) { return conv2d(x, w[0], {}, 1, 1, 1, 32); }, {1, 32, 9, 9}, {{32, 1, 3, 3}}},
      {"folded normalisation",
       [&](auto& x, auto& w) { return relu(norm(conv2d(x, w[0], w[1], 2, 1), w, 2)); },
       {1, 8, 11, 11},
       {{16, 8, 3, 3}, {16}, {16}, {16}, {16}, {16}}},
      {"folded normalisation without bias",
       [&](auto& x, auto& w) { return norm(conv2d(x, w[0]), w, 1); },
       {1, 8, 6, 6},
       {{16, 8, 1, 1}, {16}, {16}, {16}, {16}}},
      {"transposed convolution",
       [](auto& x, auto& w) {
         return ops::call1("conv_transpose2d.input", {x, w[0], w[1], std::vector<Expr>{2, 2}});
       },
       {1, 4, 5, 5},
       {{4, 6, 3, 3}, {6}}},
      {"computed weights", [](auto& x, auto& w) { return linear(x, exp(w[0]) * 0.5 + w[1]); }, {4, 16}, {{32, 16}, {16}}},
      {"a view of a weight", [](auto& x, auto& w) { return matmul(x, slice(w[0], 0, 2, 18)); }, {4, 16}, {{20, 24}}},
  };
  std::set<std::string> seen;
  for (auto& c : cases) {
    const Tensor x = random(c.x, 99, c.dtype);
    const GraphMaker graph = graph_of(c.body, x, c.weights, c.dtype);
    seen.merge(expect_swaps_to_the_other(graph, {x}, c.name));
    expect_swaps_to_the_other(graph, {x}, c.name + std::string(", not frozen"), {.freeze = false});
  }
  for (const char* name :
       {"gemm", "conv", "winograd", "fold_batch_norm.weight", "fold_batch_norm.bias", "rearranged", "cat", "exp", "flip"})
    EXPECT_TRUE(seen.count(name)) << name << " has no case among " << fmt::format("{}", fmt::join(seen, ", "));
}

// linear, relu, a convolution's fold: a package in a folder, and two sets of weights.
struct Layer {
  const TempFolder folder;
  const Tensor x = random({3, 64}, 5);
  const GraphMaker graph =
      graph_of([](auto& x, auto& w) { return linear(relu(linear(x, w[0], w[1])), w[2] * 0.5); }, x, {{64, 64}, {64}, {64, 64}});
  const Tensors first = weights_of(*graph()), second = changed(first, 3);
  const std::string path = folder / "m.tpk";
  Layer() { front::save_package(graph, path, {.swappable = true}); }
};

TEST(SwapWeights, UnderLoadEachResultIsOfOneSet) {
  const Layer layer;
  const PackageFile file = PackageFile::open(layer.path);
  PackageSession session = file.session();
  const auto old_results = session.run({layer.x});
  file.swap_weights(layer.second);
  const auto new_results = session.run({layer.x});
  ASSERT_NE(test::bit_difference(old_results, new_results), "");
  std::atomic<bool> ended{false};
  std::atomic<int64_t> calls{0}, mixed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, own = file.session()]() mutable {
      while (!ended) {
        const auto out = own.run({layer.x});
        ++calls;
        std::this_thread::sleep_for(std::chrono::microseconds(100));  // so that swaps go on beside them
        mixed += test::bit_difference(out, old_results) != "" && test::bit_difference(out, new_results) != "";
      }
    });
  constexpr int kSwaps = 1000;
  const size_t allocated = memory_stats(Device::cpu()).allocated;
  int late = 0;
  for (int i = 0; i < kSwaps; ++i) {
    file.swap_weights(i % 2 ? layer.second : layer.first);
    late += test::bit_difference(session.run({layer.x}), i % 2 ? new_results : old_results) != "";
  }
  ended = true;
  for (auto& t : threads) t.join();
  EXPECT_EQ(late, 0) << "calls that began after a swap and had other weights";
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(calls, kSwaps);
  constexpr size_t kWeights = 2 * 64 * 64 * sizeof(float);
  EXPECT_LT(memory_stats(Device::cpu()).allocated, allocated + 8 * kWeights) << "weights of earlier swaps are still there";
}

TEST(SwapWeights, WhatIsRefusedChangesNothing) {
  const Layer layer;
  const PackageFile file = PackageFile::open(layer.path);
  PackageSession session = file.session();
  const auto before = session.run({layer.x});
  EXPECT_EQ(file.weights(), (std::vector<std::string>{"w0", "w1", "w2"}));
  const auto refused = [&](const std::string& name, const Tensor& t, const std::vector<std::string>& said) {
    Tensors given = layer.second;
    given[name] = t;
    const std::string error = error_of<UserError>([&] { file.swap_weights(given); });
    for (auto& text : said) EXPECT_TRUE(contains(error, text)) << error;
  };
  refused("w3", layer.first.at("w0"), {"no weight \"w3\" among its 3", "did you mean"});
  refused("w1", random({65}, 1), {"\"w1\" is f32[64]", "f32[65]"});
  refused("w1", random({64}, 1, DType::F64), {"\"w1\" is f32[64]", "f64[64]"});
  refused("w1", Tensor(), {"\"w1\" is undefined"});
  EXPECT_TRUE(contains(error_of<UserError>([&] { file.swap_weights(Tensors()); }), "no weights are given"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { file.swap_weights(layer.folder / "none.safetensors"); }), "none.safetensors"));
  EXPECT_EQ(test::bit_difference(session.run({layer.x}), before), "");
  save_package(test::kModels + "digitsnet/core.pt2", layer.folder / "fixed.tpk");
  const PackageFile fixed = PackageFile::open(layer.folder / "fixed.tpk");
  EXPECT_TRUE(fixed.weights().empty());
  EXPECT_TRUE(contains(error_of<UserError>([&] { fixed.swap_weights(layer.first); }), "toroid compile --swappable"));
}

TEST(SwapWeights, APartIsEnoughWhereNothingIsMadeOfMore) {
  const TempFolder folder;
  const Tensor x = random({1, 8, 6, 6}, 4);
  const GraphMaker graph =
      graph_of([](auto& x, auto& w) { return batch_norm(conv2d(x, w[0]), w[1], w[2], w[3], w[4], false, 0.1, 1e-5) * w[5]; }, x,
               {{16, 8, 1, 1}, {16}, {16}, {16}, {16}, {6}});
  const Tensors first = weights_of(*graph());
  front::save_package(graph, folder / "m.tpk", {.swappable = true});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  PackageSession session = file.session();
  const auto before = session.run({x});
  const std::string error = error_of<UserError>([&] { file.swap_weights({{"w4", others(first.at("w4"), 1)}}); });
  EXPECT_TRUE(contains(error, "give w0, w1, w2, w3 too")) << error;
  EXPECT_EQ(test::bit_difference(session.run({x}), before), "");
  file.swap_weights({{"w5", Tensor::full(Sizes{6}, 0)}});
  EXPECT_EQ(session.run({x})[0].to_vector(), std::vector<double>(16 * 36, 0));
  file.swap_weights({{"w5", first.at("w5")}});
  EXPECT_EQ(test::bit_difference(session.run({x}), before), "");
}

// What a program writes to is a session's; integers are part of the program.
TEST(SwapWeights, StateStaysAndIntegersAreTheProgram) {
  const TempFolder folder;
  const Sizes two = {2};
  const Tensor count = Tensor::full(two, 1), w = Tensor::full(two, 10), x = Tensor::full(two, 1);
  const Tensor rows = Tensor::of(std::vector<double>{1, 0}, two, DType::I64);
  save_package(
      [=](const std::vector<Tensor>& in) {
        Tensor c = count;
        add_(c, in[0]);
        return std::vector<Tensor>{index_select(c * w, 0, rows)};
      },
      {x}, folder / "m.tpk", {.swappable = true});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  ASSERT_EQ(file.weights().size(), 1u);
  PackageSession a = file.session(), b = file.session();
  EXPECT_EQ(a.run({x})[0].to_vector(), (std::vector<double>{20, 20}));
  file.swap_weights({{file.weights()[0], Tensor::of(std::vector<double>{100, 1000}, two)}});
  EXPECT_EQ(a.run({x})[0].to_vector(), (std::vector<double>{3000, 300}));
  EXPECT_EQ(b.run({x})[0].to_vector(), (std::vector<double>{2000, 200}));
  const auto package = package::Package::open(folder / "m.tpk");
  ASSERT_EQ(package->manifest().weights.size(), 3u);
  for (auto& row : package->manifest().weights) {
    if (row.sha256.empty()) continue;
    const bool integers = row.layout.dtype == DType::I64;
    package->swap_weights({{row.names[0], integers ? rows : count}});  // the same elements
    const Tensor other = Tensor::full(two, 0, row.layout.dtype);
    EXPECT_TRUE(contains(error_of<UserError>([&] { package->swap_weights({{row.names[0], other}}); }), "cannot be swapped"));
  }
}

TEST(SwapWeights, AllEntriesHaveThemAlsoThoseLoadedLater) {
  const TempFolder folder;
  const std::string model = test::kModels + "digitsnet/core.pt2";
  const PackageEntry entries[] = {{"a", model}, {"b", model}};
  save_package(entries, folder / "m.tpk", {.swappable = true});
  const auto inputs = test::inputs_of("digitsnet");
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  PackageSession a = file.session("a");
  const auto before = a.run(inputs);
  file.swap_weights(changed(weights_of(*import::load_model(model)), 2));
  const auto after = a.run(inputs);
  EXPECT_NE(test::bit_difference(before, after), "");
  EXPECT_EQ(test::bit_difference(file.session("b").run(inputs), after), "");
}

TEST(SwapWeights, TiedWeightsAreOne) {
  const TempFolder folder;
  const std::string model = test::kModels + "tied/core.pt2";
  save_package(model, folder / "m.tpk", {.swappable = true});
  const auto package = package::Package::open(folder / "m.tpk");
  const auto& rows = package->manifest().weights;
  const auto tied = std::find_if(rows.begin(), rows.end(), [](auto& w) { return w.names.size() > 1; });
  ASSERT_NE(tied, rows.end());
  Tensors given = changed(weights_of(*import::load_model(model)), 2);
  given.at(tied->names[0]) = others(given.at(tied->names[0]), 9);
  EXPECT_TRUE(contains(error_of<UserError>([&] { package->swap_weights(given); }), "are one tensor in the model"));
  given.erase(tied->names[0]);
  package->swap_weights(given);
}

TEST(SwapWeights, FromAFileAndInC) {
  const Layer layer;
  save_tensors(layer.folder / "second.safetensors", layer.second);
  const PackageFile file = PackageFile::open(layer.path);
  file.swap_weights(layer.folder / "second.safetensors");
  const auto expected = file.session().run({layer.x});

  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  ASSERT_EQ(toroid_package_open(layer.path.c_str(), &package), TOROID_OK);
  ASSERT_EQ(toroid_session_open(package, nullptr, &session), TOROID_OK);
  ASSERT_EQ(toroid_package_weight_count(package), 3u);
  EXPECT_STREQ(toroid_package_weight_name(package, 2), "w2");
  EXPECT_EQ(toroid_package_weight_name(package, 3), nullptr);
  const auto bytes = [](const Tensor& t) {
    toroid_tensor out{t.raw_data(), static_cast<size_t>(t.numel()) * 4, TOROID_F32, static_cast<int32_t>(t.dim()), {}, nullptr};
    std::copy(t.sizes().begin(), t.sizes().end(), out.sizes);
    return out;
  };
  const auto result = [&] {
    toroid_tensor in = bytes(layer.x), out{};
    EXPECT_EQ(toroid_session_run(session, &in, 1, &out, 1), TOROID_OK) << toroid_last_error();
    const std::vector<float> v(static_cast<float*>(out.data), static_cast<float*>(out.data) + out.bytes / 4);
    toroid_tensor_release(&out);
    return v;
  };
  const std::vector<float> first = result(), second(expected[0].data<float>(), expected[0].data<float>() + expected[0].numel());
  ASSERT_EQ(toroid_package_swap_weights_file(package, (layer.folder / "second.safetensors").c_str()), TOROID_OK) << toroid_last_error();
  EXPECT_EQ(result(), second);
  const char* names[] = {"w0", "w1", "w2"};
  toroid_tensor given[] = {bytes(layer.first.at("w0")), bytes(layer.first.at("w1")), bytes(layer.first.at("w2"))};
  ASSERT_EQ(toroid_package_swap_weights(package, names, given, 3), TOROID_OK) << toroid_last_error();
  EXPECT_EQ(result(), first);
  names[0] = "w1";
  EXPECT_EQ(toroid_package_swap_weights(package, names, given, 2), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "given twice")) << toroid_last_error();
  EXPECT_EQ(result(), first);
  toroid_session_close(session), toroid_package_close(package);
}

}  // namespace
}  // namespace toroid
