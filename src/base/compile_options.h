// What one compile goes by: a value of all options that a compile can have, read once where the compile begins and passed down from there.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/options.h"
#include "toroid/mode.h"

namespace toroid {

class CompileOptions {
 public:
  // The defaults of the table, whatever the process has.
  CompileOptions() = default;
  // What the process has now. For the doors alone (compile(), Model::load, eager operations, the command line): below them a compile has
  // the value that it was given.
  static CompileOptions of_process();
  // The inverse of text(): in any order, with any blanks between. UserError for what is no such text, an unknown option, a bad value, and
  // an option that is there twice.
  static CompileOptions parse(std::string_view text);

  bool get(Option<bool, false> key) const;
  int64_t get(Option<int64_t, false> key) const;
  std::string get(Option<std::string, false> key) const;
  Mode mode() const;
  Fusion fusion() const;

  // UserError for an unknown name (with near ones), a bad value, and an option of the process, which one compile cannot have.
  void set(std::string_view name, std::string_view value);
  void set(Mode mode);
  void set(Fusion fusion);
  // This, but for what a list of names and values says.
  template <class Pairs>
  CompileOptions with(const Pairs& pairs) const {
    CompileOptions out = *this;
    for (auto& [name, value] : pairs) out.set(name, value);
    return out;
  }

  // What differs from the table's defaults, by name: `allow_tf32=1 tune_lock="a file"`. Equal values have equal texts.
  std::string text() const;
  // The same of the options on which it depends what is made in this mode.
  std::string key() const;
  bool operator==(const CompileOptions&) const = default;

 private:
  friend std::string difference(const CompileOptions& was, const CompileOptions& now);
  bool decides(std::string_view name) const;
  std::string_view value(OptionId id) const;

  std::map<std::string_view, std::string> values_;  // in their one form; where they differ from the default. The names are the table's
};

// Where two make something else, by the first such option: "the option allow_tf32 was false, is true"; empty where nowhere.
std::string difference(const CompileOptions& was, const CompileOptions& now);

// One number for each key(), in this process.
uint64_t number_of_key(const CompileOptions& options);
// That of CompileOptions::of_process(), by one load.
uint64_t process_key_number();

// For options of an implementation within a program: those that decide about its own operations in every mode, and no others. UserError as
// set().
void check_code_option(std::string_view name, std::string_view value);

}  // namespace toroid
