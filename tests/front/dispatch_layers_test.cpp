// Layers above what there is: eager operations, a trace, autocast. They see calls as they were made, and none of their parts.
#include <gtest/gtest.h>

#include "compile/harness.h"
#include "tensor/dispatch_layer.h"
#include "toroid/autocast.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

class Tape : public Layer {
 public:
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    called.push_back(op.name);
    return Layer::call(op, std::move(args), where);
  }
  std::vector<std::string> called;
};

TEST(DispatchLayers, SeeEagerCallsWhole) {
  const Tensor x = test::counting({3, 4});
  const auto want = gelu(x + x).to_vector();
  Tape tape;
  std::vector<double> got;
  {
    Layer::Scope scope(tape);
    got = gelu(x + x).to_vector();
    EXPECT_THROW(matmul(x, x), UserError);
    to(x, DType::F64);
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(tape.called, (std::vector<std::string>{"add.Tensor", "gelu", "matmul", "_to_copy"}));
  x + x;
  EXPECT_EQ(tape.called.size(), 4u) << "the scope has ended";
}

// A tape under which a trace lies, which applies autocast: the casts are in the graph, and the tape has the call.
TEST(DispatchLayers, LieAboveATrace) {
  const Tensor x = test::counting({8, 8});
  Tape tape;
  const auto g = test::graph_of(
      [&](const std::vector<Tensor>& in) {
        Layer::Scope scope(tape);
        const autocast cast(DeviceType::Cpu, DType::BF16);
        return matmul(in[0], in[0]);
      },
      {x});
  EXPECT_EQ(tape.called, std::vector<std::string>{"matmul"});
  std::vector<std::string> recorded;
  for (auto& n : g->nodes) recorded.push_back(n->op->name);
  EXPECT_EQ(g->outputs.at(0).value->type.dtype, DType::BF16);
  EXPECT_GT(recorded.size(), tape.called.size()) << "casts";
}

}  // namespace
}  // namespace toroid
