#include "dist/named_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "dist/agree.h"

namespace toroid::distributed {

void NamedGroups::add_world(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  add("world", ranks);
}

Group& NamedGroups::world() { return *groups_.find("world")->second; }

Group& NamedGroups::group(std::string_view name) {
  const auto it = groups_.find(name);
  if (it != groups_.end() && it->second) return *it->second;
  if (it != groups_.end()) fail<UserError>("rank {} is no member of the group \"{}\"", rank_, name);
  std::vector<std::string_view> names;
  for (auto& [known, group] : groups_) names.push_back(known);
  fail<UserError>("there is no group \"{}\"{}; distributed::new_group makes one", name, did_you_mean(name, names));
}

void NamedGroups::new_group(const std::string& name, const std::vector<int>& members) {
  agree(world(), "the name of a new group", name);
  agree(world(), fmt::format("the group \"{}\"", name), fmt::format("{}", fmt::join(members, ", ")));
  TOROID_USER_CHECK(!groups_.count(name), "there is a group \"{}\" already", name);
  std::vector<bool> seen(static_cast<size_t>(world().size()));
  TOROID_USER_CHECK(!members.empty(), "the group \"{}\" has no members", name);
  for (int r : members) {
    TOROID_USER_CHECK(r >= 0 && r < world().size(), "group \"{}\": there is no rank {}, the world has {}", name, r, world().size());
    TOROID_USER_CHECK(!seen[static_cast<size_t>(r)], "group \"{}\": rank {} comes twice", name, r);
    seen[static_cast<size_t>(r)] = true;
  }
  add(name, members);
}

void NamedGroups::destroy_group(const std::string& name) {
  agree(world(), "the group that is destroyed", name);
  TOROID_USER_CHECK(name != "world", "the group \"world\" lasts as long as the world");
  std::vector<std::string_view> names;
  for (auto& [known, group] : groups_) names.push_back(known);
  TOROID_USER_CHECK(groups_.erase(name), "there is no group \"{}\"{}", name, did_you_mean(name, names));
  dropped(name);
}

std::vector<Group*> NamedGroups::all() const {
  std::vector<Group*> out;
  for (auto& [name, group] : groups_)
    if (group) out.push_back(group.get());
  return out;
}

void NamedGroups::add(const std::string& name, const std::vector<int>& members) {
  const auto at = std::find(members.begin(), members.end(), rank_);
  const int64_t number = made_++;
  auto own = at == members.end() ? nullptr : make(name, number, static_cast<int>(at - members.begin()), members);
  groups_[name] = std::move(own);
}

}  // namespace toroid::distributed
