// Collectives as nodes of programs: their text, what they mean, and what compiled programs make of them, against the rows. Ranks are
// threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "dist/bits.h"
#include "dist/group.h"
#include "errors.h"
#include "graph/interpreter.h"
#include "lower/lowering.h"
#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "sched/call_nccl.h"
#include "sched/rewrites.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"
#include "trace/tracer.h"

namespace toroid {
namespace {

using distributed::rank;
using distributed::run_local;
using test::bits_of;
using test::contains;

constexpr DType kNodeDTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,   DType::I16, DType::I32, DType::I64,
                                 DType::U8,  DType::U16, DType::U32, DType::U64,  DType::Bool, DType::C64, DType::C128};

// Different on each rank.
Tensor brought(DType t, int64_t rows, const std::string& group) {
  const int own = distributed::rank();
  Tensor out = Tensor::empty(std::vector<int64_t>{rows, 3}, DType::F64);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<double>()[i] =
        static_cast<double>((i * 7 + own * 5 + static_cast<int64_t>(group.size())) % (is_bool(t) ? 2 : 13)) / (is_float(t) ? 7 : 1);
  return Tensor::of(out.to_vector(), std::vector<int64_t>{rows, 3}, t);
}

// All kinds, on x [n * ranks, 3], a view of it among their operands; what follows reads views of their results.
std::vector<Tensor> all_kinds(const Tensor& x, const std::string& group, int64_t ranks, int64_t own) {
  std::vector<Tensor> out;
  out.push_back(distributed::all_reduce(x, "sum", group));
  if (is_float(x.dtype())) out.push_back(distributed::all_reduce(transpose(x, 0, 1), "avg", group));
  if (!is_complex(x.dtype())) out.push_back(distributed::reduce_scatter(x, "max", group));
  const Tensor all = distributed::all_gather(x, group);
  out.push_back(is_complex(x.dtype()) ? all : transpose(all, 0, 1));
  out.push_back(distributed::broadcast(transpose(x, 0, 1), static_cast<int>(ranks - 1), group));
  std::vector<SymInt> given, taken;  // rank r gives rank t all it has where t is the next one
  for (int64_t r = 0; r < ranks; ++r) {
    given.push_back(r == (own + 1) % ranks ? x.size(0) : SymInt(0));
    taken.push_back((r + 1) % ranks == own ? x.size(0) : SymInt(0));
  }
  out.push_back(distributed::all_to_all(x, taken, given, group));
  return out;
}

// The rank of this thread in a group of the test.
int64_t rank_in(const std::string& group) { return distributed::current_world().group(group).rank(); }

void make_halves() {
  const int n = distributed::size();
  std::vector<int> odd, even;
  for (int r = n - 1; r >= 0; --r) (r % 2 ? odd : even).push_back(r);
  distributed::new_group("odd", odd);
  distributed::new_group("even", even);
}

TEST(CollectiveNodes, MeanWhatTheRowsDo) {
  run_local(4, [] {
    make_halves();
    for (const std::string& group : {std::string("world"), std::string(rank() % 2 ? "odd" : "even")}) {
      const int64_t ranks = distributed::current_world().group(group).size(), own = rank_in(group);
      for (DType t : kNodeDTypes) {
        const Tensor x = brought(t, 2 * ranks, group);
        trace::Tracer tracer("traced", nullptr);
        std::vector<Tensor> results;
        {
          const Tensor stand_in = tracer.argument(x, "x", {});
          trace::Tracer::Scope scope(&tracer);
          results = all_kinds(stand_in, group, ranks, own);
        }
        const auto g = std::move(tracer.finish(std::move(results)).graph);
        const program::Program lowered = lower::lower(*g);
        const auto nodes = std::count_if(lowered.nodes.begin(), lowered.nodes.end(), [](auto& n) { return n.is_collective(); });
        EXPECT_EQ(nodes, is_complex(t) ? 0 : 5 + is_float(t)) << name_of(t);
        program::verify(lowered, program::Stage::Lowered, "the test");
        const program::Program read = program::parse(program::to_string(lowered));
        EXPECT_EQ(program::to_string(read), program::to_string(lowered));
        const auto want = all_kinds(x, group, ranks, own), got = program::interpret(read, std::vector<Tensor>{x});
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(got[i].sizes(), want[i].sizes());
          EXPECT_EQ(bits_of(got[i]), bits_of(want[i])) << name_of(t) << " " << i;
        }
      }
    }
  });
}

