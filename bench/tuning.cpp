// What tuning costs and how far it can be trusted: compile time of one tuned product with choices compiled side by side and one by one,
// what is lost by not trying every choice, and repeated tunings of twenty shapes.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/options.h"
#include "base/text.h"
#include "compile/model.h"
#include "jit/jit.h"

namespace {

using namespace toroid;
using compiler::CompiledModel;

std::unique_ptr<graph::Graph> product(int64_t m, int64_t n, int64_t k, const char* dtype) {
  return graph::parse(fmt::format(
      "graph \"product\"(%a: {0}[{1}, {3}], %b: {0}[{3}, {2}]) {{\n  %c: {0}[{1}, {2}] = mm(%a, %b)\n  %d: {0}[{1}, {2}] = relu(%c)\n"
      "  return %d\n}}",
      dtype, m, n, k));
}

compiler::CompileReport tuned(int64_t m, int64_t n, int64_t k, const char* dtype, const Device& device) {
  return CompiledModel::compile(product(m, n, k, dtype), {.device = device, .mode = Mode::MaxAutotune}).report();
}

// Nothing that was compiled before may help.
struct EmptyCache {
  explicit EmptyCache(const std::string& folder) : folder_("cache_dir", folder) { jit::shared_compiler(); }
  ScopedOption folder_;
};

void precompile(const Device& device, const char* dtype, const std::string& scratch) {
  fmt::print("mm 1024 x 8192 x 2048 {} + relu, choices compiled before they are timed:\n", dtype);
  const ScopedOption longer("tune_region_ms", "1");  // compiling alone
  const ScopedOption whole("tune_whole_ms", "0");
  const ScopedOption all_choices("tune_all_tried", "1000");
  tuned(64, 64, 64, dtype, device);  // opens the compiler
  std::map<bool, double> all;
  for (bool side_by_side : {false, true}) {
    const EmptyCache cache(fmt::format("{}/{}{}", scratch, dtype, side_by_side));
    const ScopedOption threads("compile_threads", side_by_side ? "0" : "1");
    const auto r = tuned(1024, 2048, 8192, dtype, device);
    all[side_by_side] = r.total_ms;
    const auto before = jit::shared_compiler()->counters().compiled;
    const auto again = tuned(1024, 2048, 8192, dtype, device);
    fmt::print("  {:12} {:8.0f} ms, of which choices {:8.0f} ms; {} choices; again {:.0f} ms, {} kernels compiled\n",
               side_by_side ? "side by side" : "one by one", r.total_ms, r.tuning.precompile_ms, r.tuning.compiled,
               again.tuning.precompile_ms, jit::shared_compiler()->counters().compiled - before);
  }
  fmt::print("  ratio {:.2f}\n", all[true] / all[false]);
}

struct Shape {
  int64_t m, n, k;
};

// Twenty products, or the one whose "m,n,k" is given.
std::vector<Shape> shapes_of(const Device& device, const std::string& only) {
  std::vector<Shape> shapes;
  if (!only.empty()) {
    const auto sizes = split_list(only);
    TOROID_USER_CHECK(sizes.size() == 3, "\"{}\" is no shape; expected m,n,k", only);
    return {{std::stoll(std::string(sizes[0])), std::stoll(std::string(sizes[1])), std::stoll(std::string(sizes[2]))}};
  }
  for (int64_t m : {16, 128, 512, 1024})
    for (auto [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}, {1000, 2048}, {4096, 256}})
      shapes.push_back({device.is_cuda() ? m : std::max<int64_t>(4, m / 8), n, k});
  return shapes;
}

// Each tuned from scratch with all choices and with those that the order of its templates leaves some hope for.
void search(const Device& device, const char* dtype, const std::vector<Shape>& shapes, const std::string& scratch) {
  fmt::print("what is lost by passing choices over, {}:\n{:>20} {:>16} {:>16} {:>16} {:>16} {:>8}\n", dtype, "m x n x k", "all", "ms",
             "not passed over", "ms", "lost %");
  std::map<bool, double> compiled, spent;
  double worst = 0;
  for (const Shape& s : shapes) {
    std::map<bool, compiler::CompileReport> reports;
    for (bool all : {true, false}) {
      const EmptyCache cache(fmt::format("{}/search{}", scratch, all));
      const ScopedOption exhaustive("tune_all_tried", all ? "1000" : "0");
      reports.emplace(all, tuned(s.m, s.n, s.k, dtype, device));
      compiled[all] += static_cast<double>(reports.at(all).tuning.compiled), spent[all] += reports.at(all).total_ms;
    }
    const auto &known = reports.at(true).tuning.regions.at(0), &some = reports.at(false).tuning.regions.at(0);
    double winner = 1;
    for (auto& row : known.rows)
      if (row.text == some.rows.at(some.winner).text) winner = row.measured.ratio;
    const double lost = winner / known.rows.at(known.winner).measured.ratio - 1;
    worst = std::max(worst, lost);
    fmt::print("{:>20} {:16} {:16.0f} {:16} {:16.0f} {:8.1f}\n", fmt::format("{} x {} x {}", s.m, s.n, s.k),
               reports.at(true).tuning.compiled, reports.at(true).total_ms, reports.at(false).tuning.compiled, reports.at(false).total_ms,
               100 * lost);
    std::string order;
    for (auto& row : known.rows) order += fmt::format(" {:.2f}", row.measured.ratio);
    fmt::print("  in their order:{}\n", order);
  }
  fmt::print("all: {:.2f} of the choices, {:.2f} of the time, at most {:.1f} % lost\n", compiled[false] / compiled[true],
             spent[false] / spent[true], 100 * worst);
}

