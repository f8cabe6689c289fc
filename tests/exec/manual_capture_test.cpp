// Programs within a capture by hand, on the CPU.
#include <gtest/gtest.h>

#include "device/faults.h"
#include "exec/plans.h"
#include "toroid/device_error.h"
#include "toroid/device_graph.h"
#include "toroid/random.h"

namespace toroid::exec {
namespace {

// bufs: in, out; params: elements.
void add_one(void* const* bufs, const int64_t* params, int64_t, int64_t, int) {
  for (int64_t i = 0; i < params[0]; ++i) static_cast<float*>(bufs[1])[i] = static_cast<const float*>(bufs[0])[i] + 1;
}
// bufs: state of the generator, out: its offset.
void read_offset(void* const* bufs, const int64_t*, int64_t, int64_t, int) {
  static_cast<int64_t*>(bufs[1])[0] = static_cast<const int64_t*>(bufs[0])[1];
}

Launch launch(KernelFunction f, std::vector<int> buffers, std::vector<Expr> params) {
  Launch l;
  l.name = "kernel";
  l.kernel = native(f);
  l.buffers = std::move(buffers);
  l.params = std::move(params);
  return l;
}

// x + 3, as a launch, a call on tensors, and a launch.
Plan with_host_call(bool record) {
  Plan p;
  p.options = CompileOptions::of_process();
  p.record = record;
  const TensorType type{DType::F32, {8}, {}};
  for (BufferRole role : {BufferRole::Input, BufferRole::Temporary, BufferRole::Temporary, BufferRole::Output})
    p.buffers.push_back({"b", DType::F32, 8, role, {}});
  p.steps.push_back(launch(add_one, {0, 1}, {8}));
  auto view = [](int buffer) { return HostCall::View{buffer, DType::F32, 0, {8}, {1}}; };
  p.steps.push_back(HostCall{"plus", &ops::get("add.Tensor"), {0, Expr(1), Expr(1)}, {view(1)}, {view(2)}});
  p.steps.push_back(launch(add_one, {2, 3}, {8}));
  p.inputs.push_back({"x", type, 0, 0, {}, false});
  p.outputs.push_back({3, type, -1});
  return p;
}

Tensor eight(double value) { return Tensor::full(std::vector<int64_t>{8}, value); }
std::vector<double> values(double v) { return std::vector<double>(8, v); }

TEST(ManualCapture, ReplaysThePrograms) {
  for (bool record : {false, true}) {
    Runnable e(with_host_call(record));
    Tensor x = eight(1), y;
    e.run(std::vector<Tensor>{x});
    CudaGraph g(Device::cpu(), true);
    g.capture([&] { y = e.run(std::vector<Tensor>{e.run(std::vector<Tensor>{x})[0]})[0]; });
    EXPECT_EQ(g.node_count(), 6u);
    EXPECT_TRUE(g.pool().impl());
    for (double v : {5.0, 7.0}) {
      copy_elements(eight(v), x);
      g.replay();
      EXPECT_EQ(y.to_vector(), values(v + 6));
      EXPECT_EQ(e.run(std::vector<Tensor>{x})[0].to_vector(), values(v + 3)) << "between replays";
    }
  }
}

TEST(ManualCapture, KeepsWhatItNeeds) {
  Tensor y;
  CudaGraph g(Device::cpu());
  {
    Runnable e(with_host_call(false));
    Tensor x = eight(4);
    g.capture([&] { y = e.run(std::vector<Tensor>{x})[0]; });
  }
  g.replay();
  EXPECT_EQ(y.to_vector(), values(7));
}

TEST(ManualCapture, RandomNumbersGoOnFromReplayToReplay) {
  Plan p;
  const TensorType type{DType::I64, {1}, {}};
  p.buffers = {{"state", DType::I64, 2, BufferRole::Input, {}}, {"out", DType::I64, 1, BufferRole::Output, {}}};
  p.steps.push_back(launch(read_offset, {0, 1}, {}));
  p.inputs.push_back({"state", {DType::I64, {2}, {}}, 0, -1, {}, false, Expr(10)});
  p.outputs.push_back({1, type, -1});
  Runnable e(std::move(p));
  Tensor y;
  CudaGraph g(Device::cpu());
  manual_seed(1);
  g.capture([&] { y = e.run({})[0]; });
  for (int i = 0; i < 3; ++i) {
    g.replay();
    EXPECT_EQ(y.item(), 10.0 * i);
  }
}

TEST(ManualCapture, SizesFromDataCannotBeCaptured) {
  Plan p = with_host_call(false);
  p.symbols.emplace_back(sym::symbol("u0", 0, 100), true);
  Runnable e(std::move(p));
  CudaGraph g(Device::cpu());
  try {
    g.capture([&] { e.run(std::vector<Tensor>{eight(1)}); });
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_TRUE(error.is(DeviceErrorCode::CaptureUnsupported)) << error.what();
    EXPECT_NE(std::string(error.what()).find("sizes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace toroid::exec
