#include "dist/agree.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"

namespace toroid::distributed {

// Lengths first, then contents: what a rank gives it gives to all.
std::vector<std::string> all_gather_object(Group& group, const std::string& own, const std::string& where) {
  const auto ranks = static_cast<size_t>(group.size());
  const auto length = static_cast<int64_t>(own.size());
  std::vector<int64_t> lengths(ranks);
  group.run({.kind = Kind::AllGather,
             .dtype = DType::I64,
             .in = reinterpret_cast<const std::byte*>(&length),
             .out = reinterpret_cast<std::byte*>(lengths.data()),
             .count = 1,
             .where = where});
  std::string given, taken(static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})), '\0');
  for (size_t r = 0; r < ranks; ++r) given += own;
  group.run({.kind = Kind::AllToAll,
             .dtype = DType::U8,
             .in = reinterpret_cast<const std::byte*>(given.data()),
             .out = reinterpret_cast<std::byte*>(taken.data()),
             .in_splits = std::vector<int64_t>(ranks, length),
             .out_splits = lengths,
             .where = where});
  std::vector<std::string> out;
  size_t at = 0;
  for (int64_t n : lengths) {
    out.push_back(taken.substr(at, static_cast<size_t>(n)));
    at += static_cast<size_t>(n);
  }
  return out;
}

void agree(Group& group, const std::string& thing, const std::string& own) {
  const auto all = all_gather_object(group, own, thing);
  for (size_t r = 1; r < all.size(); ++r)
    TOROID_USER_CHECK(all[r] == all[0], "group \"{}\": the ranks disagree about {}: rank {} has {}, rank 0 {}", group.name(), thing, r,
                      all[r], all[0]);
}

}  // namespace toroid::distributed
