// toroid trace: compiles as a page that leads from source lines to kernels and back.
#include <fmt/format.h>

#include <filesystem>

#include "base/check.h"
#include "base/files.h"
#include "cli/archive.h"
#include "cli/bench_subject.h"
#include "cli/commands.h"
#include "cli/trace_page.h"
#include "front/compile_model.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

std::vector<TracedCompile> compile_and_read(const BenchArgs& subject) {
  const TempFolder folder;
  front::compile_model(make_graph(subject), {.device = device_from_name(subject.device),
                                             .mode = mode_from_name(subject.mode),
                                             .options = {{"compile_debug", "1"}, {"debug_dir", folder.path().string()}}});
  return read_traces(folder.path());
}

}  // namespace

int trace(const TraceArgs& args) {
  const bool is_folder = fs::is_directory(args.subject.model);
  const BenchArgs& s = args.subject;
  TOROID_USER_CHECK(!is_folder || (s.device == "cpu" && s.mode == "default" && s.inputs.empty() && s.of_built_in.empty()),
                    "{} holds compiles that were made; --device, --mode, --inputs and sizes are of what is compiled now", s.model);
  const std::vector<TracedCompile> compiles = is_folder ? read_traces(args.subject.model) : compile_and_read(args.subject);
  size_t steps = 0, ended = 0;
  for (auto& c : compiles) steps += c.steps.size(), ended += c.ended;
  write_file_atomic(args.out, trace_page(args.subject.model, compiles));
  if (args.subject.json)
    fmt::print("{{\"page\":{},\"compiles\":{},\"ended\":{},\"steps\":{}}}\n", json_string(args.out), compiles.size(), ended, steps);
  else
    fmt::print("{}: compiles {}, steps {}{}\n", args.out, compiles.size(), steps,
               ended == compiles.size() ? "" : fmt::format("; {} failed or go on", compiles.size() - ended));
  return kOk;
}

}  // namespace toroid::cli
