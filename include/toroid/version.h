// The version of the library, as numbers and as text.
#pragma once

#define TOROID_VERSION_MAJOR 0
#define TOROID_VERSION_MINOR 1
#define TOROID_VERSION_PATCH 0
#define TOROID_VERSION "0.1.0"
