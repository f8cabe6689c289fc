// Gradient rules, against differences in f64.
#include <gtest/gtest.h>

#include <set>

#include "autograd/checks.h"
#include "autograd/differentiate.h"
#include "autograd/rule.h"
#include "graph/control_flow.h"
#include "graph/recorder.h"
#include "ops/reference.h"
#include "samples.h"
#include "toroid/error.h"

namespace toroid::autograd {
namespace {

class Rules : public ::testing::Test {
 protected:
  ops::ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

TEST_F(Rules, AgreeWithDifferences) {
  for (const Sample& s : samples()) EXPECT_EQ(wrong_gradient(s), "");
}

// Of the others one in so many under a sanitizer.
constexpr size_t kSome = test::kFewer;

TEST_F(Rules, OfComposites) {
  const auto all = composite_samples();
  for (size_t i = 0; i < all.size(); i += kSome) EXPECT_EQ(wrong_gradient(all[i]), "");
}

// Of composites one in so many has its second gradients checked: these are arithmetic, of which a sanitizer has seen enough by then.
constexpr size_t kComposites = test::kFewer > 1 ? 4 * test::kFewer : 1;

// Gradients of gradients. Those that are refused, and those that are wrong at some points, are known by name.
TEST_F(Rules, HaveGradients) {
  const std::set<std::string> refused = {};
  const std::set<std::string> wrong_at_zeros = {"segment_reduce"};  // products of elements of which one is 0: by division
  std::vector<Sample> all = samples();
  const size_t primitive = all.size();
  for (auto& s : composite_samples()) all.push_back(s);
  std::set<std::string> found_refused, found_wrong;
  for (size_t i = 0; i < all.size(); ++i) {
    const Sample& s = all[i];
    if (s.tied || i % (i >= primitive ? kComposites : wrong_at_zeros.count(s.op) ? 1 : kSome) != 0) continue;
    try {
      const std::string wrong = wrong_second_gradient(s);
      if (!wrong.empty()) found_wrong.insert(s.op);
      if (i >= primitive) continue;
      const std::string at_zero = wrong_second_gradient_at_zero(s);
      EXPECT_EQ(at_zero.empty(), s.op != "logcumsumexp") << at_zero;  // that goes by logarithms of cotangents
      EXPECT_TRUE(wrong.empty() || wrong_at_zeros.count(s.op)) << wrong;
    } catch (const UserError&) {
      found_refused.insert(s.op);
    }
  }
  EXPECT_EQ(found_refused, refused);
  EXPECT_EQ(found_wrong, wrong_at_zeros);
}

TEST_F(Rules, AtCorners) { EXPECT_EQ(wrong_corner(), ""); }

// Rules of which no difference can be taken.
const std::set<std::string> kWithoutSample = {
    "detach",    "detach_copy", "prims.with_history", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor",
    "bernoulli", "bernoulli.p", "embedding_renorm",   "_check_values"};

TEST_F(Rules, AttentionByParts) { EXPECT_EQ(wrong_attention_parts(), ""); }

TEST_F(Rules, EachHasASample) {
  std::set<std::string> sampled;
  for (const auto& list : {samples(), composite_samples()})
    for (const Sample& s : list) sampled.insert(s.op);
  for (auto family : rule_families())
    for (auto& row : family) {
      EXPECT_TRUE(ops::table().find(row.name)) << row.name << " is no operation";
      EXPECT_NE(sampled.count(row.name) > 0, kWithoutSample.count(row.name) > 0) << row.name;
    }
}

// What is no composite must have a rule, or a reason to have none.
TEST_F(Rules, NoPrimitiveIsForgotten) {
  const std::set<std::string> none = {
      // integers and truths, sizes, checks
      "_int_mm", "nonzero", "nonzero_static", "_number_as_size", "_check_index", "bincount", "histc", "argmax", "argmin", "any", "any.dim",
      "any.dims", "all", "all.dim", "all.dims", "hash_tensor", "prims.iota", "tril_indices", "triu_indices", "torchvision.nms",
      "repeat_interleave.Tensor", "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "_assert_scalar",
      "_assert_async", "_assert_async.msg", "sym_constrain_range", "sym_constrain_range_for_size", "_linalg_check_errors",
      "searchsorted.Tensor", "searchsorted.Scalar", "bucketize.Tensor", "isin.Tensor_Tensor", "_histogramdd_bin_edges",
      "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors", "histogram.bin_ct", "histogram.bins_tensor",
      // made of nothing
      "full", "prims.rand_uniform", "prims.rand_normal", "prims.rand_uniform.state", "prims.rand_normal.state",
      // other bits of the same memory
      "view.dtype", "view_copy.dtype"};
  std::vector<std::string> forgotten;
  for (const ops::Op& op : ops::table().rows())
    if (op.kernel && !op.inplace_of && !op.collective && op.name.find("higher_order") != 0 && !find_rule(op) && !none.count(op.name))
      forgotten.push_back(op.name);
  std::string names;
  for (auto& n : forgotten) names += n + " ";
  // These are refused by name: nobody has asked for their gradients.
  const std::set<std::string> refused = {"linalg_eig", "linalg_ldl_factor_ex", "linalg_ldl_solve", "geqrf", "ormqr"};
  for (auto& n : forgotten) EXPECT_TRUE(refused.count(n)) << n << " has no gradient rule; all such: " << names;
}

// What a region draws in the gradient would not be what it drew.
TEST_F(Rules, RegionsThatDrawAreRefused) {
  graph::Graph g;
  graph::Value *x = g.add_input({DType::F64, {2}, {}}, graph::InputKind::User, "x"),
               *yes = g.add_input({DType::Bool, {}, {}}, graph::InputKind::User, "yes");
  const auto region = [](bool draws) {
    auto r = std::make_shared<graph::Graph>();
    graph::Recorder recorder(*r);
    DispatchScope scope(recorder);
    const Tensor a = recorder.proxy(r->add_input({DType::F64, {2}, {}}, graph::InputKind::User, "a"));
    r->outputs.push_back({recorder.value_of(draws ? ops::call1("dropout", {a, 0.5, true}) : ops::call1("sin", {a})), {}, -1});
    return r;
  };
  graph::Node* n = graph::add_region_node(g, graph::cond_op(), {yes, {}, {}, std::vector<graph::Value*>{x}}, {region(false), region(true)},
                                          "model.cpp:9");
  g.outputs.push_back({n->results[0], {}, -1});
  const Request request{.inputs = {0}, .takes_cotangents = true};
  try {
    differentiate(g, request);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("cond (model.cpp:9): a region draws random numbers"), std::string::npos) << e.what();
  }
  n->regions[1] = region(false);
  EXPECT_EQ(differentiate(g, request)->outputs.size(), 2u);
}

TEST_F(Rules, WhatHasNoneIsRefusedByName) {
  Sample s{"geqrf", {floats({3, 3})}};
  const auto g = graph_of(s);
  g->nodes[0]->where = "model.cpp:7";
  try {
    differentiate(*g, {.inputs = {0}, .takes_cotangents = true});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("geqrf (model.cpp:7): this operation has no gradient"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace toroid::autograd
