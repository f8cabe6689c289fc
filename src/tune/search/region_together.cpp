// Regions in which the ranks of a group meet: what is listed, what is known and what is timed are the same on all of them, or all get the
// same error.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/check.h"
#include "dist/agree.h"
#include "tune/check/together.h"
#include "tune/search/region_search.h"

namespace toroid::tune {
namespace {

using State = Candidate::State;

constexpr double kBudgetMs = 5;  // of timing; sizes that no candidate can be compared at within it keep the default

}  // namespace

void RegionSearch::agree_on_choices() const {
  distributed::agree(*group_, "the choices of " + region_.label, fmt::format("{}: {}", problem_, fmt::join(texts(), "; ")));
}

// Where some rank knows no decision, or another one, all time all candidates, whatever is known of some. A lock file forbids that.
void RegionSearch::agree_on_known(size_t listed) {
  const bool locked = shared_.memory && shared_.memory->locked();
  const std::string own = decided_ ? to_string(choice_) + ", kernels " + report_.kernels : "none";
  const std::string thing = "the decision for " + region_.label;
  const auto all = distributed::all_gather_object(*group_, own + (locked ? " by a lock file" : ""), thing);
  const bool same = std::all_of(all.begin(), all.end(), [&](auto& other) { return other == all[0]; });
  if (same && decided_) return;
  const auto is_locked = [](const std::string& text) { return text.ends_with(" by a lock file"); };
  if (std::any_of(all.begin(), all.end(), is_locked)) distributed::agree(*group_, thing, all[static_cast<size_t>(group_->rank())]);
  event("the ranks know different decisions: all time all choices");
  candidates_.erase(candidates_.begin() + static_cast<long>(listed), candidates_.end());
  for (Candidate& c : candidates_) c.state = State::Open, c.before = {}, c.now.reset();
  decided_ = false;
  choice_ = {};
  const RegionReport before = std::exchange(report_, {});
  report_.label = before.label, report_.key = before.key;
  report_.originals = before.originals, report_.fused = before.fused, report_.unwanted = before.unwanted, report_.untried = before.untried;
}

bool RegionSearch::follow(const std::string& choice) {
  if (choice == to_string(choice_)) return true;
  const auto at = find(candidates_, choice);
  if (!at) return false;
  choice_ = candidates_[*at].caller->choice();
  report_.source += "; by the choice of rank 0";
  report_.winner = *at;
  report_.kernels = candidates_[*at].caller->name_kernels();
  report_.ratio = *at < report_.rows.size() && report_.rows[*at].measured.ratio > 0 ? report_.rows[*at].measured.ratio : 1;
  note();
  return true;
}

void follow_first(distributed::Group& group, const std::vector<RegionSearch*>& order) {
  std::string own;  // a line each
  for (RegionSearch* s : order)
    if (!s->group()) own += s->region().key.hex() + " " + to_string(s->choice()) + "\n";
  const std::string first = distributed::all_gather_object(group, own, "the choices of regions without collectives")[0];
  std::map<std::string, std::string> wanted;
  std::istringstream lines(first);
  for (std::string line; std::getline(lines, line);)
    if (const size_t space = line.find(' '); space != line.npos) wanted.emplace(line.substr(0, space), line.substr(space + 1));
  std::string problem;
  for (RegionSearch* s : order)
    if (const auto at = wanted.find(s->region().key.hex()); !s->group() && at != wanted.end() && !s->follow(at->second))
      problem = fmt::format("it has no choice \"{}\" for {}, which rank 0 has made", at->second, s->region().label);
  const auto all = distributed::all_gather_object(group, problem, "the choices of regions without collectives");
  for (size_t r = 0; r < all.size(); ++r)
    TOROID_USER_CHECK(all[r].empty(), "group \"{}\": the ranks cannot compute alike: rank {}: {}", group.name(), r, all[r]);
}

// Every number that the verdict is made of is one of all ranks.
void RegionSearch::decide_together() {
  for (size_t i : in_state(candidates_, State::Tried)) candidates_[i].state = State::Near;
  set_aside();
  const std::vector<size_t> timed = in_state(candidates_, State::Timed);
  const Together together = time_together(callers_at(timed), region_, shared_.pipeline->device(), *group_, options_.equivalence);
  MeasureOptions how = measure_options(kBudgetMs);
  how.name = [&](size_t i) { return row_name(timed[i]); };
  take(measure(timed.size(), together.sample, how, together.clock), [] { return 0.0; });
  report_.source += fmt::format(" on {} ranks", group_->size());
  distributed::agree(*group_, "the decision for " + region_.label, to_string(choice_));
}

}  // namespace toroid::tune
