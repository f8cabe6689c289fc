// Keys of calls: equal for equal calls, and different wherever types could differ.
#include "graph/call_key.h"

#include <gtest/gtest.h>

#include "graph/recorder.h"
#include "graph/sharing.h"

namespace toroid::graph {
namespace {

std::optional<CallKey> key_of(const ops::Op& op, const CallArgs& args) {
  return CallKey::of(op, args, [](const Tensor& t, const auto& append) -> std::optional<DType> {
    const TensorType& type = static_cast<const Value*>(t.impl()->proxy)->type;
    append(t.dim());
    for (auto* list : {&type.sizes, &type.strides})
      if (!std::all_of(list->begin(), list->end(), append)) return std::nullopt;
    return type.dtype;
  });
}

class CallKeys : public testing::Test {
 protected:
  Tensor input(TensorType type) { return Recorder::proxy(g_.add_input(std::move(type), InputKind::User, "x")); }
  const ops::Op& op_ = ops::get("add.Tensor");
  Graph g_;
};

TEST_F(CallKeys, OfEqualCallsAreEqual) {
  const TensorType type{DType::F32, {2, 3}, {}};
  const Tensor a = input(type), b = input(type);
  EXPECT_EQ(key_of(op_, {a, b, Expr(1)}), key_of(op_, {b, a, Expr(1)}));
}

TEST_F(CallKeys, DifferWhereTypesCould) {
  const Tensor x = input({DType::F32, {2, 3}, {}});
  const std::vector<CallArgs> calls{
      {x, x, Expr(1)},
      {x, x, Expr(2)},
      {x, x, 1.0},
      {x, x, true},
      {x, x, std::string("1")},
      {x, x, DType::F32},
      {x, x, DType::F64},
      {x, x, std::complex<double>(1, 0)},
      {x, x, std::complex<double>(0, 1)},
      {x, x, -0.0},
      {x, x, 0.0},
      {x, x},
      {x, x, std::monostate()},
      {x, Tensor(), Expr(1)},
      {x, std::vector<Tensor>{x}, Expr(1)},
      {std::vector<Tensor>{x, x}, Expr(1)},
      {x, std::vector<Expr>{1, 2}},
      {x, std::vector<Expr>{1}, Expr(2)},
      {x, std::vector<Expr>{}},
      {x, std::vector<double>{1, 2}},
      {x, std::vector<double>{}},
      {x, std::vector<bool>{true}},
      {x, std::vector<bool>{false}},
      {input({DType::F64, {2, 3}, {}}), x, Expr(1)},
      {input({DType::F32, {3, 2}, {}}), x, Expr(1)},
      {input({DType::F32, {2, 3, 1}, {}}), x, Expr(1)},
      {input({DType::F32, {2, 3, 3, 1}, {}}), x, Expr(1)},
      {input({DType::F32, {2, 3}, {3, 1}}), x, Expr(1)},
      {input({DType::F32, {2, 3}, {1, 2}}), x, Expr(1)},
      {input({DType::F32, {}, {}}), x, Expr(1)},
  };
  for (size_t i = 0; i < calls.size(); ++i)
    for (size_t k = 0; k < calls.size(); ++k) EXPECT_EQ(key_of(op_, calls[i]) == key_of(op_, calls[k]), i == k) << i << " and " << k;
  EXPECT_NE(key_of(op_, calls[0]), key_of(ops::get("sub.Tensor"), calls[0]));
}

TEST_F(CallKeys, AreForCallsWithoutOpenSizes) {
  const Expr s = sym::symbol("s0", 2, 100);
  EXPECT_FALSE(key_of(op_, {input({DType::F32, {s}, {}}), Expr(1)}));
  EXPECT_FALSE(key_of(op_, {input({DType::F32, {2}, {s}}), Expr(1)}));
  EXPECT_FALSE(key_of(op_, {s}));
  EXPECT_FALSE(key_of(op_, {std::vector<Expr>{1, s}}));
}

// A size that a call makes is its own, also of the second of two equal calls.
TEST_F(CallKeys, SizesFromDataAreEachCallsOwn) {
  Recorder recorder(g_);
  const DispatchScope scope(recorder);
  const Tensor x = input({DType::Bool, {5}, {}});
  const Tensor a = ops::call1("nonzero", {x}), b = ops::call1("nonzero", {x});
  EXPECT_EQ(g_.symbols.size(), 2u);
  EXPECT_NE(a.size(0).expr(), b.size(0).expr());
}

}  // namespace
}  // namespace toroid::graph
