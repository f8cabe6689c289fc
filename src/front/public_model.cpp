#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "front/compile_model.h"
#include "import/pt2_importer.h"
#include "import/safetensors.h"
#include "toroid/model.h"

namespace toroid {
namespace {

TensorSpec spec_of(std::string name, const TensorType& type) {
  TensorSpec out{std::move(name), type.dtype, {}, to_string(TensorType{type.dtype, type.sizes, {}})};
  for (auto& s : type.sizes) out.sizes.push_back(s.maybe_constant().value_or(-1));
  return out;
}

std::vector<TensorSpec> inputs_of(const exec::Plan& plan) {
  std::map<int, TensorSpec> by_place;
  for (auto& in : plan.inputs)
    if (in.user >= 0) by_place[in.user] = spec_of(in.name, in.type);
  std::vector<TensorSpec> out;
  for (auto& [place, spec] : by_place) out.push_back(spec);
  return out;
}

// names: of each, or none.
std::vector<TensorSpec> outputs_of(const exec::Plan& plan, const std::vector<std::string>& names) {
  std::vector<TensorSpec> out;
  for (auto& o : plan.outputs) {
    if (o.mutates >= 0) continue;
    const std::string name = names.empty() ? fmt::format("output{}", out.size()) : names.at(out.size());
    out.push_back(o.buffer >= 0 ? spec_of(name, o.type) : TensorSpec{name, DType::F32, {}, "none"});
  }
  return out;
}

}  // namespace

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
    out->inputs = inputs_of(plan), out->outputs = outputs_of(plan, outputs);
    return out;
  }
};

Model Model::load(const std::string& path, const ModelOptions& options) { return load(path, std::span<const Tensor>(), options); }

Model Model::load(const std::string& path, std::span<const Tensor> inputs, const ModelOptions& options) {
  std::vector<std::string> outputs;
  auto compiled = front::load_model(path, inputs, options, &outputs);
  Model m;
  m.impl_ = Impl::make(std::move(compiled), outputs);
  return m;
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

std::vector<Tensor> Model::run(std::span<const Tensor> inputs) { return impl().compiled.run(inputs); }
std::map<std::string, Tensor> Model::run(const std::map<std::string, Tensor>& inputs) {
  Impl& i = impl();
  std::vector<std::string_view> names;
  for (auto& s : i.inputs) names.push_back(s.name);
  for (auto& [name, t] : inputs)
    TOROID_USER_CHECK(std::find(names.begin(), names.end(), name) != names.end(), "the model has no input \"{}\"{}; it takes {}", name,
                      did_you_mean(name, names), fmt::join(names, ", "));
  std::vector<Tensor> given;
  for (auto& s : i.inputs) {
    const auto it = inputs.find(s.name);
    TOROID_USER_CHECK(it != inputs.end(), "the input \"{}\" ({}) is not given; the model takes {}", s.name, s.text, fmt::join(names, ", "));
    given.push_back(it->second);
  }
  const std::vector<Tensor> results = i.compiled.run(given);
  std::map<std::string, Tensor> out;
  for (size_t k = 0; k < results.size(); ++k)
    if (results[k].defined()) out.emplace(i.outputs.at(k).name, results[k]);
  return out;
}

const std::vector<TensorSpec>& Model::inputs() const { return impl().inputs; }
const std::vector<TensorSpec>& Model::outputs() const { return impl().outputs; }
const Model::Summary& Model::summary() const { return impl().summary; }
std::string Model::tuning() const { return impl().compiled.background_tuning(); }
CaptureReport Model::captures() const { return impl().compiled.executable().captures(); }

std::map<std::string, Tensor> load_tensors(const std::string& path) {
  auto reader = std::make_shared<import::SafetensorsReader>(import::SafetensorsReader::open(path));
  std::map<std::string, Tensor> out;
  for (auto& t : reader->tensors()) {
    auto* data = const_cast<std::byte*>(t.bytes().data());  // the reader's own memory, of which each tensor has its part
    out[t.name] = Tensor::from_blob(data, t.sizes, t.dtype, {}, reader);
  }
  return out;
}

}  // namespace toroid