// 2 * meeting(x) + bias of three ranks; the result is [rows, 3].
program::Program tail_of(distributed::Kind kind, int64_t rows) {
  program::Program p;
  program::Meeting a;
  a.kind = kind;
  a.op = distributed::ReduceOp::Max;
  a.group = "world";
  a.ranks = 3;
  a.sizes = {rows, 3};
  const std::vector<Expr> given = program::input_sizes(a);
  a.input = {p.new_buffer("x", DType::F32, program::product(given), loop::BufferKind::Input), DType::F32, 0, {3, 1}};
  const int bias = p.new_buffer("bias", DType::F32, 3, loop::BufferKind::Input),
            out = p.new_buffer("out", DType::F32, rows * 3, loop::BufferKind::Output);
  a.peers = {p.peers("world"), DType::I64, 0, {}};
  a.faults = {p.faults(), DType::I64, 0, {}};
  a.site = p.site({"all_reduce", "model.cpp:3", IndexSite::kRank, false});
  program::Node n;
  n.problem = a;
  const Expr i = sym::loop_symbol("i", rows), j = sym::loop_symbol("j", 3);
  n.domain.vars = {{i, false}, {j, false}};
  loop::BodyBuilder b(n.body);
  b.store(out, DType::F32, i * Expr(3) + j, b.accumulator(DType::F32) * 2.0 + b.load(bias, DType::F32, j));
  n.origins = {"sum"}, n.parts = {0};
  p.nodes.push_back(std::move(n));
  p.name = "tail";
  p.inputs = {{0, {DType::F32, given, {}}, graph::InputKind::User, {}, "x"},
              {bias, {DType::F32, {3}, {}}, graph::InputKind::User, {}, "bias"}};
  p.outputs.push_back({out, {DType::F32, {rows, 3}, {}}, -1, {}});
  return p;
}

// What GPUs compute by one kernel means the same on the host.
TEST(CollectiveNodes, ThatGoOnWithEachElement) {
  using distributed::Kind;
  const auto check = [](Kind kind, int64_t rows, const std::function<Tensor(const Tensor&)>& meet) {
    const program::Program p = tail_of(kind, rows);
    program::verify(p, program::Stage::Lowered, "the test");
    run_local(3, [&] {
      const Tensor x = brought(DType::F32, p.inputs[0].type.sizes[0].constant(), "world"),
                   y = brought(DType::F32, 1, "world").as_strided(std::vector<int64_t>{3}, std::vector<int64_t>{1});
      EXPECT_EQ(bits_of(program::interpret(p, std::vector<Tensor>{x, y})[0]), bits_of(meet(x) * 2.0 + y)) << name_of(kind);
    });
  };
  check(Kind::AllReduce, 4, [](const Tensor& x) { return distributed::all_reduce(x, "max"); });
  check(Kind::AllGather, 12, [](const Tensor& x) { return distributed::all_gather(x); });
  check(Kind::ReduceScatter, 2, [](const Tensor& x) { return distributed::reduce_scatter(x, "max"); });

  const program::Program p = tail_of(Kind::AllReduce, 4);
  const program::Program read = program::parse(program::to_string(p));
  EXPECT_EQ(program::to_string(read), program::to_string(p));
  const auto refused = [&](const std::function<void(program::Program&, program::Meeting&)>& plant) {
    program::Program wrong = p;
    plant(wrong, std::get<program::Meeting>(wrong.nodes[0].problem));
    return test::error_of<InternalError>([&] { program::verify(wrong, program::Stage::Lowered, "the test"); });
  };
  EXPECT_TRUE(contains(refused([](auto&, auto& r) { r.group = "other"; }), "is not what the ranks of \"other\" share"));
  EXPECT_TRUE(contains(refused([](auto&, auto& r) { std::swap(r.peers, r.faults); }), "is not what the ranks"));
  EXPECT_TRUE(contains(refused([](auto&, auto& r) { r.faults.buffer = r.input.buffer; }), "which is no record"));
  EXPECT_TRUE(contains(refused([](auto&, auto& r) { r.site = 1; }), "it is at site 1"));
  EXPECT_TRUE(contains(refused([](auto&, auto& r) { r.input.strides = {1, 4}; }), "is not dense"));
  EXPECT_TRUE(contains(refused([](auto&, auto& r) { r.kind = Kind::AllToAll; }), "is no meeting of kernels"));
  EXPECT_TRUE(contains(refused([](auto& w, auto& r) { w.nodes[0].body.steps.back().buffer = r.peers.buffer; }), "what ranks share"));
  std::set<std::string> groups;
  EXPECT_TRUE(program::meets(read.nodes[0], &groups) && groups.count("world"));
}

