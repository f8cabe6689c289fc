#include "train/training_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "train/errors.h"

namespace toroid::train {
namespace {

[[noreturn]] void cannot_write_text(const std::string& path, int error) {
  throw EnvironmentError(
      fmt::format("cannot write \"{}\": {}; check the disk space and the permissions of its folder", path, std::strerror(error)));
}

int put(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// JSON has no infinities and no NaN.
std::string json_number(double v) { return std::isfinite(v) ? fmt::format("{}", v) : "null"; }

// A number of a line that this file has written; NaN for null and for what is not there.
double number_in(std::string_view line, std::string_view key) {
  const std::string begin = fmt::format("\"{}\":", key);
  const size_t at = line.find(begin);
  if (at == line.npos) return NAN;
  double v = NAN;
  const std::string text(line.substr(at + begin.size(), 40));
  return std::sscanf(text.c_str(), "%lf", &v) == 1 ? v : NAN;
}
// A string of such a line, as far as its first quotation mark.
std::string string_in(std::string_view line, std::string_view key) {
  const std::string begin = fmt::format("\"{}\":\"", key);
  const size_t at = line.find(begin);
  return at == line.npos ? "" : std::string(line.substr(at + begin.size(), line.find('"', at + begin.size()) - at - begin.size()));
}
bool has(std::string_view line, std::string_view text) { return line.find(text) != line.npos; }
// What "metrics" has, whose names hold neither quotes nor backslashes.
std::vector<std::pair<std::string, double>> metrics_in(std::string_view line) {
  std::vector<std::pair<std::string, double>> out;
  constexpr std::string_view kBegin = "\"metrics\":{";
  const size_t begin = line.find(kBegin);
  if (begin == line.npos) return out;
  line.remove_prefix(begin + kBegin.size());
  while (line.starts_with('"')) {
    const size_t end = line.find("\":", 1);
    if (end == line.npos) break;
    const std::string name(line.substr(1, end - 1));
    out.emplace_back(name, number_in(line, name));
    line.remove_prefix(std::min(line.find_first_of(",}", end), line.size()));
    if (line.starts_with(',')) line.remove_prefix(1);
  }
  return out;
}

StepReport step_in(std::string_view line) {
  StepReport r;
  r.step = static_cast<int64_t>(number_in(line, "step"));
  r.loss = number_in(line, "loss"), r.grad_norm = number_in(line, "grad_norm"), r.lr = number_in(line, "lr");
  r.seconds = number_in(line, "seconds"), r.units_per_second = number_in(line, "units_per_second");
  r.loss_scale = number_in(line, "loss_scale"), r.skipped = has(line, "\"skipped\":true"), r.compiling = has(line, "\"compiling\":true");
  r.unit = string_in(line, "unit"), r.not_finite = string_in(line, "not_finite");
  return r;
}

}  // namespace

std::string json_of(const StepReport& r) {
  return fmt::format(
      "{{\"step\":{},\"loss\":{},\"grad_norm\":{},\"lr\":{},\"seconds\":{},\"units_per_second\":{},\"unit\":{},\"loss_scale\":{},"
      "\"skipped\":{},\"not_finite\":{},\"compiling\":{}}}",
      r.step, json_number(r.loss), json_number(r.grad_norm), json_number(r.lr), json_number(r.seconds), json_number(r.units_per_second),
      json_string(r.unit), json_number(r.loss_scale), r.skipped, json_string(r.not_finite), r.compiling);
}
std::string json_of(const EvaluationReport& r) {
  std::string metrics;
  for (auto& [name, value] : r.metrics)
    metrics += fmt::format("{}{}:{}", metrics.empty() ? ",\"metrics\":{" : ",", json_string(name), json_number(value));
  if (!metrics.empty()) metrics += "}";
  return fmt::format("{{\"step\":{},\"held_out_loss\":{},\"samples\":{},\"seconds\":{}{}}}", r.step, json_number(r.loss), r.samples,
                     json_number(r.seconds), metrics);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

void write_text(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) cannot_write_text(path, errno);
  int error = put(fd, text);
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(temporary.c_str());
  cannot_write_text(path, error);
}

void TrainingLog::begin(int64_t steps) {
  if (folder_.empty() || begun_) return;
  begun_ = true;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) cannot_write_text(path(), error.value());
  std::string kept;
  std::ifstream in(path());
  for (std::string line; std::getline(in, line);) {
    const double step = number_in(line, "step");
    if (!(step <= static_cast<double>(steps)) || !line.ends_with("}")) continue;
    if (has(line, "\"held_out_loss\""))
      evaluations_.push_back({static_cast<int64_t>(step), static_cast<int64_t>(number_in(line, "samples")),
                              number_in(line, "held_out_loss"), number_in(line, "seconds"), metrics_in(line)});
    else
      steps_.push_back(step_in(line));
    kept += line + "\n";
  }
  write_text(path(), kept);
}

bool TrainingLog::has_evaluation(int64_t step) const {
  return std::any_of(evaluations_.begin(), evaluations_.end(), [&](auto& e) { return e.step == step; });
}

void TrainingLog::append(const std::string& line) {
  const int fd = ::open(path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) cannot_write_text(path(), errno);
  const int error = put(fd, line);
  if (::close(fd) != 0 || error != 0) cannot_write_text(path(), error != 0 ? error : errno);
}

void TrainingLog::add(const StepReport& r) {
  if (folder_.empty()) return;
  steps_.push_back(r);
  append(json_of(r) + "\n");
}

void TrainingLog::add(const EvaluationReport& r) {
  if (folder_.empty()) return;
  evaluations_.push_back(r);
  append(json_of(r) + "\n");
}

void TrainingLog::write_page() const {
  if (folder_.empty()) return;
  const auto series = [&](const char* name, double StepReport::*value) {
    Series s{name, {}};
    for (auto& r : steps_)
      if (!r.compiling || value == &StepReport::loss) s.points.emplace_back(static_cast<double>(r.step), r.*value);
    return s;
  };
  Series held_out{"held-out", {}, true};
  for (auto& e : evaluations_) held_out.points.emplace_back(static_cast<double>(e.step), e.loss);
  const std::string unit = steps_.empty() ? "samples" : steps_.back().unit;
  std::vector<Plot> plots{{"Loss", {series("training", &StepReport::loss), held_out}},
                          {"Norm of the gradients", {series("norm", &StepReport::grad_norm)}},
                          {"Learning rate", {series("rate", &StepReport::lr)}},
                          {"Throughput, " + unit + " a second", {series(unit.c_str(), &StepReport::units_per_second)}}};
  std::map<std::string, Series> metrics;
  for (auto& e : evaluations_)
    for (auto& [name, value] : e.metrics) {
      Series& s = metrics.try_emplace(name, Series{"held-out", {}, true}).first->second;
      s.points.emplace_back(static_cast<double>(e.step), value);
    }
  for (auto& [name, s] : metrics) plots.push_back({name, {s}});
  if (std::any_of(steps_.begin(), steps_.end(), [](auto& r) { return r.loss_scale != 1; }))
    plots.push_back({"Scale of the loss", {series("scale", &StepReport::loss_scale)}});
  std::vector<std::string> lines;
  if (!steps_.empty()) lines.push_back(to_string(steps_.back()));
  if (!evaluations_.empty()) lines.push_back(to_string(evaluations_.back()));
  const auto skipped = std::count_if(steps_.begin(), steps_.end(), [](auto& r) { return r.skipped; });
  if (skipped > 0) lines.push_back(fmt::format("{} steps were skipped: loss or gradients were not finite", skipped));
  write_text(folder_ + "/training.html", html_page("Training in " + folder_, lines, plots));
}

}  // namespace toroid::train
