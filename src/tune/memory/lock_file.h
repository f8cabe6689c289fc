// A text file of what was decided, shipped with a source: builds are the same everywhere, also where there is no such device to time on.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::tune {

// How the label of a decision ends that was not timed, as the budget did not reach it: the default.
inline constexpr std::string_view kNotTimed = " (not timed)";

// What is decided for one problem on one device.
struct LockEntry {
  std::string label;    // of the problem, for people: "mm_3+add_2 bf16[1024, 4096]"
  std::string winner;   // text of a candidate
  std::string kernels;  // hash of the winner's kernel texts
  double ratio = 1;     // of its time to the default's; kept to three digits
  bool is_untimed() const { return label.ends_with(kNotTimed); }
  bool operator==(const LockEntry&) const = default;
};

// By device, then problem. The text is sorted and holds neither dates nor paths, so that equal decisions give equal bytes:
//
//   toroid tuning lock 1
//   device "NVIDIA H200"
//   problem 0a1b... "mm_3+add_2"
//     winner "gemm_wgmma(block_m=128)"
//     kernels 77fe... ratio 0.912
class LockFile {
 public:
  // UserError with file name and line number for what is wrong.
  static LockFile parse(std::string_view text, const std::string& name = "lock file");
  static LockFile read(const std::filesystem::path& path);
  std::string text() const;
  // In one step; EnvironmentError where that cannot be. Leaves a file that has these bytes already as it is.
  void write(const std::filesystem::path& path) const;

  // The last one set for a problem counts. UserError for strings with line ends.
  void set(const std::string& device, const std::string& problem, LockEntry entry);
  const LockEntry* find(const std::string& device, const std::string& problem) const;
  size_t size() const;
  size_t untimed() const;  // of them
  // What another one decides, too.
  void add(const LockFile& other);
  // Forgets what is decided for a device.
  void erase(const std::string& device);
  // That it decides for.
  std::vector<std::string> devices() const;

  // What a build has for a problem now: the kernels of the winner that is named, or nothing where it has no such candidate.
  struct Now {
    std::string device, problem;
    std::vector<std::string> candidates;
    std::string kernels;     // of the winner that the file names; empty where that is not among the candidates
    std::string label = {};  // of the problem, for people
  };
  // What the file decides and the build does not have, what the build has and the file does not decide, and winners whose kernels are
  // others by now; each with its label, for people. Empty: no drift. Only devices that occur in `now` are looked at.
  std::vector<std::string> drift(const std::vector<Now>& now) const;

 private:
  std::map<std::string, std::map<std::string, LockEntry>> entries_;
};

}  // namespace toroid::tune
