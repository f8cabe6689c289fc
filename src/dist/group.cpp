#include "dist/group.h"

#include <utility>

#include "base/check.h"

namespace toroid::distributed {
namespace {

thread_local World* current = nullptr;

}  // namespace

World& current_world() {
  TOROID_USER_CHECK(current, "collectives need a process group, and this thread belongs to none: run it in distributed::run_local");
  return *current;
}

bool has_world() { return current; }

WorldScope::WorldScope(World& world) : before_(std::exchange(current, &world)) {}

WorldScope::~WorldScope() { current = before_; }

}  // namespace toroid::distributed
