// Whole training steps (forward, loss, backward, AdamW) as one compiled function, and the parts that decide them: the programs of
// gpu_train.py, which times PyTorch. One JSON line a row.
//   bench_train [cpu|cuda] [kernels] [launches] [ROW...]
// kernels: those of one step, too, by their time; launches: each, in order (GPU, CUPTI). Rows: digits adamw head gpt2 llama1b block norms
// resnet50 bert minilm layers4 layers64; on the CPU digits and minilm unless told.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/stopwatch.h"
#include "kernel_times.h"
#include "toroid/autocast.h"
#include "toroid/compile.h"
#include "toroid/device_memory.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/train/optimizers.h"

using namespace toroid;

namespace {

struct Setting {
  Device device;
  bool kernels = false, launches = false;
  int rounds = 12, warm = 4;
  double load_ms = 0;  // of work before what is measured, at least: clocks and recordings have settled then
};

using Step = std::function<Tensor()>;

double timed(const Setting& s, const std::function<void()>& f) {
  const Stopwatch watch;
  f();
  synchronize(s.device);
  return watch.ms();
}

// The kernels of one call by name, those that add most to it first.
void print_kernels(const Step& step) {
  struct Sum {
    int calls = 0;
    int64_t ns = 0;
  };
  const std::vector<device::cuda::Activity> call = kernels_of(step);
  const std::vector<int64_t> added = exec::added_ns(call);
  std::map<std::string, Sum> sums;
  int64_t begin = INT64_MAX, end = 0, busy = 0;
  for (size_t i = 0; i < call.size(); ++i) {
    Sum& sum = sums[call[i].name];
    ++sum.calls, sum.ns += added[i], busy += added[i];
    begin = std::min(begin, call[i].start_ns), end = std::max(end, call[i].end_ns);
  }
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.ns > b.second.ns; });
  fmt::print("  from the first begin to the last end {:.3f} ms, of which kernels {:.3f} ms\n", static_cast<double>(end - begin) / 1e6,
             static_cast<double>(busy) / 1e6);
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 25); ++i)
    fmt::print("  {:>9.1f} us {:>4} x  {}\n", static_cast<double>(rows[i].second.ns) / 1e3, rows[i].second.calls, rows[i].first);
}

// What each launch of one call adds to its time, and when it begins.
void print_launches(const Step& step) {
  const std::vector<device::cuda::Activity> call = kernels_of(step);
  const std::vector<int64_t> added = exec::added_ns(call);
  for (size_t i = 0; i < call.size(); ++i)
    fmt::print("  {:>9.1f} {:>7.1f} us  {}\n", static_cast<double>(call[i].start_ns - call[0].start_ns) / 1e3,
               static_cast<double>(added[i]) / 1e3, call[i].name);
}

// The first call and the median of later ones, with the peak of the device's memory over all.
void report(const Setting& s, const std::string& name, double work, const std::string& unit, const Step& step) {
  const double first = timed(s, [&] { step(); });
  const Stopwatch load;
  for (int i = 0; i < s.warm || load.ms() < s.load_ms; ++i) timed(s, [&] { step(); });
  reset_peak_memory_stats(s.device);
  std::vector<double> ms;
  for (int i = 0; i < s.rounds; ++i) ms.push_back(timed(s, [&] { step(); }));
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2];
  const MemoryStats memory = memory_stats(s.device);
  fmt::print(R"({{"op": "{}", "mode": "toroid", "first_step_s": {:.2f}, "ms": {:.3f}, "least_ms": {:.3f}, "{}_per_s": {:.0f}, )"
             R"("peak_GB": {:.2f}, "reserved_GB": {:.2f}}})"
             "\n",
             name, first / 1e3, median, ms.front(), unit, work / median * 1e3, static_cast<double>(memory.peak) / 1e9,
             static_cast<double>(memory.peak_reserved) / 1e9);
  if (s.kernels) print_kernels(step);
  if (s.launches) print_launches(step);
  std::fflush(stdout);
}

CompileConfig config_of(const std::string& name) { return {.mode = Mode::ReduceOverhead, .fullgraph = true, .name = name}; }

Tensor integers(std::vector<int64_t> sizes, int64_t limit, const Device& device) {
  int64_t count = 1;
  for (int64_t n : sizes) count *= n;
  std::vector<double> values(static_cast<size_t>(count));
  uint64_t state = 1;
  for (double& v : values)
    v = static_cast<double>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) / 2147483648.0 *
            static_cast<double>(limit) -
        0.5;
  for (double& v : values) v = std::max(0.0, static_cast<double>(static_cast<int64_t>(v)));
  return to(Tensor::of(values, std::move(sizes), DType::I64), device);
}