// What NCCL does in place of a kernel means the same, with and without something that is left to a loop.
TEST(CollectiveNodes, ThatNcclCanDo) {
  using distributed::Kind;
  const auto check = [](Kind kind, int64_t rows, bool plain) {
    SCOPED_TRACE(fmt::format("{}{}", name_of(kind), plain ? "" : ", and a tail"));
    program::Program p = tail_of(kind, rows);
    if (plain) {
      loop::Body body;
      loop::BodyBuilder b(body);
      auto& vars = p.nodes[0].domain.vars;
      b.store(p.outputs[0].buffer, DType::F32, vars[0].symbol * Expr(3) + vars[1].symbol, b.accumulator(DType::F32));
      p.nodes[0].body = std::move(body);
    }
    const program::Program own = p;
    sched::rewrite(p, 0, {sched::kNccl, {}});
    program::verify(p, program::Stage::Lowered, "the test");
    EXPECT_EQ(p.nodes.size(), plain ? 1U : 2U);
    EXPECT_TRUE(p.nodes[0].is_collective());
    run_local(3, [&] {
      const Tensor x = brought(DType::F32, p.inputs[0].type.sizes[0].constant(), "world"),
                   y = brought(DType::F32, 1, "world").as_strided(std::vector<int64_t>{3}, std::vector<int64_t>{1});
      const std::vector<Tensor> inputs = {x, y};
      EXPECT_EQ(bits_of(program::interpret(p, inputs)[0]), bits_of(program::interpret(own, inputs)[0]));
    });
  };
  for (const bool plain : {false, true}) {
    check(Kind::AllReduce, 4, plain);
    check(Kind::AllGather, 12, plain);
    check(Kind::ReduceScatter, 2, plain);
  }
  program::Meeting m = std::get<program::Meeting>(tail_of(Kind::AllReduce, 4).nodes[0].problem);
  for (const bool two : {false, true})
    for (const auto op : {distributed::ReduceOp::Sum, distributed::ReduceOp::Avg, distributed::ReduceOp::Max}) {
      m.ranks = two ? 2 : 3, m.op = op;
      m.kind = Kind::ReduceScatter;
      EXPECT_EQ(sched::nccl_has_the_same_bits(m), two && op == distributed::ReduceOp::Sum);
      m.kind = Kind::AllGather;
      EXPECT_TRUE(sched::nccl_has_the_same_bits(m));
    }
}

// Gives the meeting of tail_of() a product of [rows, depth] and the transpose of a further input, [3, depth], whose sums are bf16.
void add_product(program::Program& p, int64_t rows, int64_t depth) {
  auto& m = std::get<program::Meeting>(p.nodes[0].problem);
  m.op = distributed::ReduceOp::Sum;
  m.product.emplace();
  m.product->m = rows, m.product->n = 3, m.product->k = depth;
  const int w = p.new_buffer("w", DType::F32, 3 * depth, loop::BufferKind::Input);
  m.product->a = {m.input.buffer, DType::F32, 0, {depth, 1}};
  m.product->b = {w, DType::F32, 0, {1, depth}};
  m.input = {-1, DType::BF16, 0, {}};
  p.buffers[0].numel = rows * depth;
  p.inputs[0].type.sizes = {rows, depth};
  p.inputs.push_back({w, {DType::F32, {3, depth}, {}}, graph::InputKind::User, {}, "w"});
  program::verify(p, program::Stage::Lowered, "the test");
  EXPECT_EQ(program::to_string(program::parse(program::to_string(p))), program::to_string(p));
}

Tensor cut(int64_t n, const std::vector<int64_t>& sizes) {
  return brought(DType::F32, n, "world").as_strided(sizes, std::vector<int64_t>{sizes.back(), 1});
}