// The default's time, and the ratio of each that came near it.
void one_tuning(const tune::RegionReport& region) {
  std::string near;
  for (size_t i = 1; i < region.rows.size(); ++i)
    if (const auto& m = region.rows[i].measured; m.ratio > 0 && m.ratio < 1.05)
      near += fmt::format("  {} {:.3f} ({:.3f} to {:.3f}, {} rounds)", i, m.ratio, m.ratio_low, m.ratio_high, m.rounds);
  fmt::print("  {} wins in {:.0f} ms; default {:.2f} us;{}\n", region.winner, region.spent_ms, region.rows[0].measured.median_ns / 1e3,
             near);
}

void trust(const Device& device, const char* dtype, int repeats, const std::vector<Shape>& shapes) {
  fmt::print("{} tunings of {} products of {}:\n{:>20} {:>8} {:>8} {:>8} {:>8}  winner\n", repeats, shapes.size(), dtype, "m x n x k",
             "flips %", "stated %", "regret %", "ratio");
  double flips = 0, stated = 0, worst = 0;
  for (const Shape& s : shapes) {
    std::map<std::string, int> wins;
    std::map<std::string, std::vector<double>> ratios;
    std::vector<tune::RegionReport> reports;
    double shape_stated = 0;
    for (int r = 0; r < repeats; ++r) {
      const auto report = tuned(s.m, s.n, s.k, dtype, device);
      const auto& region = report.tuning.regions.at(0);
      ++wins[region.rows.at(region.winner).text];
      shape_stated += region.flip / repeats;
      for (auto& row : region.rows)
        if (row.measured.ratio > 0) ratios[row.text].push_back(row.measured.ratio);
      if (shapes.size() == 1) one_tuning(region);
      reports.push_back(region);
    }
    const auto median = [&](const std::string& text) {
      auto& v = ratios.at(text);
      std::sort(v.begin(), v.end());
      return v[v.size() / 2];
    };
    std::string winner;
    for (auto& [text, count] : wins)
      if (winner.empty() || count > wins[winner]) winner = text;
    double best = 1;
    for (auto& [text, v] : ratios)
      if (static_cast<int>(v.size()) * 2 >= repeats) best = std::min(best, median(text));
    double regret = 0;
    for (auto& [text, count] : wins) regret = std::max(regret, median(text) / best - 1);
    const double flipped = 1 - static_cast<double>(wins[winner]) / repeats;
    fmt::print("{:>20} {:8.1f} {:8.1f} {:8.1f} {:8.3f}  {}\n", fmt::format("{} x {} x {}", s.m, s.n, s.k), 100 * flipped,
               100 * shape_stated, 100 * regret, median(winner), winner);
    for (auto& r : reports)  // why another one won
      for (auto& row : r.rows)
        if (row.text == winner && r.rows[r.winner].text != winner)
          fmt::print("  {} instead, as this one was at {:.3f} ({:.3f} to {:.3f}) in {} rounds of {:.0f} ms: {}\n", r.rows[r.winner].text,
                     row.measured.ratio, row.measured.ratio_low, row.measured.ratio_high, row.measured.rounds, r.spent_ms,
                     row.measured.status.empty() ? "measured to the end" : row.measured.status);
    flips += flipped / static_cast<double>(shapes.size());
    stated += shape_stated / static_cast<double>(shapes.size());
    worst = std::max(worst, regret);
  }
  fmt::print("all: {:.1f} % of the winners flip, {:.1f} % is stated; largest regret {:.1f} %\n", 100 * flips, 100 * stated, 100 * worst);
}

}  // namespace

// bench_tuning [cuda] [repeats] [folder for caches] [m,n,k: this shape alone]
int main(int argc, char** argv) {
  try {
    const bool cuda = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
    const int repeats = argc > 2 ? std::stoi(argv[2]) : 30;
    const std::string scratch = argc > 3 ? argv[3] : "bench_tuning_cache";
    const Device device = cuda ? Device::cuda() : Device::cpu();
    const char* dtype = cuda ? "bf16" : "f32";
    set_option("tune_database", "none");
    const std::string only = argc > 4 ? argv[4] : "";
    const std::vector<Shape> shapes = shapes_of(device, only);
    if (only.empty()) precompile(device, dtype, scratch);
    search(device, dtype, shapes, scratch);
    if (repeats > 0) trust(device, dtype, repeats, shapes);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_tuning: {}\n", e.what());
    return 1;
  }
}
