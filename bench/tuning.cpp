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
#include "device/runtime.h"
#include "front/compile_model.h"
#include "jit/jit.h"
#include "tune/measure/measure.h"

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
  return front::compile_model(product(m, n, k, dtype), {.device = device, .mode = Mode::MaxAutotune}).report();
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

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// What repeated tunings of one product chose.
struct Repeated {
  std::string title;
  std::vector<tune::RegionReport> reports;
  std::map<std::string, int> wins;
  double stated = 0;

  std::string winner() const {
    return std::max_element(wins.begin(), wins.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  }
  double flipped() const { return 1 - static_cast<double>(wins.at(winner())) / static_cast<double>(reports.size()); }
  // The default, what won, and what came near in at least half of them.
  std::vector<std::string> rivals() const {
    std::map<std::string, std::vector<double>> ratios;
    for (auto& r : reports)
      for (auto& row : r.rows)
        if (row.measured.ratio > 0) ratios[row.text].push_back(row.measured.ratio);
    const std::string first = reports.front().rows.front().text;
    double best = 1;
    for (auto& [text, v] : ratios)
      if (v.size() * 2 >= reports.size()) best = std::min(best, median(v));
    std::vector<std::string> out = {first};
    for (auto& [text, v] : ratios)
      if (text != first && (wins.contains(text) || (v.size() * 2 >= reports.size() && median(v) < best * 1.03))) out.push_back(text);
    return out;
  }
};

Repeated repeat(const Shape& s, const char* dtype, const Device& device, int repeats, bool each, tune::LockFile& decided) {
  Repeated out;
  out.title = fmt::format("{} x {} x {}", s.m, s.n, s.k);
  for (int r = 0; r < repeats; ++r) {
    const auto report = tuned(s.m, s.n, s.k, dtype, device);
    const auto& region = report.tuning.regions.at(0);
    decided.add(report.tuning.decided);
    ++out.wins[region.rows.at(region.winner).text];
    out.stated += region.flip / repeats;
    if (each) one_tuning(region);
    out.reports.push_back(region);
  }
  return out;
}

// The rivals for one product, each compiled as a lock file says, and what they take beside each other.
class Rivals {
 public:
  Rivals(const Shape& s, const char* dtype, const Device& device, const Repeated& found, const tune::LockFile& decided,
         const std::string& scratch)
      : shape_(s), dtype_(dtype_from_name(dtype)), texts_(found.rivals()), device_(device), ratios_(texts_.size()) {
    const std::string file = scratch + "/lock", key = found.reports.front().key.hex(), name = decided.devices().at(0);
    for (auto& text : texts_) {
      tune::LockFile lock;
      lock.set(name, key, {found.reports.front().label, text, "", 1});
      lock.write(file);
      const ScopedOption locked("tune_lock", file);
      models_.push_back(front::compile_model(product(s.m, s.n, s.k, dtype), {.device = device, .mode = Mode::MaxAutotune}));
      const std::string& drift = models_.back().report().tuning.regions.at(0).drift;
      TOROID_CHECK(drift.empty(), "{} is not what the lock file gave: {}", text, drift);
    }
    place();
    const double once = tune::measure(
                            1, [&](size_t) { return run_ns(0, 1); }, rounds(9))
                            .candidates[0]
                            .median_ns;
    calls_ = std::max<int>(1, static_cast<int>(5e4 / once));
  }
  // Some rounds, with inputs in another place than the time before: where they lie moves the ratio of two kernels by some percent.
  void measure() {
    place();
    const tune::Verdict v = tune::measure(
        texts_.size(), [&](size_t i) { return run_ns(i, calls_); }, rounds(30));
    for (size_t i = 0; i < texts_.size(); ++i) {
      TOROID_CHECK(!v.candidates[i].failed, "{}: {}", texts_[i], v.candidates[i].status);
      ratios_[i].push_back(i == 0 ? 1 : v.candidates[i].ratio);
    }
  }
  // Of each rival's time to the fastest one's.
  std::map<std::string, double> regrets() const {
    std::map<std::string, double> out;
    double best = 1;
    for (size_t i = 0; i < texts_.size(); ++i) best = std::min(best, out[texts_[i]] = median(ratios_[i]));
    for (auto& [text, ratio] : out) ratio = ratio / best - 1;
    return out;
  }

