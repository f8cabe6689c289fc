// Which parts of programs are tuned together, and where their edges can be fused.
#include "tune/region/regions.h"

#include <gtest/gtest.h>

#include "program/inline.h"
#include "program/region.h"
#include "tune/fake_pipeline.h"
#include "tune/programs.h"

namespace toroid::tune {
namespace {

using Nodes = std::vector<size_t>;
using Buffers = std::vector<int>;

// x * y -> relu-like chain behind: %0 a, %1 b, %2 a*b, %3 its root.
program::Program product_and_root() {
  program::Program p;
  add_input(p, "a");
  add_input(p, "b");
  p.new_buffer("ab", DType::F32, kPoints, loop::BufferKind::Temporary);
  p.new_buffer("root", DType::F32, kPoints, loop::BufferKind::Temporary);
  p.nodes.push_back(product(0, 1, 2, 8, 8, 8, 0));
  p.nodes.push_back(unary("Sqrt", 2, 3, 1));
  set_output(p, 3);
  return p;
}

TEST(Boundary, OneLoop) {
  const Boundary b = boundary_of(chain_of_loops(1));
  EXPECT_EQ(b.first_nodes, Nodes{0});
  EXPECT_EQ(b.last_nodes, Nodes{0});
  EXPECT_EQ(b.fusable_inputs, Buffers{0});
  EXPECT_EQ(b.fusable_outputs, Buffers{1});
}

TEST(Boundary, AChainHasItsEndsAsEdges) {
  const Boundary b = boundary_of(chain_of_loops(3));
  EXPECT_EQ(b.first_nodes, Nodes{0});
  EXPECT_EQ(b.last_nodes, Nodes{2});
  EXPECT_EQ(b.fusable_outputs, Buffers{3});
}

TEST(Boundary, AProductTakesLoopsOnItsLeft) {
  const Boundary b = boundary_of(product_and_root());
  EXPECT_EQ(b.first_nodes, Nodes{0});
  EXPECT_EQ(b.last_nodes, Nodes{1});
  EXPECT_EQ(b.fusable_inputs, Buffers{0});
  EXPECT_EQ(b.fusable_outputs, Buffers{3});
  EXPECT_TRUE(b.can_fuse_epilogue(unary("Sqrt", 3, 9, 5)));
  EXPECT_FALSE(b.can_fuse_epilogue(unary("Sqrt", 2, 9, 5)));
  EXPECT_TRUE(b.can_fuse_prologue(unary("Sqrt", 9, 0, 5)));
  EXPECT_FALSE(b.can_fuse_prologue(unary("Sqrt", 9, 1, 5)));
}

TEST(Boundary, SeveralInputsAndOutputs) {
  program::Program p = product_and_root();  // and the roots of b, which the product reads too
  p.new_buffer("root of b", DType::F32, kPoints, loop::BufferKind::Temporary);
  p.nodes.push_back(unary("Sqrt", 1, 4, 2));
  set_output(p, 4);
  set_output(p, 2);  // which the root reads back
  const Boundary b = boundary_of(p);
  EXPECT_EQ(b.first_nodes, (Nodes{0, 2}));
  EXPECT_EQ(b.last_nodes, (Nodes{0, 1, 2}));
  EXPECT_EQ(b.fusable_inputs, Buffers{0});
  EXPECT_EQ(b.fusable_outputs, (Buffers{3, 4}));
}

TEST(Boundary, AViewIsAnEdgeLikeOthers) {
  program::Program p;  // reads every second element
  add_input(p, "x", 2 * kPoints);
  p.new_buffer("y", DType::F32, kPoints, loop::BufferKind::Temporary);
  p.nodes.push_back(loop_node(fmt::format("loop (i0: {}) {{\n v0: f32 = load %0 [i0*2]\n store %1 [i0] v0\n}}", kPoints), 0));
  set_output(p, 1);
  const Boundary b = boundary_of(p);
  EXPECT_EQ(b.fusable_inputs, Buffers{0});
  EXPECT_EQ(b.fusable_outputs, Buffers{1});
}

TEST(Boundary, WhatIsWrittenInPlaceIsNoEdge) {
  program::Program p;
  add_input(p, "x");
  p.nodes.push_back(unary("Sqrt", 0, 0, 0));
  p.outputs.push_back({0, {DType::F32, {kPoints}, {}}, 0, {}, {}});
  const Boundary b = boundary_of(p);
  EXPECT_EQ(b.first_nodes, Nodes{0});
  EXPECT_EQ(b.last_nodes, Nodes{0});
  EXPECT_EQ(b.fusable_inputs, Buffers{});
  EXPECT_EQ(b.fusable_outputs, Buffers{});
}

TEST(Region, EqualPartsOfProgramsAreEqual) {
  program::Program twice = product_and_root();
  add_input(twice, "c");  // %4
  add_input(twice, "d");
  twice.new_buffer("cd", DType::F32, kPoints, loop::BufferKind::Temporary);
  twice.new_buffer("root of cd", DType::F32, kPoints, loop::BufferKind::Temporary);
  twice.nodes.push_back(product(4, 5, 6, 8, 8, 8, 2));
  twice.nodes.push_back(unary("Sqrt", 6, 7, 3));
  set_output(twice, 7);
  const std::vector<Region> regions = find_regions(twice, sched::fuse(twice), 3);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].key, regions[1].key);
  EXPECT_EQ(regions[0].numbers, (std::vector<int>{0, 1}));
  EXPECT_EQ(regions[1].numbers, (std::vector<int>{2, 3}));
  EXPECT_EQ(regions[1].choice_nodes, Nodes{0});
  EXPECT_EQ(regions[1].program.inputs.size(), 2u);
  EXPECT_EQ(regions[1].program.outputs.size(), 1u);
  twice.nodes[2] = product(4, 5, 6, 4, 16, 16, 2);
  EXPECT_NE(program::region_key(find_regions(twice, sched::fuse(twice), 3)[1].program), regions[0].key);
}

