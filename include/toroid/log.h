// Log messages: what the compiler and the runtime can tell about their work, by artifacts that the option `logs` switches on.
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

// "graph_breaks", "output_code" ...: the names that the option `logs` lists.
std::string_view name_of(Artifact artifact);

// Takes a message, without a line end, of an artifact that is on. May be called from several threads at once, and must not throw.
using LogSink = std::function<void(Artifact, std::string_view)>;

// Replaces the sink and returns the former one; an empty function means silence. At start it is stderr_log_sink(): whoever switches an
// artifact on asks for its messages.
LogSink set_log_sink(LogSink sink);

// Writes "toroid <artifact>: <message>" lines to stderr.
LogSink stderr_log_sink();

}  // namespace toroid
