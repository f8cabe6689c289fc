// Whatever a database has been through: what was decided fits what was measured, a second tuning measures nothing, and a lock file that was
// just written holds and gives the same program.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/files.h"
#include "tune/fake_pipeline.h"
#include "tune/report/feedback.h"
#include "tune/search/choices.h"
#include "tune/search/search.h"

namespace toroid::tune {
namespace {

class Shared : public RemoteCache {
 public:
  std::optional<std::string> get(const std::string& key) override {
    const auto at = kept_.find(key);
    return at == kept_.end() ? std::nullopt : std::optional(at->second);
  }
  bool put(const std::string& key, std::string_view value) override { return kept_[key] = value, true; }
  std::string problem() const override { return ""; }

 private:
  std::map<std::string, std::string> kept_;
};

program::Config tile(int64_t x) { return {"tiled", {{"x", x}}}; }

// A database, a server, a lock file, and what happens to them. Times depend on the choice and the seed alone.
class History {
 public:
  explicit History(uint64_t seed) : seed_(seed), random_(seed), folder_(make_temp_dir()) {
    pipeline_->ways = {tile(2), {"other", {{"x", 7}}}};  // of two forms, so that none is passed over
    pipeline_->neighbours = [](const program::Config& c) {
      const int64_t x = c.empty() ? 4 : c.at("x");
      return std::vector<program::Config>{tile(std::max<int64_t>(x - 1, 1)), tile(std::min<int64_t>(x + 1, 9))};
    };
    database_ = std::make_shared<Database>(folder_ / "tuning.sqlite");
    LockFile other;
    other.set("another device", "0123", {"mm", "default", "4567", 1});
    write_lock(lock(), other);
  }
  ~History() { std::filesystem::remove_all(folder_); }

  void step(size_t number) {
    number_ = number;
    draw();
    SCOPED_TRACE(
        fmt::format("seed {}, step {}: names \"{}\", {} backends, depth {}, fused {}, descent {}, budget {}, region {}, whole {}, "
                    "retry {}, database {}, remote {}",
                    seed_, number, options_.names, options_.backends.size(), options_.fusion_depth, options_.fusion_speedup,
                    options_.descent, options_.budget_ms, options_.region_ms, options_.whole_ms, retry_hours_, has_database_, has_remote_));
    Tuned first;
    try {
      first = tuned();
    } catch (const EnvironmentError&) {  // nothing computes a region: all choices fail
      return;
    }
    check_rows(first);
    check_winners(first);
    check_lock(first);
    check_again(first);
  }

 private:
  struct Tuned {
    TuneReport report;
    std::string program;
    int samples = 0, compared = 0;
  };

  bool one_in(uint64_t n) { return random_() % n == 0; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[random_() % all.size()];
  }
  uint64_t chance(const Hash128& key, uint64_t of) const { return Hasher().add(key).add(seed_).add(of).finish().lo; }

  // What is asked for, and what is planted, this time.
  void draw() {
    options_ = {};
    options_.workers = 1;
    options_.names = one_of<const char*>({"", "", "", "alone|ring|tiled", "^tree|x=2", "ring alone", "no such"});
    if (one_in(6)) options_.backends = one_of<std::vector<std::string>>({{}, {"template"}});
    options_.fusion_depth = one_of({1, 2, 2, 3});
    options_.fusion_speedup = one_of({1.0, 1.0, 1.1, 1.3});
    options_.descent = one_in(4);
    options_.all_tried = one_of<size_t>({0, 16});
    options_.precompile = !one_in(4);
    options_.budget_ms = one_in(10) ? 1e-6 : 0;
    options_.region_ms = one_in(10) ? 0 : 1e6;
    options_.whole_ms = one_of({0, 1000});
    retry_hours_ = one_of<int64_t>({168, 168, 0});
    has_database_ = !one_in(6), has_remote_ = one_in(3);
    if (one_in(12)) pipeline_->generators += " newer";
    fails_ = one_in(3), compile_failures_ = one_in(8) ? 2 : 0;
    const program::Program open = reduced_and_scaled(), other = reduced_and_scaled("Exp");
    program_ =
        one_of<program::Program>({one_product(), open, two_programs(open, other), two_programs(two_programs(open, one_product()), open)});
  }

