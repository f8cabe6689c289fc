#include "exchange.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "base/check.h"

namespace toroid::python {
namespace {

constexpr int kLegacyStream = 1;  // in the numbers of __dlpack__

struct TypeRow {
  DType dtype;
  dlpack::ElementType element;
  const char* numpy;  // nullptr: NumPy has none
};
constexpr TypeRow kTypes[] = {{DType::F32, {dlpack::kFloat, 32, 1}, "f4"},     {DType::F64, {dlpack::kFloat, 64, 1}, "f8"},
                              {DType::F16, {dlpack::kFloat, 16, 1}, "f2"},     {DType::BF16, {dlpack::kBfloat, 16, 1}, nullptr},
                              {DType::I8, {dlpack::kInt, 8, 1}, "i1"},         {DType::I16, {dlpack::kInt, 16, 1}, "i2"},
                              {DType::I32, {dlpack::kInt, 32, 1}, "i4"},       {DType::I64, {dlpack::kInt, 64, 1}, "i8"},
                              {DType::U8, {dlpack::kUInt, 8, 1}, "u1"},        {DType::U16, {dlpack::kUInt, 16, 1}, "u2"},
                              {DType::U32, {dlpack::kUInt, 32, 1}, "u4"},      {DType::U64, {dlpack::kUInt, 64, 1}, "u8"},
                              {DType::Bool, {dlpack::kBool, 8, 1}, "?"},       {DType::C64, {dlpack::kComplex, 64, 1}, "c8"},
                              {DType::C128, {dlpack::kComplex, 128, 1}, "c16"}};

const TypeRow& row_of(DType t) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes), [t](const TypeRow& r) { return r.dtype == t; });
}

DType dtype_of(dlpack::ElementType e) {
  for (const TypeRow& r : kTypes)
    if (r.element.code == e.code && r.element.bits == e.bits && e.lanes == 1) return r.dtype;
  fail<UserError>("elements of DLPack's type {} with {} bits and {} lanes; Toroid has no such dtype", e.code, e.bits, e.lanes);
}

Device device_of(dlpack::Place p) {
  if (p.type == dlpack::kCpu) return Device::cpu();
  if (p.type == dlpack::kCuda) return Device::cuda(p.index);
  fail<UserError>("a tensor on DLPack's device type {}; tensors are exchanged with Python on the CPU (1) and on NVIDIA GPUs (2)", p.type);
}

dlpack::Place place_of(const Device& d) { return d.is_cuda() ? dlpack::Place{dlpack::kCuda, d.index} : dlpack::Place{dlpack::kCpu, 0}; }

Tensor view_of(const dlpack::Array& a, std::shared_ptr<void> owner) {
  const auto dims = static_cast<size_t>(a.ndim);
  return Tensor::from_blob(static_cast<std::byte*>(a.data) + a.byte_offset, {a.shape, dims}, dtype_of(a.dtype),
                           a.strides ? std::span<const int64_t>(a.strides, dims) : std::span<const int64_t>(), std::move(owner),
                           device_of(a.device));
}

// The same elements in row-major memory of their own, which may be written.
Tensor copy_of(const Tensor& t) {
  if (t.device().is_cuda()) return t.to(Device::cpu()).to(t.device());
  const Tensor from = t.contiguous();
  Tensor out = Tensor::empty(t.sizes(), t.dtype());
  std::copy_n(from.raw_data(), static_cast<size_t>(t.numel()) * size_of(t.dtype()), out.raw_data());
  return out;
}

// A view that gives the memory back at its end, which may have to do with Python objects; a copy where the memory is read-only.
template <class M>
Tensor owned_view(M* managed) {
  std::shared_ptr<void> owner(managed, [](void* m) {
    py::gil_scoped_acquire gil;
    auto* held = static_cast<M*>(m);
    if (held->deleter) held->deleter(held);
  });
  Tensor view = view_of(managed->array, std::move(owner));
  if constexpr (std::is_same_v<M, dlpack::Versioned>)
    if (managed->flags & dlpack::kReadOnly) return copy_of(view);
  return view;
}

