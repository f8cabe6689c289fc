// Parts of a program as programs of their own.
#pragma once

#include <functional>
#include <span>

#include "base/hash.h"
#include "program/program.h"

namespace toroid::program {

// What a node's problem reads and writes in memory, but for its loops; an operand that it may have and has not is without a buffer.
void for_each_operand(Node& n, const std::function<void(Operand&)>& f);

// Calls f for each Check step of a node.
void for_each_check(Node& n, const std::function<void(loop::Statement&)>& f);

// Gives every buffer that a node names the number that `to` says.
void renumber_buffers(Node& n, const std::function<int(int)>& to);

// Gives a node loop variables of its own, named by their places.
void rename_variables(Node& n);

// The text of a program of this node alone: what it computes and how its operands lie. It is equal for equal nodes, whatever their buffers,
// loop variables and origins are called and wherever they stand. Sizes that p leaves open keep their names and bounds. What is in p's
// constants is no part of it.
struct NodeContent {
  std::string text;
  std::vector<int> buffers;  // of p: the text's number 0 is the first, and so on. Among them p's record of faults, if it has one
};
NodeContent content_of(const Program& p, const Node& node);
// The same for many nodes of a program. faults: its records of faults.
NodeContent content_of(const Program& p, const Node& node, std::span<const int> faults);
std::vector<int> records_of_faults(const Program& p);

// The program of these nodes alone (positions in p.nodes, ascending): reads what they read of the rest of p, gives what the rest or p's
// caller reads of them, and updates the inputs that they update. Inputs and outputs are whole buffers, as tensors of one dimension, but for
// constants, which are the tensors that they are in p. Nodes are numbered from 0 (Node::parts). Buffers, loop variables and origins have
// names that depend on nothing outside, so that equal parts give programs of equal text. Sizes that p leaves open stay open: the region
// has those of p's symbols that it uses, and the guards on them, but its inputs need not tell them.
Program region(const Program& p, std::span<const size_t> nodes);

// Of a program's text: what it computes and how its operands lie, not what its constants hold.
Hash128 region_key(const Program& region);

}  // namespace toroid::program
