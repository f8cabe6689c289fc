// Deciding calls that have several implementations: the nodes of one take the place of the call, or, where a size that only the run tells
// decides, a branch.
#pragma once

#include "program/program.h"

namespace toroid::program {

// The program with the nodes of alternative number `alternative` in place of the Open node number `node`: they work on the buffers around
// it, with memory of their own for what is temporary. Constants become inputs of the program, symbols and what guards say of them join the
// program's, every node gets loop variables of its own, and origins begin with the call's ("all_reduce_1/relu").
Program inline_alternative(const Program& p, size_t node, size_t alternative);

// Sizes for which an Open node has one winner.
struct Range {
  int64_t first = 1, last = sym::kInf;
  int64_t timed_at = 0;  // the size to time at; 0 where there is nothing to dispatch on
};
std::vector<Range> ranges_of(const Open& open);

// The program with the Open node number `node` decided: winners[i] is the alternative for range i. Neighbours with winners of equal
// content are one range. One range is inlined; several become one call that runs the block of its size, whose options are its own.
Program decide_ranges(const Program& p, size_t node, const std::vector<size_t>& winners);

// Inlines the first alternative of every Open node that is not decided yet, and removes what only served results of such calls that nothing
// reads. decisions: gets a line for each that had others, and for each that was refused.
Program inline_defaults(Program p, std::vector<std::string>& decisions);

// Hash of what a program computes: its text, the contents of its constants (of large ones, which tensors these are), and the options it is
// compiled with. Names are no part of it. For comparing the alternatives of one node, not for keys on disk.
std::string content_key(const Program& p, const OptionValues& options);

}  // namespace toroid::program
