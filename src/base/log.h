// What code that logs needs; artifacts and sinks are in toroid/log.h.
#pragma once

#include "toroid/log.h"

namespace toroid {

inline constexpr int kArtifactCount = 14;

// Bit i stands for artifact i. Comma-separated names or "all"; UserError for an unknown name.
uint32_t parse_artifacts(std::string_view list);

// Two relaxed loads: cheap enough to ask before building a message.
bool log_enabled(Artifact artifact);

// Hands the message (without a line end) to the sink when the artifact is on and a sink is set.
void log(Artifact artifact, std::string_view message);

}  // namespace toroid
