// Graphs of many equal layers: what is made of few of them is what a compile of all makes.
#include "compile/layers/equal_layers.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "compile/pipeline.h"
#include "front/backend.h"
#include "graph/sharing.h"
#include "program/region.h"
#include "toroid/checkpoint.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/nn/models/gpt2.h"
#include "toroid/train/optimizers.h"

namespace toroid {
namespace {

using Step = std::function<std::vector<Tensor>()>;

std::unique_ptr<graph::Graph> traced(const Step& step) {
  std::unique_ptr<graph::Graph> out;
  front::register_backend("graph of layers", [&](std::unique_ptr<graph::Graph> g, const front::BackendOptions&) {
    const size_t outputs = g->outputs.size();
    out = std::move(g);
    return [outputs](std::span<const Tensor>) { return std::vector<Tensor>(outputs, Tensor()); };
  });
  compile(step, {.fullgraph = true, .options = {{"backend", "graph of layers"}}})();
  return out;
}

// All that a compile up to the kernels' texts says, with buffers numbered as they are met; and what it says of layers.
struct LayersText {
  std::string text, layers;
};

LayersText compiled(const graph::Graph& g, bool gpu) {
  device::cuda::GpuInfo hopper;
  hopper.architecture = "sm_90a";
  const compiler::Setup setup{.device = gpu ? Device::cuda() : Device::cpu()};
  const compiler::Job job = compiler::job_of("layers", setup, {}, gpu ? &hopper : nullptr);
  compiler::CompileReport report;
  const auto kernels = compiler::advance<compiler::Kernels>(compiler::Imported{graph::clone(g)}, job, report);
  const program::Program& p = kernels.program;
  program::verify(p, program::Stage::Scheduled, "the test");

  std::string out;
  std::map<int, int> numbers;
  const auto name = [&](int buffer) {
    out += buffer < 0 ? " -" : fmt::format(" %{}", numbers.try_emplace(buffer, static_cast<int>(numbers.size())).first->second);
  };
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const auto content = program::content_of(p, p.nodes[i]);
    out += content.text + std::string(graph::kPassNames[static_cast<size_t>(p.nodes[i].pass)]);
    for (const int b : content.buffers) name(b);
    if (!kernels.texts.count(i)) continue;
    const auto& text = kernels.texts.at(i);
    out += "\n" + text.name + "\n" + text.source;
    for (const int b : text.buffers) name(b);
  }
  for (auto& o : p.outputs) {
    out += fmt::format("\nout {} {}", to_string(o.type), o.mutates);
    name(o.buffer);
  }
  for (auto& in : p.inputs) {
    const auto& b = p.buffers[static_cast<size_t>(in.buffer)];
    std::string held = fmt::format("{}", static_cast<const void*>(in.data.impl()));
    if (in.kind == graph::InputKind::Constant)  // passes make them
      held = hash_bytes(in.data.contiguous().raw_data(), static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype())).hex();
    out += fmt::format("\nin {} {} {} {} {} {}", in.name, to_string(in.type), static_cast<int>(in.kind), held, sym::to_string(b.numel),
                       b.name);
    name(in.buffer);
  }
  return {std::move(out), report.layers};
}

// Whether few layers were compiled.
bool is_the_same_as_each(const graph::Graph& g, bool gpu) {
  SCOPED_TRACE(gpu ? "for a GPU" : "for this CPU");
  const LayersText few = compiled(g, gpu);
  const graph::EachByItself alone;
  const LayersText each = compiled(g, gpu);
  EXPECT_EQ(each.layers, "");
  EXPECT_TRUE(few.text == each.text) << few.layers;  // not EXPECT_EQ, which would compare the lines of megabytes
  return few.layers.find("of which 6 were compiled") != std::string::npos;
}

// Forward, backward and updates.
Step step_of(const std::function<Tensor()>& loss, train::Optimizer& optimizer) {
  return [&optimizer, loss]() -> std::vector<Tensor> {
    auto [value, gradients] = value_and_gradients(loss, optimizer.parameters());
    optimizer.step(gradients);
    return {value};
  };
}

const Tensor& tokens() {
  static const Tensor& t = *new Tensor(Tensor::full(std::vector<int64_t>{1, 16}, 1, DType::I64));
  return t;
}

nn::LlamaForCausalLM narrow_llama(int64_t layers, DType dtype) {
  nn::LlamaConfig c;
  c.vocab_size = 64, c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = layers, c.num_attention_heads = 4;
  c.num_key_value_heads = 2, c.max_position_embeddings = 16;
  return nn::LlamaForCausalLM(c, nn::Init(1, dtype));
}

TEST(EqualLayers, Models) {
  nn::LlamaForCausalLM halves = narrow_llama(21, DType::BF16), llama = narrow_llama(20, DType::F32);
  const auto g = traced([&]() -> std::vector<Tensor> { return {llama.forward(tokens(), {})}; });
  for (const bool gpu : {false, true}) EXPECT_TRUE(is_the_same_as_each(*g, gpu));
  halves.train();
  train::AdamW adam(halves.parameters(), {.lr = 1e-4});
  const auto loss = [&] { return cross_entropy(to(flatten(halves.forward(tokens(), {}), 0, 1), DType::F32), flatten(tokens())); };
  EXPECT_TRUE(is_the_same_as_each(*traced(step_of(loss, adam)), true));

  nn::GPT2Config c = nn::GPT2Config::preset("gpt2");
  c.vocab_size = 64, c.n_positions = 16, c.n_embd = 32, c.n_layer = 22, c.n_head = 2, c.dropout = 0;
  nn::GPT2LMHeadModel gpt2(c, nn::Init(1));
  gpt2.train();
  train::SGD sgd(gpt2.parameters(), {.lr = 1e-2});
  const auto step = step_of([&] { return cross_entropy(flatten(gpt2.forward(tokens(), {}), 0, 1), flatten(tokens())); }, sgd);
  EXPECT_TRUE(is_the_same_as_each(*traced(step), false));
}

