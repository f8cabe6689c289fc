#include "program/uses.h"

#include <algorithm>
#include <set>

#include "program/region.h"

namespace toroid::program {
namespace {

void insert(std::vector<std::vector<size_t>>& nodes, int buffer, size_t node) {
  if (static_cast<size_t>(buffer) >= nodes.size()) nodes.resize(static_cast<size_t>(buffer) + 1);
  auto& list = nodes[static_cast<size_t>(buffer)];
  const auto at = std::lower_bound(list.begin(), list.end(), node);
  if (at == list.end() || *at != node) list.insert(at, node);
}

void erase(std::vector<std::vector<size_t>>& nodes, int buffer, size_t node) {
  auto& list = nodes[static_cast<size_t>(buffer)];
  const auto at = std::lower_bound(list.begin(), list.end(), node);
  if (at != list.end() && *at == node) list.erase(at);
}

}  // namespace

Uses::Uses(const Program& p) : readers_(p.buffers.size()), writers_(p.buffers.size()) {
  for (auto& n : p.nodes) {
    reads_.push_back(program::reads(n));
    writes_.push_back(program::writes(n));
    add(reads_.size() - 1);
  }
}

const std::vector<size_t>& Uses::of(const Nodes& nodes, int buffer) {
  static const std::vector<size_t> kNone;
  return static_cast<size_t>(buffer) < nodes.size() ? nodes[static_cast<size_t>(buffer)] : kNone;
}

bool Uses::any_between(const std::vector<size_t>& nodes, size_t first, size_t last) {
  const auto next = std::upper_bound(nodes.begin(), nodes.end(), first);
  return next != nodes.end() && *next < last;
}

size_t Uses::only_reader(int buffer, size_t writer) const {
  const std::vector<size_t>& all = readers(buffer);
  const bool is_only = all.size() == 1 && all[0] > writer && writers(buffer) == std::vector{writer};
  return is_only ? all[0] : kNone;
}

bool Uses::is_touched_between(size_t first, size_t second) const {
  const auto any = [](const std::vector<int>& buffers, auto&& f) { return std::any_of(buffers.begin(), buffers.end(), f); };
  const auto is_written = [&](int b) { return any_between(writers(b), first, second); };
  const auto is_read = [&](int b) { return any_between(readers(b), first, second); };
  return any(reads(first), is_written) || any(reads(second), is_written) ||
         any(writes(second), [&](int b) { return is_written(b) || is_read(b); });
}

void Uses::add(size_t node) {
  for (const int b : reads_[node]) insert(readers_, b, node);
  for (const int b : writes_[node]) insert(writers_, b, node);
}

void Uses::remove(size_t node) {
  for (const int b : reads_[node]) erase(readers_, b, node);
  for (const int b : writes_[node]) erase(writers_, b, node);
  reads_[node].clear();
  writes_[node].clear();
}

void Uses::set(size_t node, const Node& now) {
  remove(node);
  reads_[node] = program::reads(now);
  writes_[node] = program::writes(now);
  add(node);
}

void Uses::renumber(Program& p, int from, int to) {
  std::set<size_t> nodes(readers(from).begin(), readers(from).end());
  nodes.insert(writers(from).begin(), writers(from).end());
  for (const size_t i : nodes) {
    renumber_buffers(p.nodes[i], [&](int b) { return b == from ? to : b; });
    set(i, p.nodes[i]);
  }
}

void drop(Program& p, const std::vector<bool>& gone) {
  size_t kept = 0;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    if (gone[i]) continue;
    if (kept != i) p.nodes[kept] = std::move(p.nodes[i]);
    ++kept;
  }
  p.nodes.resize(kept);
}

}  // namespace toroid::program
