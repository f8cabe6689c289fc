// What tuning finds (Mode::MaxAutotune): every choice that was considered, with its time or the reason why it has none, and lock files.
//
//   std::vector<TuneResult> found;
//   TuneFeedback feedback([&](const TuneResult& r) { found.push_back(r); });
//   auto f = compile(layer, {.mode = Mode::MaxAutotune});  // options: {"tune_budget_ms", "5000"}, {"tune_backends", "template"}, ...
//   f(x);
//   write_tune_lock("layer.lock", found);                  // read by the option tune_lock: nothing is timed then
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace toroid {

// A way to compute a part of a program.
struct TunedChoice {
  std::string name;                      // for people
  std::string kind;                      // "default", "template", "library", "subgraph" or "fused"
  std::string text;                      // as lock files have it
  std::string status;                    // empty: it was timed to the end; else why not, or why no longer. "row 3": the third choice
  bool failed = false;                   // it cannot be run, or computes something else; the status begins with how that was seen
  double microseconds = 0;               // of a run: the default's median, times the ratio; 0: not known
  double ratio = 0;                      // of its time to the default's; 0: not known
  double ratio_low = 0, ratio_high = 0;  // its interval; 0: there were too few rounds for one, which the status says
  double compile_ms = 0;                 // 0: it was not compiled this time
};

struct TunedPart {
  std::string label;                 // of what it computes, for people: "mm [1024x768x768]"
  std::string key;                   // of its content and the sizes that it is timed at: the same in every process
  size_t places = 0;                 // of the program that it stands for
  std::string source;                // "timed", "database", "remote cache", "lock file", "this program", or why it is not tuned
  std::string drift;                 // what a lock file decides that is not so any more
  std::vector<TunedChoice> choices;  // the default first; none where nothing is known but the decision
  std::string chosen;                // text of the choice that was made
  double noise = 0;                  // how far the default differs from itself: 0.01 is one percent
  double flip = 0;                   // estimated probability that another tuning chooses otherwise
  double regret = 0;                 // how much slower than the fastest the choice may be; infinite: not known
};

// Of one program: the graph of a compiled function, a model, or a block of its control flow.
struct TuneResult {
  std::vector<TunedPart> parts;
  std::string whole;    // how the whole program does with what was chosen
  std::string problem;  // why results cannot be remembered; empty when they can
  bool out_of_budget = false;
  double compile_ms = 0, timing_ms = 0, total_ms = 0;
  std::string lock;  // text of a lock file with what was decided
};

// Has f called with what each tuning of this process finds, as long as this object lives: when a program's choices are made, by the thread
// that compiles it. Where several threads compile, several call f at once; no lock is held meanwhile, so that f may compile itself or wait
// for a thread that does. What f throws reaches whoever compiles. The destructor waits for calls by other threads to end.
class TuneFeedback {
 public:
  explicit TuneFeedback(std::function<void(const TuneResult&)> f);
  ~TuneFeedback();
  TuneFeedback(const TuneFeedback&) = delete;
  TuneFeedback& operator=(const TuneFeedback&) = delete;

 private:
  std::shared_ptr<const std::function<void(const TuneResult&)>> f_;
};

// Writes what was decided for these programs to a lock file. What a file of that name decides for other devices stays in it. UserError
// where that is no lock file.
void write_tune_lock(const std::string& path, const std::vector<TuneResult>& results);

}  // namespace toroid
