// What users are told of a tuning (toroid/tuning.h).
#pragma once

#include <filesystem>

#include "toroid/tuning.h"
#include "tune/report/tune_report.h"

namespace toroid::tune {

TuneResult result_of(const TuneReport& report);
// To all whom a TuneFeedback names now.
void give_feedback(const TuneReport& report);
// These decisions, and what a lock file that is there already has for other devices.
void write_lock(const std::filesystem::path& path, const LockFile& decided);

}  // namespace toroid::tune
