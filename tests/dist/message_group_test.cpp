// What a rank believes of what the others of its group send: nothing that its own call does not make sure of. The test speaks for the
// others.
#include "dist/messages/message_group.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "dist/messages/call.h"
#include "dist/tcp/tcp_transport.h"
#include "dist/timeout.h"
#include "errors.h"

namespace toroid {
namespace {

using namespace distributed;
using namespace std::chrono_literals;
using messages::Batch;
using messages::MessageGroup;
using test::contains;

// Of the first group of a world.
constexpr int kCallTag = 0, kDataTag = 1, kNoticeTag = 2;
const std::string kAdvice = "start all ranks with the same version of Toroid";

// A world of ranks of this process. Rank 0 is in a group with rank 1.
struct Ranks {
  explicit Ranks(int size) {
    std::vector<std::vector<tcp::Socket>> ends(static_cast<size_t>(size));
    for (auto& of_rank : ends) of_rank.resize(ends.size());
    for (size_t a = 0; a < ends.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        int files[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, files), 0);
        ends[a][b] = tcp::Socket(files[0]), ends[b][a] = tcp::Socket(files[1]);
      }
    for (int r = 0; r < size; ++r) transports.push_back(tcp::make_transport(r, std::move(ends[static_cast<size_t>(r)])));
    group = std::make_unique<MessageGroup>(*transports[0], "pair", 0, 0, std::vector<int>{0, 1});
  }

  void say(int rank, int tag, std::string_view bytes) {
    Batch batch(*transports[static_cast<size_t>(rank)], tag);
    batch.send(0, bytes.data(), static_cast<int64_t>(bytes.size()));
    EXPECT_TRUE(batch.poll());
  }
  std::string told(const Collective& c) {
    return test::environment_error([&] { group->run(c); });
  }

  test::TimeoutScope limit{"300"};
  std::vector<std::unique_ptr<messages::Transport>> transports;
  std::unique_ptr<MessageGroup> group;
};

// Memory for `c` on two ranks, and what lies behind it.
struct Memory {
  explicit Memory(Collective& c) : in(kBytes), out(kBytes, std::byte{0x5a}) { c.in = in.data(), c.out = out.data(); }
  bool is_whole_behind(int64_t bytes) const {
    return std::all_of(out.begin() + bytes, out.end(), [](std::byte b) { return b == std::byte{0x5a}; });
  }
  static constexpr size_t kBytes = 1 << 16;
  std::vector<std::byte> in, out;
};

TEST(MessageGroup, TakesWhatItsCallCarriesAlone) {
  const std::vector<std::byte> some(4096);
  for (const Kind kind : {Kind::AllReduce, Kind::AllGather, Kind::Broadcast, Kind::ReduceScatter, Kind::Barrier})
    for (const int root : {0, 1})
      for (const int64_t count : {0, 4, 1024, 1025})  // the last travels by itself
        for (const size_t bytes : {0, 1, 15, 16, 17, 4095, 4096}) {
          Collective c{.kind = kind, .root = root, .count = count};
          const Memory memory(c);
          const int64_t right = messages::carried_bytes(c, 1);
          if (static_cast<int64_t>(bytes) == right) continue;
          Ranks ranks(2);
          ranks.say(1, kCallTag, messages::call_bytes(c, {some.data(), bytes}));
          const std::string told = ranks.told(c);
          EXPECT_TRUE(contains(told, fmt::format("rank 1 sent {} bytes with its call in place of {}; {}", bytes, right, kAdvice)))
              << to_string(c) << ": " << told;
          EXPECT_TRUE(memory.is_whole_behind(0)) << to_string(c);
        }
}

TEST(MessageGroup, TakesNoDataThatIsCutShort) {
  for (const Kind kind : {Kind::AllReduce, Kind::AllGather, Kind::Broadcast, Kind::ReduceScatter, Kind::AllToAll})
    for (const int64_t lacks : {1, 4, 8000}) {
      Collective c{.kind = kind, .root = 1, .count = 2000};
      if (kind == Kind::AllToAll) c = {.kind = kind, .in_splits = {1000, 2000}, .out_splits = {1000, 2000}};
      const Memory memory(c);
      Collective other = c;
      if (kind == Kind::AllToAll) other.in_splits = other.out_splits = {2000, 1000};
      const int64_t whole = kind == Kind::AllReduce ? 4000 : 8000;  // a half of it is reduced here
      Ranks ranks(2);
      const std::string bytes(static_cast<size_t>(std::max<int64_t>(whole - lacks, 0)), '\1');
      ranks.say(1, kCallTag, messages::call_bytes(other, {}));
      ranks.say(1, kDataTag, bytes);
      const std::string told = ranks.told(c);
      EXPECT_TRUE(contains(told, fmt::format("rank 1 sent {} bytes in place of {}; {}", bytes.size(), whole, kAdvice)))
          << to_string(c) << ": " << told;
    }
}

TEST(MessageGroup, PassesOverNoticesOfStrangers) {
  Ranks ranks(3);
  ranks.say(2, kNoticeTag, "Lfailed: it is no rank of this group");
  ranks.say(2, kNoticeTag, "Fit is no rank of this group");
  const Collective c{.kind = Kind::Barrier};
  std::thread comes_late([&] {
    std::this_thread::sleep_for(20ms);
    ranks.say(1, kCallTag, messages::call_bytes(c, {}));
  });
  EXPECT_EQ(ranks.told(c), "no error");
  comes_late.join();
  ranks.say(1, kNoticeTag, "Fno space left");
  EXPECT_TRUE(contains(ranks.told(c), "cannot be done: no space left"));
}

TEST(Collectives, HaveASplitForEachRank) {
  const auto call = [](size_t in, size_t out) {
    return Collective{.kind = Kind::AllToAll, .in_splits = std::vector<int64_t>(in, 3), .out_splits = std::vector<int64_t>(out, 3)};
  };
  for (size_t in = 0; in < 4; ++in)
    for (size_t out = 0; out < 4; ++out)
      for (size_t wrong = 0; wrong < 2; ++wrong) {
        const Collective right = call(2, 2), other = call(in, out);
        const std::string why = mismatch(wrong == 0 ? std::vector{&other, &right} : std::vector{&right, &other});
        if (in == 2 && out == 2)
          EXPECT_EQ(why, "");
        else
          EXPECT_EQ(why, fmt::format("rank {} called {}: expected 2 numbers in each list, one a rank", wrong, to_string(other)));
      }
  Ranks ranks(2);
  ranks.say(1, kCallTag, messages::call_bytes(call(0, 1), {}));
  EXPECT_TRUE(contains(test::user_error([&] { ranks.group->run(call(2, 2)); }), "expected 2 numbers in each list"));
}

}  // namespace
}  // namespace toroid