// Keys tell calls apart that have other operands or other numbers as arguments.
TEST(Region, CallsAreKnownByTheirArguments) {
  const auto key = [](const std::function<void(program::Open&)>& change) {
    program::Program p = reduced_and_scaled();
    change(std::get<program::Open>(p.nodes[0].problem));
    const size_t all[] = {0, 1, 2};
    return program::region_key(program::region(p, all));
  };
  const Hash128 as_it_is = key([](auto&) {});
  EXPECT_EQ(key([](auto& o) { o.outputs[0].memory.buffer = 1; }), as_it_is);
  EXPECT_NE(key([](auto& o) { o.inputs[0].memory.offset = 1; }), as_it_is);
  EXPECT_NE(key([](auto& o) { o.inputs[0].memory.buffer = 3; }), as_it_is);
  const auto sorted = [](bool descending) {
    program::Program p = chain_of_loops(1);
    program::Extern call;
    call.op = &ops::get("sort");
    call.args = {0, Expr(-1), descending};
    call.inputs = {{{0, DType::F32, 0, {1}}, {kPoints}}};
    call.outputs = {{{1, DType::F32, 0, {1}}, {kPoints}}};
    p.nodes[0].problem = call;
    return program::content_key(p, {});
  };
  EXPECT_EQ(sorted(true), sorted(true));
  EXPECT_NE(sorted(true), sorted(false));
}

TEST(Region, GivesWhatOthersRead) {
  program::Program p = product_and_root();
  p.new_buffer("again", DType::F32, 2 * kPoints, loop::BufferKind::Temporary);
  p.nodes.push_back(
      loop_node(fmt::format("loop (i0: {}) {{\n v0: f32 = load %2 [floordiv(i0, 2)]\n store %4 [i0] v0\n}}", 2 * kPoints), 2));
  set_output(p, 4);
  const size_t both[] = {0, 1};
  EXPECT_EQ(program::region(p, both).outputs.size(), 2u);
  const size_t all[] = {0, 1, 2};
  EXPECT_EQ(program::region(p, all).outputs.size(), 2u);
}

TEST(FusionSets, OneNeighbourMoreAtEachDepth) {
  program::Program p = chain_of_loops(4);
  EXPECT_EQ(fusion_sets(p, 1, 0, {}), (std::vector<Nodes>{{1}}));
  EXPECT_EQ(fusion_sets(p, 1, 1, {}), (std::vector<Nodes>{{1}, {0, 1}, {1, 2}}));
  EXPECT_EQ(fusion_sets(p, 1, 3, {.prologue = false}), (std::vector<Nodes>{{1}, {1, 2}, {1, 2, 3}}));
  EXPECT_EQ(fusion_sets(p, 1, 3, {.epilogue = false}), (std::vector<Nodes>{{1}, {0, 1}}));
  EXPECT_EQ(fusion_sets(p, 1, 3, {false, false, false}), (std::vector<Nodes>{{1}}));
}

// root of a, product, root of the product, and a product that takes the latter.
program::Program two_products_and_roots() {
  program::Program p;
  add_input(p, "a");
  add_input(p, "b");
  for (const char* name : {"root of a", "product", "root", "second"}) p.new_buffer(name, DType::F32, kPoints, loop::BufferKind::Temporary);
  p.nodes.push_back(unary("Sqrt", 0, 2, 0));
  p.nodes.push_back(product(2, 1, 3, 8, 8, 8, 1));
  p.nodes.push_back(unary("Sqrt", 3, 4, 2));
  p.nodes.push_back(product(4, 1, 5, 8, 8, 8, 3));
  set_output(p, 5);
  return p;
}

TEST(UnwantedFusion, IsThatOfTheKindsThatAreOff) {
  using Pairs = std::vector<std::pair<int, int>>;
  const program::Program lowered = two_products_and_roots();
  program::Program one_launch = lowered;
  one_launch.nodes = {lowered.nodes[3]};
  one_launch.nodes[0].parts = {3, 2, 1, 0};
  EXPECT_EQ(unwanted_fusion(lowered, one_launch, {}), Pairs{});
  EXPECT_EQ(unwanted_fusion(lowered, one_launch, {.epilogue = false}), (Pairs{{1, 2}}));
  EXPECT_EQ(unwanted_fusion(lowered, one_launch, {.prologue = false}), (Pairs{{0, 1}, {0, 3}, {2, 3}}));
  EXPECT_EQ(unwanted_fusion(lowered, one_launch, {.cross_subgraph = false}), (Pairs{{1, 3}}));
  EXPECT_EQ(unwanted_fusion(lowered, lowered, {false, false, false}), Pairs{});
}

}  // namespace
}  // namespace toroid::tune
