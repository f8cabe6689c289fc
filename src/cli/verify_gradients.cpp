#include "cli/verify_gradients.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/differentiate.h"
#include "base/check.h"
#include "cli/tensor_files.h"
#include "graph/pass.h"
#include "toroid/model.h"
#include "toroid/train/optimizers.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

using Named = std::map<std::string, Tensor>;

std::unique_ptr<graph::Graph> functional(std::unique_ptr<graph::Graph> g) {
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  return graph::run_passes(std::move(g), std::span(&functionalize, 1));
}

// The gradient's name of each input; empty: it has none.
std::vector<std::string> names_of(const graph::Graph& g, bool of_user_inputs) {
  std::vector<std::string> out;
  int64_t user = 0;
  for (auto& in : g.inputs) {
    const bool is_user = in.kind == graph::InputKind::User;
    if (of_user_inputs)
      out.push_back(is_user ? fmt::format("{:03}", user++) : "");
    else
      out.push_back(is_user ? "" : in.name);
  }
  return out;
}

// The joint graph's last inputs. An output without a cotangent in the file has zeros.
void add_cotangents(const fs::path& folder, const graph::Graph& joint, std::vector<Tensor>& inputs) {
  const auto stored = read_calls(folder / "cotangent.safetensors");
  constexpr std::string_view kPrefix = "cotangent_";
  for (auto& in : joint.inputs) {
    if (!in.name.starts_with(kPrefix) || in.kind != graph::InputKind::User) continue;
    const auto& of_call = stored.calls.at(0);
    const auto it = of_call.find(std::stoll(in.name.substr(kPrefix.size())));
    std::vector<int64_t> sizes;
    for (auto& s : in.value->type.sizes) sizes.push_back(s.maybe_constant().value_or(1));
    inputs.push_back(it != of_call.end() ? it->second : Tensor::full(sizes, 0.0, in.value->type.dtype));
  }
}

double largest_of(const Tensor& t) {
  double out = 0;
  if (t.dtype() == DType::F32)
    for (int64_t i = 0; i < t.numel(); ++i) out = std::max(out, std::abs(static_cast<double>(t.contiguous().data<float>()[i])));
  return out;
}

// Terms of a gradient are multiples of cotangents: where they cancel, what is left of those is rounding.
std::optional<std::string> compare_gradient(const Tensor& got, const Tensor& expected, double largest, double cotangent,
                                            const Tolerance& tolerance) {
  auto bad = compare_tensors(got, expected, tolerance);
  if (bad && largest > 0) bad = compare_elements(got, expected, {0, tolerance.f32 * largest});
  constexpr double kRounding = 4 * 1.1920929e-7;
  return bad && cotangent > 0 ? compare_elements(got, expected, {tolerance.f32, kRounding * cotangent}) : bad;
}

}  // namespace

bool has_gradients(const fs::path& folder) { return fs::exists(folder / "grad.safetensors"); }

std::vector<std::string> check_gradients(const fs::path& folder, std::unique_ptr<graph::Graph> graph, Backend backend,
                                         const std::string& device, const Tolerance& tolerance) {
  std::vector<std::string> lines;
  const bool has_cotangents = fs::exists(folder / "cotangent.safetensors");
  const Named expected = load_tensors((folder / "grad.safetensors").string());
  auto g = functional(std::move(graph));
  autograd::Request request{.inputs = {}, .takes_cotangents = has_cotangents};
  std::vector<std::string> asked;
  const auto names = names_of(*g, has_cotangents);
  for (size_t i = 0; i < names.size(); ++i)
    if (expected.count(names[i])) request.inputs.push_back(i), asked.push_back(names[i]);
  for (auto& [name, t] : expected)
    if (!std::count(asked.begin(), asked.end(), name)) lines.push_back(fmt::format("gradient {}: the model has no such input", name));
  auto joint = autograd::differentiate(*g, request);
  std::vector<Tensor> inputs;
  const auto given = read_calls(folder / "in.safetensors");
  if (!given.calls.empty())
    for (auto& [index, t] : given.calls[0]) inputs.push_back(t);
  if (has_cotangents) add_cotangents(folder, *joint, inputs);
  const bool draws = std::any_of(joint->nodes.begin(), joint->nodes.end(), [](auto& n) { return n->op->random; });
  const auto got = make_runner(backend, std::move(joint), device)->run(inputs);
  double largest = 0, cotangent = 0;
  for (auto& [name, t] : expected) largest = has_cotangents ? 0 : std::max(largest, largest_of(t));
  if (has_cotangents)
    for (auto& [name, t] : load_tensors((folder / "cotangent.safetensors").string())) cotangent = std::max(cotangent, largest_of(t));
  for (size_t k = 0; k < asked.size(); ++k)
    if (auto bad = draws ? compare_types(got[got.size() - asked.size() + k], expected.at(asked[k]))
                         : compare_gradient(got[got.size() - asked.size() + k], expected.at(asked[k]), largest, cotangent, tolerance))
      lines.push_back(fmt::format("gradient {}: {}", asked[k], *bad));
  return lines;
}

