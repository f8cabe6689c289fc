// More looks at a verdict that could as well have been the other one.
#pragma once

#include <functional>
#include <vector>

#include "tune/measure.h"

namespace toroid::tune {

// Measures candidates 0 and `best` again, from scratch: code and memory lie elsewhere then.
using MeasureAgain = std::function<Verdict(size_t best)>;

// Where the fastest candidate is so near to what it takes to win that MeasureOptions::between may have decided, two to six more
// measurements of it beside the default count as much as the first, until their median is clear of the edge: by that it wins, or the
// default does. The deviation of one measurement is what these show, with `between` counting as three of them. A verdict for a third one
// stays, and so does one whose candidate is refused by the second or third measurement.
void recheck(Verdict& v, const MeasureAgain& again, const MeasureOptions& options);

}  // namespace toroid::tune
