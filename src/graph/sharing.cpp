#include "graph/sharing.h"

#include <atomic>

namespace toroid::graph {
namespace {

std::atomic<int> apart{0};

}  // namespace

bool shares_equal_work() { return apart.load(std::memory_order_relaxed) == 0; }

EachByItself::EachByItself() { apart.fetch_add(1, std::memory_order_relaxed); }
EachByItself::~EachByItself() { apart.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace toroid::graph
