// What ways to compute products other than tiles gain: operands that are laid out anew, and sums of two products as one; and what
// selections of few elements gain by clusters.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/options.h"
#include "front/compile_model.h"
#include "tune/check/inputs.h"

namespace {

using namespace toroid;
using compiler::CompiledModel;

struct Product {
  int64_t m, n, k;
  bool a_along_m = false, b_along_k = false, constant = true;  // how operands lie; whether b is a weight
  int64_t second_k = 0;                                        // of a second product that is added
};

struct Image {
  int64_t n, in, out, size, kernel, stride;
  bool channels_last = true;
};

struct Selection {
  int64_t rows, length, count;
};

std::string name_of(const Selection& s) { return fmt::format("the first {} of {} rows of {}", s.count, s.rows, s.length); }

std::string name_of(const Image& c) {
  return fmt::format("{} images, {} channels, {} x {}, {} to {}{}", c.n, c.in, c.size, c.size,
                     fmt::format("{0} x {0}, stride {1}", c.kernel, c.stride), c.out, c.channels_last ? "" : ", channels first");
}

std::string name_of(const Product& p) {
  std::string out = fmt::format("{} x {} x {}", p.m, p.n, p.k);
  if (p.second_k) out += fmt::format(" + {}", p.second_k);
  if (p.a_along_m) out += ", a along m";
  if (p.b_along_k) out += ", b along k";
  return out + (p.constant ? ", weight" : "");
}

void make_constant(graph::Input& in, uint64_t seed) {
  in.kind = graph::InputKind::Constant;
  in.data = tune::generate_input(in.value->type, seed, {}, Device::cpu());
}

std::unique_ptr<graph::Graph> program(const Product& p, DType dtype) {
  std::vector<std::string> inputs;
  std::string body, sum;
  const std::string type(name_of(dtype));
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns, bool turned) {
    inputs.push_back(fmt::format("%{}: {}[{}, {}]", name, type, turned ? columns : rows, turned ? rows : columns));
    if (turned) body += fmt::format("  %{}t: {}[{}, {}] = permute(%{}, dims=[1, 0])\n", name, type, rows, columns, name);
    return turned ? name + "t" : name;
  };
  int count = 0;
  for (int64_t k : {p.k, p.second_k}) {
    if (k == 0) continue;
    const std::string i = std::to_string(count++);
    const std::string a = matrix("a" + i, p.m, k, p.a_along_m), b = matrix("b" + i, k, p.n, p.b_along_k);
    body += fmt::format("  %c{}: {}[{}, {}] = mm(%{}, %{})\n", i, type, p.m, p.n, a, b);
    sum = "c" + i;
  }
  if (p.second_k) body += fmt::format("  %s: {}[{}, {}] = add.Tensor(%c0, %c1, alpha=1)\n", type, p.m, p.n), sum = "s";
  auto g = graph::parse(fmt::format("graph \"product\"({}) {{\n{}  %r: {}[{}, {}] = relu(%{})\n  return %r\n}}", fmt::join(inputs, ", "),
                                    body, type, p.m, p.n, sum));
  for (size_t i = 1; p.constant && i < g->inputs.size(); i += 2) make_constant(g->inputs[i], i);
  return g;
}

std::unique_ptr<graph::Graph> program(const Image& c, DType dtype) {
  const int64_t pad = c.kernel / 2, out = (c.size + 2 * pad - c.kernel) / c.stride + 1;
  const std::string type(toroid::name_of(dtype)), result = fmt::format("{}[{}, {}, {}, {}]", type, c.n, c.out, out, out);
  const std::string image =
      c.channels_last ? fmt::format("{}, {}, {}, {}", c.n, c.size, c.size, c.in) : fmt::format("{}, {}, {}, {}", c.n, c.in, c.size, c.size);
  const std::string turned =
      c.channels_last ? fmt::format("  %i: {}[{}, {}, {}, {}] = permute(%x, dims=[0, 3, 1, 2])\n", type, c.n, c.in, c.size, c.size) : "";
  auto g =
      graph::parse(fmt::format("graph \"image\"(%x: {0}[{1}], %w: {0}[{2}, {3}, {4}, {4}]) {{\n{5}"
                               "  %c: {6} = convolution(%{7}, %w, none, stride=[{8}, {8}], padding=[{9}, {9}], dilation=[1, 1], "
                               "transposed=false, output_padding=[0, 0], groups=1)\n"
                               "  %r: {6} = relu(%c)\n  %y: {10} = permute(%r, dims=[0, 2, 3, 1])\n  return %y\n}}",
                               type, image, c.out, c.in, c.kernel, turned, result, c.channels_last ? "i" : "x", c.stride, pad,
                               fmt::format("{}[{}, {}, {}, {}]", type, c.n, out, out, c.out)));
  make_constant(g->inputs[1], 1);
  return g;
}

