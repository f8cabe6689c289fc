#include "dist/group.h"

#include <atomic>
#include <utility>

#include "base/check.h"
#include "toroid/distributed.h"

namespace toroid::distributed {
namespace {

thread_local World* current = nullptr;
std::atomic<World*> shared_world{nullptr};

World* find_world() { return current ? current : shared_world.load(); }

}  // namespace

World& current_world() {
  World* const world = find_world();
  TOROID_USER_CHECK(world,
                    "collectives need a process group, and this thread belongs to none: call distributed::init in each process, or run it "
                    "in distributed::run_local");
  return *world;
}

bool has_world() { return find_world(); }

void set_process_world(World* world) { shared_world = world; }

WorldScope::WorldScope(World& world) : before_(std::exchange(current, &world)) {}

WorldScope::~WorldScope() { current = before_; }

int rank() { return current_world().world().rank(); }
int size() { return current_world().world().size(); }
int local_rank() { return current_world().local_rank; }
void new_group(const std::string& name, const std::vector<int>& members) { current_world().new_group(name, members); }
void destroy_group(const std::string& name) { current_world().destroy_group(name); }

}  // namespace toroid::distributed
