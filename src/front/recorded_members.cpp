#include "front/recorded_members.h"

#include <set>

#include "autograd/function_trace.h"
#include "base/check.h"
#include "front/eager_region.h"
#include "graph/writes.h"
#include "ops/call_errors.h"
#include "ops/strided_view.h"
#include "tensor/dispatch_layer.h"
#include "trace/tracer.h"

namespace toroid::front {
namespace {

// Whether the node's results are whole parts along the first dimension of its operand.
bool cuts_rows(const graph::Node& n) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{
      "select.int", "slice.Tensor", "narrow", "split.Tensor", "split_with_sizes", "split.sizes", "chunk", "unbind.int"};
  const auto number = [&](const char* name, int64_t otherwise) {
    const int at = n.op->schema.find(name);
    const Expr* e = at < 0 ? nullptr : std::get_if<Expr>(&n.args[static_cast<size_t>(at)]);
    return e && e->is_const() ? e->constant() : otherwise;
  };
  return names.count(n.op->name) && number("dim", 0) == 0 && number("step", 1) == 1;
}

// Whether the elements of a value lie in a row, so that strides in its memory are strides in the row of its elements.
bool lie_in_a_row(const graph::Value* v) {
  while (v->producer) {
    const ops::Op& op = *v->producer->op;
    const bool is_view = graph::is_alias_view(op);
    if (op.name == "contiguous" || (!is_view && !graph::is_mutating(op))) return true;
    if (is_view && !ops::keeps_row_order(op) && !cuts_rows(*v->producer)) return false;
    v = std::get<graph::Value*>(v->producer->args[0]);
  }
  return v->type.strides.empty();
}
bool lie_in_a_row(const Tensor& t) {
  return is_proxy(t) ? lie_in_a_row(static_cast<const graph::Value*>(t.impl()->proxy)) : t.is_contiguous();
}

// Passes run the functions of custom operations again, which have been looked at when these were recorded.
bool is_recorded_again() {
  const Dispatcher* d = &current_dispatcher();
  return !dynamic_cast<const graph::Recorder*>(d) && !dynamic_cast<const trace::Tracer*>(d) && !dynamic_cast<const Layer*>(d);
}

std::vector<Expr> as_exprs(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

class Members : public RecordedMembers {
 public:
  Tensor contiguous(const Tensor& t, const std::source_location& where) override { return ops::call1("contiguous", {t}, where); }

  Tensor as_strided(const Tensor& t, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
                    const std::source_location& where) override {
    const auto operation = [&] { return ops::call1("as_strided", {t, as_exprs(sizes), as_exprs(strides), Expr(offset)}, where); };
    if (is_proxy(t) && is_recorded_again()) return operation();
    const bool differentiated = dynamic_cast<const autograd::FunctionTrace*>(ElementReader::current());
    if (is_proxy(t) && !differentiated && !lie_in_a_row(t)) current_dispatcher().read(t, "as_strided()", where);
    if (lie_in_a_row(t)) return operation();
    TOROID_USER_CHECK(
        !differentiated && !t.requires_grad(),
        "as_strided() of a tensor that is not contiguous and may need gradients (called at {}); take contiguous() of it first",
        ops::place_text(where));
    return {};
  }

  void note_made(const Tensor& t) override {
    if (EagerRegion* region = EagerRegion::current()) region->note_made({t});
  }
};

}  // namespace

RecordedMembers& members_of_tensor() {
  static Members& members = *new Members;  // never destroyed: threads may outlive main
  return members;
}

}  // namespace toroid::front
