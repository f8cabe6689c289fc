#include "cli/bench_subject.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/graph_text.h"
#include "cli/tensor_files.h"
#include "cli/verify_onnx.h"
#include "graph/bind.h"
#include "import/load_model.h"
#include "tensor/layout.h"
#include "toroid/nn.h"
#include "trace/tracer.h"

namespace toroid::cli {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kSizeOfSymbols = 16;  // where a model leaves a size open and no inputs are given

using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

std::unique_ptr<graph::Graph> trace(const std::string& name, const Forward& forward, const std::vector<Tensor>& inputs) {
  trace::Tracer tracer(name, nullptr);
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < inputs.size(); ++i) stand_ins.push_back(tracer.argument(inputs[i], fmt::format("input {}", i), {}));
    trace::Tracer::Scope scope(&tracer);
    results = {forward(stand_ins)};
  }
  trace::Segment s = tracer.finish(std::move(results));
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
  return std::move(s.graph);
}

Tensor token_ids(int64_t batch, int64_t length, int64_t vocabulary) {
  Tensor t = Tensor::empty({batch, length}, DType::I64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = (i * 7919 + 13) % vocabulary;
  return t;
}

int64_t bytes_of(const nn::Module& m) {
  int64_t n = 0;
  for (auto& t : m.parameters()) n += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
  return n;
}

BenchSubject subject_of(const BenchArgs& args, std::shared_ptr<nn::Module> model, Forward forward, std::vector<Tensor> inputs,
                        const std::string& sizes) {
  for (Tensor& t : inputs) t = t.to(model->parameters().at(0).device());
  BenchSubject s;
  s.description = fmt::format("{}, {}, {}", args.model, sizes, args.dtype);
  s.inputs = inputs;
  s.weight_bytes = bytes_of(*model);
  s.graph = [name = args.model, model, forward, inputs] { return trace(name, forward, inputs); };
  return s;
}

BenchSubject bert(const BenchArgs& args, const nn::Init& init) {
  nn::BertConfig c = nn::BertConfig::preset(args.model);
  if (args.layers > 0) c.num_hidden_layers = args.layers;
  int64_t seq = args.seq ? args.seq : 128;
  c.max_position_embeddings = std::max(c.max_position_embeddings, seq);
  auto m = std::make_shared<nn::BertModel>(c, true, init);
  return subject_of(
      args, m, [m](auto& in) { return m->pool(m->forward(in[0], {})); }, {token_ids(args.batch, seq, c.vocab_size)},
      fmt::format("{} layers, batch {}, {} tokens", c.num_hidden_layers, args.batch, seq));
}

BenchSubject gpt2(const BenchArgs& args, const nn::Init& init) {
  nn::GPT2Config c = nn::GPT2Config::preset(args.model);
  if (args.layers > 0) c.n_layer = args.layers;
  int64_t seq = args.seq ? args.seq : 128;
  c.n_positions = std::max(c.n_positions, seq);
  auto m = std::make_shared<nn::GPT2LMHeadModel>(c, init);
  return subject_of(
      args, m, [m](auto& in) { return m->forward(in[0], {}); }, {token_ids(args.batch, seq, c.vocab_size)},
      fmt::format("{} layers, batch {}, {} tokens", c.n_layer, args.batch, seq));
}

BenchSubject llama(const BenchArgs& args, const nn::Init& init) {
  nn::LlamaConfig c = nn::LlamaConfig::preset(args.model);
  if (args.layers > 0) c.num_hidden_layers = args.layers;
  int64_t seq = args.seq ? args.seq : 128;
  const int64_t at = args.position ? args.position : seq - 1;
  TOROID_USER_CHECK(at < seq, "--position: a cache of {} positions has none of number {}", seq, at);
  auto m = std::make_shared<nn::LlamaForCausalLM>(c, init);
  std::string layers = fmt::format("{} layers, batch {}", c.num_hidden_layers, args.batch);
  if (!args.decode)
    return subject_of(
        args, m, [m](auto& in) { return m->forward(in[0], {}, 1); }, {token_ids(args.batch, seq, c.vocab_size)},
        fmt::format("{}, prefill of {} tokens for the next one", layers, seq));
  m->allocate_cache(args.batch, seq);
  Tensor position = Tensor::full(std::vector<int64_t>{1}, static_cast<double>(at), DType::I64);
  return subject_of(
      args, m, [m](auto& in) { return m->forward_cached(in[0], in[1]); }, {token_ids(args.batch, 1, c.vocab_size), position},
      fmt::format("{}, decoding position {} of a cache of {}", layers, at, seq));
}

BenchSubject resnet(const BenchArgs& args, const nn::Init& init) {
  auto m = std::make_shared<nn::ResNet>(nn::ResNetConfig::preset(args.model), init);
  int64_t side = args.seq ? args.seq : 224;
  return subject_of(
      args, m, [m](auto& in) { return m->forward(in[0]); }, {nn::Init(kSeed, init.dtype()).normal({args.batch, 3, side, side}, 0, 1)},
      fmt::format("batch {}, {} x {} pixels", args.batch, side, side));
}

// Inputs that any program takes, as they lie in memory: zeros for integers, which are valid indices.
Tensor plain_input(const graph::Input& in) {
  const auto numbers = [](const std::vector<Expr>& list) {
    std::vector<int64_t> out;
    for (auto& e : list)
      out.push_back(sym::evaluate(e, [](const sym::Node& n) { return std::clamp(kSizeOfSymbols, n.lo, std::max(n.lo, n.hi)); }));
    return out;
  };
  const TensorType& type = in.value->type;
  const std::vector<int64_t> sizes = numbers(type.sizes);
  const auto strides = type.strides.empty() ? contiguous_strides(sizes) : numbers(type.strides);
  const DType dtype = type.dtype;
  const std::vector<int64_t> memory = {toroid::extent_of(sizes, strides)};
  const Tensor t = is_float(dtype) ? nn::Init(kSeed, dtype).normal(memory, 0, 1) : Tensor::full(memory, is_bool(dtype) ? 1 : 0, dtype);
  return t.as_strided(sizes, strides);
}

// A model file, or the text of a graph, which has no weights: they are plain numbers.
std::unique_ptr<graph::Graph> load(const std::string& path, const std::vector<Tensor>& inputs,
                                   std::vector<std::string>* outputs = nullptr) {
  if (!is_graph_text(path)) return import::load_model(path, inputs, nullptr, outputs);
  auto g = read_graph(path);
  if (!inputs.empty()) graph::take_usual_sizes(*g, inputs);
  for (auto& in : g->inputs)
    if (in.kind != graph::InputKind::User && !in.data.defined()) in.data = plain_input(in);
  return g;
}

// Of the user inputs of a model file or of a graph's text.
std::vector<std::string> names_of_inputs(const std::string& path) {
  if (!is_graph_text(path)) return import::input_names(path);
  std::vector<std::string> out;
  const auto g = read_graph(path);
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::User) out.push_back(in.name.empty() ? in.value->name : in.name);
  return out;
}

