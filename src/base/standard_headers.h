// The headers of the standard library and of fmt that most files include, parsed once a build (precompiled). A file includes what it uses
// all the same: builds without precompiled headers (TOROID_PCH=OFF) see to that.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>
