#include "dist/messages/call.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace toroid::distributed::messages {
namespace {

constexpr uint32_t kMagic = 0x54443102;  // goes up with each change of the bytes
constexpr size_t kMostWhere = 400;
constexpr int64_t kMostCarried = 4096;

struct Fixed {
  uint32_t magic;
  uint8_t kind, dtype, op, unused;
  int32_t root;
  uint32_t where, in_splits, out_splits;  // lengths of what follows: characters, and integers of 64 bits
  int64_t count;
  int64_t carried;  // bytes, the last that follow
};

template <class T>
void append(std::string& out, const T* from, size_t count) {
  out.append(reinterpret_cast<const char*>(from), count * sizeof(T));
}

}  // namespace

int64_t most_call_bytes(int ranks) { return static_cast<int64_t>(sizeof(Fixed) + kMostWhere) + 2 * int64_t{8} * ranks + kMostCarried; }

int64_t carried_bytes(const Collective& c, int rank) {
  const bool is_for_all = c.kind == Kind::AllGather || c.kind == Kind::AllReduce || (c.kind == Kind::Broadcast && c.root == rank);
  const int64_t bytes = is_for_all ? c.count * static_cast<int64_t>(size_of(c.dtype)) : 0;
  return bytes <= kMostCarried ? bytes : 0;
}

std::string call_bytes(const Collective& c, std::span<const std::byte> carried) {
  const std::string where = c.where.substr(0, kMostWhere);
  const Fixed fixed = {kMagic,
                       static_cast<uint8_t>(c.kind),
                       static_cast<uint8_t>(c.dtype),
                       static_cast<uint8_t>(c.op),
                       0,
                       c.root,
                       static_cast<uint32_t>(where.size()),
                       static_cast<uint32_t>(c.in_splits.size()),
                       static_cast<uint32_t>(c.out_splits.size()),
                       c.count,
                       static_cast<int64_t>(carried.size())};
  std::string out;
  append(out, &fixed, 1);
  append(out, c.in_splits.data(), c.in_splits.size());
  append(out, c.out_splits.data(), c.out_splits.size());
  out += where;
  append(out, carried.data(), carried.size());
  return out;
}

Call call_from(std::span<const std::byte> bytes) {
  Fixed fixed{};
  if (bytes.size() >= sizeof fixed) std::memcpy(&fixed, bytes.data(), sizeof fixed);
  const size_t splits = size_t{8} * (size_t{fixed.in_splits} + fixed.out_splits);
  const bool is_known = fixed.kind < std::size(kKindNames) && fixed.op < std::size(kReduceOpNames) && fixed.dtype < kDTypeCount;
  if (fixed.magic != kMagic || !is_known || fixed.carried < 0 || fixed.carried > kMostCarried ||
      bytes.size() != sizeof fixed + splits + fixed.where + static_cast<size_t>(fixed.carried))
    fail<EnvironmentError>("another rank speaks otherwise; {}", kSameVersion);
  Collective c{.kind = static_cast<Kind>(fixed.kind),
               .dtype = static_cast<DType>(fixed.dtype),
               .op = static_cast<ReduceOp>(fixed.op),
               .root = fixed.root,
               .count = fixed.count};
  const std::byte* at = bytes.data() + sizeof fixed;
  for (auto [list, count] : {std::pair{&c.in_splits, fixed.in_splits}, std::pair{&c.out_splits, fixed.out_splits}}) {
    list->resize(count);
    if (count) std::memcpy(list->data(), at, size_t{8} * count);
    at += size_t{8} * count;
  }
  c.where.assign(reinterpret_cast<const char*>(at), fixed.where);
  at += fixed.where;
  return {std::move(c), {at, at + fixed.carried}};
}

}  // namespace toroid::distributed::messages
