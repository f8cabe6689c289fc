// More measurements for a verdict that could as well have been the other one.
#pragma once

#include <functional>
#include <vector>

#include "tune/measure/measure.h"

namespace toroid::tune {

// Measures candidates 0 and `best` again, from scratch: code and memory lie elsewhere then.
using MeasureAgain = std::function<Verdict(size_t best)>;

// Unless the fastest candidate is a tenth faster or slower than what it takes to win, it is measured beside the default once to six times
// more, until the median of all is clear of where the decision turns: by that it wins, or the default does. The deviation of one
// measurement is what these show, with MeasureOptions::between counting as three of them. A verdict for a third one stays, and so does one
// whose candidate is refused by the second measurement.
void recheck(Verdict& v, const MeasureAgain& again, const MeasureOptions& options);

}  // namespace toroid::tune
