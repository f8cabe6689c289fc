#include "compile/program_cache.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/compile_scope.h"
#include "base/file_lock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/options.h"
#include "base/stopwatch.h"
#include "compile/background.h"
#include "compile/tuned_later.h"
#include "dist/group.h"
#include "exec/steps.h"
#include "import/json.h"
#include "package/package.h"
#include "package/write.h"

namespace toroid::compiler {
namespace {

namespace fs = std::filesystem;

struct Counters {
  std::mutex mutex;
  ProgramCacheCounters counters;
};
Counters& counters() {
  static Counters& c = *new Counters;  // never destroyed: threads may outlive main
  return c;
}
template <class F>
void count(F&& change) {
  std::lock_guard lock(counters().mutex);
  change(counters().counters);
}

// Programs that this process writes in the background.
class Writing {
 public:
  // Whether it was not among them.
  bool add(const Hash128& hash) {
    std::lock_guard lock(mutex_);
    return hashes_.insert(hash.hex()).second;
  }
  void remove(const Hash128& hash) {
    std::lock_guard lock(mutex_);
    hashes_.erase(hash.hex());
  }
  bool has(const Hash128& hash) {
    std::lock_guard lock(mutex_);
    return hashes_.count(hash.hex()) > 0;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> hashes_;
};
Writing& writing() {
  static Writing& w = *new Writing;  // never destroyed, as above
  return w;
}

// Names of the tensors that a program is bound to: in its store, and as its entry has them, by the input of the graph.
std::map<std::string, std::string> names_of(const exec::Store& store, std::span<const Tensor> bound) {
  std::map<const void*, std::string> theirs;
  for (size_t i = 0; i < bound.size(); ++i)
    if (bound[i].defined()) theirs.try_emplace(bound[i].impl(), fmt::format("#{}", i));
  std::map<std::string, std::string> out;
  for (auto& [name, t] : store.constants.all())
    if (const auto it = theirs.find(t.impl()); it != theirs.end()) out[name] = it->second;
  return out;
}

// Whether a compile may wait for another one with the same key. Within a compile it may not: the other one may be waiting for this thread.
// Nor may a rank whose graph is not known yet, and may be one that all ranks time together.
bool may_wait(const Setup& setup, const ProgramSource& source) {
  return compiles_here <= 1 && (source.refusal || !tunes(setup.options.mode()) || !distributed::has_world());
}

// The plan, its blocks included, with the options of this process: where keys leave options out, those of who compiled it may be others.
// Implementations with options of their own, of custom operations and collectives, are in no program that is kept.
exec::Plan with_options(exec::Plan plan, const CompileOptions& options) {
  plan.options = options;
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) block.plan = std::make_shared<const exec::Plan>(with_options(*block.plan, options));
  return plan;
}

// Of a package that was only moved or copied, time and size stay.
bool same_contents(const FileStamp& a, const FileStamp& b) { return a.bytes == b.bytes && a.time_ns == b.time_ns; }

std::string stamp_text(const FileStamp& s) { return fmt::format("[{}, {}, {}, {}]", s.bytes, s.time_ns, s.device, s.inode); }
FileStamp read_stamp(const import::Json& j) {
  const auto number = [&](size_t i) { return static_cast<uint64_t>(j[i].as_int()); };
  return {number(0), j[1].as_int(), number(2), number(3)};
}

}  // namespace

std::string to_text(const KeptKey& k) {
  std::string parts, files, outputs;
  for (auto& [name, value] : k.key.parts)
    parts += fmt::format("{}\n    {}: {}", parts.empty() ? "" : ",", json_string(name), json_string(value));
  for (auto& [path, stamp] : k.files)
    files += fmt::format("{}\n    {}: {}", files.empty() ? "" : ",", json_string(path), stamp_text(stamp));
  for (auto& name : k.outputs) outputs += (outputs.empty() ? "" : ", ") + json_string(name);
  const std::string text = fmt::format(
      "{{\n  \"subject\": {},\n  \"package\": {},\n  \"compile_ms\": {:.3f},\n  \"counts\": [{}],\n  \"outputs\": [{}],\n"
      "  \"files\": {{{}}},\n  \"parts\": {{{}}}\n}}\n",
      json_string(k.key.subject), stamp_text(k.stamp), k.compile_ms, fmt::join(k.counts, ", "), outputs, files, parts);
  return text + hash_text(text).hex() + "\n";
}

KeptKey parse_kept_key(const std::string& text, const std::string& source) {
  constexpr size_t kLastLine = 33;
  const size_t end = text.size() < kLastLine ? 0 : text.size() - kLastLine;
  const std::string json = text.substr(0, end);
  TOROID_USER_CHECK(end > 0 && text.substr(end) == hash_text(json).hex() + "\n",
                    "{} is damaged: its last line is not the hash of those before", source);
  const auto doc = import::JsonDocument::parse(json, source);
  const import::Json j = doc.root(), parts = j.at("parts"), files = j.at("files"), counts = j.at("counts"), outputs = j.at("outputs");
  KeptKey out;
  out.key.subject = j.at("subject").as_str();
  out.stamp = read_stamp(j.at("package"));
  out.compile_ms = j.at("compile_ms").as_double();
  for (size_t i = 0; i < counts.size(); ++i) out.counts.push_back(counts[i].as_int());
  for (size_t i = 0; i < outputs.size(); ++i) out.outputs.emplace_back(outputs[i].as_str());
  for (size_t i = 0; i < files.size(); ++i) out.files.emplace_back(files.key(i), read_stamp(files.value(i)));
  for (size_t i = 0; i < parts.size(); ++i) out.key.add(std::string(parts.key(i)), std::string(parts.value(i).as_str()));
  return out;
}

std::shared_ptr<ProgramCache> ProgramCache::shared(std::string* why) {
  if (!get_option(options::kCachePrograms)) {
    if (why) *why = "the option cache_programs is off";
    return nullptr;
  }
  auto files = jit::shared_cache(why);
  return files ? std::make_shared<ProgramCache>(std::move(files)) : nullptr;
}

struct ProgramCache::Found {
  KeptKey kept;
  bool hashed = false;  // as a whole, since it had been touched
};

// What the files say. UserError for what is damaged or another program, and where there is none.
exec::Loadable ProgramCache::read(const ProgramKey& key, const Device& device, Found& found) const {
  const Hash128 hash = key.hash();
  const fs::path path = files_->program_path(hash), key_path = files_->program_key_path(hash);
  found.kept = parse_kept_key(read_file(key_path), key_path.string());
  TOROID_USER_CHECK(found.kept.key.parts == key.parts, "{} is the key of another program", key_path.string());
  for (auto& [file, stamp] : found.kept.files)
    TOROID_USER_CHECK(stamp_of(file) == stamp, "\"{}\", which the program was made of, has changed", file);
  const FileStamp now = stamp_of(path);
  const auto package = package::Package::open(path);
  if (!same_contents(now, found.kept.stamp)) {
    package->verify();
    found.hashed = true, found.kept.stamp = now;
  }
  return package->parts(hash.hex(), device);
}

// Marks it as used; or, where it had been touched and was found whole, as whole. A folder that cannot be written to is one to read from,
// all the same.
void ProgramCache::mark_used(const fs::path& key_path, const Found& found) {
  if (!found.hashed) {
    ::utimensat(AT_FDCWD, key_path.c_str(), nullptr, 0);
    return;
  }
  try {
    write_file_atomic(key_path, to_text(found.kept));
  } catch (const EnvironmentError& e) {
    files_->note_problem(
        fmt::format("the program of {} had been touched, and will be hashed as a whole again: {}", found.kept.key.subject, e.what()));
  }
}

std::optional<CompiledModel> ProgramCache::find(const ProgramKey& key, const Setup& setup, std::span<const Tensor> bound, bool waited,
                                                std::string* why, std::vector<std::string>* outputs) {
  const Stopwatch watch;
  const fs::path key_path = files_->program_key_path(key.hash());
  std::error_code error;
  if (!fs::exists(key_path, error)) return std::nullopt;
  try {
    Found found;
    exec::Loadable made = read(key, setup.device, found);
    made.plan = with_options(std::move(made.plan), setup.options);
    for (size_t i = 0; i < bound.size(); ++i)
      if (bound[i].defined()) made.store.constants.add(fmt::format("#{}", i), bound[i]);
    CompileReport report;
    const auto& n = found.kept.counts;
    TOROID_USER_CHECK(n.size() == 5, "{} counts {} things, expected 5", key_path.string(), n.size());
    report.graph_nodes = static_cast<size_t>(n[0]), report.kernels_unfused = static_cast<size_t>(n[1]);
    report.kernels = static_cast<size_t>(n[2]), report.host_calls = static_cast<size_t>(n[3]), report.blocks = static_cast<size_t>(n[4]);
    CompiledModel model = CompiledModel::of(std::move(made), setup.device, std::move(report));
    mark_used(key_path, found);
    if (outputs) *outputs = found.kept.outputs;
    const double ms = watch.ms();
    count([&](auto& c) { ++c.hits, c.waits += waited, c.saved_ms += found.kept.compile_ms - ms; });
    log(Artifact::Cache,
        fmt::format("the program of {} is on disk ({}): {:.1f} ms where compiling took {:.1f}{}", key.subject, key.hash().hex(), ms,
                    found.kept.compile_ms, found.hashed ? "; its file had been touched, and was hashed as a whole" : ""));
    return model;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    *why = fmt::format("the one on disk cannot be used: {}", e.what());
    return std::nullopt;
  }
}

struct ProgramCache::Keeping {
  KeptKey kept;
  exec::Loadable made;
  std::map<std::string, std::string> theirs;  // names of the caller's tensors, which are not kept
  uint64_t bytes = 0;                         // of its own constants
};

namespace {

void count_bypass(const ProgramKey& key, const std::string& why) {
  log(Artifact::Cache, fmt::format("the program of {} is not kept: {}", key.subject, why));
  count([&](auto& c) { ++c.bypasses, ++c.reasons[why]; });
}

// Whether runs write to what is kept of the program.
bool writes_constants(const exec::Plan& plan) {
  const bool inputs = std::any_of(plan.inputs.begin(), plan.inputs.end(), [](auto& in) { return in.mutated && !in.constant.empty(); });
  return inputs || std::any_of(plan.steps.begin(), plan.steps.end(), [](auto& step) {
           const auto blocks = exec::blocks_of(step);
           return std::any_of(blocks.begin(), blocks.end(), [](auto& block) { return writes_constants(*block.plan); });
         });
}

}  // namespace

std::optional<ProgramCache::Keeping> ProgramCache::prepare(const ProgramKey& key, const exec::Loadable& made, const CompileReport& r,
                                                           const ProgramSource& source, double compile_ms, int64_t began_ns) const {
  const auto refused = [&](const std::string& why) {
    count_bypass(key, why);
    return std::nullopt;
  };
  if (const std::string doubt = source.doubt ? source.doubt() : ""; !doubt.empty()) return refused(doubt);
  Keeping out{{key, {}, {}, {}, {}, compile_ms}, made, names_of(made.store, source.bound)};
  if (source.outputs) out.kept.outputs = source.outputs();
  for (auto& [name, t] : made.store.constants.all())
    if (!out.theirs.count(name)) out.bytes += static_cast<uint64_t>(t.numel()) * size_of(t.dtype());
  if (out.bytes > files_->limit_bytes() / 2)
    return refused(
        fmt::format("its constants take more than half of the {} MiB of the cache (option cache_size_mb)", files_->limit_bytes() >> 20));
  for (size_t n : {r.graph_nodes, r.kernels_unfused, r.kernels, r.host_calls, r.blocks}) out.kept.counts.push_back(static_cast<int64_t>(n));
  try {
    if (source.files)
      for (auto& [file, stamp] : source.files()) {
        if (is_fresh(stamp, began_ns)) return refused("a file beside the model was written just before it was read");
        if (stamp_of(file) != stamp) return refused("a file beside the model was written to while it was read");
        out.kept.files.emplace_back(file.string(), stamp);
      }
  } catch (const EnvironmentError& e) {
    return refused(e.what());
  }
  return out;
}

void ProgramCache::keep(Keeping k) const {
  const ProgramKey& key = k.kept.key;
  const Hash128 hash = key.hash();
  const fs::path path = files_->program_path(hash);
  try {
    const Stopwatch watch;
    package::write_package(path, {{hash.hex(), "native", k.made, k.theirs}}, {key.subject, "cached"});
    k.kept.stamp = stamp_of(path);
    write_file_atomic(files_->program_key_path(hash), to_text(k.kept));
    count([](auto& c) { ++c.kept; });
    log(Artifact::Cache,
        fmt::format("the program of {} is kept as {}, {} bytes, in {:.1f} ms", key.subject, path.string(), k.kept.stamp.bytes, watch.ms()));
    files_->note_stored(k.kept.stamp.bytes);
  } catch (const EnvironmentError& e) {
    files_->note_problem(fmt::format("the program of {} was compiled but not kept: {}", key.subject, e.what()));
  } catch (const UserError& e) {  // what no file can hold
    count_bypass(key, e.what());
  }
}

CompiledModel ProgramCache::get(const ProgramKey& key, const Setup& setup, const ProgramSource& source, std::vector<std::string>* outputs) {
  std::string why;
  if (auto model = find(key, setup, source.bound, false, &why, outputs)) return std::move(*model);
  const fs::path lock_path = files_->program_path(key.hash()).replace_extension(".lock");
  try {
    make_directories(lock_path.parent_path());
  } catch (const EnvironmentError& e) {
    files_->note_problem(e.what());
  }
  // What this process writes is there sooner by a compile.
  const bool may_wait_here = may_wait(setup, source) && !writing().has(key.hash());
  auto lock = std::make_shared<FileLock>(lock_path, may_wait_here ? get_option(options::kCacheWaitMs) : 0);
  const bool waited = lock->waited() && may_wait_here;
  if (!lock->held()) log(Artifact::Cache, fmt::format("the program of {} is compiled without a lock: {}", key.subject, lock->refusal()));
  if (lock->waited() || why.empty())  // or it was kept between the first look and the lock
    if (auto model = find(key, setup, source.bound, waited, &why, outputs)) return std::move(*model);
  // Whoever was waited for kept nothing, and the next one would wait for nothing again.
  if (lock->waited()) lock.reset();
  if (log_enabled(Artifact::Cache))
    log(Artifact::Cache, fmt::format("the program of {} is compiled: {}", key.subject, why.empty() ? explain(key) : why));
  count([&](auto& c) { ++c.misses, c.damaged += !why.empty(), c.waits += waited; });
  const Stopwatch watch;
  const int64_t began = wall_clock_ns();
  auto graph = source.graph();
  if (outputs && source.outputs) *outputs = source.outputs();
  const std::string refusal =
      is_tuned_later(*graph, setup) ? "it runs before it is tuned" : refusal_to_keep(*graph, setup.device, source.bound);
  return CompiledModel::make(std::move(graph), setup, {}, [&](const exec::Loadable& made, const CompileReport& report) {
    if (!refusal.empty()) return count_bypass(key, refusal);
    std::optional<Keeping> keeping = prepare(key, made, report, source, watch.ms(), began);
    if (!keeping) return;
    constexpr uint64_t kSoonWritten = 4 << 20;
    const bool theirs = std::any_of(source.bound.begin(), source.bound.end(), [](const Tensor& t) { return t.defined(); });
    if (keeping->bytes < kSoonWritten || theirs || writes_constants(made.plan)) return keep(*std::move(keeping));
    if (!writing().add(key.hash())) return;
    after_return([cache = *this, lock, keeping = std::make_shared<Keeping>(*std::move(keeping))] {
      const Hash128 hash = keeping->kept.key.hash();
      try {
        cache.keep(std::move(*keeping));
      } catch (const std::exception& e) {  // nobody is there to be told
        cache.files_->note_problem(fmt::format("a program was compiled but not kept: {}", e.what()));
      }
      writing().remove(hash);
    });
  });
}

std::string ProgramCache::explain(const ProgramKey& key) const {
  std::string nearest;
  size_t least = SIZE_MAX;
  for (auto& e : files_->list()) {
    if (e.kind != jit::CacheKind::Program) continue;
    try {
      const fs::path path = fs::path(e.object).replace_extension(".key");
      const KeptKey other = parse_kept_key(read_file(path), path.string());
      if (other.key.subject != key.subject) continue;
      const std::string text = difference(other.key, key);
      if (text.empty()) return "it is on disk, as " + e.object.string();
      const auto differing = static_cast<size_t>(std::count(text.begin(), text.end(), ';'));
      if (differing < least) least = differing, nearest = text;
    } catch (const Error&) {  // it is no help
    }
  }
  return nearest.empty() ? "no program of that name is on disk" : "of the one on disk " + nearest;
}

CompiledModel cached(const std::function<ProgramKey()>& key, const Setup& setup, const ProgramSource& source,
                     std::vector<std::string>* outputs) {
  std::string why = refusal_to_keep(setup);
  if (why.empty()) why = source.refusal.value_or("");
  if (const auto cache = why.empty() ? ProgramCache::shared(&why) : nullptr) return cache->get(key(), setup, source, outputs);
  count([&](auto& c) { ++c.bypasses, ++c.reasons[why]; });
  auto graph = source.graph();
  if (outputs && source.outputs) *outputs = source.outputs();
  log(Artifact::Cache, fmt::format("the program of {} is compiled: {}", graph->name, why));
  return CompiledModel::make(std::move(graph), setup);
}

}  // namespace toroid::compiler

namespace toroid {

ProgramCacheCounters program_cache_counters() {
  std::string why;
  const auto files = jit::shared_cache(&why);
  std::lock_guard lock(compiler::counters().mutex);
  ProgramCacheCounters out = compiler::counters().counters;
  out.problem = files ? files->last_problem() : why;
  return out;
}

}  // namespace toroid
