#include "base/log.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/options.h"
#include "base/text.h"

namespace toroid {
namespace {

constexpr std::string_view kNames[kArtifactCount] = {"dynamic", "guards", "recompiles", "graph_breaks", "graph",
                                                     "loops",   "fusion", "kernels",    "output_code",  "schedule",
                                                     "cache",   "perf",   "choices",    "captures"};

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> function = std::make_shared<const LogSink>(stderr_log_sink());
};

Sink& sink() {
  static Sink* const sink = new Sink;
  return *sink;
}

// The parsed option `logs` (low half) of an options version (high half, cut to 32 bits), so that one load reads both.
std::atomic<uint64_t> parsed{0};

uint32_t enabled_mask() {
  const uint64_t version = options_version() & 0xffffffffu;
  const uint64_t known = parsed.load(std::memory_order_relaxed);
  if (known >> 32 == version) return static_cast<uint32_t>(known);
  const uint32_t mask = parse_artifacts(get_option(options::kLogs));
  parsed.store(version << 32 | mask, std::memory_order_relaxed);
  return mask;
}

}  // namespace

std::string_view name_of(Artifact artifact) { return kNames[static_cast<int>(artifact)]; }

uint32_t parse_artifacts(std::string_view list) {
  uint32_t mask = 0;
  for (std::string_view name : split_list(list)) {
    if (name == "all") {
      mask |= (1u << kArtifactCount) - 1;
      continue;
    }
    int at = 0;
    while (at < kArtifactCount && kNames[at] != name) ++at;
    if (at == kArtifactCount)
      fail<UserError>("logs: there is no artifact \"{}\"{} (known: {}, all)", name, did_you_mean(name, kNames), fmt::join(kNames, ", "));
    mask |= 1u << at;
  }
  return mask;
}

bool log_enabled(Artifact artifact) { return enabled_mask() >> static_cast<int>(artifact) & 1u; }

void log(Artifact artifact, std::string_view message) {
  if (!log_enabled(artifact)) return;
  std::shared_ptr<const LogSink> function;
  {
    std::lock_guard lock(sink().mutex);
    function = sink().function;
  }
  if (*function) (*function)(artifact, message);
}

LogSink set_log_sink(LogSink next) {
  auto held = std::make_shared<const LogSink>(std::move(next));
  std::lock_guard lock(sink().mutex);
  return *std::exchange(sink().function, std::move(held));
}

LogSink stderr_log_sink() {
  return [](Artifact artifact, std::string_view message) {
    // One write a message, so that messages of several threads do not mix.
    const std::string line = fmt::format("toroid {}: {}\n", name_of(artifact), message);
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
}

}  // namespace toroid
