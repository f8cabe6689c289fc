// Calls that are compared beside the collectives, as those of NCCL: between threads, and between transports of messages.
#include "dist/call_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <barrier>
#include <functional>
#include <random>
#include <thread>

#include "dist/local/mailboxes.h"
#include "dist/messages/message_group.h"
#include "dist/tcp/tcp_transport.h"
#include "errors.h"
#include "toroid/distributed.h"

namespace toroid {
namespace {

using namespace distributed;
using messages::MessageGroup;
using messages::Transport;
using test::contains;

// Runs a body on ranks of this process, whose groups work by threads, or by messages between sockets.
using Body = std::function<void(Group&, std::barrier<>&)>;

void by_threads(int ranks, const Body& body) {
  std::barrier<> all(ranks);
  run_local(ranks, [&] { body(current_world().world(), all); });
}

void by_messages(int ranks, const Body& body) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<std::vector<tcp::Socket>> ends(n);
  for (auto& of_rank : ends) of_rank.resize(n);
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < a; ++b) {
      int files[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, files), 0);
      ends[a][b] = tcp::Socket(files[0]), ends[b][a] = tcp::Socket(files[1]);
    }
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  std::barrier<> all(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int r = 0; r < ranks; ++r) transports.push_back(tcp::make_transport(r, std::move(ends[static_cast<size_t>(r)])));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      MessageGroup group(*transports[static_cast<size_t>(r)], "world", 0, r, members);
      body(group, all);
      all.arrive_and_wait();
    });
  for (auto& t : threads) t.join();
}

void on_worlds(const Body& body) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    by_threads(ranks, body);
    by_messages(ranks, body);
  }
}

// Elements that rank `from` gives rank `to` at a round.
int64_t split(int from, int to, int64_t round) { return 1 + (from * 5 + to * 3 + round) % 7; }

Collective exchange(const Group& g, int64_t round) {
  Collective c{.kind = Kind::AllToAll, .where = "a.cpp:1"};
  for (int r = 0; r < g.size(); ++r) {
    c.in_splits.push_back(split(g.rank(), r, round));
    c.out_splits.push_back(split(r, g.rank(), round));
  }
  return c;
}

// A call by its number, the same on all ranks; lines are each rank's own.
Collective some(const Group& g, int64_t number) {
  const std::string where = fmt::format("rank{}.cpp:{}", g.rank(), number);
  switch (number % 6) {
    case 0:
      return {.kind = Kind::AllReduce, .count = 8 + number, .where = where};
    case 1:
      return {.kind = Kind::AllGather, .dtype = DType::BF16, .count = 100, .where = where};
    case 2:
      return {.kind = Kind::ReduceScatter, .op = ReduceOp::Max, .count = 3 * number, .where = where};
    case 3:
      return {.kind = Kind::Broadcast, .root = 1, .count = number, .where = where};
    case 4:
      return exchange(g, number);
    default:
      return {.kind = Kind::Barrier, .where = where};
  }
}

// A program of a few calls, some of them more than once, each as often as the others.
std::vector<int64_t> program(std::mt19937& draw) {
  std::vector<int64_t> out(1 + draw() % 12);
  for (auto& number : out) number = static_cast<int64_t>(draw() % 9);
  return out;
}

TEST(CallCheck, SaysNothingOfEqualCalls) {
  for (unsigned seed = 0; seed < 20; ++seed)
    on_worlds([seed](Group& g, std::barrier<>& all) {
      std::mt19937 draw(seed);
      CallCheck check(g);
      const auto calls = program(draw), others = program(draw);
      const bool replays = seed % 2 == static_cast<unsigned>(g.rank() % 2);  // what some ranks prepare, others call one by one
      std::vector<CallCheck::CallPtr> prepared;
      for (const int64_t number : calls) prepared.push_back(check.prepare(some(g, number)));
      for (int64_t round = 0; round < 40; ++round) {
        for (size_t i = 0; i < calls.size(); ++i) replays ? check.note(prepared[i]) : check.note(some(g, calls[i]));
        if (round % 8 == 7)
          for (const int64_t number : others) check.note(some(g, number));
        if (round % 8 == 3) check.note(exchange(g, round));
      }
      all.arrive_and_wait();
      EXPECT_EQ(test::user_error([&] { check.compare(); }), "no error") << "seed " << seed;
      all.arrive_and_wait();
    });
}

// A steady order costs no message, with equal calls in it, whatever each rank's splits are.
TEST(CallCheck, PostsWhatIsNewAlone) {
  on_worlds([](Group& g, std::barrier<>& all) {
    CallCheck check(g);
    const auto step = [&] {
      for (const int64_t number : {0, 1, 1, 1, 1, 2, 3, 4, 1}) check.note(some(g, number));
    };
    step(), step(), step();
    const int64_t before = check.posted();
    EXPECT_LE(before, 20);
    for (int i = 0; i < 10000; ++i) step();
    EXPECT_EQ(check.posted(), before);
    EXPECT_EQ(check.calls(), 10003 * 9);
    check.note(exchange(g, 1000));
    EXPECT_EQ(check.posted(), before + 1) << "splits that change are told";
    all.arrive_and_wait();
    check.compare();
    all.arrive_and_wait();
  });
}

struct Difference {
  const char* what;
  std::function<std::vector<Collective>(const Group&)> right, wrong;
  std::string told, right_told;
};

