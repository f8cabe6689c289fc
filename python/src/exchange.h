// Tensors of Python and of Toroid: the same memory seen from both sides.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "dlpack.h"
#include "toroid/tensor.h"

namespace toroid::python {

namespace py = pybind11;

// The functions of a class that has `__dlpack_c_exchange_api__` (torch.Tensor from PyTorch 2.10 on); null for others. Remembered by class.
const dlpack::ExchangeApi* exchange_api(py::handle type);

// A view of what the object holds, which the view keeps alive: a toroid.Tensor, an object with a buffer (NumPy), or one with __dlpack__.
// UserError for other objects, and for elements or devices that Toroid does not have.
Tensor tensor_of(py::handle object);

// The tensor as a DLPack capsule. versioned: in the form of DLPack 1, else in that of 0.
py::capsule capsule_of(const Tensor& t, bool versioned);
// (device type, index) in DLPack's numbers.
py::tuple dlpack_device(const Tensor& t);

// A NumPy array over the tensor's memory. UserError for what NumPy has no dtype for, and for tensors on a GPU.
py::object numpy_of(const Tensor& t);

// A tensor in memory of its own for the class that `api` belongs to.
py::object object_of(const Tensor& t, const dlpack::ExchangeApi& api);

// The caller's tensors of a program that is called again and again: views of the last call serve where an argument has not moved.
class Arguments {
 public:
  // Views of objects whose class has `api`, and of whole numbers n as tensors of sizes [n, 0]. They are valid while the objects are.
  const std::vector<Tensor>& view(const std::vector<py::handle>& objects, const dlpack::ExchangeApi& api);

 private:
  std::vector<Tensor> views_;
};

}  // namespace toroid::python
