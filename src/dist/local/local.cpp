// Worlds whose ranks are threads of this process.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "dist/agree.h"
#include "dist/local/meeting.h"
#include "toroid/distributed.h"

namespace toroid::distributed {
namespace {

using local::Meeting;

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, const std::string& name, int rank, std::vector<int> members)
      : Group(name, rank, std::move(members)), meeting_(std::move(meeting)) {}
  void run(const Collective& c) override { meeting_->run(rank(), c); }
  std::string history() const override { return meeting_->history(); }
  void leave(const std::string& reason) { meeting_->leave(rank(), reason); }

 private:
  const std::shared_ptr<Meeting> meeting_;
};

// What the ranks of one world share.
struct Shared {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Meeting>> meetings;

  std::shared_ptr<Meeting> meeting(const std::string& name, size_t size) {
    std::lock_guard lock(mutex);
    auto& m = meetings[name];
    if (!m) m = std::make_shared<Meeting>(name, static_cast<int>(size));
    return m;
  }
};

class LocalWorld : public World {
 public:
  LocalWorld(Shared& shared, int rank, int size) : shared_(shared), rank_(rank) {
    std::vector<int> all;
    for (int r = 0; r < size; ++r) all.push_back(r);
    add("world", all);
  }

  Group& world() override { return *groups_.at("world"); }

  Group& group(std::string_view name) override {
    const auto it = groups_.find(std::string(name));
    if (it != groups_.end() && it->second) return *it->second;
    if (it != groups_.end()) fail<UserError>("rank {} is no member of the group \"{}\"", rank_, name);
    std::vector<std::string_view> names;
    for (auto& [known, group] : groups_) names.push_back(known);
    fail<UserError>("there is no group \"{}\"{}; distributed::new_group makes one", name, did_you_mean(name, names));
  }

  void new_group(const std::string& name, const std::vector<int>& members) override {
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

  void leave(const std::string& reason) {
    for (auto& [name, group] : groups_)
      if (group) group->leave(reason);
  }

 private:
  void add(const std::string& name, const std::vector<int>& members) {
    const auto at = std::find(members.begin(), members.end(), rank_);
    auto& group = groups_[name];  // null for those that are no members
    if (at != members.end())
      group = std::make_unique<LocalGroup>(shared_.meeting(name, members.size()), name, static_cast<int>(at - members.begin()), members);
  }

  Shared& shared_;
  const int rank_;
  std::map<std::string, std::unique_ptr<LocalGroup>> groups_;
};

}  // namespace

void run_local(int ranks, const std::function<void()>& body) {
  constexpr int kMost = 1024;
  TOROID_USER_CHECK(ranks >= 1 && ranks <= kMost, "run_local: {} ranks; expected 1 to {}", ranks, kMost);
  Shared shared;
  std::mutex mutex;
  std::exception_ptr first;  // of the errors
  auto run = [&](int rank) {
    LocalWorld world(shared, rank, ranks);
    const WorldScope scope(world);
    try {
      body();
      world.leave("has ended");
    } catch (const std::exception& e) {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      world.leave(fmt::format("failed: {}", e.what()));
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      world.leave("failed: it threw what is no std::exception");
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back(run, r);
  for (auto& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

int rank() { return current_world().world().rank(); }
int size() { return current_world().world().size(); }
void new_group(const std::string& name, const std::vector<int>& members) { current_world().new_group(name, members); }

}  // namespace toroid::distributed
