#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace toroid {
namespace {

constexpr size_t kLongest = 64;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  // Three rows of the usual table: a swap of neighbours looks two rows back.
  std::array<std::array<int, kLongest + 1>, 3> row{};
  for (size_t j = 0; j <= b.size(); ++j) row[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& now = row[i % 3];
    const auto& up = row[(i + 2) % 3];
    const auto& up2 = row[(i + 1) % 3];
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({up[j] + 1, now[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], up2[j - 2] + 1);
    }
  }
  return row[a.size() % 3][b.size()];
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> candidates, size_t limit) {
  std::string key(name.substr(0, kLongest));
  std::transform(key.begin(), key.end(), key.begin(), lower);
  const int far = std::max<int>(2, static_cast<int>(key.size()) / 3);
  std::vector<std::pair<int, std::string_view>> near;
  for (std::string_view candidate : candidates) {
    std::string other(candidate.substr(0, kLongest));
    std::transform(other.begin(), other.end(), other.begin(), lower);
    int distance = edit_distance(key, other);
    // A shared beginning ("log" for "logs_dir") counts as near, but after every small slip of the keys.
    if (distance > far && key.size() >= 3 && (other.starts_with(key) || key.starts_with(other))) distance = far;
    if (distance <= far && distance < static_cast<int>(std::max(key.size(), other.size()))) near.emplace_back(distance, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < limit; ++i) names.emplace_back(near[i].second);
  return names;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::vector<std::string> names = nearest_names(name, candidates);
  if (names.empty()) return "";
  std::string text = "; did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += '"' + names[i] + '"';
  }
  return text + "?";
}

std::vector<std::string_view> split_list(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    std::string_view part = text.substr(0, at);
    text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
    const size_t first = part.find_first_not_of(" \t\n");
    if (first == std::string_view::npos) continue;
    parts.push_back(part.substr(first, part.find_last_not_of(" \t\n") - first + 1));
  }
  return parts;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string line_text(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

}  // namespace toroid
