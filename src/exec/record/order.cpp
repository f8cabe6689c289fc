#include "exec/record/order.h"

#include <algorithm>

namespace toroid::exec {
namespace {

bool overlap(const Touched& a, const Touched& b) { return (a.written || b.written) && a.at < b.at + b.bytes && b.at < a.at + a.bytes; }

bool conflict(const std::vector<Touched>& a, const std::vector<Touched>& b) {
  return std::any_of(a.begin(), a.end(), [&](auto& x) { return std::any_of(b.begin(), b.end(), [&](auto& y) { return overlap(x, y); }); });
}

}  // namespace

Order order_of(std::span<const std::vector<Touched>> launches) {
  const size_t n = launches.size();
  Order order(n);
  std::vector<std::vector<bool>> follows(n, std::vector<bool>(n, false));
  for (size_t j = 0; j < n; ++j)
    for (size_t i = j; i-- > 0;) {
      if (follows[j][i] || !conflict(launches[i], launches[j])) continue;
      order[j].push_back(i);
      follows[j][i] = true;
      for (size_t k = 0; k < i; ++k)
        if (follows[i][k]) follows[j][k] = true;
    }
  return order;
}

int64_t width_of(const Order& order) {
  std::vector<size_t> depth(order.size(), 0);
  std::vector<int64_t> at_depth(order.size(), 0);
  for (size_t j = 0; j < order.size(); ++j) {
    for (size_t i : order[j]) depth[j] = std::max(depth[j], depth[i] + 1);
    ++at_depth[depth[j]];
  }
  return at_depth.empty() ? 0 : *std::max_element(at_depth.begin(), at_depth.end());
}

}  // namespace toroid::exec
