#include "cli/trace_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "import/json.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraph = "graph_lowered.txt";
// Texts of stages, in their order, and what they show.
constexpr std::pair<const char*, const char*> kTexts[] = {{"graph_imported.txt", "Graph as it was traced or read"},
                                                          {"partition.txt", "Partition of forward and backward"},
                                                          {"program_lowered.txt", "Loops before fusion"},
                                                          {"tuning.txt", "Tuning"},
                                                          {"program_fused.txt", "Loops after fusion"}};

std::optional<std::string> text_of(const fs::path& file) {
  if (!fs::is_regular_file(file)) return std::nullopt;
  return read_file(file);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<std::string> strings(const import::Json& list) {
  std::vector<std::string> out;
  for (size_t i = 0; i < list.size(); ++i) out.emplace_back(list[i].as_str());
  return out;
}

// "mm_3+add_4_1" is about both.
std::vector<std::string> names_in(std::string_view joined) {
  const auto parts = split_list(joined, '+');
  return {parts.begin(), parts.end()};
}

void read_report(const std::string& text, const std::string& source, TracedCompile& out) {
  const auto document = import::JsonDocument::parse(text, source);
  const import::Json r = document.root();
  out.ended = true;
  out.version = r.at("version").as_str(), out.device = r.at("device").as_str(), out.options = r.at("options").as_str();
  out.ms = r.at("compile_ms").as_double();
  out.notes = strings(r.at("notes"));
  const auto times = [&](const char* list, const char* name, auto& to) {
    const import::Json rows = r.at(list);
    for (size_t i = 0; i < rows.size(); ++i) to.emplace_back(rows[i].at(name).as_str(), rows[i].at("ms").as_double());
  };
  times("stages", "stage", out.stages);
  times("passes", "name", out.passes);
  for (auto& line : strings(r.at("chosen")))
    out.decisions.push_back({"chosen: " + line, names_in(line.substr(0, line.find_first_of(": ")))});
  const import::Json misses = r.at("not_fused");
  for (size_t i = 0; i < misses.size(); ++i) {
    const std::string first(misses[i].at("first").as_str()), second(misses[i].at("second").as_str());
    Decision& d = out.decisions.emplace_back();
    d.text = fmt::format("not fused: {} and {}: {}", first, second, misses[i].at("reason").as_str());
    for (auto* side : {&first, &second})
      for (auto& name : names_in(*side)) d.values.push_back(name);
  }
  const import::Json unsplit = r.at("not_split");
  for (size_t i = 0; i < unsplit.size(); ++i) {
    const std::string node(unsplit[i].at("node").as_str());
    out.decisions.push_back({fmt::format("not split: {}: {}", node, unsplit[i].at("reason").as_str()), names_in(node)});
  }
}

void read_steps(const std::string& text, const fs::path& folder, TracedCompile& out) {
  const auto document = import::JsonDocument::parse(text, (folder / "steps.json").string());
  const import::Json steps = document.root();
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto member = [&](const char* name) { return std::string(steps[i].at(name).as_str()); };
    TracedStep& s = out.steps.emplace_back();
    s.name = member("name"), s.by = member("by"), s.block = member("block"), s.where = member("where");
    s.file = member("file"), s.plan = member("plan"), s.origins = strings(steps[i].at("origins"));
    if (!s.file.empty()) s.source = text_of(folder / s.file).value_or("");
  }
}

// Lines of `text` that are not in `other`. Names of values are unique in a text, so that equal lines are the same thing.
std::vector<std::string> lines_without(const std::vector<std::string>& text, const std::vector<std::string>& other) {
  const std::unordered_set<std::string_view> there(other.begin(), other.end());
  std::vector<std::string> out;
  for (auto& line : text)
    if (!there.count(line)) out.push_back(line);
  return out;
}

// What passes made, each beside what was there before: "passes/07_program_fuse.txt".
void read_passes(const fs::path& folder, TracedCompile& out) {
  if (!fs::is_directory(folder / "passes")) return;
  std::set<fs::path> files;
  for (auto& entry : fs::directory_iterator(folder / "passes")) files.insert(entry.path());
  std::map<std::string, std::vector<std::string>> latest;  // by the passes' subject
  for (auto& [subject, file] : {std::pair("graph", "graph_imported.txt"), {"program", "program_lowered.txt"}})
    if (auto text = text_of(folder / file)) latest[subject] = lines_of(*text);
  for (auto& file : files) {
    const std::string name = file.stem().string(), rest = name.substr(std::min(name.find('_') + 1, name.size()));
    const std::string subject = rest.substr(0, rest.find('_'));
    std::vector<std::string> now = lines_of(read_file(file)), &before = latest[subject];
    out.changes.push_back(
        {subject + ": " + rest.substr(std::min(subject.size() + 1, rest.size())), lines_without(before, now), lines_without(now, before)});
    before = std::move(now);
  }
}

bool is_trace(const fs::path& folder) { return fs::is_regular_file(folder / kTexts[0].first); }

TracedCompile read_trace(const fs::path& folder) {
  TracedCompile out;
  out.name = folder.filename().string();
  if (auto text = text_of(folder / "report.json")) read_report(*text, (folder / "report.json").string(), out);
  if (auto text = text_of(folder / kGraph))
    for (auto& line : lines_of(*text)) out.graph.push_back(graph_line(std::move(line)));
  if (auto text = text_of(folder / "steps.json")) read_steps(*text, folder, out);
  read_passes(folder, out);
  for (auto& [file, shows] : kTexts)
    if (auto text = text_of(folder / file)) out.texts.emplace_back(shows, std::move(*text));
  return out;
}

// Of "main_12": 12. The numbers of a process grow with its compiles.
int64_t number_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const size_t at = name.rfind('_') + 1;  // 0 where there is none
  int64_t out = 0;
  std::from_chars(name.data() + at, name.data() + name.size(), out);
  return out;
}

}  // namespace

GraphLine graph_line(std::string text) {
  GraphLine out{std::move(text), {}, {}, {}};
  const std::string& t = out.text;
  const size_t made = t.find(" = "), where = t.rfind("@ \"");
  for (size_t at = t.find('%'); made != t.npos && at < where && at != t.npos; at = t.find('%', at + 1)) {
    const std::string name = t.substr(at + 1, t.find_first_of(":, )]}", at) - at - 1);
    (at < made ? out.values : out.operands).push_back(name);
  }
  if (where == t.npos) return out;
  const size_t begin = where + 3, end = t.find('"', begin);
  if (end != t.npos) out.where = t.substr(begin, end - begin);
  return out;
}

std::vector<TracedCompile> read_traces(const fs::path& folder) {
  std::vector<fs::path> found;
  if (is_trace(folder)) found.push_back(folder);
  if (found.empty())
    for (auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && is_trace(entry.path())) found.push_back(entry.path());
  if (found.empty())
    fail<UserError>(
        "{} holds no compile: run the program with TOROID_COMPILE_DEBUG=1, and name the folder toroid_debug that it writes, or one in it",
        folder.string());
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return std::pair(number_of(a), a) < std::pair(number_of(b), b); });
  std::vector<TracedCompile> out;
  for (auto& path : found) out.push_back(read_trace(path));
  return out;
}

}  // namespace toroid::cli
