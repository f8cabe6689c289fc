// Weights that lie in the host's memory start on their way to the GPU, which goes on while the kernels are compiled.
#include "tensor/upload.h"

#include <algorithm>

#include "compile/pipeline.h"
#include "device/runtime.h"

namespace toroid::compiler {
namespace {

constexpr int64_t kWorthAnUpload = 1 << 16;  // bytes: smaller weights are copied when the plan is made

// Buffers that a run reads.
std::vector<bool> buffers_read(const Kernels& k) {
  std::vector<bool> out(k.program.buffers.size(), false);
  auto use = [&](int buffer) {
    if (buffer >= 0) out[static_cast<size_t>(buffer)] = true;
  };
  for (auto& [node, text] : k.texts) std::for_each(text.buffers.begin(), text.buffers.end(), use);
  for (auto& n : k.program.nodes)
    if (n.is_call() || n.is_library())
      for (int b : program::reads(n)) use(b);
  for (auto& o : k.program.outputs) use(o.buffer);
  return out;
}

}  // namespace

Sent send_constants(Kernels in, const Job& job, CompileReport& report) {
  Sent out{std::move(in), {}};
  if (!job.setup.device.is_cuda() || !job.uploads || job.absent) return out;
  const std::vector<bool> read = buffers_read(out.kernels);
  std::vector<CopyPair> pairs;
  for (auto& weight : out.kernels.program.inputs) {
    const bool large = weight.data.defined() && weight.data.numel() * static_cast<int64_t>(size_of(weight.data.dtype())) >= kWorthAnUpload;
    if (!large || weight.data.device().is_cuda() || !read[static_cast<size_t>(weight.buffer)] || !weight.data.is_contiguous()) continue;
    Tensor& there = out.upload.tensors[weight.buffer];
    there = job.constants ? job.constants->find(weight.data) : Tensor();
    if (there.defined()) continue;
    there = Tensor::empty(weight.data.sizes(), weight.data.dtype(), job.setup.device);
    report.uploaded_bytes += there.impl()->storage->bytes;
    pairs.push_back({weight.data, there});
  }
  if (pairs.empty()) return out;
  synchronize(job.setup.device);  // the memory may have been somebody's
  out.upload.finished = std::async(std::launch::async, [pairs = std::move(pairs)] {
                          const auto start = std::chrono::steady_clock::now();
                          toroid::upload(pairs);
                          return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
                        }).share();
  return out;
}

}  // namespace toroid::compiler
