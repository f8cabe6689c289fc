// Indices out of range on a GPU: no access beyond the operands, and an error for whoever waits next.
#include <gtest/gtest.h>

#include <cstring>

#include "compile/harness.h"
#include "compile/index_operands.h"
#include "tensor/tensor_impl.h"
#include "toroid/compile.h"
#include "toroid/device_graph.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;

// A tensor on the GPU between two stretches of a pattern, which must be there afterwards.
class Bordered {
 public:
  explicit Bordered(const Tensor& t) : bytes_(static_cast<size_t>(t.numel()) * size_of(t.dtype())) {
    Tensor host = Tensor::empty(std::vector<int64_t>{static_cast<int64_t>(bytes_ + 2 * kBorder)}, DType::U8);
    std::memset(host.raw_data(), kPattern, bytes_ + 2 * kBorder);
    const Tensor dense = t.contiguous();
    std::memcpy(host.raw_data() + kBorder, dense.raw_data(), bytes_);
    all_ = host.to(Device::cuda());
    tensor = Tensor::from_blob(all_.raw_data() + kBorder, t.sizes(), t.dtype(), {}, all_.impl()->storage, Device::cuda());
  }
  bool untouched() const {
    const Tensor host = all_.to(Device::cpu());
    const auto is_pattern = [&](size_t from) {
      for (size_t i = from; i < from + kBorder; ++i)
        if (static_cast<int>(host.raw_data()[i]) != kPattern) return false;
      return true;
    };
    return is_pattern(0) && is_pattern(kBorder + bytes_);
  }

  Tensor tensor;

 private:
  static constexpr size_t kBorder = 4096;
  static constexpr int kPattern = 0xa5;
  size_t bytes_;
  Tensor all_;
};

Tensor indices(const test::IndexedCall& c, std::optional<int64_t> bad = std::nullopt) {
  Tensor out = Tensor::empty(c.index, DType::I64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int64_t>()[i] = (i * 7 + 3) % c.size;
  if (bad) out.data<int64_t>()[out.numel() - 1] = *bad;
  return out;
}

void expect_refusals(const test::IndexedCall& c, const std::function<Tensor(const Tensor&, const Tensor&)>& call) {
  const auto f = [&](const Tensor& x, const Tensor& i) {
    const DeviceScope here(Device::cuda());  // what the call makes besides is there, too
    return call(x, i);
  };
  Tensor values = Tensor::empty(c.self, DType::F32);
  for (int64_t i = 0; i < values.numel(); ++i) values.data<float>()[i] = static_cast<float>(i % 13) * 0.25f;
  const Bordered x(values), good(indices(c));
  const std::vector<double> want = f(x.tensor, good.tensor).to(Device::cpu()).to_vector();
  for (int64_t bad : {c.size, c.size + 100, c.wraps ? -c.size - 1 : int64_t{-1}, int64_t{1} << 40}) {
    const Bordered wrong(indices(c, bad));
    const std::string error = user_error([&] {
      f(x.tensor, wrong.tensor);
      synchronize(Device::cuda());
    });
    ASSERT_TRUE(contains(error, c.name) && contains(error, "index " + std::to_string(bad))) << c.op << ": " << error;
    ASSERT_EQ(f(x.tensor, good.tensor).to(Device::cpu()).to_vector(), want) << c.op << " after " << bad;
    ASSERT_TRUE(x.untouched() && wrong.untouched()) << c.op << " with " << bad;
  }
}

TEST(GpuIndexChecks, EveryOperation) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& c : test::indexed_calls()) EXPECT_NO_THROW(expect_refusals(c, compile(c.f))) << c.op;
}

TEST(GpuIndexChecks, EveryOperationReplayed) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& c : test::indexed_calls())
    EXPECT_NO_THROW(
        expect_refusals(c, compile([&](const Tensor& x, const Tensor& i) { return c.f(x, i) * 2; }, {.mode = Mode::ReduceOverhead})))
        << c.op;
}

TEST(GpuIndexChecks, EveryOperationAtOnce) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& c : test::indexed_calls()) EXPECT_NO_THROW(expect_refusals(c, c.f)) << c.op;
}

TEST(GpuIndexChecks, GraphsByHandAndReads) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  auto f = compile([](const Tensor& w, const Tensor& i) { return embedding(w, i) * 2; });
  const Tensor w = test::counting({10, 64}).to(Device::cuda());
  const Tensor good = Tensor::of({1, 2}, {2}, DType::I64), bad = Tensor::of({1, 10}, {2}, DType::I64);
  Tensor i = good.to(Device::cuda()), y;
  f(w, i);
  CudaGraph g(Device::cuda());
  g.capture([&] { y = f(w, i); });
  for (int round = 0; round < 2; ++round) {
    copy_elements(bad, i);
    g.replay();
    EXPECT_TRUE(contains(user_error([&] { y.to(Device::cpu()); }), "embedding: index 10")) << "reading waits";
    copy_elements(good, i);
    g.replay();
    EXPECT_EQ(y.to(Device::cpu()).to_vector(), f(w, i).to(Device::cpu()).to_vector());
  }
}

}  // namespace
}  // namespace toroid
