// Work that is given up where it takes too long, though nothing can stop it: a compiler's.
#pragma once

#include <cstddef>
#include <functional>

namespace toroid::tune {

// Does the work on a thread of its own and waits for it, at most so long; what it throws is thrown here. False: it was not done in time.
// Then it goes on with nobody waiting, and is destroyed where it ends; so it must own all that it uses, and what it makes must be its own
// until this has returned true. The process ends after such work, as what it uses of libraries would be destroyed under it; that holds for
// libraries that were in use when the work was given up, not for those that it opens later.
bool run_within(double most_ms, std::function<void()> work);

// How much of what was given up is still going on.
size_t late_works();

}  // namespace toroid::tune
