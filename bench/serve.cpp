// Serves one exported model for comparisons with other runtimes: loads it once, then runs it as often as each line of stdin says.
//   bench_serve MODEL IN.safetensors [--expect OUT.safetensors] [--profile RUNS]
// Prints "ready {...}" when the model is compiled, warm and compared with the expected outputs. Then a line "N" on stdin runs it N times
// and prints the microseconds of each run on one line. With --profile it prints what each step costs instead, as JSON lines.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "front/compile_model.h"
#include "import/load_model.h"
#include "toroid/error.h"
#include "toroid/model.h"

namespace {

using namespace toroid;
using Clock = std::chrono::steady_clock;

struct Args {
  std::string model, inputs, expected;
  int64_t profile_runs = 0;
};

constexpr int64_t kMaxRuns = 1'000'000;

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMaxRuns) return std::nullopt;
  return value;
}

std::optional<Args> parse(int argc, char** argv) {
  Args args;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool has_value = i + 1 < argc;
    if (word == "--expect" && has_value) {
      args.expected = argv[++i];
    } else if (word == "--profile" && has_value) {
      auto runs = parse_count(argv[++i]);
      if (!runs) return std::nullopt;
      args.profile_runs = *runs;
    } else if (args.model.empty() && !word.starts_with("--")) {
      args.model = word;
    } else if (args.inputs.empty() && !word.starts_with("--")) {
      args.inputs = word;
    } else {
      return std::nullopt;
    }
  }
  if (args.inputs.empty()) return std::nullopt;
  return args;
}

// In the order of their keys, "000", "001", ..., which is the order of the arguments. Copies, so that they are aligned as tensors are that
// a program makes: in the file they are not.
std::vector<Tensor> tensors_in_order(const std::string& path) {
  std::vector<Tensor> out;
  for (auto& [name, tensor] : load_tensors(path)) {
    out.push_back(Tensor::empty(tensor.sizes(), tensor.dtype()));
    std::memcpy(out.back().raw_data(), tensor.raw_data(), static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype()));
  }
  return out;
}

struct Difference {
  double absolute = 0, relative = 0;  // relative to the largest magnitude expected
};

Difference compare(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  if (got.size() != expected.size())
    throw UserError(fmt::format("the model returned {} tensors, expected {}", got.size(), expected.size()));
  Difference out;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!got[i].defined() || got[i].sizes() != expected[i].sizes())
      throw UserError(fmt::format("output {} has other sizes than expected", i));
    auto a = got[i].to_vector(), b = expected[i].to_vector();
    double largest = 0, worst = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      largest = std::max(largest, std::abs(b[k]));
      double difference = std::abs(a[k] - b[k]);
      worst = std::isnan(difference) ? HUGE_VAL : std::max(worst, difference);
    }
    out.absolute = std::max(out.absolute, worst);
    out.relative = std::max(out.relative, worst == 0 ? 0 : worst / largest);
  }
  return out;
}

struct StepCost {
  std::vector<double> us;  // of each call
  int64_t bytes = 0;       // of the buffers that it names
};

