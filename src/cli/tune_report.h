// What `toroid tune` and `toroid why --choice` say of a tuning.
#pragma once

#include <string>

#include "tune/measure/measure.h"
#include "tune/report/feedback.h"

namespace toroid::cli {

// UserError where no part's name has this in it, with the names that there are.
void expect_part(const tune::TuneReport& report, const std::string& part, const std::string& model);

// All that was found, as one JSON object. compared: the model untuned, tuned, and untuned again, in turns; null where that was not done.
std::string tune_json(const std::string& model, const TuneResult& found, const tune::Verdict* compared);

}  // namespace toroid::cli
