// Whole programs on disk: what a compile makes, kept as a package under its key, so that another process maps it and runs.
//
// An entry is two files of the cache (jit/artefact_cache.h): a package with one program, whose entry's name is the hash of the key, and the
// key as JSON with a checksum. The key file says when the package was written: one that has been touched since is hashed as a whole before
// it is used. What cannot be used is a miss with a reason (log artifact "cache"), and is replaced. Large entries are written when the
// compile has returned (compile/background.h).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "compile/model.h"
#include "compile/program_key.h"
#include "jit/artefact_cache.h"
#include "toroid/cache.h"

namespace toroid::compiler {

// What has to be compiled where the cache has it not.
struct ProgramSource {
  std::function<std::unique_ptr<graph::Graph>()> graph;  // called at most once
  std::vector<Tensor> bound = {};                        // by input of the graph: the tensor that it is bound to, which the program runs on
  // Files besides the one that the key speaks of, known when `graph` has been called: each with its stamp from before it was read.
  std::function<std::vector<std::pair<std::filesystem::path, FileStamp>>()> files = {};
  // Asked when `graph` has been called: why what it gave may not be what the key says; empty: it is.
  std::function<std::string()> doubt = {};
  // Names of what the program returns, see import::load_model: asked for when `graph` has been called.
  std::function<std::vector<std::string>()> outputs = {};
  // Where the graph is known before: why its program is not to be kept (refusal_to_keep), empty where it may be.
  std::optional<std::string> refusal = {};
};

class ProgramCache {
 public:
  explicit ProgramCache(std::shared_ptr<jit::ArtefactCache> files) : files_(std::move(files)) {}
  // On the folder that the options name now; null where they switch it off, or where there is no folder (then `why` says so).
  static std::shared_ptr<ProgramCache> shared(std::string* why = nullptr);

  // The program of a key: from disk, else compiled and kept. Of several processes that ask for one key at once one compiles, and the others
  // wait for it as long as the option cache_wait_ms says; those that then find nothing compile side by side. In modes that tune a rank
  // waits for nobody unless the source says of its graph that it may be kept: others may need it to time with them what they compile.
  CompiledModel get(const ProgramKey& key, const Setup& setup, const ProgramSource& source, std::vector<std::string>* outputs = nullptr);

  // Of the programs kept for the same subject the one with the nearest key, and how it differs: for people.
  std::string explain(const ProgramKey& key) const;

 private:
  struct Found;
  std::optional<CompiledModel> find(const ProgramKey& key, const Setup& setup, std::span<const Tensor> bound, bool waited, std::string* why,
                                    std::vector<std::string>* outputs);
  exec::Loadable read(const ProgramKey& key, const Device& device, Found& found) const;
  void mark_used(const std::filesystem::path& key_path, const Found& found);
  // What is kept, as it was when the program was made.
  struct Keeping;
  std::optional<Keeping> prepare(const ProgramKey& key, const exec::Loadable& made, const CompileReport& report,
                                 const ProgramSource& source, double compile_ms, int64_t began_ns) const;
  void keep(Keeping k) const;

  const std::shared_ptr<jit::ArtefactCache> files_;
};

// The one of a key by the cache that the options name now, or compiled where there is none or it refuses (counted as a bypass). The key is
// asked for where there is a cache alone. outputs: gets what source.outputs gives, or gave when the program was kept.
CompiledModel cached(const std::function<ProgramKey()>& key, const Setup& setup, const ProgramSource& source,
                     std::vector<std::string>* outputs = nullptr);

// A key as the cache keeps it. UserError for what is no such text, or is damaged.
struct KeptKey {
  ProgramKey key;
  FileStamp stamp;  // of the package; its device and inode do not count
  std::vector<std::pair<std::string, FileStamp>> files;
  std::vector<int64_t> counts;       // of the report: nodes, loops, kernels, calls, blocks
  std::vector<std::string> outputs;  // names, see ProgramSource
  double compile_ms = 0;
};
std::string to_text(const KeptKey& k);
KeptKey parse_kept_key(const std::string& text, const std::string& source);

}  // namespace toroid::compiler
