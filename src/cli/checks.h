// What the doctor prints.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/json_text.h"

namespace toroid::cli {

// One line a check, or an object. A check that fails says what to do.
class Checks {
 public:
  explicit Checks(bool json) : json_(json) {}
  void ok(const char* name, const std::string& text) { line("ok", name, text); }
  void missing(const char* name, const std::string& text) { bad("missing", name, text); }
  void failed(const char* name, const std::string& text) { bad("failed", name, text); }
  // What may be of interest, whether or not something is missing.
  void note(const std::string& text) {
    if (json_)
      notes_ += (notes_.empty() ? "" : ",") + json_string(text);
    else
      fmt::print("  note     {}\n", text);
  }
  // The end of the output, which says what it comes to. Whether all that is needed is there.
  bool finish(const char* good, const char* bad) const {
    if (json_)
      fmt::print("{{\"healthy\":{},\"checks\":[{}],\"notes\":[{}]}}\n", healthy_, rows_, notes_);
    else
      fmt::print("{}\n", healthy_ ? good : bad);
    return healthy_;
  }

 private:
  void bad(const char* state, const char* name, const std::string& text) {
    line(state, name, text);
    healthy_ = false;
  }
  // Further lines of the text stand below its first.
  void line(const char* state, const char* name, std::string_view text) {
    if (json_) {
      rows_ +=
          fmt::format("{}{{\"name\":\"{}\",\"state\":\"{}\",\"text\":{}}}", rows_.empty() ? "" : ",\n ", name, state, json_string(text));
      return;
    }
    fmt::print("  {:<8} {:<12} ", state, name);
    for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) fmt::print("{}\n{:24}", text.substr(0, end), "");
    fmt::print("{}\n", text);
  }

  const bool json_;
  bool healthy_ = true;
  std::string rows_, notes_;
};

}  // namespace toroid::cli
