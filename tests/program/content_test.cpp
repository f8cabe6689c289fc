// Contents of nodes, by which equal ones are known: they say everything that a kernel is made of, and nothing else.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "compile/stages.h"
#include "graph/random_graph.h"
#include "program/content_plants.h"
#include "program/parse.h"
#include "program/region.h"

namespace toroid::program {
namespace {

// Those of tests/data, which have every kind of node, and random graphs as they are when kernels are made of them.
std::vector<std::pair<std::string, Program>> programs() {
  std::vector<std::pair<std::string, Program>> out;
  for (auto& entry : std::filesystem::directory_iterator(TOROID_SOURCE_DIR "/tests/data/programs"))
    out.emplace_back(entry.path().string(), parse(read_file(entry.path())));
  const device::cuda::GpuInfo hopper;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const bool gpu = seed % 2;
    const auto g = graph::random_graph(seed, {.nodes = 8, .dynamic_sizes = seed % 3 == 0, .in_place = true});
    const compiler::Setup setup = front::setup_of({.device = gpu ? Device::cuda() : Device::cpu()});
    test::Stages stages{.setup = setup, .target = backend::make_backend(setup.device, setup.options, gpu ? &hopper : nullptr)};
    out.emplace_back("random graph " + std::to_string(seed),
                     target::run_passes(stages.lowered(*g), *stages.target, Stage::Scheduled, stages.setup.options));
  }
  return out;
}

// All nodes that kernels are generated for.
void each_node(const std::function<void(const Program&, size_t)>& f) {
  static const auto all = programs();
  for (auto& [name, p] : all) {
    SCOPED_TRACE(name);
    for (size_t i = 0; i < p.nodes.size(); ++i)
      if (!p.nodes[i].is_call() && !p.nodes[i].is_open()) f(p, i);
  }
}

TEST(NodeContent, DiffersWhereAFieldDoes) {
  std::set<std::string, std::less<>> planted;
  each_node([&](const Program& p, size_t i) {
    const std::string own = content_of(p, p.nodes[i]).text;
    test::each_plant(p, i, [&](std::string_view what, const Program& other) {
      EXPECT_NE(content_of(other, other.nodes[i]).text, own) << what;
      planted.emplace(what);
    });
  });
  EXPECT_GT(planted.size(), 90u);
}

TEST(NodeContent, IsOneProgramThatReadsBack) {
  each_node([&](const Program& p, size_t i) {
    const NodeContent content = content_of(p, p.nodes[i]);
    const Program alone = parse(content.text);
    EXPECT_EQ(to_string(alone, false), content.text);
    EXPECT_EQ(alone.nodes.size(), 1u);
    EXPECT_EQ(alone.buffers.size(), content.buffers.size());
    EXPECT_EQ(content_of(alone, alone.nodes[0]).text, content.text);
  });
}

// The same node among other buffers, with other variables, origins and places.
TEST(NodeContent, KnowsNoNames) {
  each_node([&](const Program& p, size_t i) {
    Program other = p;
    const int shift = other.new_buffer("first", DType::F64, 1, loop::BufferKind::Temporary);
    for (auto& b : p.buffers)
      if (b.kind != loop::BufferKind::Faults)
        other.new_buffer(b.kind == loop::BufferKind::Peers ? b.name : b.name + "'", b.dtype, b.numel, b.kind);  // the group's
    std::vector<int> numbers(p.buffers.size());
    int next = shift + 1;
    for (auto& b : p.buffers) numbers[static_cast<size_t>(b.id)] = b.kind == loop::BufferKind::Faults ? b.id : next++;
    Node& n = other.nodes[i];
    renumber_buffers(n, [&](int b) { return b < 0 ? b : numbers[static_cast<size_t>(b)]; });
    n.origins = {"another"}, n.parts = {17}, n.where = "elsewhere.cpp:1", n.pass = graph::Pass::Backward;
    NodeContent expected = content_of(p, p.nodes[i]);
    const NodeContent content = content_of(other, n);
    EXPECT_EQ(content.text, expected.text);
    for (int& b : expected.buffers) b = numbers[static_cast<size_t>(b)];
    EXPECT_EQ(content.buffers, expected.buffers);
  });
}

TEST(NodeContent, HasTheBoundsOfSizes) {
  const std::string text =
      "program \"p\" symbols(s0 in 1..9) {\nbuffer %0 \"x\": f32[s0] input\nbuffer %1 \"y\": f32[s0] output\nloops # \"abs\"\n"
      "loop (i0: s0) {\n  v0: f32 = load %0 [i0]\n  v1: f32 = Abs v0\n  store %1 [i0] v1\n}\n}\n";
  const auto content = [&](const char* range, const char* name) {
    std::string own = text;
    own.replace(own.find("1..9"), 4, range);
    for (size_t at; (at = own.find("s0")) != std::string::npos;) own.replace(at, 2, name);
    const Program p = parse(own);
    return content_of(p, p.nodes[0]).text;
  };
  EXPECT_NE(content("1..9", "n"), content("1..10", "n"));
  EXPECT_NE(content("1..9", "n"), content("1..9", "m"));
}

// A kernel may read the record without its node naming it.
TEST(NodeContent, TellsWhetherThereIsARecordOfFaults) {
  each_node([&](const Program& p, size_t i) {
    Program other = p;
    if (other.faults() < static_cast<int>(p.buffers.size())) return;  // p has one
    EXPECT_NE(content_of(other, other.nodes[i]).text, content_of(p, p.nodes[i]).text);
  });
}

}  // namespace
}  // namespace toroid::program
