// `toroid trace` from outside: pages of models and of what a program's functions wrote.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <regex>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "cli/harness.h"
#include "import/json.h"
#include "toroid/toroid.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace test;

const std::string kTraced = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/";

class TraceCommand : public testing::Test {
 protected:
  TraceCommand() : folder(make_temp_dir()), page((folder / "page.html").string()) {}
  ~TraceCommand() override { fs::remove_all(folder); }

  std::string made(const std::string& subject, const std::string& before = "") const {
    const Outcome o = toroid_command("trace " + subject + " -o " + page, before);
    EXPECT_EQ(o.code, 0) << o.text;
    return read_file(page);
  }

  const fs::path folder;
  const std::string page;
};

// Every link leads somewhere, no two places have one name, every element that opens closes in order, and nothing is a script.
void expect_sound(const std::string& html) {
  std::set<std::string> places;
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)([^>]*)>"), id("id=\"([^\"]*)\""), link("href=\"#([^\"]*)\"");
  std::vector<std::string> links;
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2], attributes = (*it)[3];
    EXPECT_NE(name, "script");
    std::smatch found;
    if (std::regex_search(attributes, found, id)) {
      EXPECT_TRUE(places.insert(found[1]).second) << found[1];
    }
    if (std::regex_search(attributes, found, link)) links.push_back(found[1]);
    if (name == "meta") continue;
    if ((*it)[1] == "") {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty()) << it->str();
      ASSERT_EQ(open.back(), name) << "at " << it->position();
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_FALSE(links.empty());
  for (auto& l : links) EXPECT_TRUE(places.count(l)) << "nothing is named " << l;
}

// What compile_debug wrote stands on the page: each stage's text, each pass, each step with its lines, each kernel.
void expect_whole(const fs::path& compile, const std::string& html) {
  size_t kernels = 0;
  for (auto& entry : fs::recursive_directory_iterator(compile)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_file(entry.path()), name = entry.path().filename().string();
    if (entry.path().extension() == ".txt" && entry.path().parent_path() == compile && name != "plan.txt") {
      for (auto line : split_list(text, '\n')) EXPECT_NE(html.find(html_escaped(line)), std::string::npos) << name << ": " << line;
    }
    if (entry.path().parent_path().filename() != "kernels") continue;
    ++kernels;
    EXPECT_NE(html.find(html_escaped(text)), std::string::npos) << name;
  }
  EXPECT_GT(kernels, 0u);
  const std::string text = read_file(compile / "steps.json");
  const auto document = import::JsonDocument::parse(text, "steps.json");
  const import::Json steps = document.root();
  EXPECT_GT(steps.size(), 0u);
  for (size_t i = 0; i < steps.size(); ++i) {
    const import::Json s = steps[i];
    EXPECT_NE(html.find("<code>" + html_escaped(s.at("name").as_str()) + "</code>"), std::string::npos);
    EXPECT_GT(s.at("origins").size(), 0u) << s.at("name").as_str();
    EXPECT_NE(html.find(html_escaped(s.at("where").as_str())), std::string::npos);
  }
}

TEST_F(TraceCommand, TellsAllOfAModel) {
  const std::string model = kTraced + "encoder/core.pt2";
  const std::string html = made(model);
  expect_sound(html);
  const std::string before = "TOROID_COMPILE_DEBUG=1 TOROID_DEBUG_DIR=" + (folder / "debug").string();
  ASSERT_EQ(toroid_command("why " + model, before).code, 0);
  size_t compiles = 0;
  for (auto& compile : fs::directory_iterator(folder / "debug")) ++compiles, expect_whole(compile.path(), html);
  EXPECT_EQ(compiles, 1u);
  const Outcome json = toroid_command("trace " + (folder / "debug").string() + " --json -o " + page + " 2>/dev/null");
  const auto document = import::JsonDocument::parse(json.text, "the output");
  EXPECT_EQ(document.root().at("page").as_str(), page);
  EXPECT_EQ(document.root().at("compiles").as_int(), 1);
  EXPECT_EQ(document.root().at("ended").as_int(), 1);
  EXPECT_GT(document.root().at("steps").as_int(), 5);
}

