#include "tune/memory/lock_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/files.h"

namespace toroid::tune {
namespace {

constexpr std::string_view kFirstLine = "toroid tuning lock 1";

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c != '"' && c != '\\'; });
}

// What another file has in a line may be no text.
std::string printable(std::string text) {
  constexpr size_t kMost = 300;
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~' ? '?' : c;
  return text.size() > kMost ? text.substr(0, kMost) + " ..." : text;
}

// The words of one line.
class Line {
 public:
  Line(std::string_view text, const std::string& file, int number) : rest_(text), file_(file), number_(number) { skip(); }

  template <class... A>
  [[noreturn]] void wrong(fmt::format_string<A...> f, A&&... a) const {
    fail<UserError>("{}, line {}: {}", file_, number_, printable(fmt::format(f, std::forward<A>(a)...)));
  }
  bool empty() const { return rest_.empty(); }
  std::string word(const char* what) {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string out(rest_.substr(0, end));
    if (!is_word(out)) wrong("expected {}, found \"{}\"", what, out);
    rest_.remove_prefix(end);
    skip();
    return out;
  }
  std::string quoted_text(const char* what) {
    if (!rest_.starts_with('"')) wrong("expected {} in quotes, found \"{}\"", what, rest_);
    std::string out;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        skip();
        return out;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      out += rest_[i];
    }
    wrong("the quotes of {} do not end", what);
  }
  double number(const char* what) {
    const std::string text = word(what);
    double v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size() || !(v >= 0)) wrong("expected {}, found \"{}\"", what, text);
    return v;
  }
  void expect(const char* keyword) {
    if (const std::string w = word(keyword); w != keyword) wrong("expected {}, found \"{}\"", keyword, w);
  }
  void end() const {
    if (!rest_.empty()) wrong("\"{}\" is too much", rest_);
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \r"), rest_.size())); }
  std::string_view rest_;
  const std::string& file_;
  int number_;
};

}  // namespace

LockFile LockFile::parse(std::string_view text, const std::string& name) {
  LockFile out;
  std::string device, problem;
  LockEntry entry;
  enum { Head, Any, Winner, Kernels } expected = Head;  // the next line
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    Line line(row, name, ++number);
    if (line.empty()) continue;
    if (expected == Head) {
      if (row != kFirstLine) line.wrong("expected \"{}\", found \"{}\": another format, or no such file", kFirstLine, row);
      expected = Any;
      continue;
    } else if (expected == Winner) {
      line.expect("winner");
      entry.winner = line.quoted_text("the winner");
      expected = Kernels;
    } else if (expected == Kernels) {
      line.expect("kernels");
      entry.kernels = line.word("the hash of the kernels");
      line.expect("ratio");
      entry.ratio = line.number("a ratio");
      if (out.find(device, problem)) line.wrong("problem {} was decided before for this device", problem);
      out.set(device, problem, entry);
      expected = Any;
    } else if (const std::string keyword = line.word("device or problem"); keyword == "device") {
      device = line.quoted_text("the device");
      if (device.empty()) line.wrong("a device has a name");
    } else if (keyword == "problem") {
      if (device.empty()) line.wrong("a problem before the first device");
      problem = line.word("the problem's key");
      entry = {line.quoted_text("the label"), {}, {}, 1};
      expected = Winner;
    } else {
      line.wrong("expected device or problem, found \"{}\"", keyword);
    }
    line.end();
  }
  if (expected != Any) fail<UserError>("{}, line {}: the file ends too early", name, number);
  return out;
}

LockFile LockFile::read(const std::filesystem::path& path) { return parse(read_file(path), path.string()); }

std::string LockFile::text() const {
  std::string out(kFirstLine);
  for (auto& [device, problems] : entries_) {
    out += fmt::format("\ndevice {}", in_quotes(device));
    for (auto& [problem, e] : problems)
      out += fmt::format("\nproblem {} {}\n  winner {}\n  kernels {} ratio {:.3f}", problem, in_quotes(e.label), in_quotes(e.winner),
                         e.kernels, e.ratio);
  }
  return out + "\n";
}

void LockFile::write(const std::filesystem::path& path) const {
  const std::string bytes = text();
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) && read_file(path) == bytes) return;
  write_file_atomic(path, bytes);
}

void LockFile::set(const std::string& device, const std::string& problem, LockEntry entry) {
  for (const std::string* t : std::initializer_list<const std::string*>{&device, &entry.label, &entry.winner})
    TOROID_USER_CHECK(t->find_first_of("\n\r") == std::string::npos, "a lock file holds no line ends, as in \"{}\"", *t);
  if (entry.kernels.empty()) entry.kernels = "none";
  TOROID_USER_CHECK(!device.empty() && is_word(problem) && is_word(entry.kernels),
                    "\"{}\" and \"{}\" must be words for a lock file, and a device has a name", problem, entry.kernels);
  entry.ratio = std::round(entry.ratio * 1000) / 1000;
  entries_[device][problem] = std::move(entry);
}

const LockEntry* LockFile::find(const std::string& device, const std::string& problem) const {
  const auto of = entries_.find(device);
  if (of == entries_.end()) return nullptr;
  const auto e = of->second.find(problem);
  return e == of->second.end() ? nullptr : &e->second;
}

void LockFile::add(const LockFile& other) {
  for (auto& [device, problems] : other.entries_)
    for (auto& [problem, entry] : problems) entries_[device][problem] = entry;
}

void LockFile::erase(const std::string& device) { entries_.erase(device); }

std::vector<std::string> LockFile::devices() const {
  std::vector<std::string> out;
  for (auto& [device, problems] : entries_) out.push_back(device);
  return out;
}

size_t LockFile::size() const {
  size_t n = 0;
  for (auto& [device, problems] : entries_) n += problems.size();
  return n;
}

size_t LockFile::untimed() const {
  size_t out = 0;
  for (auto& [device, problems] : entries_)
    for (auto& [problem, e] : problems) out += e.is_untimed();
  return out;
}

std::vector<std::string> LockFile::drift(const std::vector<Now>& now) const {
  std::vector<std::string> out;
  std::set<std::string> devices;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Now& n : now) {
    devices.insert(n.device);
    seen.emplace(n.device, n.problem);
    const LockEntry* e = find(n.device, n.problem);
    if (!e) {
      out.push_back(
          fmt::format("{}{} on {}: the file decides nothing", n.label.empty() ? "problem " : n.label + ", problem ", n.problem, n.device));
    } else if (std::find(n.candidates.begin(), n.candidates.end(), e->winner) == n.candidates.end()) {
      out.push_back(fmt::format("{} on {}: there is no candidate {} any more", e->label, n.device, e->winner));
    } else if (n.kernels != e->kernels && !(n.kernels.empty() && e->kernels == "none")) {
      out.push_back(
          fmt::format("{} on {}: the kernels of {} are {}, the file has {}", e->label, n.device, e->winner, n.kernels, e->kernels));
    }
  }
  for (auto& [device, problems] : entries_) {
    if (!devices.contains(device)) continue;
    for (auto& [problem, e] : problems)
      if (!seen.contains({device, problem}))
        out.push_back(fmt::format("{} on {}: the build has no problem {} any more", e.label, device, problem));
  }
  return out;
}

}  // namespace toroid::tune