template <class M>
Tensor take(const py::object& capsule, const char* name, const char* used) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (!managed) throw py::error_already_set();
  if constexpr (std::is_same_v<M, dlpack::Versioned>)
    TOROID_USER_CHECK(managed->version.major == dlpack::kMajor, "the tensor was exported by DLPack {}; Toroid takes version {}",
                      managed->version.major, dlpack::kMajor);
  PyCapsule_SetName(capsule.ptr(), used);
  return owned_view(managed);
}

Tensor from_capsule(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned"))
    return take<dlpack::Versioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
  return take<dlpack::Managed>(capsule, "dltensor", "used_dltensor");
}

// The stream that a library works on now on a GPU; the legacy default stream where there is no library to ask.
void* stream_of(const dlpack::ExchangeApi* api, const Device& device) {
  void* native = nullptr;
  if (api && api->current_stream(dlpack::kCuda, device.index, &native) != 0) throw py::error_already_set();
  return native;
}

// What was taken from a library, after its elements are there for Toroid's work. EnvironmentError where there is no such GPU.
Tensor ready(Tensor t, const dlpack::ExchangeApi* api) {
  if (t.device().is_cuda()) current_stream(t.device()).wait_stream(Stream::adopt(t.device(), stream_of(api, t.device())));
  return t;
}

Tensor from_dlpack(py::handle object) {
  const py::object method = object.attr("__dlpack__");
  // What is on a GPU is made ready for the legacy default stream, which Toroid's waits for.
  py::dict given;
  const bool tells_device = py::hasattr(object, "__dlpack_device__");  // the first versions of DLPack had none
  if (tells_device && object.attr("__dlpack_device__")().cast<std::pair<int, int>>().first == dlpack::kCuda)
    given["stream"] = kLegacyStream;
  try {
    return from_capsule(method(py::arg("max_version") = py::make_tuple(dlpack::kMajor, dlpack::kMinor), **given));
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    return from_capsule(method(**given));  // DLPack 0 knows no versions
  }
}

DType dtype_of(const py::buffer_info& b) {
  for (const TypeRow& r : kTypes)
    if (r.numpy && py::dtype(r.numpy).equal(py::dtype(b))) return r.dtype;
  fail<UserError>("an array of elements \"{}\"; Toroid has no such dtype", b.format);
}

Tensor from_buffer(py::handle object) {
  auto held = std::make_shared<py::buffer_info>(py::reinterpret_borrow<py::buffer>(object).request());
  const DType dtype = dtype_of(*held);
  std::vector<int64_t> sizes(held->shape.begin(), held->shape.end()), strides;
  for (py::ssize_t bytes : held->strides) {
    TOROID_USER_CHECK(bytes % held->itemsize == 0 && bytes >= 0, "an array whose elements lie {} bytes apart; make it contiguous first",
                      bytes);
    strides.push_back(bytes / held->itemsize);
  }
  const bool read_only = held->readonly;
  std::shared_ptr<void> owner(held.get(), [held](void*) mutable {
    py::gil_scoped_acquire gil;
    held.reset();
  });
  Tensor view = Tensor::from_blob(held->ptr, sizes, dtype, strides, std::move(owner));
  return read_only ? copy_of(view) : view;
}

// What an exported tensor needs until its taker is done with it.
template <class M>
struct Exported {
  M managed{};
  Tensor tensor;
  std::vector<int64_t> sizes, strides;

  explicit Exported(const Tensor& t) : tensor(t), sizes(t.sizes()), strides(t.strides()) {
    managed.array = {
        t.raw_data(), place_of(t.device()), static_cast<int32_t>(t.dim()), row_of(t.dtype()).element, sizes.data(), strides.data(), 0};
    if constexpr (std::is_same_v<M, dlpack::Versioned>) managed.version = {dlpack::kMajor, dlpack::kMinor};
    managed.context = this;
    managed.deleter = [](M* m) { delete static_cast<Exported*>(m->context); };
  }
};

