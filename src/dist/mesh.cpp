#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "dist/agree.h"
#include "toroid/distributed.h"

namespace toroid::distributed {

Mesh::Mesh(std::vector<int> sizes, std::vector<std::string> names) : sizes_(std::move(sizes)), names_(std::move(names)) {
  World& world = current_world();
  const int ranks = world.world().size(), own = world.world().rank();
  agree(world.world(), "the mesh", fmt::format("[{}] of {}", fmt::join(sizes_, ", "), fmt::join(names_, ", ")));
  TOROID_USER_CHECK(sizes_.size() == names_.size() && !sizes_.empty(), "a mesh of {} sizes has {} names", sizes_.size(), names_.size());
  int64_t product = 1;
  for (int s : sizes_) {
    TOROID_USER_CHECK(s >= 1 && s <= ranks, "a mesh has a dimension of {} ranks, the world has {}", s, ranks);
    product *= s;
  }
  TOROID_USER_CHECK(product == ranks, "a mesh of [{}] has {} ranks, the world has {}", fmt::join(sizes_, ", "), product, ranks);
  for (size_t i = 0; i < names_.size(); ++i)
    TOROID_USER_CHECK(std::find(names_.begin(), names_.begin() + static_cast<long>(i), names_[i]) == names_.begin() + static_cast<long>(i),
                      "a mesh has two dimensions \"{}\"", names_[i]);
  const int number = world.meshes++;
  place_.resize(sizes_.size());
  groups_.resize(sizes_.size());
  int step = 1;
  for (size_t d = sizes_.size(); d-- > 0; step *= sizes_[d]) {
    place_[d] = own / step % sizes_[d];
    for (int first = 0; first < ranks; ++first) {
      if (first / step % sizes_[d] != 0) continue;
      std::vector<int> members;
      for (int i = 0; i < sizes_[d]; ++i) members.push_back(first + i * step);
      const std::string name = fmt::format("mesh{}.{}.{}", number, names_[d], first);
      world.new_group(name, members);
      if (std::find(members.begin(), members.end(), own) != members.end()) groups_[d] = name;
    }
  }
}

size_t Mesh::find(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) {
    const std::vector<std::string_view> all(names_.begin(), names_.end());
    fail<UserError>("the mesh has no dimension \"{}\"; it has {}{}", name, fmt::join(names_, ", "), did_you_mean(name, all));
  }
  return static_cast<size_t>(it - names_.begin());
}

}  // namespace toroid::distributed
