// Work that may be done after the call that asked for it has returned.
#pragma once

#include <functional>

namespace toroid::compiler {

// Has one thread of low priority do `work`, which throws nothing, after all that was given before. The process does not end before. Where
// no thread can be started, or the process is ending, `work` is done when this returns.
void after_return(std::function<void()> work);

// Waits for the end of all that was given before.
void wait_for_background();

}  // namespace toroid::compiler
