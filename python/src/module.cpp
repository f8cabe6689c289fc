// The module toroid._core: models, packages, programs of PyTorch's graphs, options and errors for Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/check.h"
#include "device/cuda/gpu.h"
#include "exchange.h"
#include "ops/table.h"
#include "toroid/compile.h"
#include "toroid/device.h"
#include "toroid/model.h"
#include "toroid/options.h"
#include "toroid/package.h"
#include "toroid/random.h"
#include "toroid/save_package.h"

namespace toroid::python {
namespace {

template <class E, size_t N>
E named(const std::string& name, const std::string_view (&names)[N], const char* what) {
  const auto* at = std::find(std::begin(names), std::end(names), name);
  std::string known;
  for (std::string_view n : names) known += (known.empty() ? "" : ", ") + std::string(n);
  TOROID_USER_CHECK(at != std::end(names), "{} is \"{}\"; expected one of {}", what, name, known);
  return static_cast<E>(at - std::begin(names));
}

// The value of an option as its table reads it: True is "1", 4 is "4".
std::string option_text(py::handle value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "1" : "0";
  return py::str(value).cast<std::string>();
}

ModelOptions model_options(const std::string& device, const std::string& mode, bool freeze, bool templates, const std::string& fusion,
                           int threads, const py::dict& options) {
  ModelOptions out{device_from_name(device),
                   named<Mode>(mode, kModeNames, "mode"),
                   freeze,
                   templates,
                   named<Fusion>(fusion, kFusionNames, "fusion"),
                   threads,
                   {}};
  for (const auto& [name, value] : options) out.options[name.cast<std::string>()] = option_text(value);
  return out;
}

// The library of the first argument that has one with an exchange interface.
const dlpack::ExchangeApi* api_of(const py::args& arguments) {
  for (py::handle a : arguments)
    if (const dlpack::ExchangeApi* api = exchange_api(py::type::of(a))) return api;
  return nullptr;
}

// The results in the form of the arguments: those of the first class with an exchange interface (torch.Tensor), else arrays of NumPy.
// What NumPy has no dtype for, or cannot reach, stays a toroid.Tensor. None where the program returns None.
py::list results_for(const std::vector<Tensor>& results, const py::args& arguments) {
  const dlpack::ExchangeApi* api = api_of(arguments);
  py::list out;
  for (const Tensor& t : results) {
    if (!t.defined())
      out.append(py::none());
    else if (api)
      out.append(object_of(t, *api));
    else if (t.dtype() == DType::BF16 || t.device().is_cuda())
      out.append(t);
    else
      out.append(numpy_of(t));
  }
  return out;
}

std::vector<Tensor> tensors_of(const py::args& arguments) {
  std::vector<Tensor> out;
  for (py::handle a : arguments) out.push_back(tensor_of(a));
  return out;
}

template <class Runner>
py::list run(Runner& runner, const py::args& arguments) {
  const std::vector<Tensor> inputs = tensors_of(arguments);
  const auto on_gpu = std::find_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.device().is_cuda(); });
  StreamOrder order;
  StreamOrder::Scope scope(order, on_gpu == inputs.end() ? Device::cpu() : on_gpu->device(), api_of(arguments));
  std::vector<Tensor> results;
  {
    py::gil_scoped_release free;
    results = runner.run(inputs);
  }
  scope.leave();
  return results_for(results, arguments);
}

std::map<std::string, Tensor> tensors_by_name(const py::dict& given) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, value] : given) out[name.cast<std::string>()] = tensor_of(value);
  return out;
}

