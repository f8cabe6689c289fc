// Tensors of Python and of Toroid: the same memory seen from both sides.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <utility>
#include <vector>

#include "dlpack.h"
#include "toroid/device_stream.h"
#include "toroid/tensor.h"

namespace toroid::python {

namespace py = pybind11;

// The functions of a class that has `__dlpack_c_exchange_api__` (torch.Tensor from PyTorch 2.10 on); null for others. Remembered by class.
const dlpack::ExchangeApi* exchange_api(py::handle type);

// A view of what the object holds, which the view keeps alive: a toroid.Tensor, an object with a buffer (NumPy), or one with __dlpack__; a
// copy where the object says that its memory is read-only. UserError for other objects, for elements that Toroid does not have, and for
// memory of other devices than the CPU and NVIDIA GPUs.
Tensor tensor_of(py::handle object);

// The tensor, or a copy of it, as a DLPack capsule. versioned: in the form of DLPack 1, else in that of 0.
py::capsule capsule_of(const Tensor& t, bool versioned, bool copy);
// (device type, index) in DLPack's numbers.
py::tuple dlpack_device(const Tensor& t);

// A NumPy array over the tensor's memory. UserError for what NumPy has no dtype for, and for tensors on a GPU.
py::object numpy_of(const Tensor& t);

// A tensor in memory of its own, for the class that `api` belongs to.
py::object object_of(const Tensor& t, const dlpack::ExchangeApi& api);

// Puts what Toroid does on a GPU behind all that the caller's stream was given before, and before what it is given afterwards. The caller's
// stream is the one that its library works on (`api`), the legacy default stream where there is no library to ask. Events serve again.
class StreamOrder {
 public:
  // Of one call. What was started before an error is in order, too.
  class Scope {
   public:
    Scope(StreamOrder& order, const Device& device, const dlpack::ExchangeApi* api);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void leave();

   private:
    StreamOrder* order_ = nullptr;  // null: nothing is on a GPU, or the caller's stream waits already
  };

 private:
  std::optional<Stream> caller_, own_;
  std::optional<Event> event_;
  void* native_ = nullptr;
};

// The caller's tensors of a program that is called again and again: views of the last call serve where an argument has not moved.
class Arguments {
 public:
  // Views of objects of the class `type`, which has `api`, and of whole numbers n as tensors of sizes [n, 0] on `device`. They are valid
  // while the objects are. UserError for objects of other classes, and as tensor_of() has it.
  const std::vector<Tensor>& view(const std::vector<py::handle>& objects, py::handle type, const dlpack::ExchangeApi& api,
                                  const Device& device);

 private:
  std::vector<Tensor> views_;
};

// Tensors that a program was made for, which should not have changed since.
class Pins {
 public:
  // tensors: of the class `type`, which has `api` and counts writes in `_version`, by their places among a call's arguments.
  Pins(py::handle type, const std::vector<std::pair<size_t, py::object>>& tensors);
  // Whether the arguments at these places are the same objects, nobody has written to them, and their elements lie where they lay.
  bool hold(const py::list& arguments) const;

 private:
  struct Pin {
    size_t place;
    py::object tensor;
    long version;
    const void* elements;
  };
  long version_of(const py::object& tensor) const;
  const void* elements_of(const py::object& tensor) const;

  const dlpack::ExchangeApi* api_;
  py::object version_;  // the descriptor: a look for the attribute takes longer than what it does
  std::vector<Pin> pins_;
};

}  // namespace toroid::python
