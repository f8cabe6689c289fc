// Every operation of the table that takes indices in a tensor, with calls of it; and operands that lie between pages nobody may touch.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>

#include "base/check.h"
#include "ops/table.h"
#include "toroid/tensor.h"

namespace toroid::test {

// A copy of t with a page that cannot be touched right before or right behind its elements.
inline Tensor guarded(const Tensor& t, bool behind) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = static_cast<size_t>(t.numel()) * size_of(t.dtype());
  const size_t inner = (bytes + page - 1) / page * page, all = inner + 2 * page;
  void* const at = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TOROID_CHECK(at != MAP_FAILED, "no memory");
  std::byte* const begin = static_cast<std::byte*>(at) + page;
  TOROID_CHECK(inner == 0 || mprotect(begin, inner, PROT_READ | PROT_WRITE) == 0, "no memory");
  std::byte* const data = behind ? begin + inner - bytes : begin;
  const Tensor dense = t.contiguous();
  if (bytes > 0) std::memcpy(data, dense.raw_data(), bytes);
  return Tensor::from_blob(data, t.sizes(), t.dtype(), {}, std::shared_ptr<void>(at, [all](void* p) { munmap(p, all); }));
}

// f(self, index) is a call of `op` whose index may be 0 .. size - 1; negative ones count from the end where `wraps`.
struct IndexedCall {
  std::string op, name;  // of the row, and what errors say
  std::vector<int64_t> self, index;
  int64_t size = 0;
  bool wraps = false;
  std::function<Tensor(const Tensor& self, const Tensor& index)> f;
  DType index_dtype = DType::I64;
};

