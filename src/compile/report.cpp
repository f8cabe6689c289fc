#include "compile/report.h"

#include <fmt/format.h>

#include "base/json_text.h"

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

namespace {

// An array of what make(item) gives of each.
template <class List, class F>
std::string array(const List& list, F&& make) {
  std::string out;
  for (auto& item : list) out += (out.empty() ? "" : ",") + make(item);
  return "[" + out + "]";
}

}  // namespace

std::string json_members(const CompileReport& r) {
  const auto pass = [](const PassTiming& p) {
    return fmt::format("\n  {{\"name\":{},\"ms\":{:.4f},\"changed\":{}}}", json_string(p.name), p.milliseconds, p.changed);
  };
  const auto& fusion = r.schedule.fusion;
  std::vector<PassTiming> passes = r.passes.passes;
  passes.insert(passes.end(), r.schedule.passes.passes.begin(), r.schedule.passes.passes.end());
  std::string out = fmt::format("\"passes\":{}", array(passes, pass));
  out += fmt::format(",\n \"stages\":{}",
                     array(r.stages, [](auto& s) { return fmt::format("{{\"stage\":{},\"ms\":{:.3f}}}", json_string(s.stage), s.ms); }));
  out += fmt::format(",\n \"compile_ms\":{:.3f},\n \"compiler_ms\":{:.3f}", r.total_ms, r.compiler_ms);
  out += fmt::format(",\n \"graph_nodes\":{},\n \"kernels_unfused\":{},\n \"kernels\":{},\n \"host_calls\":{},\n \"kernels_compiled\":{}",
                     r.graph_nodes, r.kernels_unfused, r.kernels, r.host_calls, r.kernels_compiled);
  out += fmt::format(",\n \"memory\":{{\"temporaries\":{},\"fullest\":{},\"outputs\":{}}}", r.memory.temporaries,
                     json_string(r.memory.fullest), r.memory.outputs);
  out += fmt::format(",\n \"layers\":{},\n \"partition\":{}", json_string(r.layers), json_string(r.partition));
  out += fmt::format(",\n \"chosen\":{}", array(r.schedule.choices, [](auto& line) { return json_string(line); }));
  out += fmt::format(",\n \"not_fused\":{}", array(fusion.misses, [](auto& m) {
                       return fmt::format("\n  {{\"first\":{},\"second\":{},\"reason\":{}}}", json_string(m.first), json_string(m.second),
                                          json_string(m.reason));
                     }));
  out += fmt::format(",\n \"not_split\":{}", array(fusion.unsplit, [](auto& u) {
                       return fmt::format("{{\"node\":{},\"reason\":{}}}", json_string(u.node), json_string(u.reason));
                     }));
  return out;
}

}  // namespace toroid::compiler
