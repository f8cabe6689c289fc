// In which order the choices of a region are tried, and when the search among them ends.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace toroid::tune {

// Choices of one form (configurations of a template) are listed by what its model expects of them, the most hopeful first, but what a model
// says of another form is not to be compared with that. So each form is tried in parts, from the front of its list, and goes on while the
// latest part had a choice that is not far behind the best one: once all of a part are, what stands behind them is passed over.
class Frontier {
 public:
  static constexpr double kFar = 1.15;  // times the best one's time
  static constexpr size_t kParts = 4;   // of a list
  static constexpr size_t kShort = 12;  // choices: more than kParts and up to so many are one part, as looks would cost what they save

  Frontier() = default;
  struct Entry {
    size_t candidate;  // by which next() and report() call it
    std::string form;  // empty: of none, such are tried at once
  };
  // In the order of their candidates. whole: all are tried at once.
  Frontier(const std::vector<Entry>& entries, bool whole);

  // The next to try, in order; after all that were given before have been reported.
  std::vector<size_t> next();
  // What a first look has shown: its time by that of the default; 0 where that is not known.
  void report(size_t candidate, double ratio);
  bool is_done() const;
  // No more.
  void stop();
  double best() const { return best_; }
  // Those that next() has not given.
  std::vector<size_t> passed_over() const;

 private:
  struct Form {
    std::string name;
    std::vector<size_t> candidates;
    size_t part = 1, begin = 0, end = 0;  // the latest part
    bool ended = false;
  };
  bool goes_on(const Form& f) const;

  std::vector<Form> forms_;
  std::map<size_t, double> ratios_;  // of those that were reported
  double best_ = 1;
};

}  // namespace toroid::tune
