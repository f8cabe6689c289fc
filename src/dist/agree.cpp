#include "dist/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace toroid::distributed {

namespace {

constexpr size_t kHead = 512;  // bytes that each gives at once: its length, and what has room behind that
constexpr size_t kInHead = kHead - sizeof(int64_t);

std::byte* bytes(std::string& s) { return reinterpret_cast<std::byte*>(s.data()); }

}  // namespace

// Most are short: one meeting. The rest of longer ones follows: what a rank gives it gives to all.
std::vector<std::string> all_gather_object(Group& group, const std::string& own, const std::string& where) {
  const auto ranks = static_cast<size_t>(group.size());
  const auto length = static_cast<int64_t>(own.size());
  std::string head(kHead, '\0'), heads(kHead * ranks, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  own.copy(head.data() + sizeof length, kInHead);
  group.run({.kind = Kind::AllGather, .dtype = DType::U8, .in = bytes(head), .out = bytes(heads), .count = kHead, .where = where});
  std::vector<std::string> out;
  std::vector<int64_t> rest;
  for (size_t r = 0; r < ranks; ++r) {
    int64_t its = 0;
    std::memcpy(&its, heads.data() + r * kHead, sizeof its);
    const size_t here = std::min(static_cast<size_t>(its), kInHead);
    out.push_back(heads.substr(r * kHead + sizeof its, here));
    rest.push_back(its - static_cast<int64_t>(here));
  }
  const auto total = static_cast<size_t>(std::accumulate(rest.begin(), rest.end(), int64_t{0}));
  if (total == 0) return out;
  std::string given, taken(total, '\0');
  const std::string own_rest = own.size() > kInHead ? own.substr(kInHead) : "";
  for (size_t r = 0; r < ranks; ++r) given += own_rest;
  group.run({.kind = Kind::AllToAll,
             .dtype = DType::U8,
             .in = bytes(given),
             .out = bytes(taken),
             .in_splits = std::vector<int64_t>(ranks, static_cast<int64_t>(own_rest.size())),
             .out_splits = rest,
             .where = where});
  size_t at = 0;
  for (size_t r = 0; r < ranks; ++r) {
    out[r] += taken.substr(at, static_cast<size_t>(rest[r]));
    at += static_cast<size_t>(rest[r]);
  }
  return out;
}

double greatest(Group& group, double own, const std::string& where) {
  double out = 0;
  group.run({.kind = Kind::AllReduce,
             .dtype = DType::F64,
             .op = ReduceOp::Max,
             .in = reinterpret_cast<const std::byte*>(&own),
             .out = reinterpret_cast<std::byte*>(&out),
             .count = 1,
             .where = where});
  return out;
}

void agree(Group& group, const std::string& thing, const std::string& own) {
  const auto all = all_gather_object(group, own, thing);
  for (size_t r = 1; r < all.size(); ++r)
    TOROID_USER_CHECK(all[r] == all[0], "group \"{}\": the ranks disagree about {}: rank {} has {}, rank 0 {}", group.name(), thing, r,
                      all[r], all[0]);
}

}  // namespace toroid::distributed
