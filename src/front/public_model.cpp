#include "base/check.h"
#include "base/std_errors.h"
#include "exec/specs.h"
#include "front/compile_model.h"
#include "front/outside.h"
#include "import/pt2_importer.h"
#include "import/safetensors.h"
#include "toroid/model.h"

namespace toroid {

ModelOptions::~ModelOptions() = default;

struct Model::Impl {
  compiler::CompiledModel compiled;
  Summary summary;
  std::vector<TensorSpec> inputs, outputs;

  static std::shared_ptr<Impl> make(compiler::CompiledModel compiled, const std::vector<std::string>& outputs = {}) {
    auto out = std::make_shared<Impl>();
    out->compiled = std::move(compiled);
    const auto& r = out->compiled.report();
    out->summary = {r.total_ms, r.graph_nodes, r.kernels_unfused, r.kernels, r.host_calls, r.kernels_compiled};
    const exec::Plan& plan = out->compiled.executable().plan();
    out->inputs = exec::inputs_of(plan), out->outputs = exec::outputs_of(plan, outputs);
    return out;
  }
};

Model Model::load(const std::string& path, const ModelOptions& options) { return load(path, std::span<const Tensor>(), options); }

Model Model::load(const std::string& path, std::span<const Tensor> inputs, const ModelOptions& options) {
  return with_our_errors(fmt::format("cannot load the model \"{}\"", path), [&] {
    std::vector<std::string> outputs;
    auto compiled = front::load_model(path, inputs, options, &outputs);
    Model m;
    m.impl_ = Impl::make(std::move(compiled), outputs);
    return m;
  });
}

Model Model::from_program(std::string_view json, const std::map<std::string, Tensor>& held, const std::string& name,
                          const ModelOptions& options) {
  const import::HeldTensor find = [&](const import::InputSpec& spec) {
    const auto it = held.find(spec.target);
    TOROID_USER_CHECK(it != held.end() && it->second.defined(), "{}: the program reads \"{}\", which is not among the tensors given", name,
                      spec.target);
    return it->second;
  };
  Model m;
  m.impl_ = Impl::make(front::compile_model(import::import_program(json, name, find), options));
  return m;
}

Model::Impl& Model::impl() const {
  TOROID_USER_CHECK(impl_, "the model holds no program: it was default-constructed or moved from; load one with Model::load()");
  return *impl_;
}

std::vector<Tensor> Model::run(std::span<const Tensor> inputs) {
  Impl& i = impl();
  const front::OutsideOfGraphs outside("a loaded model", inputs);
  return i.compiled.run(inputs);
}
std::map<std::string, Tensor> Model::run(const std::map<std::string, Tensor>& inputs) {
  Impl& i = impl();
  const std::vector<Tensor> in_order = exec::in_order(i.inputs, inputs, "the model");
  const front::OutsideOfGraphs outside("a loaded model", in_order);
  return exec::by_name(i.outputs, i.compiled.run(in_order), "the model");
}

const std::vector<TensorSpec>& Model::inputs() const { return impl().inputs; }
const std::vector<TensorSpec>& Model::outputs() const { return impl().outputs; }
const Model::Summary& Model::summary() const { return impl().summary; }
std::string Model::tuning() const { return impl().compiled.background_tuning(); }
CaptureReport Model::captures() const { return impl().compiled.executable().captures(); }

std::map<std::string, Tensor> load_tensors(const std::string& path) {
  return with_our_errors(fmt::format("cannot load the tensors of \"{}\"", path), [&] {
    auto reader = std::make_shared<import::SafetensorsReader>(import::SafetensorsReader::open(path));
    std::map<std::string, Tensor> out;
    for (auto& t : reader->tensors()) {
      auto* data = const_cast<std::byte*>(t.bytes().data());  // the reader's own memory, of which each tensor has its part
      out[t.name] = Tensor::from_blob(data, t.sizes, t.dtype, {}, reader);
    }
    return out;
  });
}

}  // namespace toroid
