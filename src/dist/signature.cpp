#include "dist/signature.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/hash.h"

namespace toroid::distributed {
namespace {

struct Known {
  std::mutex mutex;
  std::map<uint32_t, std::string> calls;
};

// Never destroyed: threads may look while the process ends.
Known& known() {
  static auto& all = *new Known;
  return all;
}

std::string words_of(uint32_t signature) {
  std::lock_guard lock(known().mutex);
  const auto at = known().calls.find(signature);
  return at == known().calls.end() ? fmt::format("something else (signature {:#010x})", signature) : at->second;
}

}  // namespace

uint32_t site_signature(const Collective& c) {
  // Names, not numbers: they stay when an enum gets another value.
  const bool reduces = c.kind == Kind::AllReduce || c.kind == Kind::ReduceScatter;
  Hasher h;
  h.add(name_of(c.kind)).add(name_of(c.dtype)).add(reduces ? name_of(c.op) : "").add(c.root).add(c.where);
  return static_cast<uint32_t>(h.finish().lo);
}

uint32_t remember_signature(const Collective& c) {
  const uint32_t out = signature_of(c);
  std::lock_guard lock(known().mutex);
  known().calls.emplace(out, to_string(c) + (c.where.empty() ? "" : " at " + c.where));
  return out;
}

std::string signature_mismatch(int rank, uint32_t called, int own_rank, uint32_t own) {
  if (called == own) return "";
  return fmt::format("rank {} called {}, rank {} {}", rank, words_of(called), own_rank, words_of(own));
}

}  // namespace toroid::distributed