template <class M>
py::capsule exported(const Tensor& t, const char* name, [[maybe_unused]] bool copied) {
  auto holder = std::make_unique<Exported<M>>(t);
  if constexpr (std::is_same_v<M, dlpack::Versioned>) holder->managed.flags = copied ? dlpack::kCopied : 0;
  PyObject* capsule = PyCapsule_New(&holder->managed, name, [](PyObject* c) {
    const char* now = PyCapsule_GetName(c);
    if (std::strncmp(now, "used_", 5) == 0) return;  // whoever took it calls the deleter
    auto* m = static_cast<M*>(PyCapsule_GetPointer(c, now));
    m->deleter(m);
  });
  if (!capsule) throw py::error_already_set();
  holder.release();
  return py::reinterpret_steal<py::capsule>(capsule);
}

}  // namespace

StreamOrder::Scope::Scope(StreamOrder& order, const Device& device, const dlpack::ExchangeApi* api) {
  if (!device.is_cuda()) return;
  void* const native = stream_of(api, device);
  if (!order.event_ || native != order.native_ || device != order.own_->device()) {
    order.caller_ = Stream::adopt(device, native);
    order.native_ = native;
    order.own_ = current_stream(device);
    order.event_.emplace(device);
  }
  order.event_->record(*order.caller_);
  order.event_->wait(*order.own_);
  order_ = &order;
}

StreamOrder::Scope::~Scope() {
  try {
    leave();
  } catch (const Error&) {
    // Another error is on its way, of which this one follows: the GPU takes no work any more.
  }
}

void StreamOrder::Scope::leave() {
  const StreamOrder* order = std::exchange(order_, nullptr);
  if (!order) return;
  order->event_->record(*order->own_);
  order->event_->wait(*order->caller_);
}

const dlpack::ExchangeApi* exchange_api(py::handle type) {
  static auto* known = new std::unordered_map<PyObject*, const dlpack::ExchangeApi*>();  // under the GIL; classes that are in it stay
  if (auto it = known->find(type.ptr()); it != known->end()) return it->second;
  const dlpack::ExchangeApi* api = nullptr;
  if (py::hasattr(type, "__dlpack_c_exchange_api__")) {
    const py::object capsule = type.attr("__dlpack_c_exchange_api__");
    api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (!api) throw py::error_already_set();
    while (api && api->version.major != dlpack::kMajor) api = api->previous;
  }
  type.inc_ref();
  known->emplace(type.ptr(), api);
  return api;
}

Tensor tensor_of(py::handle object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>();
  if (const dlpack::ExchangeApi* api = exchange_api(py::type::of(object))) {
    dlpack::Versioned* managed = nullptr;
    if (api->export_managed(object.ptr(), &managed) != 0) throw py::error_already_set();
    return ready(owned_view(managed), api);
  }
  if (PyObject_CheckBuffer(object.ptr())) return from_buffer(object);
  if (py::hasattr(object, "__dlpack__")) return ready(from_dlpack(object), nullptr);
  fail<UserError>("expected a tensor (a NumPy array, or an object with __dlpack__), got {}",
                  py::str(py::type::of(object).attr("__name__")).cast<std::string>());
}

py::capsule capsule_of(const Tensor& t, bool versioned, bool copy) {
  const Tensor given = copy ? copy_of(t) : t;
  return versioned ? exported<dlpack::Versioned>(given, "dltensor_versioned", copy) : exported<dlpack::Managed>(given, "dltensor", copy);
}

py::tuple dlpack_device(const Tensor& t) {
  const dlpack::Place p = place_of(t.device());
  return py::make_tuple(p.type, p.index);
}

py::object numpy_of(const Tensor& t) {
  const TypeRow& row = row_of(t.dtype());
  TOROID_USER_CHECK(row.numpy, "NumPy has no dtype for {}; take the tensor by DLPack", name_of(t.dtype()));
  TOROID_USER_CHECK(!t.device().is_cuda(), "the tensor is on {}; NumPy's arrays are on the CPU", to_string(t.device()));
  const auto bytes = static_cast<py::ssize_t>(size_of(t.dtype()));
  std::vector<py::ssize_t> sizes(t.sizes().begin(), t.sizes().end()), strides;
  for (int64_t s : t.strides()) strides.push_back(s * bytes);
  const py::capsule owner(new Tensor(t), [](void* p) { delete static_cast<Tensor*>(p); });
  return py::array(py::dtype(row.numpy), sizes, strides, t.raw_data(), owner);
}

