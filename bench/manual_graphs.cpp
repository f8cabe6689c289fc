// What graphs by hand cost the host: capture, instantiation, update in place, replay.
//   bench_manual_graphs [cpu|cuda]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "device/cpu/cpu_runtime.h"
#include "device/cuda/gpu.h"
#include "jit/nvrtc.h"
#include "toroid/device_graph.h"
#include "toroid/tensor.h"

using namespace toroid;

namespace {

using Clock = std::chrono::steady_clock;

// Median microseconds of a call.
template <class F>
double us_of(int times, F&& call) {
  std::vector<double> us;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    call();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

void add_on_cpu(void* const* bufs, const int64_t*, int64_t, int64_t, int) { ++*static_cast<int32_t*>(bufs[0]); }

// A launch of next to no work on the current stream.
class Adder {
 public:
  explicit Adder(const Device& device) : device_(device) {
    if (!device.is_cuda()) return;
    const char* text = "extern \"C\" __global__ void add(int* p) { ++*p; }";
    kernel_ = device::cuda::gpu(0).load(jit::nvrtc_compile(text, device::cuda::gpu(0).info().architecture, "add"), "add");
  }
  void operator()(const Tensor& t) const {
    void* p = t.raw_data();
    if (device_.is_cuda()) {
      void* arguments[] = {&p};
      return device::cuda::gpu(0).launch(kernel_, {1, 1}, arguments);
    }
    const device::cpu::Launch l{add_on_cpu, &p, nullptr, 1};
    if (auto* r = device::cpu::recorder())
      r->add_launch("add", l, {&p, 1}, {});
    else
      device::cpu::run(l);
  }

 private:
  Device device_;
  device::cuda::Kernel kernel_;
};

}  // namespace

int main(int argc, char** argv) {
  const Device device = device_from_name(argc > 1 ? argv[1] : "cpu");
  const Adder add(device);
  Tensor x = Tensor::full(std::vector<int64_t>{1}, 0, DType::I32).to(device),
         y = Tensor::full(std::vector<int64_t>{1}, 0, DType::I32).to(device);
  fmt::print(
      "{}: launches, then microseconds of the host (medians): launching one by one, capture, instantiate, update in place, "
      "replay until it returns, replay until it is done\n",
      to_string(device));
  for (int launches : {1, 10, 100, 1000}) {
    auto work = [&](const Tensor& t) {
      for (int i = 0; i < launches; ++i) add(t);
    };
    const double single = us_of(21, [&] {
      work(x);
      synchronize(device);
    });
    CudaGraph g(device, true);
    const double capture = us_of(11, [&] {
      g.reset();
      g.capture([&] { work(x); });
    });
    const double instantiate = us_of(11, [&] {
      g.release_executable();
      g.instantiate();
    });
    std::vector<double> updates;
    for (int i = 0; i < 11; ++i) {
      CudaGraph other(device, true);
      other.capture([&] { work(i % 2 ? x : y); });
      bool in_place = false;
      updates.push_back(us_of(1, [&] { in_place = g.update(other).in_place; }));
      if (!in_place) fmt::print("not in place\n");
    }
    std::sort(updates.begin(), updates.end());
    g.replay();
    synchronize(device);
    std::vector<double> returns;
    const double done = us_of(101, [&] {
      returns.push_back(us_of(1, [&] { g.replay(); }));
      synchronize(device);
    });
    std::sort(returns.begin(), returns.end());
    fmt::print("{:>6} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.2f} {:>10.1f}\n", launches, single, capture, instantiate,
               updates[updates.size() / 2], returns[returns.size() / 2], done);
  }
  return 0;
}
