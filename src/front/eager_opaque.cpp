// Opaque operations (toroid/opaque_op.h), called eagerly.
#include "base/index_fault.h"
#include "device/cpu/cpu_runtime.h"
#include "device/runtime.h"
#include "exec/users_function.h"
#include "front/eager.h"
#include "ops/call_place.h"
#include "ops/cuda_kernels.h"
#include "ops/custom.h"
#include "ops/opaque.h"
#include "tensor/tensor_impl.h"

namespace toroid::front {
namespace {

template <class F>
void for_each_tensor(CallArgs& args, F&& f) {
  for (auto& a : args) {
    if (auto* t = std::get_if<Tensor>(&a); t && t->defined()) f(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&a))
      for (auto& t : *list)
        if (t.defined()) f(t);
  }
}

// An opaque operation, by its function for GPUs.
void run_on_gpu(const ops::Op& op, CallArgs& args, std::span<const Tensor> results, const Device& device, const std::string& line) {
  for_each_tensor(args, [&](const Tensor& t) { keep_for_capture(device, t); });
  const OperationPlace called(line);
  exec::run_cuda_function(op, args, results, device);
}

}  // namespace

void bring(CallArgs& args, const Device& device) {
  for_each_tensor(args, [&](Tensor& t) { t = moved(t, device); });
}

// A kernel for a GPU is a program of one step, whose last results are what is written. A function for GPUs works there. Another one works
// in the host's memory: on copies of what is on a GPU, and what it writes goes back.
std::vector<Tensor> EagerDispatcher::opaque(const ops::Op& op, CallArgs args, const Device& device, const std::source_location& where) {
  std::vector<size_t> written;
  for (size_t i = 0; i < args.size(); ++i)
    if (op.schema.params[i].mutated) written.push_back(i);
  std::vector<Tensor> targets, contents, results;
  for (size_t i : written) targets.push_back(std::get<Tensor>(args[i]));
  if (device.is_cuda() && ops::has_cuda_kernel(op)) {
    results = functional(ops::functional_form(op), std::move(args), device, where);
    contents.assign(results.end() - static_cast<std::ptrdiff_t>(written.size()), results.end());
    results.resize(results.size() - written.size());
  } else {
    const bool there = device.is_cuda() && ops::has_cuda_function(op);
    if (device.is_cuda() && !there) device::refuse_in_capture(device, op.name + ", which runs on the host");
    if (device.is_cuda()) bring(args, there ? device : Device::cpu());
    results = ops::opaque_results(op, args, there ? device : Device::cpu());
    for (size_t i : written) contents.push_back(std::get<Tensor>(args[i]));
    const std::string line = ops::place_text(where);
    if (there)
      run_on_gpu(op, args, results, device, line);
    else
      device::cpu::run_or_record(op.name.c_str(), "opaque call", [&op, args, results, line] {
        const OperationPlace called(line);
        ops::run_opaque(op, args, results);
      });
    for (auto& t : results) t = moved(t, device);
  }
  for (size_t k = 0; k < targets.size(); ++k) {
    if (contents[k].impl() != targets[k].impl()) copy_elements(contents[k], targets[k]);
    targets[k].impl()->storage->writes.note();
  }
  return results;
}

}  // namespace toroid::front
