// What an operation is made of depends on its sizes: whether two are equal, whether a window fits once more. Where sizes are open, a
// program goes the way that its graph went for the sizes at hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/recorder.h"
#include "lower/lowering.h"
#include "ops/reference.h"
#include "program/interpret.h"
#include "program/verify.h"

namespace toroid::lower {
namespace {

struct AttentionTemplate : target::Target {
  AttentionTemplate() : Target({}) {}
  std::string refusal(const program::Problem& problem, const target::Question&) const override {
    return program::is_a<program::Attention>(problem) ? "" : "others are loops";
  }
};

Tensor numbers(const std::vector<int64_t>& sizes) {
  static int64_t next = 0;
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(next++ * 37 % 41 - 20) / 20;
  return t;
}

struct Call {
  std::string op;
  CallArgs args;
};

// The call as a graph in which all sizes but 1 are open, and its inputs. fixed: the last dimensions of each operand are not.
std::unique_ptr<graph::Graph> graph_of(const ops::Op& op, const CallArgs& args, size_t fixed, std::vector<Tensor>& inputs) {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  CallArgs stand_ins;
  for (auto& a : args)
    stand_ins.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
      if (!t.defined()) return t;
      TensorType type{t.dtype(), {}, {}};
      for (size_t d = 0; d < t.sizes().size(); ++d) {
        const int64_t size = t.sizes()[d];
        const bool open = size > 1 && d + fixed < t.sizes().size();
        type.sizes.push_back(open ? g->new_symbol("s", 2, sym::kInf - 1, false) : Expr(size));
        if (open) recorder.set_hint(type.sizes.back().node()->name, size);
      }
      inputs.push_back(t);
      return recorder.proxy(g->add_input(std::move(type), graph::InputKind::User, "x"));
    }));
  for (auto& r : recorder.call(op, std::move(stand_ins), std::source_location::current()))
    g->outputs.push_back({recorder.value_of(r), {}, -1});
  return g;
}

void expect_as_evaluated(const Call& call, size_t fixed) {
  const ops::Op& op = ops::get(call.op);
  const CallArgs args = ops::complete(op, call.args);
  std::vector<Tensor> inputs;
  const auto g = graph_of(op, args, fixed, inputs);
  const AttentionTemplate target;
  const program::Program p = lower(*g, {.target = &target});
  program::verify(p, program::Stage::Lowered, "lowering");
  const auto got = program::interpret(p, inputs), want = ops::evaluate(op, args);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), want[i].sizes()) << call.op;
    const auto v = got[i].to_vector(), w = want[i].to_vector();
    for (size_t k = 0; k < w.size(); ++k)
      ASSERT_NEAR(v[k], w[k], 1e-4 * (1 + std::fabs(w[k]))) << "element " << k << " of\n" << graph::to_string(*g);
  }
}

const Arg<Tensor> kNone;

std::vector<Call> attentions() {
  struct Sizes {
    std::vector<int64_t> q, k, v, mask;
    bool grouped, causal;
  };
  std::vector<Call> out;
  for (auto& s : std::vector<Sizes>{{{1, 8, 5, 4}, {1, 4, 5, 4}, {1, 4, 5, 4}, {}, true, true},
                                    {{2, 8, 5, 4}, {2, 4, 3, 4}, {2, 4, 3, 6}, {}, true, false},
                                    {{2, 4, 5, 4}, {2, 4, 5, 4}, {2, 4, 5, 4}, {}, true, true},
                                    {{2, 8, 5, 4}, {2, 4, 5, 4}, {2, 2, 5, 4}, {}, true, false},
                                    {{2, 8, 5, 4}, {2, 2, 5, 4}, {2, 8, 5, 4}, {}, true, false},
                                    {{2, 1, 5, 4}, {2, 8, 5, 4}, {2, 8, 5, 4}, {}, false, false},
                                    {{2, 8, 5, 4}, {2, 1, 5, 4}, {2, 1, 5, 4}, {}, false, false},
                                    {{2, 8, 5, 4}, {2, 8, 5, 4}, {2, 1, 5, 4}, {}, false, false},
                                    {{1, 2, 5, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {3, 2, 5, 5}, false, false},
                                    {{2, 1, 5, 4}, {2, 1, 5, 4}, {2, 1, 5, 4}, {2, 3, 5, 5}, false, false},
                                    {{2, 3, 1, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}, {5, 5}, false, false}})
    out.push_back(
        {"scaled_dot_product_attention",
         {numbers(s.q), numbers(s.k), numbers(s.v), s.mask.empty() ? kNone : numbers(s.mask), 0.0, s.causal, std::monostate{}, s.grouped}});
  return out;
}

TEST(OpenSizes, OfAttention) {
  for (auto& call : attentions())
    for (size_t fixed : {1, 4}) expect_as_evaluated(call, fixed);
}

TEST(OpenSizes, OfWhatIsMadeOfParts) {
  const Tensor image = numbers({2, 3, 6, 7});
  const auto list = [](std::vector<int64_t> v) { return std::vector<Expr>(v.begin(), v.end()); };
  for (auto& call : std::vector<Call>{{"cross", {numbers({5, 3}), numbers({5, 3})}},
                                      {"cross", {numbers({3, 5}), numbers({3, 5})}},
                                      {"matmul", {numbers({2, 1, 3, 4}), numbers({5, 4, 2})}},
                                      {"matmul", {numbers({4}), numbers({5, 4, 2})}},
                                      {"linear", {numbers({5, 3, 4}), numbers({2, 4}), numbers({2})}},
                                      {"einsum", {std::string("abc,adc->bd"), std::vector<Tensor>{numbers({3, 4, 5}), numbers({3, 2, 5})}}},
                                      {"bilinear", {numbers({3, 4}), numbers({3, 5}), numbers({2, 4, 5}), numbers({2})}},
                                      {"baddbmm", {numbers({4}), numbers({2, 3, 5}), numbers({2, 5, 4})}},
                                      {"layer_norm", {numbers({3, 5}), list({5}), numbers({5}), numbers({5}), 1e-3}},
                                      {"group_norm", {numbers({2, 4, 5}), Expr(2), numbers({4}), numbers({4}), 1e-3}},
                                      {"cosine_similarity", {numbers({3, 4, 5}), numbers({3, 4, 5}), Expr(1)}},
                                      {"linalg_vecdot", {numbers({3, 4, 5}), numbers({4, 1}), Expr(1)}},
                                      {"max_pool2d", {image, list({3, 2}), list({2, 2}), list({0, 0}), list({1, 1}), true}},
                                      {"avg_pool2d", {image, list({3, 2}), list({2, 3}), list({1, 0}), true}},
                                      {"std.correction", {numbers({3, 4}), list({1}), Expr(1), true}}})
    expect_as_evaluated(call, call.op == "layer_norm" || call.op == "group_norm" ? 1 : 0);
}

}  // namespace
}  // namespace toroid::lower