py::object object_of(const Tensor& t, const dlpack::ExchangeApi& api) {
  auto holder = std::make_unique<Exported<dlpack::Versioned>>(t);
  void* out = nullptr;
  if (api.import_managed(&holder.release()->managed, &out) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(out));
}

const std::vector<Tensor>& Arguments::view(const std::vector<py::handle>& objects, py::handle type, const dlpack::ExchangeApi& api,
                                           const Device& device) {
  views_.resize(objects.size());
  for (size_t i = 0; i < objects.size(); ++i) {
    Tensor& last = views_[i];
    dlpack::Array now{};
    int64_t number[2] = {0, 0}, apart[2] = {1, 1};
    if (PyLong_CheckExact(objects[i].ptr())) {
      number[0] = PyLong_AsLongLong(objects[i].ptr());
      now = {nullptr, place_of(device), 2, {dlpack::kUInt, 8, 1}, number, apart, 0};
    } else {
      // The function of the class does not look at what it is given.
      TOROID_USER_CHECK(PyObject_TypeCheck(objects[i].ptr(), reinterpret_cast<PyTypeObject*>(type.ptr())),
                        "argument {} is of the type {}; expected {} or int", i, Py_TYPE(objects[i].ptr())->tp_name,
                        reinterpret_cast<PyTypeObject*>(type.ptr())->tp_name);
      if (api.view(objects[i].ptr(), &now) != 0) throw py::error_already_set();
    }
    const auto dims = static_cast<size_t>(now.ndim);
    const bool same =
        last.defined() && last.raw_data() == static_cast<std::byte*>(now.data) + now.byte_offset && last.dtype() == dtype_of(now.dtype) &&
        std::equal(now.shape, now.shape + dims, last.sizes().begin(), last.sizes().end()) &&
        std::equal(now.strides, now.strides + dims, last.strides().begin(), last.strides().end()) && last.device() == device_of(now.device);
    if (!same) last = view_of(now, nullptr);
  }
  return views_;
}

Pins::Pins(py::handle type, const std::vector<std::pair<size_t, py::object>>& tensors) : api_(exchange_api(type)) {
  TOROID_CHECK(api_, "the class has no __dlpack_c_exchange_api__");
  for (const py::handle base : type.attr("__mro__")) {
    const py::object members = base.attr("__dict__");
    if (!version_ && members.contains("_version")) version_ = members["_version"];
  }
  TOROID_CHECK(version_ && Py_TYPE(version_.ptr())->tp_descr_get, "the class has no _version");
  for (auto& [place, tensor] : tensors) pins_.push_back({place, tensor, version_of(tensor), elements_of(tensor)});
}

long Pins::version_of(const py::object& tensor) const {
  PyObject* const t = tensor.ptr();
  const auto value =
      py::reinterpret_steal<py::object>(Py_TYPE(version_.ptr())->tp_descr_get(version_.ptr(), t, reinterpret_cast<PyObject*>(Py_TYPE(t))));
  if (!value) throw py::error_already_set();
  return PyLong_AsLong(value.ptr());
}

const void* Pins::elements_of(const py::object& tensor) const {
  dlpack::Array now{};
  if (api_->view(tensor.ptr(), &now) != 0) throw py::error_already_set();
  return static_cast<std::byte*>(now.data) + now.byte_offset;
}

bool Pins::hold(const py::list& arguments) const {
  for (auto& pin : pins_) {
    if (pin.place >= arguments.size() || PyList_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(pin.place)) != pin.tensor.ptr())
      return false;
    if (version_of(pin.tensor) != pin.version || elements_of(pin.tensor) != pin.elements) return false;
  }
  return true;
}

}  // namespace toroid::python
