#include "base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/compile_options.h"
#include "base/option_table.h"
#include "base/text.h"
#include "base/unknown_variables.h"

extern char** environ;

namespace toroid {
namespace {

// Variables that other parts of Toroid and its tests read.
bool is_other_variable(std::string_view name) {
  for (std::string_view whole : {"TOROID_JIT_LIBRARY", "TOROID_MPI_LIBRARY", "TOROID_FAULT", "TOROID_LAUNCH", "TOROID_MUTANT"})
    if (name == whole) return true;
  for (std::string_view start : {"TOROID_TEST_", "TOROID_FUZZ_", "TOROID_ULP_", "TOROID_ONNX_"})
    if (name.starts_with(start)) return true;
  return false;
}

struct UnknownVariable {
  std::string name, complaint;
  bool is_near = false;  // to the variable of an option
};

std::vector<UnknownVariable> find_unknown_variables() {
  std::vector<std::string> names;
  std::vector<UnknownVariable> out;
  for (const OptionRow& row : option_rows())
    if (row.scope != OptionScope::Function) names.push_back(environment_name(row));
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view variable = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (!variable.starts_with("TOROID_") || is_other_variable(variable)) continue;
    if (std::find(known.begin(), known.end(), variable) != known.end()) continue;
    const auto compile_only =
        std::find_if(option_rows().begin(), option_rows().end(), [&](auto& row) { return environment_name(row) == variable; });
    if (compile_only != option_rows().end()) {
      out.push_back(
          {std::string(variable),
           fmt::format("environment variable {}: option {} belongs to one compile, and the process has no value for it: give it in "
                       "the options of compile() or Model::load",
                       variable, compile_only->name),
           true});
      continue;
    }
    const std::string near = did_you_mean(variable, known);
    out.push_back(
        {std::string(variable), fmt::format("environment variable {}: there is no such option{}", variable, near), !near.empty()});
  }
  return out;
}

// The values of the process. Numbers are read without a lock, strings under one.
class Table {
 public:
  Table() {
    for (const UnknownVariable& v : find_unknown_variables()) TOROID_USER_CHECK(!v.is_near, "{}", v.complaint);
    for (const OptionRow& row : option_rows()) {
      set(row, row.default_value, row.name);
      if (row.scope == OptionScope::Function) continue;
      const std::string variable = environment_name(row);
      if (const char* value = std::getenv(variable.c_str())) set(row, value, "environment variable " + variable);
    }
  }

  // heed: what was settled stays.
  void set(const OptionRow& row, std::string_view value, std::string_view what, bool heed = true) {
    std::string form = canonical(row, value, what);
    const auto i = static_cast<size_t>(row.id);
    std::lock_guard lock(mutex_);
    if (heed && !settled_[i].empty() && form != values_[i])
      fail<UserError>("{}: \"{}\" comes too late, as {} with \"{}\"; set it before, or by the environment variable {}", what, value,
                      settled_[i], values_[i], environment_name(row));
    if (row.type != OptionType::String) numbers_[i].store(number_of(form), std::memory_order_relaxed);
    if (row.scope != OptionScope::Process && row.scope != OptionScope::Function) {
      compile_.set(row.name, form);
      key_number_.store(number_of_key(compile_), std::memory_order_release);
    }
    values_[i] = std::move(form);
    version_.fetch_add(1, std::memory_order_release);
  }

  void settle(OptionId id, std::string_view reason) {
    std::lock_guard lock(mutex_);
    settled_[static_cast<size_t>(id)] = reason;
  }

  int64_t number(OptionId id) const { return numbers_[static_cast<size_t>(id)].load(std::memory_order_relaxed); }

  std::string text(OptionId id) const {
    std::lock_guard lock(mutex_);
    return values_[static_cast<size_t>(id)];
  }

  CompileOptions compile() const {
    std::lock_guard lock(mutex_);
    return compile_;
  }

  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  uint64_t key_number() const { return key_number_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::array<std::atomic<int64_t>, kOptionCount> numbers_{};  // of bools and integers
  std::array<std::string, kOptionCount> values_;              // of all, in their one form
  std::array<std::string, kOptionCount> settled_;             // why another value would come too late; empty: it would not
  CompileOptions compile_;
  std::atomic<uint64_t> version_{0}, key_number_{0};
};

Table& table() {
  // Never destroyed: threads that outlive main may still read options.
  static Table* const table = new Table;
  return *table;
}

const OptionRow& option_of_the_process(std::string_view name) {
  const OptionRow& row = find_option(name);
  TOROID_USER_CHECK(row.scope != OptionScope::Function,
                    "option {} belongs to one compile, and the process has no value for it: give it in the options of compile() or "
                    "Model::load",
                    name);
  return row;
}

}  // namespace

bool get_option(Option<bool, true> key) { return table().number(key.id) != 0; }
int64_t get_option(Option<int64_t, true> key) { return table().number(key.id); }
std::string get_option(Option<std::string, true> key) { return table().text(key.id); }

CompileOptions CompileOptions::of_process() { return table().compile(); }
uint64_t process_key_number() { return table().key_number(); }

void settle_option_id(OptionId id, std::string_view reason) { table().settle(id, reason); }

void set_option(std::string_view name, std::string_view value) {
  table().set(option_of_the_process(name), value, fmt::format("option {}", name));
}

uint64_t options_version() { return table().version(); }

std::vector<std::string> unknown_variables() {
  std::vector<std::string> out;
  for (UnknownVariable& v : find_unknown_variables()) out.push_back(std::move(v.complaint));
  return out;
}

std::vector<std::string> forget_unknown_variables() {
  std::vector<std::string> out;
  for (UnknownVariable& v : find_unknown_variables()) {
    ::unsetenv(v.name.c_str());
    out.push_back(std::move(v.complaint));
  }
  return out;
}

ScopedOption::ScopedOption(std::string_view name, std::string_view value)
    : name_(name), old_(table().text(option_of_the_process(name).id)) {
  table().set(option_of_the_process(name), value, fmt::format("option {}", name), false);
}

ScopedOption::~ScopedOption() { table().set(find_option(name_), old_, name_, false); }

std::vector<OptionInfo> list_options() {
  static constexpr std::string_view kTypes[] = {"bool", "int", "string"};
  std::vector<OptionInfo> rows;
  for (const OptionRow& row : option_rows()) {
    const bool compile_only = row.scope == OptionScope::Function;
    const std::string_view scope = row.scope == OptionScope::Process ? "process" : compile_only ? "compile only" : "compile";
    rows.push_back({row.name, kTypes[static_cast<int>(row.type)], std::string(row.default_value), table().text(row.id),
                    compile_only ? "" : environment_name(row), row.doc, scope});
  }
  return rows;
}

}  // namespace toroid