// What a rank computes and brings at once means the same on the host: x * w of each rank, rounded, summed up, and a bias.
TEST(CollectiveNodes, ThatBringProducts) {
  constexpr int64_t kRows = 2, kDepth = 5;
  program::Program p = tail_of(distributed::Kind::AllReduce, kRows);
  add_product(p, kRows, kDepth);
  run_local(3, [&] {
    const Tensor x = cut(kRows * kDepth, {kRows, kDepth}), wide = cut(3 * kDepth, {3, kDepth});
    const Tensor bias = brought(DType::F32, 1, "world").as_strided(std::vector<int64_t>{3}, std::vector<int64_t>{1});
    const Tensor sum = distributed::all_reduce(to(matmul(x, transpose(wide, 0, 1)), DType::BF16));
    EXPECT_EQ(bits_of(program::interpret(p, std::vector<Tensor>{x, bias, wide})[0]), bits_of(to(sum, DType::F32) * 2.0 + bias));
  });
  const auto refused = [&](const std::function<void(program::Meeting&)>& plant) {
    program::Program wrong = p;
    plant(std::get<program::Meeting>(wrong.nodes[0].problem));
    return test::error_of<InternalError>([&] { program::verify(wrong, program::Stage::Lowered, "the test"); });
  };
  EXPECT_TRUE(contains(refused([](auto& r) { r.product->k = kDepth + 1; }), "reaches element"));
  EXPECT_TRUE(contains(refused([](auto& r) { r.product->n = 2; }), "6 elements does not fit to a product of 4 sums"));
  EXPECT_TRUE(contains(refused([](auto& r) { r.input.buffer = 0; }), "what it computes and what it reads"));
}

// 2 * (all_gather(x) * w) + bias, and 2 * reduce_scatter(x * w, rounded) + bias, of three ranks.
TEST(CollectiveNodes, OfProductsInPieces) {
  using distributed::Kind;
  constexpr int64_t kDepth = 5;
  for (const Kind kind : {Kind::AllGather, Kind::ReduceScatter}) {
    const int64_t own = kind == Kind::AllGather ? 2 : 6, results = kind == Kind::AllGather ? 6 : 2;
    program::Program p = tail_of(kind, results);
    add_product(p, own, kDepth);
    run_local(3, [&] {
      const Tensor x = cut(own * kDepth, {own, kDepth}), wide = transpose(cut(3 * kDepth, {3, kDepth}), 0, 1);
      const Tensor bias = brought(DType::F32, 1, "world").as_strided(std::vector<int64_t>{3}, std::vector<int64_t>{1});
      const Tensor want = kind == Kind::AllGather ? matmul(distributed::all_gather(x), wide)
                                                  : to(distributed::reduce_scatter(to(matmul(x, wide), DType::BF16)), DType::F32);
      const Tensor expected = want * 2.0 + bias, found = program::interpret(p, std::vector<Tensor>{x, bias, transpose(wide, 0, 1)})[0];
      for (int64_t i = 0; i < expected.numel(); ++i)
        EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-5 * std::abs(expected.data<float>()[i])) << name_of(kind);
    });
    program::Program wrong = p;
    std::get<program::Meeting>(wrong.nodes[0].problem).product->m = own - 1;
    EXPECT_TRUE(contains(test::error_of<InternalError>([&] { program::verify(wrong, program::Stage::Lowered, "the test"); }),
                         "does not fit to a product"));
  }
}

// One program for all sizes of each dtype.
TEST(CollectiveNodes, CompiledAreWhatTheRowsDo) {
  for (int size : {2, 3, 8})
    run_local(size, [&] {
      make_halves();
      const std::string half = rank() % 2 ? "odd" : "even";
      for (const std::string& group : {std::string("world"), half}) {
        const int64_t ranks = distributed::current_world().group(group).size(), own = rank_in(group);
        for (DType t : size == 3 && group == "world" ? std::vector<DType>(std::begin(kNodeDTypes), std::end(kNodeDTypes))
                                                     : std::vector<DType>{DType::F32}) {
          CompileConfig config;
          config.dynamic = true;
          auto fast = compile([&](const Tensor& x) { return all_kinds(x, group, ranks, own); }, config);
          for (int64_t n : {2, 3, 701}) {
            const Tensor x = brought(t, n * ranks, group);
            const auto want = all_kinds(x, group, ranks, own), got = fast(x);
            ASSERT_EQ(got.size(), want.size());
            for (size_t i = 0; i < got.size(); ++i) {
              EXPECT_EQ(got[i].sizes(), want[i].sizes());
              EXPECT_EQ(bits_of(got[i]), bits_of(want[i])) << name_of(t) << " " << i << " of " << n;
            }
          }
          EXPECT_EQ(fast.report().compiles, 1) << name_of(t);
        }
      }
    });
}