// A stack of layers whose body, surroundings and results are drawn.
class Drawn {
 public:
  explicit Drawn(uint64_t seed) : random_(seed) {
    layers_ = 20 + static_cast<size_t>(draw(6)), lists_ = draw(3) == 0, checkpoints_ = draw(4) == 0, reads_two_back_ = draw(4) == 0;
    is_odd_ = draw(5) == 0, reads_the_middle_ = draw(8) == 0, kinds_.resize(static_cast<size_t>(3 + draw(6)));
    for (int& k : kinds_) k = draw(10);
    kinds_[0] = 0;  // layers that are not one loop with the next
    for (size_t i = 0; i < layers_; ++i)
      for (size_t k = 0; k < kinds_.size(); ++k) weights_.push_back(tensor(kinds_[k] == 0 ? Sizes{48, 48} : Sizes{48}));
  }
  size_t layers() const { return layers_; }
  std::span<const Tensor> weights() const { return weights_; }

  std::vector<Tensor> forward() const {
    Tensor x = matmul(given_, first_), before = x, middle;
    const Tensor begin = x;
    std::vector<Tensor> all;
    for (size_t i = 0; i < layers_; ++i) {
      const auto body = [&] { return layer(i, x, begin) + (reads_two_back_ ? before : x); };
      const Tensor next = checkpoints_ ? checkpoint(body) : body();
      before = x, x = next;
      if (i == 8) middle = x;
      if (lists_) all.push_back(x);
    }
    if (reads_the_middle_) x = x * middle;
    all.insert(all.begin(), matmul(relu(x), last_));
    return all;
  }
  Tensor loss() const { return mean(square(forward()[0])); }

 private:
  using Sizes = std::vector<int64_t>;
  int draw(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  static Tensor tensor(const Sizes& sizes) { return Tensor::full(sizes, 0.125, DType::F32); }

  Tensor layer(size_t i, const Tensor& x, const Tensor& begin) const {
    Tensor y = x;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      const Tensor& w = weights_[i * kinds_.size() + k];
      switch (kinds_[k]) {
        case 0:
          y = matmul(y, w);
          break;
        case 1:
          y = relu(y) * w;
          break;
        case 2:
          y = tanh(y + w);
          break;
        case 3:
          y = softmax(y * w, -1);
          break;
        case 4:
          y = y + w + begin;
          break;
        case 5:
          y = rms_norm(y, std::vector<int64_t>{48}, w);
          break;
        case 6:
          y = matmul(y, tied_) + w;
          break;
        case 7:
          y = gelu(y) - sum(y * w, std::vector<int64_t>{0}, true);
          break;
        case 8:
          y = is_odd_ && i == 6 ? y * 3 : y * w;
          break;
        default:
          y = transpose(matmul(transpose(y, 0, 1), mixed_), 0, 1) * w;
      }
    }
    return is_odd_ && i == 11 ? y * 2 : y;
  }

  std::mt19937_64 random_;
  size_t layers_ = 0;
  bool lists_ = false, checkpoints_ = false, reads_two_back_ = false, is_odd_ = false, reads_the_middle_ = false;
  std::vector<int> kinds_;
  std::vector<Tensor> weights_;
  const Tensor given_ = tensor({32, 48}), first_ = tensor({48, 48}), last_ = tensor({48, 3}), tied_ = tensor({48, 48}),
               mixed_ = tensor({32, 32});
};

// What becomes of one may depend on the number of layers, so that each is compiled: the programs must be equal all the same.
TEST(EqualLayers, DrawnStacks) {
  int repeated = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    const Drawn net(seed);
    train::AdamW adam(std::vector<Tensor>(net.weights().begin(), net.weights().end()), {});
    const bool trains = seed % 2;
    const auto g = traced(trains ? step_of([&] { return net.loss(); }, adam) : Step([&] { return net.forward(); }));
    repeated += is_the_same_as_each(*g, seed % 4 < 2);
  }
  EXPECT_GT(repeated, 4);
}

// Three steps of training by programs of few layers and of each: equal bits.
TEST(EqualLayers, TrainTheSame) {
  const auto trained = [] {
    nn::LlamaForCausalLM model = narrow_llama(20, DType::F32);
    model.train();
    train::AdamW adam(model.parameters(), {.lr = 1e-2});
    auto step = compile(step_of([&] { return cross_entropy(flatten(model.forward(tokens(), {}), 0, 1), flatten(tokens())); }, adam),
                        {.fullgraph = true});
    std::vector<std::vector<double>> out;
    for (int i = 0; i < 3; ++i) out.push_back(step()[0].to_vector());
    for (auto& p : model.parameters()) out.push_back(p.to_vector());
    return out;
  };
  const auto few = trained();
  const graph::EachByItself alone;
  EXPECT_TRUE(few == trained());
}

}  // namespace
}  // namespace toroid
