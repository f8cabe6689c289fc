// Sizes that differed between calls of a compiled function, kept in the cache, so that the next process compiles for any of them at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "front/variant.h"

namespace toroid::front {

// By tensor of the call and dimension: whether it differed.
using OpenSizes = std::vector<std::vector<bool>>;

// What a compiled function is known by over processes: its name, the place of its code in the program or library that has it (as that file
// is now), and the dtypes and ranks of what it is called on. Functions of one type, such as those in a std::function, differ by the last
// alone; where they share a key code is made for more sizes than one of them needs. Null where the cache of programs is off, or the file is
// not to be found.
std::optional<Hash128> sizes_key(const std::string& name, const Call& c);

// What earlier processes have seen, as far as it fits the tensors of the call; all false where the cache has nothing that can be read.
OpenSizes recall_sizes(const Hash128& key, const Call& c);
// Keeps it. Of processes that know different sizes the last one's are kept.
void remember_sizes(const Hash128& key, const OpenSizes& open);

}  // namespace toroid::front