void refuse_options_of_built_in(const BenchArgs& args) {
  TOROID_USER_CHECK(args.of_built_in.empty(),
                    "{}: {} of built-in models; the sizes and dtypes of a model file are its own: give tensors of other sizes by --inputs, "
                    "where it leaves sizes open, or export another model",
                    args.model, fmt::format("{} {}", fmt::join(args.of_built_in, ", "), args.of_built_in.size() == 1 ? "is" : "are"));
}

BenchSubject file_subject(const BenchArgs& args) {
  refuse_options_of_built_in(args);
  BenchSubject s;
  s.description = args.model;
  std::string inputs = args.inputs;
  auto folder = std::filesystem::path(args.model).parent_path(), beside = folder / "in.safetensors";
  if (inputs.empty() && std::filesystem::exists(beside)) inputs = beside.string();
  if (!inputs.empty()) {
    auto calls = read_calls(inputs, [&] { return names_of_inputs(args.model); });
    if (!calls.calls.empty())
      for (auto& [index, t] : calls.calls[0]) s.inputs.push_back(t);
  }
  if (inputs.empty() && is_onnx_case(folder)) s.inputs = onnx_case_inputs(folder);
  auto g = load(args.model, s.inputs);
  const bool plain = s.inputs.empty();
  for (auto& in : g->inputs) {
    if (in.data.defined()) s.weight_bytes += in.data.numel() * static_cast<int64_t>(size_of(in.data.dtype()));
    if (in.kind == graph::InputKind::User && plain) s.inputs.push_back(plain_input(in));
  }
  // Plain inputs say nothing of what is usual.
  s.graph = [path = args.model, inputs = plain ? std::vector<Tensor>() : s.inputs] { return load(path, inputs); };
  return s;
}

struct Family {
  std::string_view name;
  BenchSubject (*make)(const BenchArgs&, const nn::Init&);
};
constexpr Family kFamilies[] = {
    {"bert-base", bert},  {"bert-large", bert},  {"minilm-l6", bert},   {"gpt2", gpt2},       {"gpt2-medium", gpt2},
    {"gpt2-large", gpt2}, {"llama-7b", llama},   {"llama-13b", llama},  {"tinyllama", llama}, {"qwen2-0.5b", llama},
    {"resnet50", resnet}, {"resnet101", resnet}, {"resnet152", resnet},
};

}  // namespace

std::string built_in_models() {
  std::string out;
  for (auto& f : kFamilies) out += (out.empty() ? "" : ", ") + std::string(f.name);
  return out;
}

bool is_built_in(const std::string& model) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [&](auto& f) { return f.name == model; });
}

BenchSubject make_subject(const BenchArgs& args) {
  DType dtype = dtype_from_name(args.dtype);
  TOROID_USER_CHECK(is_float(dtype), "--dtype: parameters are floats, not {}", args.dtype);
  for (auto& f : kFamilies)
    if (f.name == args.model) return f.make(args, nn::Init(kSeed, dtype, device_from_name(args.device)));
  try {
    if (!std::filesystem::exists(args.model)) require_file(args.model);
  } catch (const UserError& e) {
    std::vector<std::string_view> names;
    for (auto& f : kFamilies) names.push_back(f.name);
    fail<UserError>("{}, or name a built-in model: {}{}", e.what(), built_in_models(), did_you_mean(args.model, names));
  }
  return file_subject(args);
}

std::unique_ptr<graph::Graph> make_graph(const BenchArgs& args, std::vector<std::string>* outputs) {
  if (is_built_in(args.model) || !std::filesystem::exists(args.model)) return make_subject(args).graph();
  refuse_options_of_built_in(args);
  std::vector<Tensor> inputs;
  if (!args.inputs.empty()) {
    const auto calls = read_calls(args.inputs, [&] { return names_of_inputs(args.model); });
    for (auto& [index, t] : calls.calls.at(0)) inputs.push_back(t);
  }
  return load(args.model, inputs, outputs);
}

const std::vector<std::string>& mode_names() {
  static const std::vector<std::string> names(std::begin(kModeNames), std::end(kModeNames));
  return names;
}

Mode mode_from_name(const std::string& name) {
  const auto& names = mode_names();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) fail<UserError>("there is no mode \"{}\"; expected {}", name, fmt::join(names, ", "));
  return static_cast<Mode>(it - names.begin());
}

}  // namespace toroid::cli
