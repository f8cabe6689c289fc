// Which host a process runs on.
#pragma once

#include <string>

namespace toroid::distributed {

// The same in all containers of a host, and another one after it has been started anew; its name where the system tells no more.
std::string host_id();

}  // namespace toroid::distributed
