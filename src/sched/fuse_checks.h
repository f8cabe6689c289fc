// What speaks against one loop in the place of two.
#pragma once

#include "program/program.h"
#include "sched/domain_map.h"

namespace toroid::sched {

// A size, or what one that varies is taken for in scores.
int64_t estimate(const Expr& e);

// How many elements each point of a template's result reads and writes.
int64_t whole_arrays(const program::Node& n);
// How often a loop walks over its reduction where squares are folded with their means.
int passes(const program::Node& n);
// Whether most workers would have no row of a long reduction: rows that lie across memory are taken many at a time. 0 workers: never.
bool idles(const program::Node& n, int workers);
// Whether it adds to (or multiplies, ...) what is there.
bool accumulates(const loop::Body& b);
// What a node adds to (or multiplies, ...) at each point of a reduction: in its own domain, or in a joint one whose reduction takes its
// points over.
std::vector<int> accumulated_by_point(const loop::Domain& own, const VarMap& map, const loop::Domain& joint, const loop::Body& renamed);
// Whether a joint body would do so once, as it depends on no point: another body's value took the place of a load.
bool accumulates_once(const loop::Domain& joint, const loop::Body& body, const std::vector<int>& by_point);
// A reduction whose lanes run along a space variable (pooling over channels-last memory), and a reader that stores along another one:
// apart, each runs along its memory.
bool scatters_results(const loop::Domain& joint, const loop::Body& reducing, const loop::Body& reader);

}  // namespace toroid::sched
