// The rules that every program keeps.
#include "program/verify.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "program/points.h"
#include "program/region.h"
#include "program/sizes.h"

namespace toroid::program {
namespace {

struct Context {
  const Program& p;
  Stage stage;

  const loop::Buffer& buffer(int id, std::string_view what) const {
    TOROID_USER_CHECK(id >= 0 && id < static_cast<int>(p.buffers.size()), "{} is buffer %{}, of which there are {}", what, id,
                      p.buffers.size());
    return p.buffers[static_cast<size_t>(id)];
  }
};

// Says which node a complaint is about.
template <class F>
void each_node(const Context& c, F&& rule) {
  for (size_t i = 0; i < c.p.nodes.size(); ++i) {
    try {
      rule(c.p.nodes[i]);
    } catch (const Error& e) {
      fail<UserError>("node {} ({}): {}", i, label(c.p.nodes[i]), e.what());
    }
  }
}

void each_nest(const Node& n, const std::function<void(const loop::Domain&, const loop::Body&)>& rule) {
  rule(n.domain, n.body);
  if (n.producer) rule(n.producer->domain, n.producer->body);
  for (auto& nest : n.beside) rule(nest.domain, nest.body);
}

bool writes_to(const Node& n, int buffer) {
  const auto all = writes(n);
  return std::find(all.begin(), all.end(), buffer) != all.end();
}

// Loops move a c64 as its eight bytes, and complex numbers are theirs in no other way.
DType loop_type(DType t) { return t == DType::C64 ? DType::I64 : t; }

bool is_free_of_variables(const Expr& e) {
  bool free = true;
  sym::for_each_symbol(e, [&](const Expr& s) { free = free && sym::is_size(*s.node()); });
  return free;
}

void numbered_buffers(const Context& c) {
  for (size_t i = 0; i < c.p.buffers.size(); ++i) {
    const loop::Buffer& b = c.p.buffers[i];
    TOROID_USER_CHECK(b.id == static_cast<int>(i), "the buffer at place {} has the number {}", i, b.id);
    TOROID_USER_CHECK(is_free_of_variables(b.numel), "the size of %{}, {}, depends on a loop", i, sym::to_string(b.numel));
    TOROID_USER_CHECK(sym::bounds(b.numel).hi >= 0, "the size of %{}, {}, is negative", i, sym::to_string(b.numel));
  }
}

void good_inputs(const Context& c) {
  std::set<int> seen;
  for (auto& in : c.p.inputs) {
    const loop::Buffer& b = c.buffer(in.buffer, "the input \"" + in.name + "\"");
    TOROID_USER_CHECK(seen.insert(b.id).second, "two inputs are buffer %{}", b.id);
    TOROID_USER_CHECK(b.dtype == in.type.dtype, "the input \"{}\" is {}, its buffer %{} {}", in.name, name_of(in.type.dtype), b.id,
                      name_of(b.dtype));
    TOROID_USER_CHECK(b.kind == loop::BufferKind::Input || b.kind == loop::BufferKind::Constant,
                      "the input \"{}\" is buffer %{}, which is neither input nor constant", in.name, b.id);
    TOROID_USER_CHECK(in.kind != graph::InputKind::Random || graph::is_random_state(in.type), "the state of random numbers \"{}\" is {}",
                      in.name, to_string(in.type));
  }
  for (auto& r : c.p.rearranged) {
    const loop::Buffer& b = c.buffer(r.buffer, "a rearranged constant");
    TOROID_USER_CHECK(b.kind == loop::BufferKind::Constant && seen.insert(b.id).second,
                      "%{} is made of other constants, and must be a constant that nothing else makes", b.id);
    for (auto& part : r.parts) {
      const loop::Buffer& from = c.buffer(part.from.buffer, "what a constant is made of");
      TOROID_USER_CHECK(from.kind == loop::BufferKind::Constant, "the constant %{} is made of %{}, which is none", b.id, from.id);
      TOROID_USER_CHECK(part.strides.size() == part.sizes.size() && part.from.strides.size() == part.sizes.size(),
                        "a part of the constant %{} has {} sizes, {} strides here and {} there", b.id, part.sizes.size(),
                        part.strides.size(), part.from.strides.size());
    }
  }
}

void good_outputs(const Context& c) {
  std::set<int> replaced;
  for (auto& out : c.p.outputs) {
    TOROID_USER_CHECK(out.mutates < static_cast<int>(c.p.inputs.size()), "an output replaces input {}, of which there are {}", out.mutates,
                      c.p.inputs.size());
    TOROID_USER_CHECK(out.mutates < 0 || replaced.insert(out.mutates).second, "two outputs replace input {}", out.mutates);
    if (out.buffer < 0) continue;
    const loop::Buffer& b = c.buffer(out.buffer, "an output");
    TOROID_USER_CHECK(b.dtype == out.type.dtype, "an output is {}, its buffer %{} {}", name_of(out.type.dtype), b.id, name_of(b.dtype));
    const bool own = out.mutates >= 0 && c.p.inputs[static_cast<size_t>(out.mutates)].buffer == b.id;  // was written in place
    TOROID_USER_CHECK(own || b.kind == loop::BufferKind::Output, "%{} is returned, and must be of kind output", b.id);
  }
}

void declared_symbols(const Context& c) {
  std::set<std::string> declared;
  for (auto& s : c.p.symbols)
    TOROID_USER_CHECK(declared.insert(s.expr.node()->name).second, "the symbol {} is declared twice", s.expr.node()->name);
  auto check = [&](const Expr& e) {
    sym::for_each_symbol(e, [&](const Expr& s) {
      const sym::Node& n = *s.node();
      TOROID_USER_CHECK(!sym::is_size(n) || declared.count(n.name), "the symbol {} is not declared", n.name);
    });
  };
  for (auto& b : c.p.buffers) check(b.numel);
  for (auto& g : c.p.guards) check(g.a), check(g.b);
  for (auto& out : c.p.outputs)
    for (auto& e : out.type.sizes) check(e);
  const auto check_view = [&](const Extern::View& v) {
    check(v.memory.offset);
    for (auto* list : {&v.sizes, &v.memory.strides})
      for (auto& e : *list) check(e);
  };
  each_node(c, [&](const Node& n) {
    if (const auto* e = std::get_if<Extern>(&n.problem); e && !e->blocks.empty()) {  // which declare symbols of their own
      for (auto* views : {&e->inputs, &e->outputs})
        for (auto& v : *views) check_view(v);
      auto outer = declared;
      for (auto& block : e->blocks)
        for (auto& s : block->symbols) declared.insert(s.expr.node()->name);
      for_each_expression(n, check);
      declared = std::move(outer);
      return;
    }
    if (!n.is_open()) return for_each_expression(n, check);
    const auto& open = std::get<Open>(n.problem);  // alternatives declare what they use themselves
    for (auto* views : {&open.inputs, &open.outputs})
      for (auto& v : *views) check_view(v);
  });
}

// What a problem reads or writes, with the extents along its strides.
void check_operand(const Context& c, const Operand& o, const std::vector<Expr>& extents, std::string_view what) {
  const loop::Buffer& b = c.buffer(o.buffer, what);
  TOROID_USER_CHECK(o.dtype == b.dtype, "{} is {}, its buffer %{} {}", what, name_of(o.dtype), b.id, name_of(b.dtype));
  TOROID_USER_CHECK(o.strides.size() == extents.size(), "{} has {} strides where the problem has {} dimensions", what, o.strides.size(),
                    extents.size());
  Expr first = o.offset, last = o.offset;
  bool known = o.offset.is_const() && b.numel.is_const();
  for (size_t d = 0; d < extents.size(); ++d) {
    TOROID_USER_CHECK(is_free_of_variables(extents[d]) && is_free_of_variables(o.strides[d]), "{} depends on a loop", what);
    known = known && extents[d].is_const() && o.strides[d].is_const();
    if (!known) return;
    if (extents[d].constant() <= 0) return;  // nothing is touched
    Expr& end = o.strides[d].constant() > 0 ? last : first;
    end = end + (extents[d] - 1) * o.strides[d];
  }
  TOROID_USER_CHECK(!known || first.constant() >= 0, "{} reaches element {} of %{}", what, sym::to_string(first), b.id);
  TOROID_USER_CHECK(!known || last.constant() < b.numel.constant(), "{} reaches element {} of %{}, which has {}", what,
                    sym::to_string(last), b.id, sym::to_string(b.numel));
}

void good_convolutions(const Context& c) {
  each_node(c, [](const Node& n) {
    const auto* conv = std::get_if<Convolution>(&n.problem);
    if (!conv) return;
    TOROID_USER_CHECK(conv->groups > 0 && conv->in_channels % conv->groups == 0 && conv->out_channels % conv->groups == 0,
                      "{} and {} channels cannot be split into {} groups", conv->in_channels, conv->out_channels, conv->groups);
    TOROID_USER_CHECK(std::min({conv->kernel_h, conv->kernel_w, conv->stride_h, conv->stride_w, conv->dilation_h, conv->dilation_w}) > 0,
                      "a window of {} by {} moves by {} and {}, its taps by {} and {}; all are at least 1", conv->kernel_h, conv->kernel_w,
                      conv->stride_h, conv->stride_w, conv->dilation_h, conv->dilation_w);
  });
}

// What a meeting has of the group and of the run.
void good_meeting(const Context& c, const Meeting& a) {
  using enum distributed::Kind;
  TOROID_USER_CHECK(!a.group.empty() && a.ranks >= 2, "{} ranks of the group \"{}\" meet", a.ranks, a.group);
  TOROID_USER_CHECK(a.kind == AllReduce || a.kind == AllGather || a.kind == ReduceScatter, "a {} is no meeting of kernels",
                    name_of(a.kind));
  TOROID_USER_CHECK(!a.sizes.empty(), "a result without dimensions has no parts for the ranks");
  const loop::Buffer& peers = c.buffer(a.peers.buffer, "what the ranks share");
  TOROID_USER_CHECK(peers.kind == loop::BufferKind::Peers && peers.name == a.group, "%{} is not what the ranks of \"{}\" share", peers.id,
                    a.group);
  TOROID_USER_CHECK(c.buffer(a.faults.buffer, "the record of faults").kind == loop::BufferKind::Faults,
                    "it tells %{} of ranks that do not come, which is no record", a.faults.buffer);
  TOROID_USER_CHECK(
      a.site >= 0 && a.site < static_cast<int64_t>(c.p.sites.size()) && c.p.sites[static_cast<size_t>(a.site)].dim == IndexSite::kRank,
      "it is at site {}, which is none of ranks", a.site);
  std::vector<Expr> dense(a.sizes.size(), 1);
  for (size_t d = dense.size(); d-- > 1;) dense[d - 1] = dense[d] * a.sizes[d];  // the input's first size does not matter
  if (!a.product) {
    TOROID_USER_CHECK(a.input.strides == dense, "the memory of what a rank brings is not dense");
    return;
  }
  const Gemm& g = *a.product;
  const Expr sums = product(points(g)), results = product(a.sizes);
  const bool fits = a.kind == AllReduce       ? sums == results
                    : a.kind == ReduceScatter ? sums == results * Expr(a.ranks)
                                              : sums * Expr(a.ranks) == results;
  TOROID_USER_CHECK(a.input.buffer < 0, "a rank brings to a {} what it computes and what it reads", name_of(a.kind));
  TOROID_USER_CHECK(sums.is_const() && fits && !g.b2, "the {} of {} elements does not fit to a product of {} sums", name_of(a.kind),
                    sym::to_string(results), sym::to_string(sums));
}

void good_collectives(const Context& c) {
  each_node(c, [&](const Node& n) {
    if (auto* a = std::get_if<Meeting>(&n.problem)) good_meeting(c, *a);
    const auto* meet = std::get_if<Collective>(&n.problem);
    if (!meet) return;
    const bool splits = meet->kind == distributed::Kind::AllToAll;
    TOROID_USER_CHECK(!meet->group.empty() && meet->kind != distributed::Kind::Barrier, "a {} in the group \"{}\" is no node",
                      name_of(meet->kind), meet->group);
    TOROID_USER_CHECK(meet->ranks >= 1 && meet->root >= 0, "{} ranks, of which the root is {}", meet->ranks, meet->root);
    TOROID_USER_CHECK(meet->given.size() == meet->taken.size() && splits != meet->given.empty(), "{} and {} splits of {}",
                      meet->given.size(), meet->taken.size(), name_of(meet->kind));
    TOROID_USER_CHECK(meet->input.dtype == meet->output.dtype && meet->input.buffer != meet->output.buffer,
                      "{} from %{} of {} to %{} of {}", name_of(meet->kind), meet->input.buffer, name_of(meet->input.dtype),
                      meet->output.buffer, name_of(meet->output.dtype));
    for (auto* o : {&meet->input, &meet->output})
      TOROID_USER_CHECK(o->strides == std::vector<Expr>{1}, "the memory of {} is not dense", name_of(meet->kind));
    if (meet->kind == distributed::Kind::AllReduce || meet->kind == distributed::Kind::ReduceScatter)
      distributed::check_reducible(meet->input.dtype, meet->op);
  });
}

void good_operands(const Context& c) {
  each_node(c, [&](const Node& n) {
    for_each_view(n,
                  [&](const Operand& o, const std::vector<Expr>& extents, std::string_view what) { check_operand(c, o, extents, what); });
  });
}

// Is the index a sum of multiples of loop variables, each of which occurs once? Its bounds are exact then.
bool has_exact_bounds(const Expr& index) {
  if (index.is_const()) return true;
  if (index.kind() == sym::Kind::Symbol)
    return sym::is_loop_var(*index.node()) && index.node()->has_extent && index.node()->extent.is_const();
  if (index.kind() != sym::Kind::Poly) return false;
  std::set<int64_t> seen;
  for (auto& t : index.node()->terms) {
    if (t.factors.size() > 1) return false;
    for (auto& f : t.factors)
      if (f.kind() != sym::Kind::Symbol || !f.node()->has_extent || !f.node()->extent.is_const() || !seen.insert(f.node()->id).second)
        return false;
  }
  return true;
}

void good_loops(const Context& c) {
  each_node(c, [&](const Node& n) {
    each_nest(n, [&](const loop::Domain& d, const loop::Body& b) {
      loop::verify(d, b, "its schedule");
      const bool empty = std::any_of(d.vars.begin(), d.vars.end(), [](auto& v) { return v.extent() == Expr(0); });
      const bool row = n.producer && &b == &n.producer->body;  // stores elements of a row, not of the buffer
      for (auto& s : b.steps) {
        if (s.step == loop::Step::Check) {
          TOROID_USER_CHECK(c.buffer(s.buffer, "the record of a check").kind == loop::BufferKind::Faults,
                            "a check writes to %{}, which is no record", s.buffer);
          TOROID_USER_CHECK(s.value.i >= 0 && s.value.i < static_cast<int64_t>(c.p.sites.size()),
                            "a check is at site {}, of which there are {}", s.value.i, c.p.sites.size());
        }
        if (s.step != loop::Step::Load && s.step != loop::Step::Store) continue;
        const loop::Buffer& buffer = c.buffer(s.buffer, "what a loop touches");
        if (row && s.step == loop::Step::Store) continue;
        TOROID_USER_CHECK(!loop::is_of_runs(buffer.kind), "a loop touches %{}, {}", buffer.id,
                          buffer.kind == loop::BufferKind::Faults ? "the record of checks" : "what ranks share");
        TOROID_USER_CHECK(s.dtype == loop_type(buffer.dtype), "a loop touches %{} as {}, which is {}", buffer.id, name_of(s.dtype),
                          name_of(buffer.dtype));
        if (empty || s.mask >= 0 || !buffer.numel.is_const() || !has_exact_bounds(s.index)) continue;
        const sym::Bounds at = sym::bounds(s.index);
        TOROID_USER_CHECK(at.lo >= 0 && at.hi < buffer.numel.constant(), "a loop touches elements {} to {} of %{}, which has {}: [{}]",
                          at.lo, at.hi, buffer.id, buffer.numel.constant(), sym::to_string(s.index));
      }
    });
  });
}

size_t accumulators(const loop::Body& b, int64_t which) {
  return static_cast<size_t>(
      std::count_if(b.steps.begin(), b.steps.end(), [&](auto& s) { return s.step == loop::Step::Accumulate && s.value.i == which; }));
}

void bodies_fit_problems(const Context& c) {
  each_node(c, [&](const Node& n) {
    const bool whole = n.is_whole();
    TOROID_USER_CHECK(!whole || (n.body.steps.empty() && n.domain.vars.empty()), "a call or a sort has no loop of its own");
    TOROID_USER_CHECK(n.is_loop() || n.beside.empty(), "only loops have others beside them");
    TOROID_USER_CHECK(!n.is_loop() || (n.config.empty() && !n.is_library()), "a loop is computed by no template and no library");
    for (auto& nest : n.beside)
      TOROID_USER_CHECK(accumulators(nest.body, 0) + accumulators(nest.body, 1) == 0,
                        "a loop beside another reads the result of a template");
    TOROID_USER_CHECK(!n.producer || accumulators(n.producer->body, 0) + accumulators(n.producer->body, 1) == 0,
                      "a producer reads the result of a template");
    if (whole) return;
    const bool checks = std::any_of(n.body.steps.begin(), n.body.steps.end(), [](auto& s) { return s.step == loop::Step::Check; });
    TOROID_USER_CHECK(checks || !writes(n).empty(), "it stores nothing");
    const auto points = points_of(n);
    TOROID_USER_CHECK(points || accumulators(n.body, 0) + accumulators(n.body, 1) == 0, "a loop reads the result of a template");
    if (!points) return;
    TOROID_USER_CHECK(n.domain.vars.size() == points->size(), "its body runs over {} dimensions, its problem has {}", n.domain.vars.size(),
                      points->size());
    for (size_t d = 0; d < points->size(); ++d)
      TOROID_USER_CHECK(n.domain.vars[d].extent() == (*points)[d], "dimension {} of its body has the extent {}, that of its problem {}", d,
                        sym::to_string(n.domain.vars[d].extent()), sym::to_string((*points)[d]));
    const auto* g = std::get_if<Gemm>(&n.problem);
    TOROID_USER_CHECK(accumulators(n.body, 1) == 0 || (g && g->b2), "its body reads a second sum, and its problem has one");
    TOROID_USER_CHECK(!n.is_library() || g || std::holds_alternative<Convolution>(n.problem), "{} computes neither product nor convolution",
                      name_of(n.by));
  });
}

// What templates and loops over rows leave of their columns.
void sums_have_their_place(const Context& c) {
  each_node(c, [&](const Node& n) {
    each_nest(n, [&](const loop::Domain&, const loop::Body& b) {
      for (auto& s : b.steps) {
        if (!loop::stores_sum(s)) continue;
        const auto place = n.is_library() || &b != &n.body ? std::nullopt : sums_place(n);
        TOROID_USER_CHECK(place, "it sums columns for %{}, and has none of a known number", s.buffer);
        TOROID_USER_CHECK(s.dtype == DType::F32 && s.mask < 0, "sums are {}, or some of their terms are left out", name_of(s.dtype));
        TOROID_USER_CHECK(s.index == place->index, "sums of columns are stored at [{}] in place of [{}]", sym::to_string(s.index),
                          sym::to_string(place->index));
        const loop::Buffer& buffer = c.buffer(s.buffer, "what sums are stored to");
        TOROID_USER_CHECK(buffer.numel == Expr(place->sums * place->columns), "%{} has {} elements for {} sums", s.buffer,
                          sym::to_string(buffer.numel), place->sums * place->columns);
        const auto others = std::count_if(b.steps.begin(), b.steps.end(), [&](auto& other) { return other.buffer == s.buffer; });
        TOROID_USER_CHECK(others == 1, "%{} has sums of columns and something else", s.buffer);
      }
    });
  });
}

void producers_compute_rows(const Context& c) {
  each_node(c, [&](const Node& n) {
    if (!n.producer) return;
    const Gemm* g = product_of(n);
    TOROID_USER_CHECK(g && !n.is_library(), "only products of a template compute their rows themselves");
    auto rows = g->batch;
    rows.push_back(g->m);
    const auto& vars = n.producer->domain.vars;
    TOROID_USER_CHECK(vars.size() > rows.size(), "its producer has {} variables, its rows {}", vars.size(), rows.size());
    for (size_t d = 0; d < rows.size(); ++d)
      TOROID_USER_CHECK(vars[d].extent() == rows[d] && !vars[d].reduction, "variable {} of its producer does not say which row", d);
    for (auto& s : n.producer->body.steps)
      TOROID_USER_CHECK(s.step != loop::Step::Store || s.buffer == g->a.buffer, "its producer stores to %{}, not to its left operand %{}",
                        s.buffer, g->a.buffer);
    for (auto& other : c.p.nodes) TOROID_USER_CHECK(!writes_to(other, g->a.buffer), "its rows are made by itself and by {}", label(other));
  });
}

void written_before_read(const Context& c) {
  std::vector<bool> has_contents(c.p.buffers.size(), false);
  auto mark = [&](int buffer) { has_contents[static_cast<size_t>(buffer)] = true; };
  for (auto& in : c.p.inputs) mark(in.buffer);
  for (auto& r : c.p.rearranged) mark(r.buffer);
  for (auto& b : c.p.buffers)
    if (loop::is_of_runs(b.kind)) mark(b.id);
  each_node(c, [&](const Node& n) {
    for (int b : reads(n)) {
      const bool own = n.is_loop() && std::any_of(n.body.steps.begin(), n.body.steps.end(), [&](auto& s) {
                         return s.step == loop::Step::Store && s.buffer == b && s.mode == loop::StoreMode::Set;
                       });
      TOROID_USER_CHECK(has_contents[static_cast<size_t>(b)] || own, "it reads %{}, which nothing has written", b);
    }
    for (int b : writes(n)) {
      TOROID_USER_CHECK(c.buffer(b, "what it writes").kind != loop::BufferKind::Constant, "it writes the constant %{}", b);
      mark(b);
    }
  });
  for (auto& out : c.p.outputs)
    TOROID_USER_CHECK(out.buffer < 0 || has_contents[static_cast<size_t>(out.buffer)], "the output %{} is written by nothing", out.buffer);
}

void good_calls(const Context& c) {
  each_node(c, [&](const Node& n) {
    const auto* e = std::get_if<Extern>(&n.problem);
    if (!e) return;
    TOROID_USER_CHECK(e->op, "a call of no operation");
    auto check = [&](int i) {
      TOROID_USER_CHECK(i < static_cast<int>(e->inputs.size()), "an argument is input {}, of which there are {}", i, e->inputs.size());
      return i;
    };
    for (auto& a : e->args) map_arg<int>(a, check);
    TOROID_USER_CHECK(e->conditions.empty() || e->blocks.size() == e->conditions.size() + 1, "{} conditions choose between {} blocks",
                      e->conditions.size(), e->blocks.size());
    TOROID_USER_CHECK(e->options.empty() || e->options.size() == e->blocks.size(), "{} blocks have options, there are {}",
                      e->options.size(), e->blocks.size());
  });
}

void good_choices(const Context& c) {
  each_node(c, [&](const Node& n) {
    const auto* open = std::get_if<Open>(&n.problem);
    if (!open) return;
    TOROID_USER_CHECK(c.stage == Stage::Lowered, "{} is still undecided", open->name);
    TOROID_USER_CHECK(!open->alternatives.empty(), "{} has no implementation", open->name);
    TOROID_USER_CHECK(std::is_sorted(open->split_points.begin(), open->split_points.end()), "the ranges of {} are in no order", open->name);
    for (auto& a : open->alternatives) {
      size_t given = 0;
      for (auto& in : a.program->inputs) given += in.kind == graph::InputKind::User;
      TOROID_USER_CHECK(given == open->inputs.size() && a.program->outputs.size() == open->outputs.size(),
                        "the implementation \"{}\" has {} inputs and {} outputs, the call {} and {}", a.name, given,
                        a.program->outputs.size(), open->inputs.size(), open->outputs.size());
      verify(*a.program, Stage::Lowered, "the implementation \"" + a.name + "\" was lowered");
    }
  });
}

constexpr std::pair<const char*, void (*)(const Context&)> kRules[] = {
    {"buffers are numbered by their place", numbered_buffers},
    {"inputs have buffers of their own", good_inputs},
    {"outputs have buffers", good_outputs},
    {"symbols are declared", declared_symbols},
    {"windows and groups of convolutions fit", good_convolutions},
    {"collectives have a group, and dense memory", good_collectives},
    {"operands are views within their buffers", good_operands},
    {"loops are well formed, and stay within their buffers", good_loops},
    {"bodies run over the points of their problems", bodies_fit_problems},
    {"sums of columns have their place", sums_have_their_place},
    {"producers compute the rows of their product", producers_compute_rows},
    {"memory is written before it is read", written_before_read},
    {"calls have their arguments", good_calls},
    {"choices have implementations, and are decided when scheduled", good_choices},
};

}  // namespace

void verify(const Program& p, Stage stage, const std::string& after) {
  for (auto& [rule, check] : kRules) {
    try {
      check({p, stage});
    } catch (const Error& e) {
      fail<InternalError>("program \"{}\" after {}: rule \"{}\" is broken: {}", p.name, after, rule, e.what());
    }
  }
}

}  // namespace toroid::program
