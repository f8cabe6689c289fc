// Collectives over tensors: operations that all ranks of a group (toroid/distributed.h) call together, in one order, with tensors of the
// same dtype and, where nothing else is said, the same sizes. Each is one node of the graph of a traced function.
//
// Errors of all: UserError on each rank where the calls do not fit together (which rank called what, where), for a group that there is
// not, and outside of a world; EnvironmentError where a rank has failed, has ended, or does not come within the option dist_timeout_ms.
#pragma once

#include "toroid/distributed.h"
#include "toroid/ops_arguments.h"

namespace toroid::distributed {

// [...] -> [...]: op (sum, avg, min, max, product) over all ranks' x, in the order of the ranks: the same bits on each. avg takes floats.
Tensor all_reduce(const Tensor& x, std::string_view op = "sum", std::string_view group = "world", Where where = Where::current());
// [n, ...] -> [n * ranks, ...], a number -> [ranks]: all ranks' x, one after the other.
Tensor all_gather(const Tensor& x, std::string_view group = "world", Where where = Where::current());
// [n * ranks, ...] -> [n, ...]: this rank's part of what all_reduce gives. UserError where the first size is no multiple of the ranks.
Tensor reduce_scatter(const Tensor& x, std::string_view op = "sum", std::string_view group = "world", Where where = Where::current());
// [sum of given, ...] -> [sum of taken, ...]: given[r] rows go to rank r, taken[r] rows come from rank r. UserError where rank r gives
// this rank another number of rows.
Tensor all_to_all(const Tensor& x, const SizeList& taken, const SizeList& given, std::string_view group = "world",
                  Where where = Where::current());
// What a rank of a batch has for rank `peer` of the group, and the sizes of what it expects from it.
struct Send {
  Tensor x;
  int peer = 0;
};
struct Receive {
  std::vector<SymInt> sizes;
  int peer = 0;
};
// Sends and receives all at once, so that no order can block: what has come, in the order of `receives`. Several tensors from one rank come
// in the order in which it sends them. All ranks of the group call it, those too that have nothing to send, with the same dtype; all
// tensors are of that dtype and on the device. UserError for a rank that is not there, for another dtype or device, and
// where a rank gives another one more or fewer elements than that expects.
std::vector<Tensor> batch_send_recv(const std::vector<Send>& sends, const std::vector<Receive>& receives, DType dtype,
                                    const Device& device = Device::cpu(), std::string_view group = "world", Where where = Where::current());
// [...] -> [...]: the x of rank `from` of the group.
Tensor broadcast(const Tensor& x, int from, std::string_view group = "world", Where where = Where::current());
// Returns when all ranks have called it. Not a part of graphs.
void barrier(std::string_view group = "world", Where where = Where::current());

}  // namespace toroid::distributed