// A step of AdamW on what loss() says.
void train(const Setting& s, const std::string& name, double work, const std::string& unit, nn::Module& model,
           const std::function<Tensor()>& loss, bool bf16_autocast) {
  train::AdamW optimizer(model.parameters(), {.lr = 1e-4});
  auto step = compile(
      [&] {
        auto [value, gradients] = value_and_gradients(
            [&] {
              std::optional<autocast> cast;
              if (bf16_autocast) cast.emplace(s.device.type, DType::BF16);
              return loss();
            },
            optimizer.parameters());
        optimizer.step(gradients);
        return value;
      },
      config_of(name));
  report(s, name, work, unit, [&] { return step(); });
}

Tensor token_loss(const Tensor& logits, const Tensor& targets) {
  return cross_entropy(to(flatten(logits, 0, 1), DType::F32), flatten(targets));
}

class Digits : public nn::Module {
 public:
  explicit Digits(const nn::Init& init)
      : conv1(1, 16, 3, {.padding = {1, 1}}, init),
        norm1(16, 1e-5, 0.1, init),
        conv2(16, 32, 3, {.padding = {1, 1}}, init),
        norm2(32, 1e-5, 0.1, init),
        fc1(512, 64, true, init),
        fc2(64, 10, true, init) {
    add_child("0", conv1), add_child("1", norm1), add_child("3", conv2), add_child("4", norm2), add_child("8", fc1), add_child("10", fc2);
    train();
  }
  Tensor forward(const Tensor& images) {
    const Tensor x = relu(norm2.forward(conv2.forward(relu(norm1.forward(conv1.forward(images))))));
    return fc2.forward(gelu(fc1.forward(flatten(max_pool2d(x, 2), 1))));
  }

 private:
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;
  nn::Linear fc1, fc2;
};

nn::Init weights_on(const Setting& s, DType dtype = DType::F32) { return nn::Init(1, dtype, s.device); }

void digits(const Setting& s) {
  Digits net(weights_on(s));
  const DeviceScope on(s.device);
  const Tensor x = to(integers({64, 1, 8, 8}, 16, s.device), DType::F32) / 16, y = integers({64}, 10, s.device);
  train(
      s, "digits network step 64 images, f32", 64, "img", net, [&] { return cross_entropy(net.forward(x), y); }, false);
}

void gpt2(const Setting& s) {
  nn::GPT2Config c = nn::GPT2Config::preset("gpt2");
  c.vocab_size = 50304, c.dropout = 0;
  nn::GPT2LMHeadModel model(c, weights_on(s));
  model.train();
  const Tensor x = integers({16, 1024}, 50257, s.device), y = integers({16, 1024}, 50257, s.device);
  train(
      s, "gpt2-124m step 16x1024, f32 weights, bf16 autocast", 16 * 1024, "tok", model, [&] { return token_loss(model.forward(x, {}), y); },
      true);
}

void llama1b(const Setting& s) {
  nn::LlamaConfig c;
  c.vocab_size = 128256, c.hidden_size = 2048, c.intermediate_size = 8192, c.num_hidden_layers = 16, c.num_attention_heads = 32;
  c.num_key_value_heads = 8, c.max_position_embeddings = 8192, c.rope_theta = 500000;
  nn::LlamaForCausalLM model(c, weights_on(s, DType::BF16));
  model.train();
  const Tensor x = integers({1, 8192}, c.vocab_size, s.device), y = integers({1, 8192}, c.vocab_size, s.device);
  train(
      s, "llama-3.2-1b step 1x8192, bf16 weights and states", 8192, "tok", model, [&] { return token_loss(model.forward(x, {}), y); },
      false);
}

// How a compile grows with equal layers: a narrow llama. Each number of layers wants a process and a cache of its own.
void layers(const Setting& s, int64_t count) {
  nn::LlamaConfig c;
  c.vocab_size = 4096, c.hidden_size = 512, c.intermediate_size = 2048, c.num_hidden_layers = count, c.num_attention_heads = 8;
  c.num_key_value_heads = 2, c.max_position_embeddings = 1024;
  nn::LlamaForCausalLM model(c, weights_on(s, DType::BF16));
  model.train();
  const Tensor x = integers({4, 1024}, c.vocab_size, s.device), y = integers({4, 1024}, c.vocab_size, s.device);
  train(
      s, fmt::format("llama of {} layers of 512, 4x1024, bf16", count), 4096, "tok", model,
      [&] { return token_loss(model.forward(x, {}), y); }, false);
}