// A step names the lines of all values that it computes, and each line leads to it.
TEST_F(TraceCommand, LinesLeadToKernelsAndBack) {
  write_file_atomic(folder / "g.txt", R"(graph "main"(%x: f32[8, 8]) {
  %a: f32[8, 8] = relu(%x)  @ "net.cpp:10"
  %b: f32[8, 8] = exp(%a)  @ "net.cpp:20"
  %c: f32[8, 8] = mm(%b, %x)  @ "net.cpp:30"
  return %c
})");
  const std::string html = made((folder / "g.txt").string());
  expect_sound(html);
  std::map<std::string, std::string> steps;  // by the lines that they name
  const std::regex step("<section id=\"([^\"]*)\">[^\n]*\n<div>Lines: ([^\n]*)</div>"),
      place("id=\"([^\"]*)\"><td><code>net.cpp:(\\d+)</code>([^\n]*)");
  for (std::sregex_iterator it(html.begin(), html.end(), step), end; it != end; ++it) steps[(*it)[2]] = (*it)[1];
  size_t places = 0;
  for (std::sregex_iterator it(html.begin(), html.end(), place), end; it != end; ++it) {
    ++places;
    const std::string name = (*it)[1], row = (*it)[3];
    const auto of = std::find_if(steps.begin(), steps.end(), [&](auto& s) { return s.first.find("#" + name + "\"") != std::string::npos; });
    ASSERT_NE(of, steps.end()) << "no step names net.cpp:" << (*it)[2];
    EXPECT_NE(row.find("#" + of->second + "\""), std::string::npos) << row;
  }
  EXPECT_EQ(places, 3u);
}

TEST_F(TraceCommand, TellsWhyAFunctionWasCompiledAgain) {
  const std::string debug = (folder / "debug").string();
  CompileConfig config{.options = {{"compile_debug", "1"}, {"debug_dir", debug}}, .name = "<b>&\"../hostile</b>"};
  config.dynamic = false;
  auto f = compile([](const Tensor& x) { return relu(x) * 2.0; }, config);
  f(ones({3}));
  f(ones({5}));
  const std::string html = made(debug);
  expect_sound(html);
  EXPECT_NE(html.find("compiled again: "), std::string::npos);
  EXPECT_NE(html.find("guard: input 0: f32[5]"), std::string::npos);
  EXPECT_NE(html.find("trace_test.cpp:"), std::string::npos);
  EXPECT_EQ(html.find("<b>&"), std::string::npos) << "the function's name is text";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2) << "nothing lies beside the folder and the page";
}

// A compile never writes into the folder of an earlier one.
TEST_F(TraceCommand, FoldersAreNew) {
  const std::string debug = (folder / "debug").string(), call = "why " + kTraced + "encoder/core.pt2",
                    before = "TOROID_COMPILE_DEBUG=1 TOROID_DEBUG_DIR=" + debug;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(toroid_command(call, before).code, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(debug), fs::directory_iterator()), 2);
  expect_sound(made(debug));
}

// Any file of a folder may be missing, as where a compile has failed.
TEST_F(TraceCommand, TellsWhatThereIsOfACompileThatFailed) {
  const fs::path debug = folder / "debug";
  ASSERT_EQ(toroid_command("why " + kTraced + "encoder/core.pt2", "TOROID_COMPILE_DEBUG=1 TOROID_DEBUG_DIR=" + debug.string()).code, 0);
  const fs::path compile = fs::directory_iterator(debug)->path();
  for (const char* file :
       {"kernels", "report.json", "steps.json", "program_fused.txt", "passes", "program_lowered.txt", "graph_lowered.txt"}) {
    fs::remove_all(compile / file);
    const std::string html = made(debug.string());
    if (file != std::string("graph_lowered.txt")) expect_sound(html);
    EXPECT_EQ(html.find("has no report") != std::string::npos, file != std::string("kernels"));
  }
  fs::remove(compile / "graph_imported.txt");
  const Outcome nothing = toroid_command("trace " + debug.string() + " -o " + page);
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.text.find("holds no compile: run the program with TOROID_COMPILE_DEBUG=1"), std::string::npos) << nothing.text;
}

TEST_F(TraceCommand, RefusesWhatItCannotRead) {
  const fs::path compile = folder / "debug" / "main_0";
  fs::create_directories(compile);
  write_file_atomic(compile / "graph_imported.txt", "graph");
  const auto told = [&](const std::string& file, const std::string& text) {
    write_file_atomic(compile / file, text);
    const Outcome o = toroid_command("trace " + (folder / "debug").string() + " -o " + page);
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_NE(o.text.find(file), std::string::npos) << o.text;
    fs::remove(compile / file);
  };
  for (const char* text : {"", "{", "[]", "{\"version\": 3}", "nonsense"}) told("report.json", text);
  for (const char* text : {"", "[{}]", "{\"a\": 1}", "[{\"name\": []}]"}) told("steps.json", text);
  EXPECT_EQ(toroid_command("trace " + (folder / "none").string()).code, 2);
  for (const char* option : {"--device cuda", "--mode max-autotune", "--seq 8", "--inputs x"}) {
    const Outcome o = toroid_command("trace " + (folder / "debug").string() + " " + option);
    EXPECT_EQ(o.code, 2) << option;
    EXPECT_NE(o.text.find("holds compiles that were made"), std::string::npos) << o.text;
  }
  EXPECT_NE(toroid_command("trace " + kTraced + "encoder/core.pt2 -o " + (folder / "no/page.html").string()).code, 0);
}

}  // namespace
}  // namespace toroid