 private:
  static tune::MeasureOptions rounds(size_t n) {  // none is dropped before
    tune::MeasureOptions how;
    how.least_rounds = how.most_rounds = n;
    how.budget_ms = 1e6;
    return how;
  }
  // As the tuner calls them: small inputs are never where those of the call before were.
  void place() {
    constexpr int kPlaces = 8, kLargeBytes = 4 << 20;
    const auto filled = [&](int64_t rows, int64_t columns, const Tensor* same) {
      if (same && rows * columns * static_cast<int64_t>(size_of(dtype_)) > kLargeBytes) return *same;
      return Tensor::full(std::vector<int64_t>{rows, columns}, 0.01, dtype_).to(device_);
    };
    before_ = std::move(places_);
    places_.clear();
    for (int i = 0; i < kPlaces; ++i) {
      const Tensor* first = i == 0 ? nullptr : places_[0].data();
      places_.push_back({filled(shape_.m, shape_.k, first), filled(shape_.k, shape_.n, first ? first + 1 : nullptr)});
    }
  }
  double run_ns(size_t i, int calls) {
    const std::vector<Tensor>& inputs = places_[calls_made_++ % places_.size()];
    models_[i].run(inputs);  // what ran before has left the caches in its own state
    synchronize(device_);
    const auto begun = std::chrono::steady_clock::now();
    for (int c = 0; c < calls; ++c) models_[i].run(inputs);
    synchronize(device_);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begun).count() / calls;
  }

  Shape shape_;
  DType dtype_;
  std::vector<std::string> texts_;
  Device device_;
  std::vector<std::vector<double>> ratios_;
  std::vector<CompiledModel> models_;
  std::vector<std::vector<Tensor>> places_, before_;  // before_: so that none lies where one did the time before
  size_t calls_made_ = 0;
  int calls_ = 1;
};

// Winners may flip as often as is stated; what each winner costs beside the fastest rival is measured by itself afterwards, in turns over
// all products, as one tuning's seconds do not show how the machine changes.
void trust(const Device& device, const char* dtype, int repeats, const std::vector<Shape>& shapes, const std::string& scratch) {
  constexpr int kTurns = 15;
  std::vector<Repeated> found;
  std::vector<Rivals> rivals;
  for (const Shape& s : shapes) {
    tune::LockFile decided;
    found.push_back(repeat(s, dtype, device, repeats, shapes.size() == 1, decided));
    rivals.emplace_back(s, dtype, device, found.back(), decided, scratch);
  }
  for (int turn = 0; turn < kTurns; ++turn)
    for (Rivals& r : rivals) r.measure();
  fmt::print("{} tunings of {} products of {}:\n{:>20} {:>8} {:>8} {:>8} {:>8}  winner\n", repeats, shapes.size(), dtype, "m x n x k",
             "flips %", "stated %", "regret %", "mean %");
  double flips = 0, stated = 0, worst = 0, mean = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Repeated& f = found[i];
    const auto regrets = rivals[i].regrets();
    double of_any = 0, of_all = 0;
    for (auto& [text, count] : f.wins) {
      of_any = std::max(of_any, regrets.at(text));
      of_all += regrets.at(text) * count / repeats;
    }
    fmt::print("{:>20} {:8.1f} {:8.1f} {:8.1f} {:8.1f}  {}\n", f.title, 100 * f.flipped(), 100 * f.stated, 100 * of_any, 100 * of_all,
               f.winner());
    for (auto& [text, count] : f.wins) fmt::print("  {:3} times {:40} regret {:.1f} %\n", count, text, 100 * regrets.at(text));
    const double share = 1 / static_cast<double>(found.size());
    flips += f.flipped() * share, stated += f.stated * share, mean += of_all * share;
    worst = std::max(worst, of_any);
  }
  fmt::print(
      "all: {:.1f} % of the winners flip, {:.1f} % is stated; regret of any winner at most {:.1f} %, of a tuning {:.2f} % on average\n",
      100 * flips, 100 * stated, 100 * worst, 100 * mean);
}

}  // namespace

// bench_tuning [cuda] [repeats] [folder for caches] [m,n,k: this shape alone | trust: the repeated tunings alone]
int main(int argc, char** argv) {
  try {
    const bool cuda = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
    const int repeats = argc > 2 ? std::stoi(argv[2]) : 30;
    const std::string scratch = argc > 3 ? argv[3] : "bench_tuning_cache";
    const Device device = cuda ? Device::cuda() : Device::cpu();
    const char* dtype = cuda ? "bf16" : "f32";
    set_option("tune_database", "none");
    const std::string only = argc > 4 ? argv[4] : "";
    const bool repeats_alone = only == "trust";
    const std::vector<Shape> shapes = shapes_of(device, repeats_alone ? "" : only);
    if (only.empty()) precompile(device, dtype, scratch);
    if (!repeats_alone) search(device, dtype, shapes, scratch);
    if (repeats > 0) trust(device, dtype, repeats, shapes, scratch);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_tuning: {}\n", e.what());
    return 1;
  }
}