void resnet50(const Setting& s) {
  nn::ResNet model(nn::ResNetConfig::preset("resnet50"), weights_on(s));
  model.train();
  const Tensor x = to(integers({128, 3, 224, 224}, 256, s.device), DType::F32) / 128, y = integers({128}, 1000, s.device);
  train(
      s, "resnet50 step 128 images, bf16 autocast", 128, "img", model, [&] { return cross_entropy(to(model.forward(x), DType::F32), y); },
      true);
}

void bert(const Setting& s, const std::string& name, const std::string& preset, int64_t batch, bool cast) {
  nn::BertForSequenceClassification model(nn::BertConfig::preset(preset), 2, weights_on(s));
  model.train();
  const Tensor x = integers({batch, 128}, 30000, s.device), y = integers({batch}, 2, s.device);
  train(
      s, name, static_cast<double>(batch) * 128, "tok", model, [&] { return cross_entropy(to(model.forward(x, {}), DType::F32), y); },
      cast);
}

void adamw(const Setting& s) {
  for (auto [elements, count, dtype] : {std::tuple{124'000'000, 148, DType::F32}, std::tuple{1'236'000'000, 146, DType::BF16}}) {
    std::vector<Tensor> parameters, gradients;
    for (int i = 0; i < count; ++i)
      for (auto* list : {&parameters, &gradients}) list->push_back(nn::Init(1, dtype, s.device).normal({elements / count}, 0, 1));
    train::AdamW optimizer(parameters, {.lr = 1e-4});
    auto step = compile([&] { optimizer.step(gradients); }, config_of("adamw"));
    const double bytes = 7.0 * elements * static_cast<double>(size_of(dtype));
    report(s, fmt::format("adamw {}M {}", elements / 1'000'000, name_of(dtype)), bytes / 1e9, "GB", [&] {
      step();
      return Tensor();
    });
    // The same bytes by copies of the device.
    const int64_t half = static_cast<int64_t>(bytes / 2 / 4);
    const std::vector<int64_t> sizes{half};
    const Tensor from = Tensor::full(sizes, 1, DType::F32, s.device);
    Tensor target = Tensor::full(sizes, 0, DType::F32, s.device);
    report(s, fmt::format("copy of as many bytes as adamw {}M {}", elements / 1'000'000, name_of(dtype)), bytes / 1e9, "GB",
           [copy = compile([&] { copy_(target, from); }, config_of("copy")), &target]() mutable {
             copy();
             return target;
           });
  }
}

void head(const Setting& s) {
  const nn::Init init(1, DType::BF16, s.device);
  const Tensor x = init.normal({8192, 4096}, 0, 1), w = init.normal({128256, 4096}, 0, 1), y = integers({8192}, 128256, s.device);
  auto step = compile(
      [&] {
        auto [loss, g] = value_and_gradients([&] { return cross_entropy(to(linear(x, w), DType::F32), y); }, {x, w});
        return std::tuple{loss, g[0], g[1]};
      },
      config_of("head"));
  report(s, "head + cross-entropy fwd+bwd 8192x4096x128256 bf16", 6.0 * 8192 * 4096 * 128256 / 1e12, "Tflop",
         [&] { return std::get<0>(step()); });
}

// One block of Llama-3-8B, forward and backward, without an optimizer.
void block(const Setting& s) {
  nn::LlamaConfig c;
  c.hidden_size = 4096, c.intermediate_size = 14336, c.num_attention_heads = 32, c.num_key_value_heads = 8;
  c.max_position_embeddings = 8192, c.rope_theta = 500000;
  const int64_t length = c.max_position_embeddings, half = 64;
  const nn::Init init = weights_on(s, DType::BF16);
  nn::LlamaBlock model(c, init);
  model.train();
  const Tensor angle =
      matmul(unsqueeze(arange(length, DType::F32), 1), unsqueeze(exp(arange(half, DType::F32) * (-std::log(c.rope_theta) / half)), 0));
  const auto table = [&](const Tensor& first, const Tensor& second) {
    return to(to(view(cat({first, second}, 1), {1, 1, length, 2 * half}), DType::BF16), s.device);
  };
  const nn::LlamaContext context{table(cos(angle), cos(angle)), table(-sin(angle), sin(angle)), {}, {}};
  const Tensor x = init.normal({1, length, c.hidden_size}, 0, 1);
  std::vector<Tensor> by = model.parameters();
  double weights = 0;
  for (const Tensor& t : by)
    if (t.dim() > 1) weights += static_cast<double>(t.numel());
  by.push_back(x);
  const std::string name = "llama3-8b block fwd+bwd T=8192, bf16";
  auto step = compile([&] { return value_and_gradients([&] { return sum(to(model.forward(x, context), DType::F32)); }, by).second; },
                      config_of(name));
  const double tokens = static_cast<double>(length), attention = 3 * 2 * 2 * tokens * tokens * static_cast<double>(c.hidden_size) / 2;
  report(s, name, (6 * tokens * weights + attention) / 1e12, "Tflop", [&] { return step()[0]; });
}

// Gradients by what kernels take, beside a copy: with what the forward keeps (backward() of a compiled function, as PyTorch has it), and
// from the inputs alone, statistics included (vjp).
void norms(const Setting& s) {
  const int64_t n = 8192;
  const nn::Init init(1, DType::BF16, s.device);
  const Tensor x = init.normal({n, n}, 0, 1), g = init.normal({n, n}, 0, 1), w = init.normal({n}, 0, 1), b = init.normal({n}, 0, 1);
  using Function = std::function<Tensor()>;
  const struct {
    const char* name;
    Function function;
    std::vector<Tensor> by;
  } cases[] = {{"layer_norm", [&] { return layer_norm(x, n, w, b); }, {x, w, b}},
               {"rms_norm", [&] { return rms_norm(x, n, w, 1e-6); }, {x, w}},
               {"gelu", [&] { return gelu(x); }, {x}},
               {"softmax", [&] { return softmax(x, -1); }, {x}},
               {"copy", {}, {x}}};
  for (auto& c : cases) {
    auto step = compile(
        [&] {
          if (!c.function) return std::vector{-x};
          return vjp([&] { return std::vector{c.function()}; }, c.by, std::vector{g}).second;
        },
        config_of(c.name));
    const auto tell = [&](const char* what, double ns) {
      const double bytes = (c.function ? 3.0 : 2.0) * 2 * static_cast<double>(n * n);
      fmt::print(R"({{"op": "{}{} 8192x8192 bf16", "mode": "toroid", "ms": {:.4f}, "GBps": {:.0f}}})"
                 "\n",
                 c.name, what, ns / 1e6, bytes / ns);
      std::fflush(stdout);
    };
    tell(c.function ? " vjp" : "", kernel_ns([&] { step(); }, s.warm, s.rounds));
    if (!c.function) continue;
    for (Tensor t : c.by) t.requires_grad_(true);
    auto forward = compile(c.function, config_of(c.name));
    Tensor y;
    const Step backward = [&] {
      y.backward(g);
      return y;
    };
    const auto prepare = [&] {
      for (const Tensor& t : c.by) t.zero_grad();
      y = forward();
    };
    tell(" backward", kernel_ns(backward, s.warm, s.rounds, prepare));
    if (s.kernels) {
      prepare();
      print_kernels(backward);
    }
    for (Tensor t : c.by) t.requires_grad_(false);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool gpu = argc > 1 && std::string(argv[1]) == "cuda";
  std::vector<std::string> rows(argv + std::min(argc, 2), argv + argc);
  const bool kernels = std::erase(rows, "kernels") > 0, launches = std::erase(rows, "launches") > 0;
  const Setting s{.device = gpu ? Device::cuda() : Device::cpu(), .kernels = kernels, .launches = launches, .load_ms = gpu ? 1000.0 : 0.0};
  if (rows.empty())
    rows = gpu ? std::vector<std::string>{"digits", "adamw", "head", "gpt2", "llama1b", "resnet50", "bert"}
               : std::vector<std::string>{"digits", "minilm"};
  const std::map<std::string, std::function<void()>> table{
      {"digits", [&] { digits(s); }},
      {"adamw", [&] { adamw(s); }},
      {"head", [&] { head(s); }},
      {"gpt2", [&] { gpt2(s); }},
      {"llama1b", [&] { llama1b(s); }},
      {"block", [&] { block(s); }},
      {"norms", [&] { norms(s); }},
      {"layers4", [&] { layers(s, 4); }},
      {"layers64", [&] { layers(s, 64); }},
      {"resnet50", [&] { resnet50(s); }},
      {"bert", [&] { bert(s, "bert-base fine-tuning step 32x128, dropout, bf16 autocast", "bert-base", 32, true); }},
      {"minilm", [&] { bert(s, "minilm-l6 fine-tuning step 16x128, f32", "minilm-l6", 16, false); }}};
  for (const std::string& row : rows) {
    if (!table.count(row)) return fmt::print(stderr, "bench_train: there is no row \"{}\"\n", row), 2;
    try {
      table.at(row)();
    } catch (const Error& e) {
      fmt::print(R"({{"op": "{}", "mode": "toroid", "error": "{}"}})"
                 "\n",
                 row, e.what());
    }
    empty_cache(s.device);
  }
  return 0;
}
