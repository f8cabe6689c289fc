// Functional collectives, by the names of c10d: each gives tensors of its own, and all ranks of a group call it alike.
#include <functional>

#include "base/index_fault.h"
#include "dist/group.h"
#include "ops/table.h"

namespace toroid::ops {
namespace {

using distributed::Collective;
using distributed::Kind;

distributed::Group& group_of(const CallReader& c) { return distributed::current_world().group(c.text("group_name")); }

void run(KernelCall& c, distributed::Group& group, Collective what) {
  const Tensor in = c.tensor("input").contiguous();
  what.dtype = in.dtype();
  what.in = in.raw_data();
  what.out = c.outputs[0].raw_data();
  what.where = OperationPlace::current();
  group.run(what);
}

void check_size(const KernelCall& c, const distributed::Group& group) {
  TOROID_USER_CHECK(c.integer("group_size") == group.size(), "{}: group_size is {}, the group \"{}\" has {} ranks", plain_name(c.op()),
                    c.integer("group_size"), group.name(), group.size());
}

void check_reduction(const MetaCall& c) {
  distributed::check_reducible(c.tensor("input")->dtype, distributed::reduce_op_from_name(c.text("reduce_op")));
}

void as_input(MetaCall& c) {
  const TensorType& t = *c.tensor("input");
  c.result(t.dtype, t.sizes);
}

void all_reduce_meta(MetaCall& c) {
  check_reduction(c);
  as_input(c);
}

void all_reduce_kernel(KernelCall& c) {
  run(c, group_of(c),
      {.kind = Kind::AllReduce, .op = distributed::reduce_op_from_name(c.text("reduce_op")), .count = c.tensor("input").numel()});
}

int64_t group_size(const MetaCall& c) {
  const int64_t size = c.integer("group_size");
  TOROID_USER_CHECK(size >= 1, "{}: group_size is {}; expected 1 or more", plain_name(c.op()), size);
  return size;
}

// Joined along the first dimension; numbers become a vector.
void all_gather_meta(MetaCall& c) {
  const TensorType& t = *c.tensor("input");
  const Expr ranks = group_size(c);
  auto sizes = t.sizes;
  if (sizes.empty())
    sizes = {ranks};
  else
    sizes[0] = sizes[0] * ranks;
  c.result(t.dtype, std::move(sizes));
}

void all_gather_kernel(KernelCall& c) {
  auto& group = group_of(c);
  check_size(c, group);
  run(c, group, {.kind = Kind::AllGather, .count = c.tensor("input").numel()});
}

void reduce_scatter_meta(MetaCall& c) {
  check_reduction(c);
  const TensorType& t = *c.tensor("input");
  const Expr ranks = group_size(c);
  TOROID_USER_CHECK(!t.sizes.empty(), "reduce_scatter_tensor: a number cannot be divided among {} ranks", sym::to_string(ranks));
  c.require({sym::Rel::Eq, sym::mod(t.sizes[0], ranks), 0}, "reduce_scatter_tensor: the first size, {}, is no multiple of the {} ranks",
            sym::to_string(t.sizes[0]), sym::to_string(ranks));
  auto sizes = t.sizes;
  sizes[0] = sym::floor_div(sizes[0], ranks);
  c.result(t.dtype, std::move(sizes));
}

void reduce_scatter_kernel(KernelCall& c) {
  auto& group = group_of(c);
  check_size(c, group);
  run(c, group, {.kind = Kind::ReduceScatter, .op = distributed::reduce_op_from_name(c.text("reduce_op")), .count = c.outputs[0].numel()});
}

Expr total(const std::vector<Expr>& splits) {
  Expr sum = 0;
  for (auto& s : splits) sum = sum + s;
  return sum;
}

void all_to_all_meta(MetaCall& c) {
  const TensorType& t = *c.tensor("input");
  const auto given = c.exprs("input_split_sizes"), taken = c.exprs("output_split_sizes");
  TOROID_USER_CHECK(!t.sizes.empty(), "all_to_all_single: a number cannot be split");
  TOROID_USER_CHECK(given.size() == taken.size(), "all_to_all_single: {} input splits, {} output splits; expected one a rank of each",
                    given.size(), taken.size());
  for (auto* list : {&given, &taken})
    for (auto& s : *list) c.require({sym::Rel::Ge, s, 0}, "all_to_all_single: a split is {}; expected 0 or more", sym::to_string(s));
  c.require_same(total(given), t.sizes[0], "all_to_all_single: the input splits add up to {}, the first size is {}",
                 sym::to_string(total(given)), sym::to_string(t.sizes[0]));
  auto sizes = t.sizes;
  sizes[0] = total(taken);
  c.result(t.dtype, std::move(sizes));
}

void all_to_all_kernel(KernelCall& c) {
  auto& group = group_of(c);
  const Tensor in = c.tensor("input");
  int64_t row = 1;
  for (size_t d = 1; d < in.sizes().size(); ++d) row *= in.sizes()[d];
  Collective what{.kind = Kind::AllToAll};
  what.in_splits = c.integers("input_split_sizes");
  what.out_splits = c.integers("output_split_sizes");
  TOROID_USER_CHECK(what.in_splits.size() == static_cast<size_t>(group.size()),
                    "all_to_all_single: {} splits, the group \"{}\" has {} ranks", what.in_splits.size(), group.name(), group.size());
  for (auto* splits : {&what.in_splits, &what.out_splits})
    for (auto& s : *splits) s *= row;
  run(c, group, std::move(what));
}

void broadcast_kernel(KernelCall& c) {
  auto& group = group_of(c);
  const int64_t root = c.integer("src");
  TOROID_USER_CHECK(root >= 0 && root < group.size(), "broadcast: src is rank {}, the group \"{}\" has {} ranks", root, group.name(),
                    group.size());
  run(c, group, {.kind = Kind::Broadcast, .root = static_cast<int>(root), .count = c.tensor("input").numel()});
}

std::vector<Tensor> of_each(const CallReader& c, const std::function<Tensor(const Tensor&)>& call) {
  std::vector<Tensor> out;
  for (auto& x : c.tensors("inputs")) out.push_back(call(x));
  return out;
}

}  // namespace

void add_collective_rows(Table& t) {
  auto row = [&](const char* schema, Meta meta, Kernel kernel) { t.primitive(schema, meta, kernel).collective = true; };
  row("_c10d_functional.all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", all_reduce_meta, all_reduce_kernel);
  row("_c10d_functional.all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", all_gather_meta,
      all_gather_kernel);
  row("_c10d_functional.reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor", reduce_scatter_meta,
      reduce_scatter_kernel);
  row("_c10d_functional.all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor",
      all_to_all_meta, all_to_all_kernel);
  row("_c10d_functional.broadcast(Tensor input, int src, str group_name) -> Tensor", as_input, broadcast_kernel);
  // Several at once are one after the other.
  t.composite("_c10d_functional.all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]", [](const CallReader& c) {
    return of_each(c, [&](const Tensor& x) {
      return call1("_c10d_functional.all_reduce", {x, c.text("reduce_op"), c.text("group_name")});
    });
  });
  t.composite("_c10d_functional.all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
              [](const CallReader& c) {
                return of_each(c, [&](const Tensor& x) {
                  return call1("_c10d_functional.all_gather_into_tensor", {x, Expr(c.integer("group_size")), c.text("group_name")});
                });
              });
  t.composite(
      "_c10d_functional.reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
      [](const CallReader& c) {
        return of_each(c, [&](const Tensor& x) {
          return call1("_c10d_functional.reduce_scatter_tensor",
                       {x, c.text("reduce_op"), Expr(c.integer("group_size")), c.text("group_name")});
        });
      });
  // What it waits for has been waited for.
  t.composite("_c10d_functional.wait_tensor(Tensor tensor) -> Tensor",
              [](const CallReader& c) { return std::vector<Tensor>{call1("clone", {c.tensor("tensor")})}; });
}

}  // namespace toroid::ops