// A step's name and the elements of each buffer that it names: equal steps of a model have one cost.
std::string describe(const exec::Plan& plan, const exec::StepPlan& step, int64_t& bytes) {
  std::string sizes;
  auto add = [&](int buffer) {
    const auto& b = plan.buffers[static_cast<size_t>(buffer)];
    int64_t numel = b.numel.maybe_constant().value_or(0);
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", numel);
    bytes += numel * static_cast<int64_t>(size_of(b.dtype));
  };
  if (auto* l = std::get_if<exec::Launch>(&step)) {
    for (int b : l->buffers) add(b);
    return fmt::format("{} [{}]", l->name, sizes);
  }
  if (auto* l = std::get_if<exec::LibraryCall>(&step)) {
    for (int b : l->buffers) add(b);
    return fmt::format("{} [{}]", l->name, sizes);
  }
  if (auto* c = std::get_if<exec::CollectiveCall>(&step)) {
    add(c->input.buffer), add(c->output.buffer);
    return fmt::format("{} [{}]", c->name, sizes);
  }
  const auto& call = std::get<exec::HostCall>(step);
  for (const auto& view : call.inputs) add(view.buffer);
  for (const auto& view : call.outputs) add(view.buffer);
  return fmt::format("{} (host) [{}]", call.name, sizes);
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// What each step costs, the dearest first. GB/s counts each buffer once.
void profile(compiler::CompiledModel& model, const std::vector<Tensor>& inputs, int64_t runs) {
  const auto& plan = model.executable().plan();
  std::vector<std::string> names;
  std::map<std::string, StepCost> costs;
  for (const auto& step : plan.steps) {
    int64_t bytes = 0;
    names.push_back(describe(plan, step, bytes));
    costs[names.back()].bytes = bytes;
  }
  size_t position = 0;
  model.executable().observe(
      [&](const std::string&, int64_t ns) { costs[names.at(position++)].us.push_back(static_cast<double>(ns) / 1e3); });
  std::vector<double> totals;
  for (int64_t run = 0; run < runs; ++run) {
    position = 0;
    auto start = Clock::now();
    model.run(inputs);
    totals.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  fmt::print("{{\"total_us\": {:.1f}, \"min_us\": {:.1f}, \"runs\": {}}}\n", median(totals),
             *std::min_element(totals.begin(), totals.end()), runs);
  std::vector<std::pair<double, std::string>> rows;
  auto calls = [&](const StepCost& c) { return static_cast<int64_t>(c.us.size()) / runs; };
  for (auto& [name, cost] : costs) rows.emplace_back(median(cost.us) * static_cast<double>(calls(cost)), name);
  std::sort(rows.rbegin(), rows.rend());
  for (auto& [us, name] : rows) {
    const StepCost& c = costs[name];
    double least = *std::min_element(c.us.begin(), c.us.end());
    fmt::print(
        "{{\"us\": {:.1f}, \"calls\": {}, \"us_a_call\": {:.1f}, \"min_us_a_call\": {:.1f}, \"gb_per_s\": {:.2f}, \"step\": \"{}\"}}\n", us,
        calls(c), median(c.us), least, static_cast<double>(c.bytes) / least / 1e3, name);
  }
}

void serve(compiler::CompiledModel& model, const std::vector<Tensor>& inputs) {
  std::string line;
  while (std::getline(std::cin, line)) {
    auto count = parse_count(line);
    if (!count) throw UserError(fmt::format("\"{}\" is no number of runs; expected 1 to {}", line, kMaxRuns));
    std::string times;
    for (int64_t i = 0; i < *count; ++i) {
      auto start = Clock::now();
      auto outputs = model.run(inputs);
      std::chrono::duration<double, std::micro> us = Clock::now() - start;
      times += fmt::format("{}{:.2f}", i ? " " : "", us.count());
    }
    fmt::print("{}\n", times);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto args = parse(argc, argv);
  if (!args) {
    fmt::print(stderr, "usage: bench_serve MODEL IN.safetensors [--expect OUT.safetensors] [--profile RUNS]\n");
    return 2;
  }
  try {
    auto start = Clock::now();
    auto model = front::compile_model(import::load_model(args->model));
    double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    auto inputs = tensors_in_order(args->inputs);
    start = Clock::now();
    auto outputs = model.run(inputs);
    double first_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    Difference difference;
    if (!args->expected.empty()) difference = compare(outputs, tensors_in_order(args->expected));
    const auto& report = model.report();
    fmt::print(
        "ready {{\"load_ms\": {:.1f}, \"first_ms\": {:.1f}, \"kernels\": {}, \"host_calls\": {}, \"max_abs\": {:.3g}, \"max_rel\": "
        "{:.3g}}}\n",
        load_ms, first_ms, report.kernels, report.host_calls, difference.absolute, difference.relative);
    std::fflush(stdout);
    if (args->profile_runs)
      profile(model, inputs, args->profile_runs);
    else
      serve(model, inputs);
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "bench_serve: {}\n", e.what());
    return 1;
  }
}
