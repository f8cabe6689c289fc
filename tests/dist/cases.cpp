#include "dist/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "toroid/distributed.h"
#include "toroid/error.h"

namespace toroid::test {
namespace {

using namespace distributed;

constexpr DType kAllDTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,   DType::I16, DType::I32, DType::I64,
                                DType::U8,  DType::U16, DType::U32, DType::U64,  DType::Bool, DType::C64, DType::C128};
constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product};

bool has(ReduceOp op, DType t) { return op == ReduceOp::Sum || (op == ReduceOp::Avg ? is_float(t) : !is_complex(t)); }

// Elements that rank `from` gives rank `to`: uneven, and of some pairs none.
int64_t split(int64_t size, int from, int to, int ranks) { return (from + 2 * to) % 3 == 0 ? 0 : size / ranks + (3 * from + to) % 4; }

class Maker {
 public:
  Maker(std::vector<Case>& out, std::string name) : out_(out), name_(std::move(name)) {}

  void add(Collective c) { out_.push_back({name_, std::move(c), ++seed_}); }
  // Of few dtypes and operations where tensors are large: each way of moving them is met.
  void add_reductions(DType t, int64_t size) {
    for (ReduceOp op : kOps)
      for (Kind kind : {Kind::AllReduce, Kind::ReduceScatter})
        if (has(op, t) && (size < 100000 || op == (kind == Kind::AllReduce ? ReduceOp::Sum : ReduceOp::Max)))
          add({.kind = kind, .dtype = t, .op = op, .count = size});
  }
  void add_moves(DType t, int64_t size, int rank, int ranks) {
    add({.kind = Kind::AllGather, .dtype = t, .count = size});
    for (int root : {0, ranks - 1}) add({.kind = Kind::Broadcast, .dtype = t, .root = root, .count = size});
    Collective exchange{.kind = Kind::AllToAll, .dtype = t};
    for (int r = 0; r < ranks; ++r) {
      exchange.in_splits.push_back(split(size, rank, r, ranks));
      exchange.out_splits.push_back(split(size, r, rank, ranks));
    }
    add(std::move(exchange));
  }

 private:
  std::vector<Case>& out_;
  const std::string name_;
  uint64_t seed_ = 0;
};

int64_t sum_of(const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); }

}  // namespace

void make_groups() {
  const int n = current_world().world().size();
  std::vector<int> some, other;
  for (int r = n - 1; r >= 0; --r) (r == 1 ? other : some).push_back(r);  // in another order than in the world
  if (n > 2) other.push_back(n - 1);
  distributed::new_group("some", some);
  distributed::new_group("other", other);
}

std::vector<Case> cases_of_this_rank() {
  std::vector<Case> out;
  for (const char* name : {"world", "some", "other"}) {
    Group* group = nullptr;
    try {
      group = &current_world().group(name);
    } catch (const Error&) {
      continue;  // no member
    }
    Maker maker(out, name);
    for (DType t : kAllDTypes)
      for (int64_t size : {0, 1, 7, 1000, 100003}) {
        if (size > 1000 && std::string(name) != "world" && t != DType::F32) continue;
        maker.add_reductions(t, size);
        maker.add_moves(t, size, group->rank(), group->size());
      }
    maker.add({.kind = Kind::Barrier});
  }
  return out;
}

std::string to_string(const Case& c) { return fmt::format("{} in {} (seed {})", distributed::to_string(c.c), c.group, c.seed); }

// Random bits: NaN, infinities and numbers of all sizes are among them.
std::string result_of(const Case& given) {
  Group& group = current_world().group(given.group);
  Collective c = given.c;
  const auto bytes = static_cast<int64_t>(size_of(c.dtype));
  const auto ranks = static_cast<int64_t>(group.size());
  const int64_t in_count = c.kind == Kind::ReduceScatter ? c.count * ranks : c.kind == Kind::AllToAll ? sum_of(c.in_splits) : c.count;
  const int64_t out_count = c.kind == Kind::AllGather ? c.count * ranks : c.kind == Kind::AllToAll ? sum_of(c.out_splits) : c.count;
  // Aligned for all dtypes.
  std::vector<uint64_t> in(static_cast<size_t>(in_count * bytes + 7) / 8), out(static_cast<size_t>(out_count * bytes + 7) / 8);
  std::mt19937_64 draw(given.seed * 1000 + static_cast<uint64_t>(group.rank()));
  for (uint64_t& word : in) word = c.dtype == DType::Bool ? draw() & 0x0101010101010101u : draw();
  c.in = reinterpret_cast<const std::byte*>(in.data());
  c.out = reinterpret_cast<std::byte*>(out.data());
  c.where = "cases.cpp";
  group.run(c);
  return std::string(reinterpret_cast<const char*>(out.data()), static_cast<size_t>(out_count * bytes));
}

}  // namespace toroid::test
