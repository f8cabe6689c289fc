#include "device/cuda/architecture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/text.h"

namespace toroid::device::cuda {
namespace {

// From NVIDIA's tables of compute capabilities (CUDA C++ Programming Guide) and the data sheets of the chips.
struct Row {
  std::string_view code;
  int multiprocessors;
  size_t l2_mib, shared_kib;  // shared: of a block
};
constexpr Row kRows[] = {
    {"sm_80", 108, 40, 163},     // A100
    {"sm_86", 84, 6, 99},        // A40
    {"sm_89", 142, 96, 99},      // L40S
    {"sm_90a", 132, 50, 227},    // H100, H200
    {"sm_100a", 148, 126, 227},  // B200
    {"sm_120a", 188, 128, 99},   // RTX PRO 6000
    {"compute_80", 108, 6, 99},
};

constexpr std::string_view kMachine = "sm_", kPtx = "compute_", kMultiprocessors = " multiprocessors";

// 90 of "sm_90a"; -1 for no such text.
int capability(std::string_view code) {
  const std::string_view digits = code.substr(std::min(code.find('_') + 1, code.size()));
  int out = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

}  // namespace

bool is_gpu_code(std::string_view code_for) { return code_for.starts_with(kMachine) || is_ptx(code_for); }
bool is_ptx(std::string_view code_for) { return code_for.starts_with(kPtx); }

std::vector<std::string_view> known_gpu_codes() {
  std::vector<std::string_view> out;
  for (auto& row : kRows) out.push_back(row.code);
  return out;
}

GpuInfo typical_gpu(const std::string& code_for) {
  for (auto& row : kRows) {
    if (row.code != code_for) continue;
    GpuInfo out;
    out.architecture = code_for, out.multiprocessors = row.multiprocessors;
    out.l2_bytes = row.l2_mib << 20, out.shared_bytes = row.shared_kib << 10;
    return out;
  }
  const auto known = known_gpu_codes();
  fail<UserError>("\"{}\" is no GPU that programs are made for; there are {}{}", code_for, fmt::join(known, ", "),
                  did_you_mean(code_for, known));
}

bool runs(std::string_view code_for, const GpuInfo& gpu) {
  if (is_ptx(code_for)) return capability(code_for) >= 0 && capability(code_for) <= capability(gpu.architecture);
  return code_for == gpu.architecture;
}

std::string tuning_key(const GpuInfo& gpu) {
  return fmt::format("{}, {}, {}{}", gpu.name, gpu.architecture, gpu.multiprocessors, kMultiprocessors);
}

std::optional<GpuInfo> gpu_of_tuning_key(std::string_view key) {
  constexpr std::string_view kBetween = ", ";
  const size_t second = key.rfind(kBetween), first = second == key.npos || second == 0 ? key.npos : key.rfind(kBetween, second - 1);
  if (first == key.npos) return std::nullopt;
  const std::string_view code = key.substr(first + kBetween.size(), second - first - kBetween.size());
  const auto known = known_gpu_codes();
  if (std::find(known.begin(), known.end(), code) == known.end()) return std::nullopt;
  GpuInfo out = typical_gpu(std::string(code));
  out.name = key.substr(0, first);
  const std::string_view count = key.substr(second + kBetween.size());
  std::from_chars(count.data(), count.data() + count.size(), out.multiprocessors);
  return tuning_key(out) == key ? std::optional(out) : std::nullopt;
}

}  // namespace toroid::device::cuda
