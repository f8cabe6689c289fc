// How the data of collectives moves between the ranks of a group.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "dist/messages/call.h"
#include "dist/messages/message_group.h"

namespace toroid::distributed::messages {
namespace {

// Of a message with data: its memory is a copy, which should stay in a processor's cache.
constexpr int64_t kMostPiece = int64_t{1} << 20;

std::byte* memory_of(const std::byte* in) { return const_cast<std::byte*>(in); }  // of pieces that are given: they are only read

}  // namespace

void MessageGroup::move(const Collective& c) {
  switch (c.kind) {
    case Kind::Barrier:
      return;  // all have come
    case Kind::Broadcast:
      return broadcast(c);
    case Kind::AllGather:
      return gather(c);
    case Kind::AllToAll:
      return scatter(c);
    case Kind::AllReduce:
      return reduce_all(c);
    case Kind::ReduceScatter: {
      std::vector<int64_t> begins(static_cast<size_t>(size()) + 1);
      for (size_t r = 0; r < begins.size(); ++r) begins[r] = static_cast<int64_t>(r) * c.count;
      return reduce_parts(c, begins, c.out);
    }
  }
}

// Both in pieces of at most kMostPiece bytes, a round of them at a time. A rank's own part is copied.
void MessageGroup::exchange(const Collective& c, const std::vector<Piece>& given, const std::vector<Piece>& taken) {
  int64_t most = 0;
  for (auto* list : {&given, &taken})
    for (auto& p : *list) most = std::max(most, p.bytes);
  for (int64_t begin = 0; begin < most; begin += kMostPiece) {
    Batch batch(transport_, first_tag_ + kData);
    std::vector<std::pair<const Piece*, size_t>> places;
    const auto left = [&](const Piece& p) { return std::clamp<int64_t>(p.bytes - begin, 0, kMostPiece); };
    for (auto& p : taken)
      if (p.peer != rank() && left(p) > 0) places.emplace_back(&p, batch.receive(members()[static_cast<size_t>(p.peer)], left(p)));
    for (auto& p : given)
      if (p.peer != rank() && left(p) > 0) batch.send(members()[static_cast<size_t>(p.peer)], p.at + begin, left(p));
    wait(batch, c, Stage::Moving);
    for (auto& [p, place] : places) {
      const auto got = batch.received(place);
      if (static_cast<int64_t>(got.size()) != left(*p))
        fail_group(c, fmt::format("rank {} sent {} bytes in place of {}; {}", p->peer, got.size(), left(*p), kSameVersion), true);
      std::memcpy(p->at + begin, got.data(), got.size());
    }
  }
  const auto is_own = [&](const Piece& p) { return p.peer == rank(); };
  const auto from = std::find_if(given.begin(), given.end(), is_own), to = std::find_if(taken.begin(), taken.end(), is_own);
  if (from != given.end() && to != taken.end() && from->bytes > 0) std::memmove(to->at, from->at, static_cast<size_t>(from->bytes));
}

void MessageGroup::gather(const Collective& c) {
  const int64_t bytes = c.count * static_cast<int64_t>(size_of(c.dtype));
  std::vector<Piece> given, taken;
  for (int r = 0; r < size(); ++r) {
    given.push_back({r, memory_of(c.in), bytes});
    taken.push_back({r, c.out + r * bytes, bytes});
  }
  exchange(c, given, taken);
}

void MessageGroup::scatter(const Collective& c) {
  const auto bytes = static_cast<int64_t>(size_of(c.dtype));
  std::vector<Piece> given, taken;
  int64_t in = 0, out = 0;
  for (int r = 0; r < size(); ++r) {
    const int64_t gives = c.in_splits[static_cast<size_t>(r)] * bytes, takes = c.out_splits[static_cast<size_t>(r)] * bytes;
    given.push_back({r, memory_of(c.in) + in, gives});
    taken.push_back({r, c.out + out, takes});
    in += gives;
    out += takes;
  }
  exchange(c, given, taken);
}

// Along a binomial tree: a rank has it from the one without its lowest bit, counted from the root.
void MessageGroup::broadcast(const Collective& c) {
  const int64_t bytes = c.count * static_cast<int64_t>(size_of(c.dtype));
  const int place = (rank() - c.root + size()) % size();
  const auto rank_at = [&](int p) { return (p + c.root) % size(); };
  if (place == 0) {
    if (bytes > 0) std::memmove(c.out, c.in, static_cast<size_t>(bytes));
  }
  const int lowest = place == 0 ? size() : place & -place;
  for (int64_t begin = 0; begin < bytes; begin += kMostPiece) {
    const int64_t part = std::min(kMostPiece, bytes - begin);
    if (place != 0) exchange(c, {}, {{rank_at(place - lowest), c.out + begin, part}});
    std::vector<Piece> given;
    for (int step = 1; step < lowest && place + step < size(); step *= 2) given.push_back({rank_at(place + step), c.out + begin, part});
    exchange(c, given, {});
  }
}

// In parts, one a rank: what is small has come with the call, and each rank has reduced it.
void MessageGroup::reduce_all(const Collective& c) {
  const auto bytes = static_cast<int64_t>(size_of(c.dtype));
  std::vector<int64_t> begins(static_cast<size_t>(size()) + 1);
  for (size_t r = 0; r < begins.size(); ++r) {
    const auto rank = static_cast<int64_t>(r);
    begins[r] = c.count / size() * rank + std::min(c.count % size(), rank);
  }
  const auto part = [&](int r) {
    return Piece{r, c.out + begins[static_cast<size_t>(r)] * bytes,
                 (begins[static_cast<size_t>(r) + 1] - begins[static_cast<size_t>(r)]) * bytes};
  };
  const Piece own = part(rank());
  reduce_parts(c, begins, own.at);
  std::vector<Piece> given, taken;
  for (int r = 0; r < size(); ++r) {
    given.push_back({r, own.at, own.bytes});
    taken.push_back(part(r));
  }
  exchange(c, given, taken);
}

// Of the inputs' elements begins[r] to begins[r + 1] rank r gets the reduced ones, folded in the order of the ranks.
void MessageGroup::reduce_parts(const Collective& c, const std::vector<int64_t>& begins, std::byte* out) {
  const auto bytes = static_cast<int64_t>(size_of(c.dtype));
  const auto count = [&](int r) { return begins[static_cast<size_t>(r) + 1] - begins[static_cast<size_t>(r)]; };
  const int64_t own = count(rank()) * bytes;
  std::vector<std::byte> all(static_cast<size_t>(own) * static_cast<size_t>(size()));
  std::vector<Piece> given, taken;
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < size(); ++r) {
    given.push_back({r, memory_of(c.in) + begins[static_cast<size_t>(r)] * bytes, count(r) * bytes});
    taken.push_back({r, all.data() + r * own, own});
    inputs.push_back(taken.back().at);
  }
  exchange(c, given, taken);
  reduce(c.dtype, c.op, inputs, out, count(rank()));
}

}  // namespace toroid::distributed::messages