std::vector<std::string> names_of(const std::vector<TensorSpec>& list) {
  std::vector<std::string> out;
  for (auto& s : list) out.push_back(s.name);
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (auto& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

// "x: f32[s77, 3], y: i64[s77]"
std::string signature_of(const std::vector<TensorSpec>& list) {
  std::vector<std::string> out;
  for (auto& s : list) out.push_back(s.name.empty() ? s.text : s.name + ": " + s.text);
  return joined(out);
}

// Ends a model while other threads may use the interpreter: a model waits for what still packs its weights, and a packing thread that lets
// go of an array of Python needs the interpreter's lock.
struct WithoutLock {
  void operator()(Model* model) const {
    py::gil_scoped_release free;
    delete model;
  }
};

// A graph of PyTorch, compiled: called with a list of tensors and sizes, it returns a list of tensors.
class Program {
 public:
  // orders: for each result the order of its dimensions in memory, or none where it is row-major; the graph returns results in that order.
  // type: the class of the arguments that are tensors.
  Program(py::handle type, const std::string& json, const py::dict& held, const std::string& name, std::vector<std::vector<size_t>> orders,
          const ModelOptions& options)
      : orders_(std::move(orders)), type_(type), api_(exchange_api(type)), device_(options.device) {  // exchange_api() keeps the class
    TOROID_USER_CHECK(api_, "{} has no __dlpack_c_exchange_api__: PyTorch 2.10 or newer is needed", py::str(type).cast<std::string>());
    const std::map<std::string, Tensor> tensors = tensors_by_name(held);
    StreamOrder order;
    StreamOrder::Scope scope(order, device_, api_);
    {
      py::gil_scoped_release free;
      model_.reset(new Model(Model::from_program(json, tensors, name, options)));
    }
    scope.leave();
  }

  py::list call(const py::args& given) {
    std::vector<py::handle> objects(given.begin(), given.end());
    // Calls may overlap, in other threads or by what frees an object: each has views of its own.
    std::unique_ptr<Call> call = std::move(idle_);
    if (!call) call = std::make_unique<Call>();
    const std::vector<Tensor>& views = call->arguments.view(objects, type_, *api_, device_);
    StreamOrder::Scope scope(call->order, device_, api_);
    std::vector<Tensor> results;
    {
      py::gil_scoped_release free;
      results = model_->run(views);
    }
    scope.leave();
    py::list out(results.size());
    for (size_t i = 0; i < results.size(); ++i) out[i] = object_of(in_memory_order(results[i], i), *api_);
    idle_ = std::move(call);
    return out;
  }

  const Model& model() const { return *model_; }

 private:
  Tensor in_memory_order(const Tensor& t, size_t result) const {
    const std::vector<size_t>& order = orders_.at(result);
    if (order.empty()) return t;
    std::vector<int64_t> sizes(order.size()), strides(order.size());
    for (size_t d = 0; d < order.size(); ++d) {
      sizes[order[d]] = t.sizes()[d];
      strides[order[d]] = t.strides()[d];
    }
    return t.as_strided(sizes, strides);
  }

  struct Call {
    Arguments arguments;
    StreamOrder order;
  };

  std::unique_ptr<Model, WithoutLock> model_;
  std::vector<std::vector<size_t>> orders_;
  std::unique_ptr<Call> idle_;  // under the GIL
  py::handle type_;
  const dlpack::ExchangeApi* api_;
  Device device_;
};

void add_errors(py::module_& m) {
  const auto error = py::register_exception<Error>(m, "Error", PyExc_RuntimeError);
  py::register_exception<UserError>(m, "UserError", py::make_tuple(error, py::handle(PyExc_ValueError)));
  py::register_exception<InternalError>(m, "InternalError", error);
  py::register_exception<EnvironmentError>(m, "EnvironmentError", error);
}

// Lets a stream, in the numbers of __dlpack__, wait for what Toroid does on the device.
void await(const Device& device, const py::object& stream) {
  const int64_t number = stream.is_none() ? 1 : stream.cast<int64_t>();
  TOROID_USER_CHECK(number != 0, "DLPack's stream 0 is ambiguous; 1 is the legacy default stream, 2 that of each thread");
  if (number == -1) return;
  Stream::adopt(device, reinterpret_cast<void*>(static_cast<uintptr_t>(number))).wait_stream(current_stream(device));
}

void add_tensor(py::module_& m) {
  py::class_<Tensor>(m, "Tensor", "A tensor of Toroid: typed, strided elements that DLPack can share.")
      .def_property_readonly(
          "dtype", [](const Tensor& t) { return std::string(name_of(t.dtype())); }, "Short name: \"f32\", \"bf16\", ...")
      .def_property_readonly("shape", [](const Tensor& t) { return py::tuple(py::cast(t.sizes())); })
      .def_property_readonly(
          "strides", [](const Tensor& t) { return py::tuple(py::cast(t.strides())); }, "In elements.")
      .def_property_readonly("device", [](const Tensor& t) { return to_string(t.device()); })
      .def("numpy", &numpy_of, "A NumPy array over the same memory. UserError for bf16 and for tensors on a GPU.")
      .def("__array__", [](const Tensor& t, const py::args&, const py::kwargs&) { return numpy_of(t); })
      .def(
          "__dlpack__",
          [](const Tensor& t, const py::object& stream, const std::optional<std::pair<uint32_t, uint32_t>>& max_version,
             const std::optional<std::pair<int, int>>& dl_device, const std::optional<bool>& copy) {
            TOROID_USER_CHECK(stream.is_none() || t.device().is_cuda(), "a tensor on the CPU has no stream");
            const auto own = dlpack_device(t).cast<std::pair<int, int>>();
            TOROID_USER_CHECK(!dl_device || *dl_device == own,
                              "DLPack's device ({}, {}) is asked for; the tensor is on ({}, {}), and is exchanged where it is",
                              dl_device->first, dl_device->second, own.first, own.second);
            if (t.device().is_cuda()) await(t.device(), stream);
            return capsule_of(t, max_version && max_version->first >= dlpack::kMajor, copy.value_or(false));
          },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
          py::arg("copy") = py::none(),
          "A DLPack capsule over the same memory, or with copy=True over a copy. stream: of a GPU, which waits until the elements are there, in "
          "DLPack's numbers (None or 1: the legacy default stream, 2: that of each thread, -1: none waits, else a handle).")
      .def("__dlpack_device__", &dlpack_device)
      .def("__repr__", [](const Tensor& t) { return to_string(t); });
  m.def("tensor", &tensor_of, py::arg("object"),
        "A view of an array's memory: of NumPy, or of any object with __dlpack__; a copy of memory that is read-only.");
}

void add_summary(py::module_& m) {
  py::class_<Model::Summary>(m, "Summary", "What a compile made of a program.")
      .def_readonly("compile_ms", &Model::Summary::compile_ms)
      .def_readonly("operations", &Model::Summary::operations, "Nodes of the graph that was lowered.")
      .def_readonly("kernels_unfused", &Model::Summary::kernels_unfused, "Kernels that one operation at a time would launch.")
      .def_readonly("kernels", &Model::Summary::kernels, "Kernels that a run launches.")
      .def_readonly("host_calls", &Model::Summary::host_calls, "Operations that a run leaves to libraries or reference code.")
      .def_readonly("kernels_compiled", &Model::Summary::kernels_compiled, "Kernels that were in no cache.")
      .def("__repr__", [](const Model::Summary& s) {
        return fmt::format("Summary(operations={}, kernels={}, kernels_unfused={}, host_calls={}, kernels_compiled={}, compile_ms={:.1f})",
                           s.operations, s.kernels, s.kernels_unfused, s.host_calls, s.kernels_compiled, s.compile_ms);
      });
}

void add_models(py::module_& m) {
  add_summary(m);
  py::class_<ModelOptions>(m, "ModelOptions", "How a model is compiled.")
      .def(py::init(&model_options), py::kw_only(), py::arg("device") = "cpu", py::arg("mode") = "default", py::arg("freeze") = true,
           py::arg("templates") = true, py::arg("fusion") = "all", py::arg("threads") = 0, py::arg("options") = py::dict())
      .def(
          "on",
          [](ModelOptions o, const std::string& device) {
            o.device = device_from_name(device);
            return o;
          },
          py::arg("device"), "The same for another device: \"cpu\" or \"cuda:0\".");
  py::class_<Model, std::unique_ptr<Model, WithoutLock>>(m, "Model", "A compiled model. Safe to run from several threads.")
      .def("run", &run<Model>, "Runs on arrays in the order of the program's signature; returns a list of results.")
      .def_property_readonly("input_names", [](const Model& x) { return names_of(x.inputs()); })
      .def_property_readonly("output_names", [](const Model& x) { return names_of(x.outputs()); })
      .def_property_readonly("summary", [](const Model& x) { return x.summary(); })
      .def("__repr__", [](const Model& x) {
        return fmt::format("Model(inputs=[{}], outputs=[{}])", signature_of(x.inputs()), signature_of(x.outputs()));
      });
  m.def(
      "load_model",
      [](const std::string& path, const std::vector<py::object>& inputs, const ModelOptions& options) {
        std::vector<Tensor> examples;
        for (const py::object& o : inputs) examples.push_back(tensor_of(o));
        py::gil_scoped_release free;
        return Model::load(path, examples, options);
      },
      py::arg("path"), py::arg("inputs"), py::arg("options"));
  m.def(
      "compile_program",
      [](const std::string& json, const py::dict& held, const std::string& name, const ModelOptions& options) {
        const std::map<std::string, Tensor> tensors = tensors_by_name(held);
        py::gil_scoped_release free;
        return Model::from_program(json, tensors, name, options);
      },
      py::arg("json"), py::arg("held"), py::arg("name"), py::arg("options"));
  py::class_<Pins>(m, "Pins", "Tensors that should not have changed since.")
      .def(py::init<py::handle, const std::vector<std::pair<size_t, py::object>>&>(), py::arg("type"), py::arg("tensors"))
      .def("hold", &Pins::hold, py::arg("arguments"));
  py::class_<Program>(m, "Program", "A graph of PyTorch, compiled.")
      .def(py::init([](py::handle type, const std::string& json, const py::dict& held, const std::string& name,
                       std::vector<std::vector<size_t>> orders, const ModelOptions& options) {
             return std::make_unique<Program>(type, json, held, name, std::move(orders), options);
           }),
           py::arg("type"), py::arg("json"), py::arg("held"), py::arg("name"), py::arg("orders"), py::arg("options"))
      .def("__call__", &Program::call)
      .def_property_readonly("summary", [](const Program& p) { return p.model().summary(); });
  m.def(
      "has_operation", [](const std::string& name) { return ops::table().find(name) != nullptr; }, py::arg("name"),
      "Whether Toroid has an ATen operation: \"aten.add.Tensor\".");
}

void add_packages(py::module_& m) {
  py::class_<PackageSession>(m, "Session", "A program of a package. Memory that it keeps from run to run is this session's alone.")
      .def("run", &run<PackageSession>, "Runs on arrays in the order of input_names; returns a list of results.")
      .def_property_readonly("input_names", &PackageSession::input_names)
      .def("__repr__", [](const PackageSession& s) {
        return fmt::format("Session(inputs=[{}], outputs=[{}])", signature_of(s.inputs()), signature_of(s.outputs()));
      });
  py::class_<PackageFile>(m, "Package", "An open package of compiled programs.")
      .def_static("open", &PackageFile::open, py::arg("path"), py::arg("weights_folder") = "", py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("entries", &PackageFile::entries)
      .def(
          "session",
          [](const PackageFile& p, const std::string& entry, const std::string& device) {
            py::gil_scoped_release free;
            return p.session(entry, device_from_name(device));
          },
          py::arg("entry") = "", py::kw_only(), py::arg("device") = "cpu")
      .def("verify", &PackageFile::verify, py::call_guard<py::gil_scoped_release>())
      .def("__repr__", [](const PackageFile& p) { return fmt::format("Package(entries=[{}])", joined(p.entries())); });
  m.def(
      "save_package",
      [](const std::map<std::string, std::string>& models, const std::string& path, const ModelOptions& options,
         const std::vector<std::string>& targets, bool weights_beside) {
        std::vector<PackageEntry> entries;
        for (const auto& [name, model] : models) entries.push_back({name, model});
        py::gil_scoped_release free;
        save_package(entries, path, {.model = options, .targets = targets, .weights_beside = weights_beside});
      },
      py::arg("models"), py::arg("path"), py::arg("options"), py::arg("targets"), py::arg("weights_beside") = false);
}

void add_options(py::module_& m) {
  m.def(
      "set_option", [](const std::string& name, py::handle value) { set_option(name, option_text(value)); }, py::arg("name"),
      py::arg("value"));
  m.def(
      "check_options",
      [](const py::dict& options) {
        CompileConfig config;
        for (const auto& [name, value] : options) config.options[name.cast<std::string>()] = option_text(value);
        detail::Function{std::move(config)};
      },
      py::arg("options"), "UserError for a name that is no option of compiles, with the nearest one, and for a value that it cannot have.");
  m.def("list_options", [] {
    py::list out;
    for (const OptionInfo& o : list_options()) {
      py::dict row;
      row["name"] = o.name;
      row["type"] = o.type;
      row["default"] = o.default_value;
      row["value"] = o.value;
      row["doc"] = o.doc;
      row["scope"] = o.scope;
      out.append(row);
    }
    return out;
  });
  m.def("manual_seed", &manual_seed, py::arg("seed"));
  m.def("cuda_device_count", &cuda_device_count);
  m.def(
      "set_segment_allocator",
      [](uintptr_t allocate, uintptr_t release) {
        const device::cuda::SegmentAllocator allocator{reinterpret_cast<int32_t (*)(uint64_t, void**)>(allocate),
                                                       reinterpret_cast<int32_t (*)(void*)>(release)};
        device::cuda::set_segment_allocator(&allocator);
      },
      py::arg("allocate"), py::arg("release"),
      "Takes the segments of GPUs' memory from an allocator of this process: addresses of C functions (src/device/cuda/gpu.h).");
}

PYBIND11_MODULE(_core, m) {
  m.doc() = "The compiled half of toroid.";
  add_errors(m);
  add_tensor(m);
  add_models(m);
  add_packages(m);
  add_options(m);
}

}  // namespace
}  // namespace toroid::python