  // Ten for the default.
  double ms_of(const ChoiceCaller& c) const {
    if (c.choice() == Choice{}) return 10;
    return 5 + 0.5 * static_cast<double>(chance(c.key(), 0) % 16);
  }
  bool always_fails(const ChoiceCaller& c) const { return chance(c.key(), 1) % 9 == 0; }
  bool fails_now(const ChoiceCaller& c) const { return fails_ && !(c.choice() == Choice{}) && chance(c.key(), 2 + number_) % 5 == 0; }

  Tuned tuned(const LockFile* lock = nullptr) {
    Tuned out;
    SearchOptions how = options_;
    how.clock = [&](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
      return [this, all, &out](size_t i) {
        ++out.samples;
        const ChoiceCaller& c = *all[i];
        const bool differs = always_fails(c) && chance(c.key(), 1) % 2 == 0;
        if (differs || always_fails(c) || fails_now(c) || pipeline_->failures > 0) failed_.insert(c.key());
        if (differs && !(c.choice() == Choice{})) fail<UserError>("{}: planted", kNotEquivalent);
        if (always_fails(c) || fails_now(c)) fail<EnvironmentError>("planted");
        all[i]->executable();
        return ms_of(c) * 1e6;
      };
    };
    how.whole_clock = [&](const program::Program& untuned, const program::Program& with) {
      ++out.compared;
      const Hash128 key = Hasher().add(program::region_key(untuned)).add(program::region_key(with)).finish();
      const uint64_t what = chance(key, 3) % 8;
      return what == 0 ? WholeTime{.ratio = 0, .spread = 0, .refusal = "planted"}
                       : WholeTime{.ratio = what < 4 ? 1.2 : 0.9, .spread = 0.01, .refusal = ""};
    };
    if (lock) how.check_lock = true;
    pipeline_->failures = lock ? 0 : std::exchange(compile_failures_, 0);
    Memory memory("a device", options_.descent ? "tests, by steps" : "tests",
                  {.lock = lock,
                   .database = has_database_ ? database_ : nullptr,
                   .remote = has_remote_ ? remote_ : nullptr,
                   .retry_hours = retry_hours_});
    const program::Program made = tune(program_, pipeline_->get(), how, &memory, out.report);
    out.program = program::to_string(made);
    EXPECT_EQ(pipeline_->alive, 0);
    return out;
  }

  static bool was_put_back(const RegionReport& r) { return r.source.find("put back") != std::string::npos; }

  // The winner is a row that did run, with the ratio that is told.
  void check_rows(const Tuned& t) const {
    for (auto& r : t.report.regions) {
      const LockEntry* e = t.report.decided.find("a device", r.key.hex());
      if (e) {
        EXPECT_EQ(e->winner, r.chosen) << r.source;
        EXPECT_EQ(e->kernels, r.kernels);
        EXPECT_EQ(e->ratio, std::round(r.ratio * 1000) / 1000);
      }
      if (r.chosen == "default") {
        EXPECT_EQ(r.ratio, 1) << r.source;
      }
      if (r.rows.empty() || r.source.starts_with("not tuned")) continue;
      const ChoiceRow& row = r.rows.at(r.winner);
      EXPECT_EQ(row.text, r.chosen) << r.source;
      if (was_put_back(r)) continue;
      EXPECT_FALSE(row.measured.failed) << row.text << ": " << row.measured.status;
      const bool told = r.source == "timed" && row.measured.ratio > 0;
      EXPECT_EQ(told ? row.measured.ratio : r.ratio, r.ratio) << row.text;
    }
  }

