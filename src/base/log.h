// Named log artifacts: what the compiler and the runtime can tell about their work, each switched on by the option `logs`.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace toroid {

enum class Artifact : uint8_t {
  Dynamic,
  Guards,
  Recompiles,
  GraphBreaks,
  Graph,
  Loops,
  Fusion,
  Kernels,
  OutputCode,
  Schedule,
  Cache,
  Perf,
  Choices,
  Captures,
};
inline constexpr int kArtifactCount = 14;

// "graph_breaks", "output_code" ...
std::string_view name_of(Artifact artifact);

// Bit i stands for artifact i. Comma-separated names or "all"; UserError for an unknown name.
uint32_t parse_artifacts(std::string_view list);

// Two relaxed loads: cheap enough to ask before building a message.
bool log_enabled(Artifact artifact);

// Hands the message (without a line end) to the sink when the artifact is on and a sink is set.
void log(Artifact artifact, std::string_view message);

// May be called from several threads at once, and must not throw.
using LogSink = std::function<void(Artifact, std::string_view)>;

// Replaces the sink and returns the former one; an empty function means silence. At start there is none, unless the environment
// variable TOROID_LOGS is set: by setting it the user asks for the stderr sink.
LogSink set_log_sink(LogSink sink);

// Writes "toroid <artifact>: <message>" lines to stderr.
LogSink stderr_log_sink();

}  // namespace toroid