inline std::vector<IndexedCall> indexed_calls() {
  using ops::call;
  using ops::call1;
  const auto n = [](int64_t v) { return Arg<Tensor>(Expr(v)); };
  const auto list = [](const Tensor& i) { return Arg<Tensor>(std::vector<Tensor>{Tensor(), i}); };
  const auto part = [](const Tensor& x, int64_t rows, int64_t columns) {
    return call1("slice.Tensor", {call1("slice.Tensor", {x, Expr(0), Expr(0), Expr(rows)}), Expr(1), Expr(0), Expr(columns)});
  };
  const std::string sum = "sum";
  std::vector<IndexedCall> out;
  const auto add = [&](std::string op, std::vector<int64_t> self, std::vector<int64_t> index, int64_t size, bool wraps,
                       std::function<Tensor(const Tensor&, const Tensor&)> f, std::string name = "") {
    if (name.empty()) name = op.substr(0, op.find('.'));
    out.push_back({op, name, std::move(self), std::move(index), size, wraps, std::move(f)});
  };
  add("embedding", {5, 20}, {4}, 5, false, [=](auto& x, auto& i) { return call1("embedding", {x, i}); });
  for (std::string op : {"embedding_bag", "embedding_bag.padding_idx", "_embedding_bag", "_embedding_bag_forward_only"})
    add(
        op, {5, 6}, {4}, 5, false,
        [=](auto& x, auto& i) {
          return call(op, {x, i, call1("arange", {Expr(2), DType::I64})})[0];
        },
        "embedding_bag");
  add("embedding_renorm", {5, 6}, {4}, 5, false, [=](auto& x, auto& i) { return call1("embedding_renorm", {x, i, 1.0, 2.0}); });
  add("index_select", {3, 20}, {4}, 20, false, [=](auto& x, auto& i) { return call1("index_select", {x, n(1), i}); });
  for (std::string op : {"index.Tensor", "_unsafe_index.Tensor"})
    add(
        op, {3, 20}, {4}, 20, true,
        [=](auto& x, auto& i) {
          return call1(op, {x, list(i)});
        },
        "index");
  for (std::string op : {"index_put", "_unsafe_index_put", "_index_put_impl"})
    add(
        op, {3, 20}, {4}, 20, true,
        [=](auto& x, auto& i) {
          return call1(op, {x, list(i), part(x, 3, 4), false});
        },
        "index_put");
  add("gather", {3, 20}, {3, 17}, 20, false, [=](auto& x, auto& i) { return call1("gather", {x, n(1), i}); });
  for (std::string op : {"scatter.src", "scatter_add"})
    add(op, {3, 20}, {3, 17}, 20, false, [=](auto& x, auto& i) { return call1(op, {x, n(1), i, x}); });
  add("scatter_reduce.two", {3, 20}, {3, 4}, 20, false, [=](auto& x, auto& i) {
    return call1("scatter_reduce.two", {x, n(1), i, x, sum});
  });
  add("scatter.value", {3, 20}, {3, 4}, 20, false, [=](auto& x, auto& i) { return call1("scatter.value", {x, n(1), i, 2.0}); });
  add(
      "scatter.reduce", {3, 20}, {3, 4}, 20, false,
      [=](auto& x, auto& i) {
        return call1("scatter.reduce", {x, n(1), i, x, std::string("add")});
      },
      "scatter_reduce");
  add(
      "scatter.value_reduce", {3, 20}, {3, 4}, 20, false,
      [=](auto& x, auto& i) {
        return call1("scatter.value_reduce", {x, n(1), i, 2.0, std::string("add")});
      },
      "scatter_reduce");
  for (std::string op : {"index_copy", "index_add"})
    add(op, {3, 20}, {4}, 20, false, [=](auto& x, auto& i) { return call1(op, {x, n(1), i, part(x, 3, 4)}); });
  add("index_reduce", {3, 20}, {4}, 20, false, [=](auto& x, auto& i) {
    return call1("index_reduce", {x, n(1), i, part(x, 3, 4), std::string("prod")});
  });
  add("index_fill.int_Scalar", {3, 20}, {4}, 20, true, [=](auto& x, auto& i) { return call1("index_fill.int_Scalar", {x, n(1), i, 2.0}); });
  add("index_fill.int_Tensor", {3, 20}, {4}, 20, true, [=](auto& x, auto& i) {
    return call1("index_fill.int_Tensor", {x, n(1), i, call1("full", {std::vector<Expr>{}, 2.0, DType::F32})});
  });
  add("take", {3, 20}, {2, 4}, 60, true, [=](auto& x, auto& i) { return call1("take", {x, i}); });
  add("put", {3, 20}, {4}, 60, true, [=](auto& x, auto& i) {
    return call1("put", {x, i, call1("reshape", {part(x, 1, 4), std::vector<Expr>{Expr(4)}})});
  });
  add("take_along_dim", {3, 20}, {3, 4}, 20, false, [=](auto& x, auto& i) { return call1("take_along_dim", {x, i, n(1)}); });
  for (std::string op : {"nll_loss", "nll_loss_nd", "cross_entropy_loss"})
    add(op, {4, 20}, {4}, 20, false, [=](auto& x, auto& i) { return call1(op, {x, i}); });
  add("nll_loss2d", {2, 20, 2, 3}, {2, 2, 3}, 20, false, [=](auto& x, auto& i) { return call1("nll_loss2d", {x, i}); });
  add("nll_loss_forward", {4, 20}, {4}, 20, false, [=](auto& x, auto& i) {
    return call("nll_loss_forward", {x, i, std::monostate{}, n(1), n(-100)})[0];
  });
  add("nll_loss2d_forward", {2, 20, 2, 3}, {2, 2, 3}, 20, false, [=](auto& x, auto& i) {
    return call("nll_loss2d_forward", {x, i, std::monostate{}, n(1), n(-100)})[0];
  });
  for (std::string op : {"torch_nn._linear_cross_entropy_batch_chunked", "torch_nn._linear_cross_entropy_batch_chunked_no_reduction"})
    add(
        op, {4, 6}, {4}, 20, false,
        [=](auto& x, auto& i) {
          const Tensor weight = call1("full", {std::vector<Expr>{20, 6}, 0.5, DType::F32});
          return call(op, {x, weight, i})[0];
        },
        "linear_cross_entropy");
  for (int64_t rows : {0, 3})
    add(
        "prims.linear_cross_entropy", {4, 6}, {4}, 20, false,
        [=](auto& x, auto& i) {
          const Tensor weight = call1("full", {std::vector<Expr>{20, 6}, 0.5, DType::F32});
          return call1("prims.linear_cross_entropy", {x, weight, i, std::monostate{}, n(1), n(-100), n(rows)});
        },
        "cross_entropy_loss");
  add("one_hot", {1}, {4}, 20, false, [=](auto& x, auto& i) { return call1("add.Tensor", {call1("one_hot", {i, n(20)}), x}); });
  for (std::string d : {"2", "3"}) {
    const bool three = d == "3";
    const std::vector<int64_t> small = three ? std::vector<int64_t>{1, 2, 1, 2, 2} : std::vector<int64_t>{1, 2, 2, 2};
    const std::vector<Expr> all = three ? std::vector<Expr>{1, 4, 5} : std::vector<Expr>{4, 5};
    const std::string unpool = "max_unpool" + d + "d", backward = "max_pool" + d + "d_with_indices_backward";
    add(unpool, small, small, 20, false, [=](auto& x, auto& i) {
      CallArgs args{x, i, all};
      if (three) args.insert(args.end(), {std::vector<Expr>{1, 1, 1}, std::vector<Expr>{0, 0, 0}});
      return call1(unpool, args);
    });
    add(backward, small, small, 20, false, [=](auto& x, auto& i) {
      std::vector<Expr> sizes{1, 2}, one(all.size(), Expr(1)), zero(all.size(), Expr(0)), two = one;
      sizes.insert(sizes.end(), all.begin(), all.end());
      two.back() = two[two.size() - 2] = 2;
      return call1(backward, {x, call1("full", {sizes, 1.0, DType::F32}), two, two, zero, one, false, i});
    });
    const std::string adaptive = "adaptive_max_pool" + d + "d_backward";
    add(adaptive, small, small, 20, false, [=](auto& x, auto& i) {
      std::vector<Expr> sizes{1, 2};
      sizes.insert(sizes.end(), all.begin(), all.end());
      return call1(adaptive, {x, call1("full", {sizes, 1.0, DType::F32}), i});
    });
  }
  for (std::string op : {"searchsorted.Tensor"})
    add(op, {20}, {20}, 20, false, [=](auto& x, auto& i) { return call1(op, {x, x, false, false, std::monostate{}, i}); });
  return out;
}

}  // namespace toroid::test