  // As fast as the best of those that may win and have not failed.
  void check_winners(const Tuned& t) const {
    if (t.report.out_of_budget || options_.region_ms == 0) return;
    const auto pipeline = pipeline_->get();
    for (auto& region : find_regions(program_, pipeline->schedule(program_), options_.fusion_depth)) {
      const auto r = std::find_if(t.report.regions.begin(), t.report.regions.end(), [&](auto& x) { return x.key == region.key; });
      ASSERT_NE(r, t.report.regions.end());
      if (r->source.starts_with("not tuned") || was_put_back(*r)) continue;
      RegionReport ignored;
      bool unsure = false;
      double best_unfused = INFINITY, best_fused = INFINITY, chosen = INFINITY;
      for (auto& c : choices_of(region, pipeline, options_, ignored)) {
        if (to_string(c->choice()) == r->chosen) chosen = ms_of(*c);
        const bool has_failed = failed_.count(c->key()) > 0;
        unsure = unsure || (has_failed && options_.fusion_speedup > 1);  // it may run by now, and ask more of others
        if (has_failed) continue;
        double& best = c->kind() == CallerKind::Fused ? best_fused : best_unfused;
        best = std::min(best, ms_of(*c));
      }
      if (unsure || std::isinf(chosen)) continue;                                 // found by steps
      const double enough = best_fused * options_.fusion_speedup / best_unfused;  // near 1: either may win
      const double least = enough < 0.98 ? best_fused : enough > 1.02 ? best_unfused : std::max(best_fused, best_unfused);
      EXPECT_LE(chosen, 1.011 * least) << r->chosen << ", " << r->source << "\n" << to_string(t.report);
    }
  }

  void check_lock(const Tuned& t) {
    write_lock(lock(), t.report.decided);
    const std::string bytes = read_file(lock());
    EXPECT_EQ(bytes.find("kernels none"), std::string::npos) << bytes;
    EXPECT_NE(bytes.find("another device"), std::string::npos);
    write_lock(lock(), t.report.decided);
    EXPECT_EQ(read_file(lock()), bytes);
    const LockFile read = LockFile::read(lock());
    EXPECT_EQ(read.text(), bytes);
    const SearchOptions asked = options_;
    for (bool as_asked : {true, false}) {  // by who tuned, and by one who knows nothing of the options
      if (!as_asked) options_.names = "", options_.backends = SearchOptions().backends, options_.descent = false, options_.budget_ms = 0;
      const Tuned locked = tuned(&read);
      EXPECT_EQ(read.drift(locked.report.now), std::vector<std::string>{}) << (as_asked ? "as asked\n" : "\n") << to_string(t.report);
      for (auto& r : locked.report.regions) EXPECT_EQ(r.drift, "");
      EXPECT_EQ(locked.program, t.program);
      EXPECT_EQ(locked.samples + locked.compared, 0);
      EXPECT_EQ(locked.report.decided.text(), t.report.decided.text());
    }
    options_ = asked;
  }

  void check_again(const Tuned& t) {
    if (!has_database_ || t.report.out_of_budget || options_.budget_ms > 0 || options_.region_ms == 0 || retry_hours_ == 0) return;
    const Tuned again = tuned();
    EXPECT_EQ(again.samples, 0) << to_string(t.report) << to_string(again.report);
    EXPECT_TRUE(again.compared == 0 || t.report.whole.find("not compared") != std::string::npos) << t.report.whole;
    EXPECT_EQ(again.program, t.program) << to_string(t.report) << to_string(again.report);
    EXPECT_EQ(again.report.decided.text(), t.report.decided.text());
  }

  std::filesystem::path lock() const { return folder_ / "tuning.lock"; }

  const uint64_t seed_;
  std::mt19937_64 random_;
  const std::filesystem::path folder_;
  const std::shared_ptr<FakePipeline> pipeline_ = std::make_shared<FakePipeline>();
  std::shared_ptr<Database> database_;
  const std::shared_ptr<RemoteCache> remote_ = std::make_shared<Shared>();
  std::set<Hash128> failed_;  // choices that did, at least once
  size_t number_ = 0;
  SearchOptions options_;
  program::Program program_;
  int64_t retry_hours_ = 168;
  bool has_database_ = true, has_remote_ = false, fails_ = false;
  int compile_failures_ = 0;
};

TEST(TuningHistory, DecisionsFitWhatWasMeasuredAndLockFilesHold) {
  constexpr uint64_t kFirst = 17, kHistories = 12;
  constexpr size_t kSteps = 12;
  // In these one candidate alone survives, or one that failed is tried again by steps.
  std::vector<uint64_t> seeds = {16, 73, 109, 246, 291, 389};
  for (uint64_t k = 0; k < kHistories; ++k) seeds.push_back(kFirst + k);
  for (uint64_t seed : seeds) {
    History history(seed);
    for (size_t k = 0; k < kSteps && !testing::Test::HasFailure(); ++k) history.step(k);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace toroid::tune