std::vector<Difference> differences() {
  const Collective base{.kind = Kind::AllReduce, .count = 64, .where = "a.cpp:7"};
  const auto one = [](Collective c) { return [c](const Group&) { return std::vector{c}; }; };
  const auto with = [&](const std::function<void(Collective&)>& change) {
    Collective c = base;
    c.where = "b.cpp:9";
    change(c);
    return one(c);
  };
  const std::string right = "all_reduce(sum) of f32[64] at a.cpp:7";
  std::vector<Difference> out = {
      {"kind", one(base), with([](auto& c) { c.kind = Kind::AllGather; }), "all_gather_into_tensor of f32[64] at b.cpp:9", right},
      {"dtype", one(base), with([](auto& c) { c.dtype = DType::I32; }), "all_reduce(sum) of i32[64] at b.cpp:9", right},
      {"op", one(base), with([](auto& c) { c.op = ReduceOp::Max; }), "all_reduce(max) of f32[64] at b.cpp:9", right},
      {"count", one(base), with([](auto& c) { c.count = 63; }), "all_reduce(sum) of f32[63] at b.cpp:9", right},
      {"another known call", one(base), [](const Group& g) { return std::vector{some(g, 3)}; }, "broadcast(from rank 1) of f32[3]", right}};
  const Collective cast{.kind = Kind::Broadcast, .count = 5, .where = "c.cpp:1"};
  Collective from_1 = cast;
  from_1.root = 1;
  out.push_back({"root", one(cast), one(from_1), "broadcast(from rank 1) of f32[5] at c.cpp:1", "broadcast(from rank 0) of f32[5]"});
  out.push_back({"order",
                 [base, cast](const Group&) {
                   return std::vector{base, cast};
                 },
                 [base, cast](const Group&) {
                   return std::vector{cast, base};
                 },
                 "broadcast(from rank 0) of f32[5]", right});
  out.push_back({"a call more", one(base),
                 [base, cast](const Group&) {
                   return std::vector{cast, base};
                 },
                 "broadcast(from rank 0)", right});
  out.push_back({"splits", [](const Group& g) { return std::vector{exchange(g, 0)}; },
                 [](const Group& g) {
                   Collective c = exchange(g, 0);
                   if (g.rank() == 1) ++c.in_splits[0];
                   return std::vector{c};
                 },
                 fmt::format("rank 1 gives rank 0 {} elements, which takes {}", split(1, 0, 0) + 1, split(1, 0, 0)), "all_to_all_single"});
  return out;
}

// After steady rounds rank 1 calls something else. As with NCCL a call ends when all ranks have made it. Known: both ways are steady parts
// of the program.
TEST(CallCheck, NamesTheRankThatDiffersAndBothCalls) {
  for (auto& d : differences())
    for (const bool known : {false, true})
      for (const bool prepared : {false, true})
        on_worlds([&](Group& g, std::barrier<>& all) {
          SCOPED_TRACE(fmt::format("{}, {}, rank {}", d.what, known ? "known" : "new", g.rank()));
          CallCheck check(g);
          const auto make = [&](const std::vector<Collective>& calls) {
            for (auto& c : calls) prepared ? check.note(check.prepare(c)) : check.note(c);
          };
          for (int round = 0; round < 5; ++round) {
            for (int64_t number = 0; number < 6; ++number) make({some(g, number)});
            if (round > 2) make(d.right(g));
            // Wrong calls that do fit when all make them.
            if (known && round > 2 && std::string_view(d.what) != "splits") make(d.wrong(g));
          }
          for (int64_t number = 0; number < 6; ++number) make({some(g, number)});
          all.arrive_and_wait();
          EXPECT_EQ(test::user_error([&] { check.compare(); }), "no error");
          all.arrive_and_wait();
          auto last = g.rank() == 1 ? d.wrong(g) : d.right(g);
          last.push_back(some(g, 0));
          std::string told = "no error";
          for (size_t i = 0; i < d.right(g).size() + 1; ++i) {
            if (told == "no error") told = test::user_error([&] { make({last[i]}); });
            for (int looks = 0; looks < 2; ++looks) {  // the first who knows it tells the others, whatever they wait in
              all.arrive_and_wait();
              if (told == "no error") told = test::user_error([&] { check.compare(); });
            }
            all.arrive_and_wait();
          }
          for (const auto* part : {&d.told, &d.right_told}) EXPECT_TRUE(contains(told, *part)) << told;
          EXPECT_TRUE(contains(told, "group \"world\": the ranks' collectives do not fit together: ") && contains(told, "rank 1 ")) << told;
          EXPECT_EQ(test::user_error([&] { check.note(some(g, 0)); }), told) << "it stays so";
          all.arrive_and_wait();
        });
}

TEST(CallCheck, MailOutlivesItsGroup) {
  by_messages(2, [](Group& g, std::barrier<>& all) {
    const auto mail = g.mail();
    mail->post(fmt::format("of {}", g.rank()));
    std::optional<Mail::Letter> got;
    while (!got) got = mail->take();
    EXPECT_EQ(got->from, 1 - g.rank());
    EXPECT_EQ(got->text, fmt::format("of {}", 1 - g.rank()));
    all.arrive_and_wait();
    static_cast<MessageGroup&>(g).end_mail();
    mail->post("nobody");
    EXPECT_FALSE(mail->take());
  });
}

}  // namespace
}  // namespace toroid