std::unique_ptr<graph::Graph> program(const Selection& s, DType dtype) {
  return graph::parse(
      fmt::format("graph \"selection\"(%x: {0}[{1}, {2}]) {{\n  %v: {0}[{1}, {3}], %i: i64[{1}, {3}] = topk(%x, {3})\n"
                  "  return %v, %i\n}}",
                  toroid::name_of(dtype), s.rows, s.length, s.count));
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The best of the rows that `takes` says; 0: there is none.
template <class F>
double best(const std::vector<const tune::ChoiceRow*>& rows, F&& takes) {
  double out = 0;
  for (auto* r : rows)
    if (r->measured.ratio > 0 && takes(r->text) && (out == 0 || r->measured.ratio < out)) out = r->measured.ratio;
  return out;
}

using Case = std::variant<Product, Image, Selection>;

void report(const Case& p, DType dtype, const Device& device, bool whole_table) {
  const std::string name = std::visit([](auto& x) { return name_of(x); }, p);
  auto graph = std::visit([&](auto& x) { return program(x, dtype); }, p);
  const auto tuned = front::compile_model(std::move(graph), {.device = device, .mode = Mode::MaxAutotune}).report().tuning;
  std::vector<const tune::ChoiceRow*> rows;
  for (auto& region : tuned.regions)
    for (auto& row : region.rows) rows.push_back(&row);
  const auto is_other = [](const std::string& t) {
    return has(t, "pad_mm") || has(t, "transpose") || has(t, "mm_plus_mm") || has(t, "channels_last");
  };
  const double tile = best(rows, [&](auto&t) { return !is_other(t) && !has(t, "cublaslt"); }),
               library = best(rows, [](auto&t) { return has(t, "cublaslt"); });
  const double other = best(rows, is_other);
  std::string winners;
  for (auto& region : tuned.regions)
    if (!region.rows.empty())
      winners += fmt::format("{}{} ({:.1f} us by default)", winners.empty() ? "" : "; ", region.rows[region.winner].text,
                             region.rows[0].measured.median_ns / 1e3);
  fmt::print("{:>64} {:8.3f} {:8.3f} {:8.3f}  {}\n", name + " " + std::string(toroid::name_of(dtype)), tile, other, library, winners);
  if (whole_table) fmt::print("{}\n", tune::to_string(tuned));
}

const std::vector<Case> kOnCpu = {
    Product{.m = 1024, .n = 512, .k = 1024, .b_along_k = true, .constant = false},
    Product{.m = 1000, .n = 256, .k = 1000, .a_along_m = true, .constant = false},
    Product{.m = 512, .n = 512, .k = 2048, .a_along_m = true, .constant = false},
    Product{.m = 512, .n = 512, .k = 768, .a_along_m = true, .b_along_k = true, .constant = false},
    Product{.m = 1, .n = 1024, .k = 256, .b_along_k = true, .second_k = 256},
    Product{.m = 32, .n = 1024, .k = 64, .b_along_k = true, .second_k = 64},
    Product{.m = 128, .n = 1024, .k = 32, .second_k = 32},
    Product{.m = 512, .n = 2048, .k = 64, .second_k = 64},
    Product{.m = 128, .n = 768, .k = 512, .b_along_k = true, .second_k = 512},
    Product{.m = 512, .n = 1024, .k = 16, .constant = false, .second_k = 16},
};

const std::vector<Case> kOnGpu = {
    Product{.m = 512, .n = 768, .k = 3072},
    Product{.m = 1024, .n = 2048, .k = 4096},
    Product{.m = 8, .n = 4096, .k = 4096},
    Product{.m = 16, .n = 11008, .k = 4096},
    Product{.m = 512, .n = 768, .k = 3071, .b_along_k = true},
    Product{.m = 1024, .n = 1001, .k = 2047},
    Product{.m = 1024, .n = 1023, .k = 2049, .constant = false},
    Product{.m = 1, .n = 4096, .k = 4091, .b_along_k = true},
    Product{.m = 4, .n = 50257, .k = 768},
    Product{.m = 256, .n = 8001, .k = 768},
    Product{.m = 16, .n = 2048, .k = 512, .b_along_k = true, .second_k = 512},
    Product{.m = 1, .n = 4096, .k = 1024, .b_along_k = true, .second_k = 1024},
    Product{.m = 512, .n = 4096, .k = 256, .b_along_k = true, .second_k = 256},
    Product{.m = 4096, .n = 4096, .k = 64, .b_along_k = true, .second_k = 64},
    Product{.m = 2048, .n = 4096, .k = 1024, .b_along_k = true, .second_k = 1024},
    Image{.n = 1, .in = 3, .out = 64, .size = 224, .kernel = 7, .stride = 2, .channels_last = false},
    Image{.n = 8, .in = 3, .out = 64, .size = 224, .kernel = 7, .stride = 2, .channels_last = false},
    Image{.n = 8, .in = 3, .out = 32, .size = 112, .kernel = 3, .stride = 1},
    Image{.n = 8, .in = 48, .out = 96, .size = 56, .kernel = 3, .stride = 1},
    Image{.n = 8, .in = 96, .out = 128, .size = 28, .kernel = 3, .stride = 1},
    Image{.n = 8, .in = 60, .out = 120, .size = 28, .kernel = 3, .stride = 1},
    Image{.n = 8, .in = 100, .out = 200, .size = 28, .kernel = 1, .stride = 1},
    Selection{.rows = 1, .length = 2048, .count = 8},
    Selection{.rows = 1, .length = 8192, .count = 50},
    Selection{.rows = 1, .length = 32000, .count = 50},
    Selection{.rows = 1, .length = 128256, .count = 50},
    Selection{.rows = 1, .length = 128256, .count = 1000},
    Selection{.rows = 16, .length = 128256, .count = 50},
    Selection{.rows = 64, .length = 128256, .count = 50},
    Selection{.rows = 256, .length = 128256, .count = 50},
    Selection{.rows = 64, .length = 4096, .count = 50},
};

}  // namespace

// bench_candidates [cuda] [table] [numbers of cases; else all]
int main(int argc, char** argv) {
  try {
    const auto given = [&](const char* word) {
      return std::any_of(argv + 1, argv + argc, [&](char* a) { return std::strcmp(a, word) == 0; });
    };
    const bool cuda = given("cuda");
    set_option("tune_database", "none");
    set_option("tune_region_ms", "4000");
    set_option("tune_whole_ms", "0");
    const auto& cases = cuda ? kOnGpu : kOnCpu;
    std::vector<size_t> numbers;
    for (int i = 1; i < argc; ++i)
      if (std::isdigit(static_cast<unsigned char>(argv[i][0]))) numbers.push_back(std::stoul(argv[i]));
    for (size_t i = 0; numbers.empty() && i < cases.size(); ++i) numbers.push_back(i);
    fmt::print("times by the default's:\n{:>64} {:>8} {:>8} {:>8}  winner\n", "m x n x k", "tiles", "others", "library");
    for (size_t i : numbers) report(cases.at(i), cuda ? DType::BF16 : DType::F32, cuda ? Device::cuda() : Device::cpu(), given("table"));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_candidates: {}\n", e.what());
    return 1;
  }
}
