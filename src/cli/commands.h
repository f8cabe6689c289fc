// The subcommands of `toroid`: what each is told, and the function that does it. Each returns the exit code of the program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_text.h"

namespace toroid::cli {

// 0 done; the others as documented in the help.
enum ExitCode : int { kOk = 0, kMismatch = 1, kUserError = 2, kEnvironmentError = 3, kInternalError = 4 };

inline constexpr double kUsualTolerance = 1e-4;  // of f32, as a part of an output's range, where nothing says another

struct RunArgs {
  std::string model, inputs, outputs, expect, weights, backend = "compiled", device = "cpu";
  std::string weights_folder;       // of a package: of the weights beside it; empty: where it expects them
  std::string entry;                // of a package; empty: the only one
  std::optional<double> tolerance;  // none: a package's own, else kUsualTolerance
  bool json = false;
};
int run_model(const RunArgs& args);

struct VerifyArgs {
  std::vector<std::string> paths;
  std::string backend = "compiled", device = "cpu";
  std::string known;                // file of cases that do not pass; empty: none
  std::string weights_folder;       // as in RunArgs
  std::optional<double> tolerance;  // as in RunArgs
  int jobs = 1;
  int timeout = 0;  // seconds a case, 0: none; needs a process of its own
  bool json = false, verbose = false, isolate = false;
};
int verify(const VerifyArgs& args);

struct BenchArgs {
  std::string model, inputs, dtype = "f32", device = "cpu", mode = "default", timeline;
  int64_t seq = 0, batch = 1, layers = 0, position = 0;  // 0: the model's own, the cache's last
  int threads = 0, iterations = 0;                       // 0: all processors; as many as fit in a few seconds
  bool decode = false, no_eager = false, no_freeze = false, json = false;
  std::string weights_folder, entry;     // as in RunArgs
  std::vector<std::string> of_built_in;  // options that the call gives and that only built-in models have
};
int bench(const BenchArgs& args);

struct TuneArgs {
  BenchArgs subject;
  int budget_ms = 0;  // 0: any
  int rounds = 20;
  bool isolated = false;
  bool exhaustive = false;
  std::string choice;      // empty: all
  std::string lock, html;  // files to write; empty: none
  std::string check;       // lock file that must hold; empty: none
  bool descent = false;
  bool strict = false;
  std::string choices, backends;  // options tune_choices and tune_backends; empty: as they are
  int rows = 10;                  // of a part's table; 0: all
  bool ablation = false;          // only what kinds of fusion gain
};
int tune(const TuneArgs& args);

// Of the model that these name.
int bisect(const BenchArgs& args);

struct CompileArgs {
  std::vector<std::string> models;  // "NAME=FILE", or one file
  std::string out, device = "cpu", mode = "default", lock, inputs;
  std::vector<std::string> targets = {"native"};
  bool no_freeze = false, swappable = false, weights_beside = false, json = false;
};
// Writes a package.
int compile_package(const CompileArgs& args);
// What `inspect`, `verify` and `bench` do with packages.
int inspect_package(const std::string& path, bool json);
int verify_package(const std::string& path, const std::string& weights_folder, bool json);
int bench_package(const BenchArgs& args);

struct InspectArgs {
  BenchArgs subject;  // or a package, or a file of tensors
  bool graph = false;
};
int inspect(const InspectArgs& args);

struct OptArgs {
  std::string graph, passes;
  bool pipeline = false;  // all passes of inference
  bool list = false;      // the tables of passes, and nothing else
  bool json = false;
};
int opt(const OptArgs& args);

struct TrainArgs {
  std::string config, out, device;    // in place of the configuration's checkpoint.folder and training.device
  std::vector<std::string> settings;  // "training.steps=10"
  bool keys = false;                  // list the keys, and nothing else
  bool json = false;                  // a line of JSON for each line of text
};
int train(const TrainArgs& args);

struct DoctorArgs {
  std::string package;         // whether this one would load here; empty: the machine
  std::string device;          // of a package: where it must; empty: where it has programs for
  std::string weights_folder;  // as in RunArgs
  bool json = false;
};
int doctor(const DoctorArgs& args);
int doctor_of_package(const DoctorArgs& args);

struct DiffArgs {
  std::string a, b;
  bool json = false;
};
// What differs between two packages: 0 nothing, 1 something.
int diff(const DiffArgs& args);

struct CacheArgs {
  std::string action;  // "stats", "list", "clear", "export" or "import"
  std::string file;    // of the last two
  bool json = false;
};
int cache(const CacheArgs& args);

struct OptionsArgs {
  std::string word;  // only options that have it in their name or their description; empty: all
  bool json = false;
};
// Lists the options of the library.
int options(const OptionsArgs& args);

struct OpsArgs {
  std::string name;   // as people write it, "aten::add"; empty: all
  bool onnx = false;  // operators of ONNX in place of operations
  bool json = false;
};
// Says whether there is an operation: 0 yes, 1 no.
int list_operations(const OpsArgs& args);

struct WhyArgs {
  BenchArgs subject;
  std::string choice;  // what was tuned in the parts whose name has this in it; empty: nothing is tuned
};
int why(const WhyArgs& args);

struct TraceArgs {
  BenchArgs subject;  // or a folder that the option compile_debug wrote
  std::string out = "trace.html";
};
// Writes a page.
int trace(const TraceArgs& args);

struct LaunchArgs {
  int ranks = 0;
  double grace_seconds = 1;  // that the others have to end by themselves when one has failed
  std::string rank_of;       // in the processes that mpirun starts: the launch's folder
  std::vector<std::string> program;
};
// Runs a program as ranks of one world on this machine, and returns the exit code of the first that fails (128 + n where signal n ends it).
int launch(const LaunchArgs& args);

}  // namespace toroid::cli
