// cond(), while_loop() and scan(): recorded, or run as they are called.
#include "toroid/control_flow.h"

#include <algorithm>

#include "autograd/tape/record.h"
#include "base/check.h"
#include "front/eager_region.h"
#include "front/region.h"
#include "graph/outside.h"
#include "graph/region_call.h"
#include "ops/call_errors.h"
#include "toroid/ops.h"

namespace toroid {
namespace front {
namespace {

using detail::RegionFunction;
using detail::RegionResults;
using Tensors = std::vector<Tensor>;

bool is_recorded() {
  const Dispatcher* d = innermost_dispatcher();
  return d && d != eager_dispatcher();
}

// With the sizes that the tensor has where it is given to an operation: those of one that was made before a graph break may be open there.
TensorType type_of(const Tensor& t) {
  if (auto* around = dynamic_cast<graph::Outside*>(innermost_dispatcher()); around && !is_proxy(t))
    return {t.dtype(), around->sizes_outside(t), {}};
  TensorType type{t.dtype(), {}, {}};
  for (auto& s : t.sym_sizes()) type.sizes.push_back(s.expr());
  return type;
}

Tensors joined(std::initializer_list<std::span<const Tensor>> lists) {
  Tensors out;
  for (auto& l : lists) out.insert(out.end(), l.begin(), l.end());
  return out;
}

// The truth value that decides, without dimensions. role: whose it is, for errors.
Tensor truth_of(const Tensor& t, const std::string& role, const std::source_location& where) {
  TOROID_USER_CHECK(t.defined(), "{} ({}): expected a bool tensor of one element; it is undefined", role, ops::place_text(where));
  const TensorType type = type_of(t);
  const bool one = type.dtype == DType::Bool && std::all_of(type.sizes.begin(), type.sizes.end(), [](auto& e) { return e == Expr(1); });
  TOROID_USER_CHECK(one, "{} ({}): expected a bool tensor of one element, got {}; compare or reduce it, as with any() or all()", role,
                    ops::place_text(where), to_string(type));
  return type.sizes.empty() ? t : ops::call1("reshape", {t, std::vector<Expr>{}}, where);
}

void check_defined(std::span<const Tensor> tensors, std::string_view what, const std::source_location& where) {
  for (size_t i = 0; i < tensors.size(); ++i)
    TOROID_USER_CHECK(tensors[i].defined(), "{} ({}): tensor {} is undefined", what, ops::place_text(where), i);
}

// --- recorded ------------------------------------------------------------------------------------------------------------------------

// The tensors from outside that the regions use.
Tensors captured_by(std::initializer_list<const Region*> regions) {
  Tensors out;
  for (auto* r : regions)
    for (const Tensor& t : r->originals())
      if (std::none_of(out.begin(), out.end(), [&](auto& o) { return o.impl() == t.impl(); })) out.push_back(t);
  return out;
}

void add_parameters(Region& r, std::span<const Tensor> tensors) {
  for (const Tensor& t : tensors) r.add_parameter(type_of(t), t.device());
}

// Calls the operation; its results are on the devices of those of the region.
Tensors called(const ops::Op& op, CallArgs args, std::initializer_list<Region*> regions, const Tensors& captured,
               const std::source_location& where) {
  const Region& last = **(regions.end() - 1);
  std::vector<Device> devices;
  for (size_t i = 0; i < last.size(); ++i) devices.push_back(last.device(i));
  graph::Regions graphs;
  for (Region* r : regions) graphs.push_back(r->finish(captured));
  Tensors out = graph::call_regions(op, std::move(args), std::move(graphs), where);
  for (size_t i = 0; i < out.size(); ++i)
    if (is_proxy(out[i])) out[i].impl()->device = devices[i];
  return out;
}

Tensors record_cond(const Predicate& pred, const RegionFunction& true_fn, const RegionFunction& false_fn,
                    std::span<const Tensor> operands) {
  Dispatcher& below = current_dispatcher();
  const Tensor truth = truth_of(pred.tensor(), "the predicate of cond", pred.where());
  const std::string place = ops::place_text(pred.where());
  Region yes("the true branch of cond", "true", below);
  add_parameters(yes, operands);
  yes.record(true_fn);
  Region no("the false branch of cond", "false", below);
  add_parameters(no, operands);
  no.record(false_fn);
  TOROID_USER_CHECK(yes.structure() == no.structure(),
                    "cond ({}): the true branch returns {}, the false branch {} (T is a tensor); expected the same", place, yes.structure(),
                    no.structure());
  for (size_t i = 0; i < yes.size(); ++i)
    TOROID_USER_CHECK(
        no.fit(i, yes.type(i)),
        "cond ({}): result {} is {} in the true branch ({}) and {} in the false branch ({}); expected the same dtype and sizes", place, i,
        to_string(yes.type(i)), yes.place(i), to_string(no.type(i)), no.place(i));
  const Tensors captured = captured_by({&yes, &no});
  return called(graph::cond_op(), {truth, {}, {}, joined({operands, captured})}, {&yes, &no}, captured, pred.where());
}

// UserError unless the first results of a loop's region are as what is carried.
void check_carried(Region& body, std::span<const Tensor> carried, const std::string& structure, std::string_view loop,
                   const std::source_location& where) {
  TOROID_USER_CHECK(body.structure() == structure, "{} ({}): {} is carried, {} returns {} for it (T is a tensor); expected the same", loop,
                    ops::place_text(where), structure, body.name(), body.structure());
  for (size_t i = 0; i < carried.size(); ++i)
    TOROID_USER_CHECK(body.fit(i, type_of(carried[i])),
                      "{} ({}): tensor {} that is carried is {}, {} returns {} for it ({}); expected the same dtype and sizes", loop,
                      ops::place_text(where), i, to_string(type_of(carried[i])), body.name(), to_string(body.type(i)), body.place(i));
}

Tensors record_while(const RegionFunction& cond_fn, const RegionFunction& body_fn, const Tensors& carried, const std::string& structure,
                     const std::source_location& where) {
  Dispatcher& below = current_dispatcher();
  Region condition("the condition of while_loop", "condition", below);
  add_parameters(condition, carried);
  condition.record([&](std::span<const Tensor> given) {
    RegionResults r = cond_fn(given);
    r.tensors[0] = truth_of(r.tensors[0], "the condition of while_loop", where);
    return r;
  });
  Region body("the body of while_loop", "body", below);
  add_parameters(body, carried);
  body.record(body_fn);
  check_carried(body, carried, structure, "while_loop", where);
  const Tensors captured = captured_by({&condition, &body});
  return called(graph::while_loop_op(), {{}, {}, carried, captured}, {&condition, &body}, captured, where);
}

// xs: scanned over along their dimension 0.
Tensors record_scan(const RegionFunction& combine_fn, const Tensors& init, const std::string& structure, const Tensors& xs,
                    const std::source_location& where) {
  Region combine("the function of scan", "combine", current_dispatcher());
  add_parameters(combine, init);
  for (const Tensor& x : xs) {
    TensorType slice = type_of(x);
    slice.sizes.erase(slice.sizes.begin());
    combine.add_parameter(slice, x.device());
  }
  combine.record(combine_fn);
  check_carried(combine, init, structure, "scan", where);
  const Tensors captured = captured_by({&combine});
  return called(graph::scan_op(), {{}, init, xs, captured}, {&combine}, captured, where);
}

// --- as it is called -----------------------------------------------------------------------------------------------------------------

// Results have memory of their own: what somebody else holds, too, is copied.
Tensors owned(Tensors results, const std::source_location& where) {
  for (Tensor& t : results)
    if (t.shared_impl().use_count() > 1 || t.impl()->storage.use_count() > 1) t = ops::call1("clone", {t, std::monostate{}}, where);
  if (EagerRegion* around = EagerRegion::current()) around->note_made(results);
  return results;
}

RegionResults called_as(const char* name, const RegionFunction& fn, std::span<const Tensor> given) {
  const EagerRegion region(name);
  return fn(given);
}

void check_round(const RegionResults& results, std::span<const Tensor> carried, const std::string& structure, std::string_view loop,
                 std::string_view what, const std::source_location& where) {
  TOROID_USER_CHECK(results.structure == structure, "{} ({}): {} is carried, {} returns {} for it (T is a tensor); expected the same", loop,
                    ops::place_text(where), structure, what, results.structure);
  check_defined(results.tensors, what, where);
  for (size_t i = 0; i < carried.size(); ++i)
    TOROID_USER_CHECK(type_of(results.tensors[i]) == type_of(carried[i]),
                      "{} ({}): tensor {} that is carried is {}, {} returns {} for it; expected the same dtype and sizes", loop,
                      ops::place_text(where), i, to_string(type_of(carried[i])), what, to_string(type_of(results.tensors[i])));
}

// What a loop without a gradient has computed: it requires gradients where it follows from what does, and refuses them by name.
Tensors without_gradient(Tensors results, const std::source_location& where) {
  const bool follows =
      std::any_of(results.begin(), results.end(), [](auto& t) { return autograd::edge_of(t).node != nullptr || t.requires_grad(); });
  if (!follows) return results;
  const std::string place = ops::place_text(where);
  const GradModeScope off(false);
  for (Tensor& t : results) t = ops::call1("clone", {t, std::monostate{}}, where);
  const auto node = std::make_shared<autograd::OperationNode>(
      "while_loop", place, std::vector<GradEdge>(), nullptr,
      fmt::format("while_loop ({}): this operation has no gradient; detach() its operands, or write it in other operations", place));
  autograd::set_results(node, results, {});
  return results;
}

Tensors run_while(const RegionFunction& cond_fn, const RegionFunction& body_fn, Tensors carried, const std::string& structure,
                  const std::source_location& where) {
  const auto goes_on = [&] {
    const RegionResults r = called_as("the condition of while_loop", cond_fn, carried);
    return truth_of(r.tensors[0], "the condition of while_loop", where).item(where) != 0;
  };
  while (goes_on()) {
    RegionResults next = called_as("the body of while_loop", body_fn, carried);
    check_round(next, carried, structure, "while_loop", "the body of while_loop", where);
    carried = std::move(next.tensors);
  }
  return carried;
}

Tensors run_scan(const RegionFunction& combine_fn, Tensors carried, const std::string& structure, const Tensors& xs, int64_t length,
                 const std::source_location& where) {
  std::vector<Tensors> stacked;
  for (int64_t i = 0; i < length; ++i) {
    Tensors given = carried;
    for (const Tensor& x : xs) given.push_back(ops::call1("select.int", {x, Expr(0), Expr(i)}, where));
    RegionResults next = called_as("the function of scan", combine_fn, given);
    check_round(next, carried, structure, "scan", "the function of scan", where);
    const auto first = next.tensors.begin() + static_cast<std::ptrdiff_t>(carried.size());
    stacked.resize(next.tensors.size() - carried.size());
    for (size_t k = 0; k < stacked.size(); ++k) stacked[k].push_back(first[static_cast<std::ptrdiff_t>(k)]);
    carried.assign(next.tensors.begin(), first);
  }
  for (auto& slices : stacked) {
    TOROID_USER_CHECK(slices.size() == static_cast<size_t>(length),
                      "scan ({}): its function returns another number of tensors in some steps", ops::place_text(where));
    carried.push_back(ops::call1("stack", {slices, Expr(0)}, where));
  }
  return carried;
}

}  // namespace
}  // namespace front

using front::Tensors;

std::vector<Tensor> detail::run_cond(const Predicate& pred, const RegionFunction& true_fn, const RegionFunction& false_fn,
                                     std::span<const Tensor> operands) {
  if (pred.known()) {
    Tensors results = (*pred.known() ? true_fn : false_fn)(operands).tensors;
    front::check_defined(results, "a branch of cond", pred.where());
    return front::owned(std::move(results), pred.where());
  }
  front::check_defined(operands, "cond", pred.where());
  if (front::is_recorded()) return front::record_cond(pred, true_fn, false_fn, operands);
  const bool truth = front::truth_of(pred.tensor(), "the predicate of cond", pred.where()).item(pred.where()) != 0;
  RegionResults results = truth ? front::called_as("the true branch of cond", true_fn, operands)
                                : front::called_as("the false branch of cond", false_fn, operands);
  front::check_defined(results.tensors, "a branch of cond", pred.where());
  return front::owned(std::move(results.tensors), pred.where());
}

std::vector<Tensor> detail::run_while_loop(const RegionFunction& cond_fn, const RegionFunction& body_fn, std::vector<Tensor> carried,
                                           const std::string& structure, const std::source_location& where) {
  front::check_defined(carried, "while_loop", where);
  if (front::is_recorded()) return front::record_while(cond_fn, body_fn, carried, structure, where);
  return front::owned(front::without_gradient(front::run_while(cond_fn, body_fn, std::move(carried), structure, where), where), where);
}

std::vector<Tensor> detail::run_scan(const RegionFunction& combine_fn, std::vector<Tensor> init, const std::string& structure,
                                     std::span<const Tensor> xs, const ScanOptions& options, const std::source_location& where) {
  front::check_defined(init, "scan", where), front::check_defined(xs, "scan", where);
  TOROID_USER_CHECK(!xs.empty(), "scan ({}): there is nothing to scan over; expected at least one tensor", ops::place_text(where));
  std::vector<Tensor> along;
  for (const Tensor& x : xs) {
    const int64_t dim = options.dim < 0 ? options.dim + x.dim() : options.dim;
    TOROID_USER_CHECK(dim >= 0 && dim < x.dim(), "scan ({}): along dimension {} of a tensor of {} dimensions", ops::place_text(where),
                      options.dim, x.dim());
    along.push_back(dim == 0 ? x : ops::call1("movedim.int", {x, Expr(dim), Expr(0)}, where));
    std::vector<Expr> sizes = front::type_of(along.back()).sizes;
    const Expr length = front::type_of(along[0]).sizes[0];
    TOROID_USER_CHECK(SymInt(sizes[0]) == SymInt(length), "scan ({}): of the tensors to scan over one has {} slices, another {}",
                      ops::place_text(where), sym::to_string(length), sym::to_string(sizes[0]));
    if (!(sizes[0] == length)) {
      sizes[0] = length;  // one name for what has been found to be equal
      along.back() = ops::call1("reshape", {along.back(), sizes}, where);
    }
    if (options.reverse) along.back() = ops::call1("flip", {along.back(), std::vector<Expr>{Expr(0)}}, where);
  }
  const size_t carried = init.size();
  // What no step has made has the types that recording tells.
  const bool recorded = front::is_recorded() || along[0].size(0) == 0;
  std::vector<Tensor> out = recorded ? front::record_scan(combine_fn, init, structure, along, where)
                                     : front::run_scan(combine_fn, std::move(init), structure, along, along[0].size(0), where);
  if (!front::is_recorded()) out = front::owned(std::move(out), where);
  for (size_t i = carried; options.reverse && i < out.size(); ++i) out[i] = ops::call1("flip", {out[i], std::vector<Expr>{Expr(0)}}, where);
  return out;
}

}  // namespace toroid
