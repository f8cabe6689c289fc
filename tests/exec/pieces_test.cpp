// The stages of products in pieces, played by ranks that are early and late: whatever the order, each rank has the right result.
#include "exec/pieces.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>

namespace toroid::exec {
namespace {

using distributed::Kind;
using In = Stage::Place::In;

constexpr int kCalls = 3;

// What a rank does when all before has ended: chains, each in its order, beside each other.
using Chain = std::deque<std::function<void()>>;
struct Step {
  bool meets = false;  // with all ranks
  std::vector<Chain> chains = {};
};

// Numbers stand for pieces: element (rank, piece) of call c is unlike all others, products are sums of them.
class Play {
 public:
  Play(Kind kind, int ranks, unsigned seed, int64_t without_barrier = -1) : kind_(kind), ranks_(ranks), random_(seed) {
    const PiecesProblem p = problem(0);
    slots_.assign(static_cast<size_t>(ranks), std::vector<int64_t>(static_cast<size_t>(slots_of(p)), 0));
    results_.assign(static_cast<size_t>(ranks), std::vector<int64_t>(static_cast<size_t>(result_pieces()), 0));
    queues_.resize(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
      for (int call = 0; call < kCalls; ++call) {
        for (int64_t s = 0; s < stages_of(p); ++s) {
          if (meets_before(problem(s)) && s != without_barrier) queue(r).push_back({.meets = true});
          queue(r).push_back(stage(call, s, r));
        }
        queue(r).push_back({.chains = {{[this, call, r] { check(call, r); }}}});
      }
  }

  // Whether all results were right.
  bool run() {
    while (true) {
      std::vector<int> able;
      bool all_wait = true, any = false;
      for (int r = 0; r < ranks_; ++r) {
        any = any || !queue(r).empty();
        const bool waits = !queue(r).empty() && queue(r).front().meets;
        all_wait = all_wait && waits;
        if (!queue(r).empty() && !waits) able.push_back(r);
      }
      if (!any) return right_;
      if (all_wait) {
        for (int r = 0; r < ranks_; ++r) queue(r).pop_front();
        continue;
      }
      EXPECT_FALSE(able.empty()) << "ranks wait for ranks that have come to their end";
      if (able.empty()) return false;
      advance(able[random_() % able.size()]);
    }
  }

 private:
  PiecesProblem problem(int64_t stage) const { return {.kind = kind_, .group = "world", .ranks = ranks_, .stage = stage, .product = {}}; }
  int64_t result_pieces() const { return kind_ == Kind::AllGather ? ranks_ : pieces_of_rank(kind_); }
  std::deque<Step>& queue(int r) { return queues_[static_cast<size_t>(r)]; }
  static int64_t element(int call, int rank, int64_t piece) { return 1 + ((call * 11 + rank) * 31 + piece) * 1000003; }

  int64_t& at(int r, const Stage::Place& p) {
    return (p.in == In::Result ? results_ : slots_)[static_cast<size_t>(r)][static_cast<size_t>(p.number)];
  }

  // Each move and each product reads at one time and writes at another.
  Step stage(int call, int64_t s, int r) {
    Step out;
    const Stage what = stage_of(problem(s), r);
    const auto read = [this, call, r](const Stage::Place& p) {
      return p.in == In::None ? 0 : p.in == In::Operand ? element(call, r, p.number) : at(r, p);
    };
    for (auto& m : what.moves) {
      const auto held = std::make_shared<int64_t>();
      out.chains.push_back({[=] { *held = read(m.from); }, [=, this] { at(m.to_rank, {In::Slot, m.to_slot}) = *held; }});
    }
    for (auto& p : what.products) {
      const auto held = std::make_shared<int64_t>();
      out.chains.push_back({[=] { *held = read(p.rows) + read(p.addend); }, [=, this] { at(r, p.to) = *held; }});
    }
    return out;
  }

  void advance(int r) {
    auto& chains = queue(r).front().chains;
    const size_t i = random_() % chains.size();
    chains[i].front()();
    chains[i].pop_front();
    if (chains[i].empty()) chains.erase(chains.begin() + static_cast<long>(i));
    if (chains.empty()) queue(r).pop_front();
  }

  void check(int call, int r) {
    for (int64_t piece = 0; piece < result_pieces(); ++piece) {
      int64_t want = 0;
      if (kind_ == Kind::AllGather)
        want = element(call, static_cast<int>(piece), 0);
      else
        for (int other = 0; other < ranks_; ++other) want += element(call, other, r * pieces_of_rank(kind_) + piece);
      right_ = right_ && at(r, {In::Result, piece}) == want;
    }
  }

  const Kind kind_;
  const int ranks_;
  std::mt19937 random_;
  std::vector<std::vector<int64_t>> slots_, results_;
  std::vector<std::deque<Step>> queues_;
  bool right_ = true;
};

TEST(Pieces, AreRightInWhateverOrderRanksCome) {
  for (const Kind kind : {Kind::AllGather, Kind::ReduceScatter})
    for (int ranks = 2; ranks <= 6; ++ranks)
      for (unsigned seed = 0; seed < 300; ++seed)
        ASSERT_TRUE(Play(kind, ranks, seed).run()) << distributed::name_of(kind) << " of " << ranks << " ranks, seed " << seed;
}

// Ranks meet nowhere in vain.
TEST(Pieces, NeedAllTheirBarriers) {
  for (const Kind kind : {Kind::AllGather, Kind::ReduceScatter})
    for (int ranks = 2; ranks <= 4; ++ranks) {
      PiecesProblem p{.kind = kind, .group = "world", .ranks = ranks, .stage = 0, .product = {}};
      for (; p.stage < stages_of(p); ++p.stage) {
        if (!meets_before(p)) continue;
        bool wrong = false;
        for (unsigned seed = 0; seed < 3000 && !wrong; ++seed) wrong = !Play(kind, ranks, seed, p.stage).run();
        EXPECT_TRUE(wrong) << distributed::name_of(kind) << " of " << ranks << " ranks, stage " << p.stage;
      }
    }
}

TEST(Pieces, RefuseWhatIsNotDenseOrAligned) {
  PiecesProblem good{.kind = Kind::ReduceScatter, .group = "world", .ranks = 2, .stage = 0, .product = {}};
  good.product.m = 8, good.product.n = 16, good.product.k = 24, good.product.a.row = 24;
  EXPECT_EQ(refusal_of(good), "");
  const auto refused = [&](const std::function<void(external::CublasLtProblem&)>& plant) {
    PiecesProblem p = good;
    plant(p.product);
    return !refusal_of(p).empty();
  };
  EXPECT_TRUE(refused([](auto& g) { g.batch = 2; }));
  EXPECT_TRUE(refused([](auto& g) { g.out_dtype = DType::F32; }));
  EXPECT_TRUE(refused([](auto& g) { g.a.row = 32; }));
  EXPECT_TRUE(refused([](auto& g) { g.a.row = 1, g.a.column = 8; }));
  EXPECT_TRUE(refused([](auto& g) { g.a.offset = 3; }));
  EXPECT_TRUE(refused([](auto& g) { g.m = 1, g.k = g.a.row = 7; }));
}

}  // namespace
}  // namespace toroid::exec
