// The history of a tensor: which edge its gradient goes to, also where its memory was written through another view.
#pragma once

#include "autograd/tape/node.h"

namespace toroid::autograd {

inline bool has_gradient(DType t) { return is_float(t) || is_complex(t); }
inline std::vector<Expr> exprs(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

// Where the gradient of t goes; none where it requires none.
GradEdge edge_of(const Tensor& t);

// Makes t, which a call has just made, the result that `edge` names (none: it does not depend on what requires gradients). of: the operand
// whose memory it may share.
void set_history(const Tensor& t, GradEdge edge, const Tensor* of = nullptr);
// Makes t a tensor without history, whatever its memory's is.
void cut_history(const Tensor& t);

// UserError where t may not be written in place by `name`: a leaf that requires gradients, or a view of one.
void check_writable(const Tensor& t, std::string_view name);
// t has been written: `value` is where the gradient of its new elements goes. What shares the memory follows.
void set_written(const Tensor& t, GradEdge value, const std::source_location& where);

// Makes members of Tensor known to the room below; done before the first state of the process is made.
void install_members();

// The state of a tensor, which is made where it has none.
GradState& state_of(const Tensor& t);

}  // namespace toroid::autograd
