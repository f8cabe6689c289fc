// Worlds whose ranks are threads of this process.
#include <fmt/format.h>

#include <exception>
#include <map>
#include <thread>

#include "base/check.h"
#include "dist/local/meeting.h"
#include "dist/named_groups.h"
#include "toroid/distributed.h"

namespace toroid::distributed {
namespace {

using local::Meeting;

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, const std::string& name, int rank, std::vector<int> members)
      : Group(name, rank, std::move(members)), meeting_(std::move(meeting)), mail_(local::Mailboxes::of(meeting_->mail, rank)) {}
  void run(const Collective& c) override { meeting_->run(rank(), c); }
  std::string engine() const override { return "threads"; }
  std::shared_ptr<Mail> mail() override { return mail_; }
  std::string history() const override { return meeting_->history(); }
  void leave(const std::string& reason) { meeting_->leave(rank(), reason); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const std::shared_ptr<Mail> mail_;
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

class LocalWorld : public NamedGroups {
 public:
  LocalWorld(Shared& shared, int rank, int size) : NamedGroups(rank), shared_(shared) {
    add_world(size);
    local_rank = rank;
  }

  void leave(const std::string& reason) {
    for (Group* group : all()) static_cast<LocalGroup*>(group)->leave(reason);
  }

 private:
  std::unique_ptr<Group> make(const std::string& name, int64_t, int rank_in_group, const std::vector<int>& members) override {
    return std::make_unique<LocalGroup>(shared_.meeting(name, members.size()), name, rank_in_group, members);
  }
  void dropped(const std::string& name) override {
    std::lock_guard lock(shared_.mutex);
    shared_.meetings.erase(name);
  }

  Shared& shared_;
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

}  // namespace toroid::distributed
