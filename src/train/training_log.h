// What a training run writes about itself: JSON lines, and a page with plots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toroid/train/trainer.h"

namespace toroid::train {

class TrainingLog {
 public:
  // Nothing is written where `folder` is empty. What earlier runs have written there stays until begin().
  explicit TrainingLog(std::string folder) : folder_(std::move(folder)) {}

  // Takes over the lines of the first `steps` steps that log.jsonl has, and drops all others: those that a run has done since its last
  // checkpoint are done again.
  void begin(int64_t steps);
  // Whether there is an evaluation of that step.
  bool has_evaluation(int64_t step) const;
  void add(const StepReport& r);
  void add(const EvaluationReport& r);
  // Writes training.html anew.
  void write_page() const;

 private:
  void append(const std::string& line);
  std::string path() const { return folder_ + "/log.jsonl"; }

  std::string folder_;
  bool begun_ = false;
  std::vector<StepReport> steps_;
  std::vector<EvaluationReport> evaluations_;
};

// Writes a small file in one step, and waits until it is on the disk. EnvironmentError where that fails.
void write_text(const std::string& path, const std::string& text);

// A line of log.jsonl, without its end. What is not finite is null.
std::string json_of(const StepReport& r);
std::string json_of(const EvaluationReport& r);

// With quotes around it.
std::string json_string(std::string_view text);

// One plot over steps.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // step, value; values that are not finite are gaps
  bool dotted = false;                            // few points, which are marked
};
struct Plot {
  std::string title;
  std::vector<Series> series;
};
// A page that needs nothing but itself: plots as SVG, each with its last value.
std::string html_page(const std::string& title, const std::vector<std::string>& lines, const std::vector<Plot>& plots);

}  // namespace toroid::train
