// Small text helpers: edit distance, nearest names, splitting, lines of code, HTML.
#pragma once

#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toroid {

// Number of inserted, deleted, replaced or swapped neighbouring characters between two texts. Only the first 64 characters of each count.
int edit_distance(std::string_view a, std::string_view b);

// The candidates that look like `name`, nearest first, at most `limit`; none when nothing is near.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> candidates, size_t limit = 3);

// `; did you mean "a" or "b"?`, or nothing when no candidate is near. Meant as the tail of an error message.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

// The parts of `text` between separators, without surrounding blanks; empty parts are left out.
std::vector<std::string_view> split_list(std::string_view text, char separator = ',');

// Text that HTML shows as it is, in attributes too.
std::string html_escaped(std::string_view text);

// "model.cpp:12".
std::string line_text(const std::source_location& where);

}  // namespace toroid
