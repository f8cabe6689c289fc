// The folder into which a compile writes what each stage made, when the option compile_debug is on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/compile_options.h"
#include "base/log.h"
#include "base/pass_runner.h"

namespace toroid::compiler {

class DebugFolder {
 public:
  DebugFolder() = default;  // off
  // Makes <debug_dir>/<name>_<number>, with a number that no folder there has: numbers grow with the compiles of a process. Does nothing
  // when the option is off.
  DebugFolder(const std::string& name, const CompileOptions& options);
  bool is_on() const { return !path_.empty(); }
  // text is only called when the folder is on.
  void write(const std::string& file, const std::function<std::string()>& text) const;
  // Writes the file, and logs it where that artifact is logged.
  void show(Artifact artifact, const std::string& file, const std::function<std::string()>& text) const;
  // Writes what passes make, numbered through all tables: passes/07_graph_trim.txt. of: the table's subject. Empty when off.
  PassDump dump(const std::string& of) const;

 private:
  std::string path_;
  std::shared_ptr<int> dumped_;  // passes
};

}  // namespace toroid::compiler
