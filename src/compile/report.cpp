#include "compile/report.h"

#include <fmt/format.h>

namespace toroid::compiler {

std::string time_text(const CompileReport& r) {
  std::string out;
  for (auto& [stage, ms] : r.stages) out += fmt::format("{} {:.1f}{}, ", stage, ms, out.empty() ? " ms" : "");
  out += fmt::format("all {:.1f}; {} kernels compiled, {:.1f} ms by one thread", r.total_ms, r.kernels_compiled, r.compiler_ms);
  if (!r.packing.valid()) return out;
  const double ms = r.packing.get();
  out += fmt::format("; weights {:.1f} ms in the background", ms);
  if (r.uploaded_bytes)
    out += fmt::format(" ({:.2f} GB to the GPU, {:.1f} GB/s)", static_cast<double>(r.uploaded_bytes) / 1e9,
                       static_cast<double>(r.uploaded_bytes) / ms / 1e6);
  return out;
}

}  // namespace toroid::compiler
