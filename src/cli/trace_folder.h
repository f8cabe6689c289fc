// What a compile has written into its folder (option compile_debug), read back.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace toroid::cli {

// A line of a graph's text, with the values that it gives names to, those that it reads, and the source line that it tells.
struct GraphLine {
  std::string text;
  std::vector<std::string> values, operands;
  std::string where;  // "model.cpp:7"; empty: none
};

// See compiler::steps_json.
struct TracedStep {
  std::string name, by, block, where, file, plan;
  std::vector<std::string> origins;
  std::string source;  // of the file; empty: it is not there
};

// A pass that changed something, by the lines of the text before it that are gone, and those that have come.
struct TracedPass {
  std::string name;
  std::vector<std::string> gone, come;
};

// A decision, and the values of the graph that it is about, as it names them.
struct Decision {
  std::string text;
  std::vector<std::string> values;
};

struct TracedCompile {
  std::string name;                                            // of the folder
  bool ended = false;                                          // else it failed, or goes on: there is no report
  std::string version, device, options;                        // of the report, as what follows
  double ms = 0;                                               // of all stages
  std::vector<std::pair<std::string, double>> stages, passes;  // with milliseconds
  std::vector<std::string> notes;
  std::vector<Decision> decisions;
  std::vector<GraphLine> graph;  // after the passes
  std::vector<TracedStep> steps;
  std::vector<TracedPass> changes;
  std::vector<std::pair<std::string, std::string>> texts;  // of the other stages, by what they show
};

// Those below a folder, or in it, in the order of their numbers. UserError where there is none.
std::vector<TracedCompile> read_traces(const std::filesystem::path& folder);

// The parts of a line of a graph's text.
GraphLine graph_line(std::string text);

}  // namespace toroid::cli