// Each rank but the last sends two tensors to the next one and one to itself; all at once, eagerly and compiled.
TEST(CollectiveNodes, BatchesOfSendsAndReceives) {
  using distributed::batch_send_recv;
  const auto numbers = [](int from, std::vector<int64_t> sizes, int which) {
    Tensor out = Tensor::full(sizes, 0, DType::F32);
    for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = static_cast<float>(1000 * from + 100 * which + i);
    return out;
  };
  for (const int ranks : {2, 3, 5})
    run_local(ranks, [&] {
      const int own = rank(), last = distributed::size() - 1, next = (own + 1) % (last + 1), before = (own + last) % (last + 1);
      const auto batch = [&](const std::vector<Tensor>& x) {
        std::vector<distributed::Send> sends;
        std::vector<distributed::Receive> receives;
        if (before != last) receives = {{{2, 3}, before}, {{5}, before}};
        if (own != last) {
          sends = {{transpose(x[0], 0, 1), next}, {x[1], own}, {x[2], next}};
          receives.insert(receives.begin(), {{4}, own});
        }
        return batch_send_recv(sends, receives, DType::F32);
      };
      const std::vector<Tensor> x{numbers(own, {3, 2}, 0), numbers(own, {4}, 1), numbers(own, {5}, 2)};
      auto fast = compile(batch);
      for (const auto& found : {batch(x), fast(x)}) {
        std::vector<Tensor> want;
        if (own != last) want.push_back(x[1]);
        if (before != last) want.insert(want.end(), {transpose(numbers(before, {3, 2}, 0), 0, 1), numbers(before, {5}, 2)});
        ASSERT_EQ(found.size(), want.size()) << own << " of " << ranks;
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(found[i].sizes(), want[i].sizes());
          EXPECT_EQ(found[i].to_vector(), want[i].to_vector()) << "tensor " << i << " of rank " << own << " of " << ranks;
        }
      }
    });
  run_local(2, [&] {
    const Tensor x = numbers(rank(), {4}, 0);
    const auto told = [&](const std::vector<distributed::Send>& sends, const std::vector<distributed::Receive>& receives) {
      return test::user_error([&] { batch_send_recv(sends, receives, DType::F32); });
    };
    EXPECT_TRUE(contains(told({{x, 2}}, {}), "there is no rank 2 in the group \"world\" of 2 ranks"));
    EXPECT_TRUE(contains(told({{to(x, DType::F64), 0}}, {}), "f64 on cpu is sent in a batch of f32 on cpu"));
    const std::string other = told({{x, 1 - rank()}}, {{{3}, 1 - rank()}});
    EXPECT_TRUE(contains(other, "do not fit together")) << "four come, three are expected: " << other;
  });
}

// What no rank can run is refused where it is read.
TEST(CollectiveNodes, AreVerified) {
  std::string good;
  run_local(2, [&] {
    trace::Tracer tracer("traced", nullptr);
    std::vector<Tensor> results;
    {
      const Tensor stand_in = tracer.argument(Tensor::full(std::vector<int64_t>{4}, 1.0), "x", {});
      trace::Tracer::Scope scope(&tracer);
      results = {distributed::all_reduce(stand_in)};
    }
    const std::string text = program::to_string(lower::lower(*std::move(tracer.finish(std::move(results)).graph)), false);
    if (rank() == 0) good = text;
  });
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    if (at == std::string::npos) return std::string();
    text.replace(at, from.size(), to);
    try {
      program::verify(program::parse(text), program::Stage::Lowered, "the test");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_TRUE(contains(refused("group \"world\"", "group \"\""), "is no node")) << good;
  EXPECT_TRUE(contains(refused("of all_reduce", "of barrier"), "is no node"));
  EXPECT_TRUE(contains(refused("ranks 1", "ranks 0"), "0 ranks"));
  EXPECT_TRUE(contains(refused("of all_reduce", "of all_gather"), "expected")) << "no such kind";
}

}  // namespace
}  // namespace toroid
