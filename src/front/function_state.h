// What a compiled function knows: its variants, the programs of its parts, and what it has counted.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/compile_scope.h"
#include "base/log.h"
#include "base/options.h"
#include "front/remembered_sizes.h"
#include "front/variant.h"
#include "trace/tracer.h"

namespace toroid {
namespace front {

constexpr size_t kKeptReasons = 256;

// Messages that are logged when no lock is held.
using Messages = std::vector<std::pair<Artifact, std::string>>;
inline void log_all(const Messages& messages) {
  for (auto& [artifact, text] : messages) log(artifact, text);
}

// What was seen of one argument tensor: sizes that differ between calls become symbolic.
struct History {
  std::vector<int64_t> sizes;
  std::vector<bool> changed;
};

inline void keep(std::vector<std::string>& list, std::string text) {
  if (list.size() < kKeptReasons && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

}  // namespace front

namespace detail {

using front::Call;
using front::Captures;
using front::Entries;
using front::Entry;
using front::Guards;
using front::History;
using front::Messages;
using trace::SizePolicy;

struct Function::State {
  explicit State(CompileConfig c) : config(std::move(c)), settings(front::read_settings(config)) {}

  std::vector<Tensor> call(std::span<const ArgumentView> arguments, Body body, void* function);
  std::vector<Tensor> miss(const Call& c);
  std::vector<Tensor> refresh(const std::shared_ptr<const Entry>& stale, const Call& c,
                              const std::shared_ptr<const front::OptionsNow>& now);
  std::vector<Tensor> run(const Entry& e, const Call& c);
  std::vector<Tensor> eager(const Call& c, const std::string& reason);
  std::vector<Tensor> run_segment(trace::Segment s);
  trace::Segment trace(const Call& c, const std::vector<std::vector<SizePolicy>>& policies, const trace::SegmentRunner& on_break,
                       bool* broken);
  std::vector<std::vector<SizePolicy>> policies_of(const Call& c);
  void recall(const Call& c);
  void remember();
  std::string name_of_tensor(const Call& c, size_t index) const;
  // What a call looks at, by one lock.
  struct Now {
    std::shared_ptr<const Entries> entries;
    std::shared_ptr<const front::OptionsNow> options;
  };
  Now state_now();
  std::shared_ptr<const front::OptionsNow> options() { return state_now().options; }
  std::shared_ptr<const Entry> find(const Call& c, const Entries& list, const front::OptionsNow& now);
  trace::Segment retrace(const Call& c, const std::vector<std::vector<SizePolicy>>& policies, bool* broken);
  std::shared_ptr<Entry> entry_of(const Call& c, trace::Segment& s, std::shared_ptr<const Captures> captures,
                                  std::vector<std::vector<SizePolicy>> policies);
  // why: the reason of the recompile; empty: the guards of the latest variant tell.
  std::shared_ptr<const Entry> add(const Call& c, trace::Segment s, std::shared_ptr<const Captures> captures,
                                   std::vector<std::vector<SizePolicy>> policies, const std::shared_ptr<const front::OptionsNow>& now,
                                   const std::string& why = {});
  std::shared_ptr<const Entry> await_other(std::unique_lock<std::mutex>& lock, const Call& c, const front::OptionsNow& now);
  // hint: see CompileReport::hints; empty: none.
  Messages report_new(const Call& c, const Entry& e, std::string why, std::string hint);
  void keep_entry(const std::shared_ptr<const Entry>& e, uint64_t generation);
  void exchange(const std::shared_ptr<const Entry>& old, std::shared_ptr<const Entry> by);
  // Of the variants that others have replaced, one that the call fits and whose graph is this again.
  std::shared_ptr<const Entry> returned(const std::string& text, const Captures& captures, const Call& c, const front::OptionsNow& now);
  static bool limit_reached(size_t programs, const front::OptionsNow& now) {
    return static_cast<int64_t>(programs) >= now.options.get(options::kRecompileLimit);
  }
  // Of whole functions, with those in whose place others were compiled.
  size_t variants_made() const { return variants()->size() + given_up.load(); }
  std::optional<std::vector<Tensor>> refused(const Call& c, const front::OptionsNow& now, const std::string& why);
  std::vector<Tensor> past_limit(const Call& c, const front::OptionsNow& now, const std::string& why);
  void verify(const Entry& e, const Call& c);
  // For what compile_debug writes, of what was told last: why it is compiled, and guards. Under the mutex.
  std::vector<std::string> notes_of(const Messages& messages) const;
  // Takes the graph. when_used: it is compiled when the program first runs.
  front::Program compile(trace::Segment& s, const front::OptionsNow& now, std::vector<std::string> notes, bool when_used = false) const;
  struct SegmentSite {
    std::unordered_map<std::string, front::Program> programs;  // by the graph's text
    Guards latest;
    CompileOptions options;  // of the latest
  };
  front::Program segment_program(trace::Segment& s);
  bool takes_another(trace::Segment& s, SegmentSite& here, const front::OptionsNow& now, Messages& messages);
  void follow_reset();
  void clear();
  void clear_locked();

  const CompileConfig config;
  const front::Settings settings;
  std::atomic<size_t> recent{0};
  std::atomic<int64_t> calls{0}, hits{0}, eager_calls{0}, limit_calls{0}, compiles{0}, rebinds{0};
  std::atomic<bool> breaks_at_reads{false};  // elements of captured tensors, which the function reads as numbers, have changed
  std::atomic<size_t> given_up{0};           // variants in whose place others were compiled
  std::atomic<uint64_t> resets{front::reset_count()};

  // The list of variants is replaced as a whole: a call holds the one it found, and never waits for a compile.
  std::shared_ptr<const Entries> variants() const {
    std::lock_guard lock(entries_mutex);
    return entries;
  }
  void replace_variants(std::shared_ptr<const Entries> next) {
    std::lock_guard lock(entries_mutex);
    entries.swap(next);
  }
  mutable std::mutex entries_mutex;  // held for a copy of the pointer only
  std::shared_ptr<const Entries> entries = std::make_shared<const Entries>();
  std::shared_ptr<const front::OptionsNow> latest_options;  // with entries_mutex

  // Of what follows. Not held while compiling: the code of custom operations and what listens to logs and tuning may call the function.
  std::mutex mutex;
  std::condition_variable made;                                         // a compile has ended
  std::vector<std::shared_ptr<const Entry>> pending;                    // that are being compiled
  std::multiset<std::pair<std::string, std::string>> pending_segments;  // by site and text
  std::vector<History> history;
  std::optional<Hash128> remembered_as;                   // in the cache, where sizes that differ are kept; of the first call
  front::OpenSizes remembered;                            // what is kept
  std::vector<std::shared_ptr<const Entry>> replaced;     // variants whose captured variables were assigned, the latest last: a few
  CompileReport kept;                                     // the lists of the report
  std::unordered_map<std::string, SegmentSite> segments;  // by the reason of the break at their end
  bool segmented = false;
};

}  // namespace detail
}  // namespace toroid
