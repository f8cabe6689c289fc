// Which sources this library was built of.
#pragma once

namespace toroid::compiler {

// A hash of all files under src/ and include/, the C++ compiler and what there is to build with (cmake/source_revision.cmake).
const char* source_revision();

}  // namespace toroid::compiler
