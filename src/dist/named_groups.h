// The groups of one rank by name, whatever carries their messages.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dist/group.h"

namespace toroid::distributed {

class NamedGroups : public World {
 public:
  Group& world() override;
  Group& group(std::string_view name) override;
  void new_group(const std::string& name, const std::vector<int>& members) override;
  void destroy_group(const std::string& name) override;

 protected:
  explicit NamedGroups(int rank) : rank_(rank) {}
  // Those who derive from it call this when they are constructed, before anything else.
  void add_world(int size);
  // This rank's end of a group. number: of the group, the same on all ranks, and never that of another group of the world.
  virtual std::unique_ptr<Group> make(const std::string& name, int64_t number, int rank_in_group, const std::vector<int>& members) = 0;
  virtual void dropped(const std::string& /*name*/) {}
  // This rank's ends of all groups.
  std::vector<Group*> all() const;

 private:
  void add(const std::string& name, const std::vector<int>& members);

  const int rank_;
  int64_t made_ = 0;
  std::map<std::string, std::unique_ptr<Group>, std::less<>> groups_;  // null where this rank is no member
};

}  // namespace toroid::distributed
