#include "sched/reuse.h"

#include <algorithm>
#include <map>

#include "program/uses.h"
#include "sched/in_place.h"

namespace toroid::sched {
namespace {

using program::Node;
using program::Program;

constexpr int64_t kLeastBytes = 1 << 20;

// The first and the last node that touch each buffer.
class Lives {
 public:
  explicit Lives(const Program& p) {
    for (size_t i = 0; i < p.nodes.size(); ++i) {
      for (const int b : program::reads(p.nodes[i])) add(b, i);
      for (const int b : program::writes(p.nodes[i])) add(b, i);
    }
  }
  bool begins(int buffer, size_t node) const { return lives_.at(buffer).first == node; }
  bool ends(int buffer, size_t node) const { return lives_.at(buffer).second == node; }
  // The memory of `kept` is that of both.
  void join(int kept, int gone) {
    auto &a = lives_.at(kept), &b = lives_.at(gone);
    a = {std::min(a.first, b.first), std::max(a.second, b.second)};
    lives_.erase(gone);
  }

 private:
  void add(int buffer, size_t node) { lives_.try_emplace(buffer, node, node).first->second.second = node; }
  std::map<int, std::pair<size_t, size_t>> lives_;
};

bool is_large(const loop::Buffer& b) {
  const auto numel = b.numel.maybe_constant();
  return numel && *numel * static_cast<int64_t>(size_of(b.dtype)) >= kLeastBytes;
}
bool is_temporary(const loop::Buffer& b) { return b.kind == loop::BufferKind::Temporary; }

// Lays a result of node i over what it is made of, or the other way round. False: there is none left.
bool reuse_at(Program& p, size_t i, Lives& lives, program::Uses& uses) {
  const std::vector<int> written = uses.writes(i), read = uses.reads(i);
  for (const int result : written) {
    const auto& made = p.buffers[static_cast<size_t>(result)];
    const bool is_output = made.kind == loop::BufferKind::Output;
    if (!is_large(made) || !(is_temporary(made) || is_output) || !lives.begins(result, i)) continue;
    const auto old = std::find_if(read.begin(), read.end(), [&](int b) {
      const auto& buffer = p.buffers[static_cast<size_t>(b)];
      const bool is_like_it = is_temporary(buffer) && buffer.dtype == made.dtype && buffer.numel == made.numel;
      const bool is_free = std::find(written.begin(), written.end(), b) == written.end() && lives.ends(b, i) && !lives.begins(b, i);
      return is_like_it && is_free && may_write_over(p.nodes[i], b, result);
    });
    if (old == read.end()) continue;
    // An output's memory holds the temporary before; else the temporary's holds the result.
    const int kept = is_output ? result : *old, gone = is_output ? *old : result;
    uses.renumber(p, gone, kept);
    lives.join(kept, gone);
    return true;
  }
  return false;
}

}  // namespace

int reuse_temporaries(Program& p) {
  Lives lives(p);
  program::Uses uses(p);
  int count = 0;
  for (size_t i = 0; i < p.nodes.size(); ++i)
    while (reuse_at(p, i, lives, uses)) ++count;
  return count;
}

}  // namespace toroid::sched
