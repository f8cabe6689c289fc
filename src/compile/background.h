// Work that may be done after the call that asked for it has returned.
#pragma once

#include <functional>

namespace toroid::compiler {

// Has one thread of low priority do `work`, which throws nothing, after all that was given before. The process does not end before. Where
// no thread can be started, or the process is ending, `work` is done when this returns.
void after_return(std::function<void()> work);

// The same by another thread: for long work that makes programs faster. It looks at background_ends() now and then. False: it
// will not be done, as no thread can be started, or the process is ending.
bool beside_calls(std::function<void()> work);
// The process is ending, and waits for that thread.
bool background_ends();

// Waits for the end of all that was given before, to both.
void wait_for_background();

}  // namespace toroid::compiler