bool has_training(const fs::path& folder) {
  return fs::exists(folder / "losses.safetensors") && fs::exists(folder / "after.safetensors") && has_gradients(folder);
}

std::vector<std::string> check_training(const fs::path& folder, std::unique_ptr<graph::Graph> graph, Backend backend,
                                        const std::string& device, const Tolerance& tolerance) {
  const Named gradients = load_tensors((folder / "grad.safetensors").string()),
              after = load_tensors((folder / "after.safetensors").string());
  const std::vector<double> losses = load_tensors((folder / "losses.safetensors").string()).at("losses").to_vector();
  auto g = functional(std::move(graph));
  autograd::Request request;
  std::vector<Tensor> parameters;
  std::vector<std::string> names;
  for (size_t i = 0; i < g->inputs.size(); ++i) {
    if (!gradients.count(g->inputs[i].name)) continue;
    request.inputs.push_back(i);
    parameters.push_back(g->inputs[i].data);
    names.push_back(g->inputs[i].name);
  }
  const auto joint = autograd::differentiate(*g, request);
  const auto given = read_calls(folder / "in.safetensors");
  std::vector<Tensor> inputs;
  for (auto& [index, t] : given.calls.at(0)) inputs.push_back(t);
  train::AdamW optimizer(parameters, {.lr = 1e-3, .betas = {0.9, 0.95}, .weight_decay = 0.1});
  std::vector<std::string> lines;
  for (size_t step = 0; step < losses.size(); ++step) {
    // Made anew, as a compiled model may hold its parameters in another order.
    const auto got = make_runner(backend, graph::clone(*joint), device)->run(inputs);
    const double loss = got.at(0).item();
    if (!(std::abs(loss - losses[step]) <= tolerance.f32 * std::abs(losses[step])))
      lines.push_back(fmt::format("step {}: the loss is {}, expected {}", step, loss, losses[step]));
    optimizer.step(std::span(got).last(parameters.size()));
  }
  double largest = 0;
  for (auto& [name, t] : gradients) largest = std::max(largest, largest_of(t));
  for (size_t k = 0; k < parameters.size(); ++k) {
    const auto it = after.find(names[k]);
    if (it == after.end()) {
      lines.push_back(fmt::format("parameter {}: after.safetensors lacks it", names[k]));
      continue;
    }
    const auto got = parameters[k].to_vector(), expected = it->second.to_vector(), gradient = gradients.at(names[k]).to_vector();
    double most = 0, worst = 0;
    for (double v : expected) most = std::max(most, std::abs(v));
    for (size_t i = 0; i < expected.size(); ++i)
      if (std::abs(gradient[i]) > 1e-5 * largest) worst = std::max(worst, std::abs(got[i] - expected[i]));
    if (!(worst <= tolerance.f32 * most))
      lines.push_back(fmt::format("parameter {} after {} steps: the largest error is {:.3g} where {:.3g} is allowed", names[k],
                                  losses.size(), worst, tolerance.f32 * most));
  }
  return lines;
}

}  // namespace toroid::cli
