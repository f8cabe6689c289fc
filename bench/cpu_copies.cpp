// Copies and sums across memory on a CPU, one thread: what loops whose loads and stores run along different variables reach.
//   bench_cpu_copies [NAME...]     one line a loop: microseconds, GB/s read and written, the instruction set, the plan
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "codegen/cpu/kernel.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/isa.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/jit.h"

using namespace toroid;

namespace {

struct Row {
  std::string name, loop;
  std::vector<DType> buffers;
  int64_t numel;
};

// Of [rows, columns] to [columns, rows], or back, by loops in the order of what is read, or of what is written.
std::vector<Row> rows() {
  std::vector<Row> out;
  for (auto [n, m] : {std::pair<int64_t, int64_t>{64, 3136},
                      {3136, 64},
                      {3, 50176},
                      {24, 3136},
                      {128, 784},
                      {2048, 49},
                      {197, 768},
                      {1000, 1000},
                      {1024, 1024}}) {
    const auto add = [&, n = n, m = m](const char* what, DType t, const std::string& body, size_t buffers) {
      out.push_back({fmt::format("{} {}x{} {}", what, n, m, name_of(t)), fmt::format("loop (i0: {}, i1: {}) {{\n{}}}", n, m, body),
                     std::vector<DType>(buffers, t), n * m});
    };
    const std::string along = fmt::format("[{}*i0 + i1]", m), across = fmt::format("[i0 + {}*i1]", n);
    for (DType t : {DType::F32, DType::BF16, DType::I64, DType::Bool}) {
      const auto copy = [&](const std::string& from, const std::string& to) {
        return fmt::format(" v0: {} = load %0 {}\n store %1 {} v0\n", name_of(t), from, to);
      };
      add("by reads", t, copy(along, across), 2);
      add("by writes", t, copy(across, along), 2);
    }
    const auto sum = [&](const std::string& second, const std::string& also) {
      return fmt::format(" v0: f32 = load %0 {0}\n v1: f32 = load %1 {1}\n v2: f32 = Add v0 v1\n store %2 {2} v2\n{3}", along, second,
                         across, also);
    };
    add("sum of two", DType::F32, sum(along, ""), 3);
    add("sum beside", DType::F32, sum(across, ""), 3);
    add("stored twice", DType::F32, sum(along, fmt::format(" store %3 {} v2\n", along)), 4);
  }
  return out;
}

void run(const Row& row, device::Isa isa, jit::KernelCompiler& compiler) {
  constexpr double kMs = 15;
  constexpr int kLeastRuns = 20;
  constexpr uintptr_t kLine = 64;
  const loop::Nest nest = loop::parse(row.loop);
  std::vector<loop::Buffer> buffers;
  std::vector<std::vector<std::byte>> memory;
  double bytes = 0;
  for (size_t i = 0; i < row.buffers.size(); ++i) {
    const size_t size = static_cast<size_t>(row.numel) * size_of(row.buffers[i]);
    buffers.push_back({static_cast<int>(i), "b", row.buffers[i], row.numel, loop::BufferKind::Temporary});
    memory.emplace_back(size + kLine);
    bytes += static_cast<double>(size);
  }
  const codegen::KernelText text = codegen::generate_loop(nest.domain, nest.body, buffers, isa);
  jit::CompileRequest request;
  request.source = text.source;
  request.isa = std::string(device::name_of(isa));
  const auto code = device::LoadedCode::load(compiler.compile(request).object, device::runtime_symbols());
  auto* kernel = code->function<void(void* const*, const int64_t*, int64_t, int64_t, int)>(text.name);
  std::vector<void*> addresses;
  for (int id : text.buffers)
    addresses.push_back(
        reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory[static_cast<size_t>(id)].data()) + kLine - 1) / kLine * kLine));
  addresses.push_back(nullptr);  // no scratch memory
  const int64_t none = 0, tasks = text.tasks.constant();
  double best = 1e9;
  const Stopwatch all;
  for (int runs = 0; runs < kLeastRuns || all.ms() < kMs; ++runs) {
    const Stopwatch watch;
    kernel(addresses.data(), &none, 0, tasks, 0);
    best = std::min(best, watch.ms());
  }
  fmt::print("{:<26} {:>9.1f} us {:>6.1f} GB/s  {:<7} {}\n", row.name, 1e3 * best, bytes / 1e6 / best, device::name_of(isa),
             text.plan.substr(0, text.plan.find('\n')));
}

}  // namespace

int main(int argc, char** argv) {
  jit::KernelCompiler compiler(nullptr);
  for (const Row& row : rows()) {
    const bool wanted =
        argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* word) { return row.name.find(word) != row.name.npos; });
    for (device::Isa isa : {device::Isa::Avx512, device::Isa::Avx2})
      if (wanted && isa <= device::host().isa) run(row, isa, compiler);
  }
}
