#include "program/interpret.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/interpreter.h"
#include "ops/reference.h"
#include "program/fields.h"
#include "tensor/random_state.h"

namespace toroid::program {
namespace {

constexpr int kUnwritten = 0xff;  // each byte: NaN in every float, -1 or the largest integer elsewhere

// The program's inputs, symbols and guards as those of a graph, whose rules for binding sizes are the program's, too.
graph::Graph signature_of(const Program& p) {
  graph::Graph g;
  g.name = p.name;
  for (auto& in : p.inputs) g.add_input(in.type, in.kind, in.name, in.data);
  g.symbols = p.symbols;
  g.guards = p.guards;
  return g;
}

class Run {
 public:
  Run(const Program& p, std::span<const Tensor> user_inputs)
      : p_(p), symbols_(graph::bind_inputs(signature_of(p), user_inputs)), storage_(p.buffers.size()), memory_(p.buffers.size(), nullptr) {
    size_t next = 0;
    for (auto& in : p.inputs) {
      Tensor given = in.kind == graph::InputKind::User     ? user_inputs[next++]
                     : in.kind == graph::InputKind::Random ? take_random_state(symbols_.value(in.draws.value_or(0)))
                                                           : in.data;
      TOROID_USER_CHECK(given.defined(), "the input \"{}\" of the program \"{}\" has no data", in.name, p.name);
      given_.push_back(given);
      copy_elements(given, input_view(in, given));
    }
    for (auto& r : p.rearranged) rearrange(r);
  }

  std::vector<Tensor> run() {
    for (auto& n : p_.nodes) {
      std::visit([&](auto& problem) { run_node(n, problem); }, n.problem);
      refuse_faults();
    }
    std::vector<Tensor> results;  // all are taken before an input is overwritten
    for (auto& out : p_.outputs) results.push_back(out.buffer < 0 ? Tensor() : result(out));
    write_inputs();
    std::vector<Tensor> returned;
    for (size_t i = 0; i < results.size(); ++i) {
      const int mutated = p_.outputs[i].mutates;
      if (mutated < 0)
        returned.push_back(results[i]);
      else if (results[i].defined())
        copy_elements(results[i], given_[static_cast<size_t>(mutated)]);
    }
    return returned;
  }

 private:
  // --- memory ---
  Tensor memory_of(int buffer) {
    Tensor& t = storage_[static_cast<size_t>(buffer)];
    if (t.defined()) return t;
    const loop::Buffer& b = p_.buffers[static_cast<size_t>(buffer)];
    const int64_t numel = std::max<int64_t>(symbols_.value(b.numel), 0);
    t = Tensor::empty({numel}, b.dtype);
    const int unwritten = b.kind == loop::BufferKind::Faults ? 0 : b.dtype == DType::Bool ? 1 : kUnwritten;
    std::memset(t.raw_data(), unwritten, static_cast<size_t>(numel) * size_of(b.dtype));
    memory_[static_cast<size_t>(buffer)] = t.raw_data();
    return t;
  }

  Tensor view(const Operand& o, const std::vector<Expr>& sizes) {
    return memory_of(o.buffer).as_strided(symbols_.values(sizes), symbols_.values(o.strides), symbols_.value(o.offset));
  }

  // An input as it lies in its buffer. What lies otherwise in the caller's memory is copied.
  Tensor input_view(const ProgramInput& in, const Tensor& given) {
    Tensor memory = memory_of(in.buffer);
    if (in.type.strides.empty()) return memory.as_strided(given.sizes(), row_major(given.sizes()));
    return memory.as_strided(given.sizes(), symbols_.values(in.type.strides));
  }

  static std::vector<int64_t> row_major(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
    return strides;
  }

  Tensor result(const ProgramOutput& out) {
    const auto sizes = symbols_.values(out.type.sizes);
    return memory_of(out.buffer).as_strided(sizes, row_major(sizes));
  }

  // What nodes have written to inputs, in the caller's memory.
  void write_inputs() {
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      const ProgramInput& in = p_.inputs[i];
      const bool written = std::any_of(p_.nodes.begin(), p_.nodes.end(), [&](auto& n) {
        const auto all = writes(n);
        return std::find(all.begin(), all.end(), in.buffer) != all.end();
      });
      if (written) copy_elements(input_view(in, given_[i]), given_[i]);
    }
  }

  void rearrange(const Rearranged& r) {
    Tensor to = memory_of(r.buffer);
    std::memset(to.raw_data(), 0, static_cast<size_t>(to.numel()) * size_of(to.dtype()));
    for (auto& part : r.parts)
      copy_elements(
          memory_of(part.from.buffer).as_strided(part.sizes, symbols_.values(part.from.strides), symbols_.value(part.from.offset)),
          to.as_strided(part.sizes, part.strides, part.offset));
  }

  // --- nodes ---
  void run_nest(const loop::Domain& domain, const loop::Body& body, const loop::Accumulated& accumulated = {}) {
    for (auto& s : body.steps)
      if (s.buffer >= 0) memory_of(s.buffer);
    loop::interpret(domain, body, p_.buffers, memory_, values_of_sizes(), accumulated);
  }

  sym::Lookup values_of_sizes() const {
    return [this](const sym::Node& n) {
      const auto value = symbols_.find(n.name);
      TOROID_CHECK(value, "the size {} has no value", n.name);
      return *value;
    };
  }

  // What the checks of a node found is the caller's error.
  void refuse_faults() const {
    for (auto& b : p_.buffers) {
      if (b.kind != loop::BufferKind::Faults || !memory_[static_cast<size_t>(b.id)]) continue;
      const auto& fault = *reinterpret_cast<const IndexFault*>(memory_[static_cast<size_t>(b.id)]);
      if (fault.state == IndexFault::kNone) continue;
      fail<UserError>("{}", index_error(p_.sites.at(static_cast<size_t>(fault.site)), fault));
    }
  }

  void run_node(const Node& n, const std::monostate&) {
    run_nest(n.domain, n.body);
    for (auto& nest : n.beside) run_nest(nest.domain, nest.body);
  }

  // Those of a problem, but for a left operand whose rows the node computes itself.
  Tensors operands(const Node& n) {
    Tensors out;
    const Gemm* produces = n.producer ? product_of(n) : nullptr;
    visit_operands(n, [&](const Operand& o, Use, std::string_view, const auto& extents) {
      if (produces && &o == &produces->a)
        out.push_back(produced(n, *produces, extents()));
      else
        out.push_back(o.buffer >= 0 ? view(o, extents()) : Tensor());
    });
    return out;
  }

  void run_node(const Node& n, const Collective& c) {
    const OperationPlace place(n.where);
    compute(c, operands(n), [this](const Expr& e) { return symbols_.value(e); });
  }

  template <class Kind>
  void run_node(const Node& n, const Kind& problem) {
    const Tensors given = operands(n);
    if constexpr (HasPoints<Kind>)
      run_nest(n.domain, n.body, formula(problem, given));
    else
      compute(problem, given);
  }

  // The left operand whose rows the node computes itself: the producer stores element k of a row, which is row number batch..., m here.
  Tensor produced(const Node& n, const Gemm& g, const std::vector<Expr>& sizes) {
    loop::Nest nest = *n.producer;
    Expr row = 0;
    for (size_t d = 0; d + 1 < sizes.size(); ++d) row = row * sizes[d] + (sizes[d] == Expr(1) ? Expr(0) : nest.domain.vars[d].symbol);
    DType dtype = g.a.dtype;
    for (auto& s : nest.body.steps)
      if (s.step == loop::Step::Store) s.index = row * g.k + s.index, dtype = s.dtype;
    const auto at = symbols_.values(sizes);
    const Tensor out = Tensor::empty(at, dtype);
    auto buffers = p_.buffers;
    buffers[static_cast<size_t>(g.a.buffer)].numel = out.numel();
    for (auto& s : nest.body.steps)
      if (s.step == loop::Step::Load || s.step == loop::Step::Check) memory_of(s.buffer);
    auto memory = memory_;
    memory[static_cast<size_t>(g.a.buffer)] = out.raw_data();
    loop::interpret(nest.domain, nest.body, buffers, memory, values_of_sizes());
    return out;
  }

  void run_node(const Node& n, const Extern& e) {
    const OperationPlace place(n.where);
    std::vector<Tensor> inputs;
    for (auto& v : e.inputs) inputs.push_back(view(v.memory, v.sizes));
    give(e.outputs, e.blocks.empty() ? call(e, inputs) : run_blocks(e, inputs));
  }

  void run_node(const Node&, const Open& o) {
    std::vector<Tensor> inputs;
    for (auto& v : o.inputs) inputs.push_back(view(v.memory, v.sizes));
    give(o.outputs, interpret(*o.alternatives.front().program, inputs));
  }

  // Stores the results of a call; sizes that only the call knows are bound from them.
  void give(const std::vector<Extern::View>& outputs, const std::vector<Tensor>& results) {
    TOROID_CHECK(results.size() == outputs.size(), "a call gave {} results where the program has {}", results.size(), outputs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const TensorType type{outputs[i].memory.dtype, outputs[i].sizes, {}};
      const bool fits = results[i].dim() == type.dim() && graph::bind_sizes(symbols_, type, results[i].sizes()) < 0;
      TOROID_CHECK(fits, "result {} of a call is {}, {} is expected", i, to_string(results[i]), to_string(type));
    }
    graph::check_sizes(signature_of(p_), symbols_);
    for (size_t i = 0; i < results.size(); ++i) copy_elements(results[i], view(outputs[i].memory, outputs[i].sizes));
  }

  // Arguments with the tensors of a call in their places, sizes as numbers.
  Arg<Tensor> argument(const Arg<int>& a, const std::vector<Tensor>& inputs) {
    Arg<Tensor> out = map_arg<Tensor>(a, [&](int i) { return i < 0 ? Tensor() : inputs[static_cast<size_t>(i)]; });
    if (auto* e = std::get_if<Expr>(&out)) *e = symbols_.value(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&out))
      for (auto& e : *list) e = symbols_.value(e);
    return out;
  }

  std::vector<Tensor> call(const Extern& e, const std::vector<Tensor>& inputs) {
    CallArgs args;
    for (auto& a : e.args) args.push_back(argument(a, inputs));
    return ops::evaluate(*e.op, std::move(args));
  }

  // Control flow as the node of a graph, which has an interpreter. What the blocks know as constants is no operand.
  std::vector<Tensor> run_blocks(const Extern& e, const std::vector<Tensor>& inputs) {
    graph::Graph around;
    graph::Node node;
    CallArgs args;
    if (e.conditions.empty()) {
      node.op = e.op;
      node.regions = e.blocks;
      for (auto& a : e.args) {
        args.push_back(argument(a, inputs));
        if (auto* list = std::get_if<std::vector<Tensor>>(&args.back())) std::erase_if(*list, [](const Tensor& t) { return !t.defined(); });
      }
    } else {  // the block of the first condition that holds, else the last
      const auto chosen = std::find_if(e.conditions.begin(), e.conditions.end(), [&](auto& r) { return sym::holds(r, values_of_sizes()); });
      const auto& block = e.blocks[static_cast<size_t>(chosen - e.conditions.begin())];
      node.op = &graph::cond_op();
      node.regions = {block, block};
      args = {Tensor::full(std::vector<int64_t>{}, 1, DType::Bool), std::monostate{}, std::monostate{}, inputs};
    }
    for (auto& v : e.outputs) node.results.push_back(around.new_value({v.memory.dtype, v.sizes, {}}, "result"));
    return graph::interpret_node(node, std::move(args), symbols_);
  }

  const Program& p_;
  graph::BoundSymbols symbols_;
  std::vector<Tensor> given_;  // parallel to the program's inputs
  std::vector<Tensor> storage_;
  std::vector<std::byte*> memory_;
};

}  // namespace

std::vector<Tensor> interpret(const Program& p, std::span<const Tensor> user_inputs) { return Run(p, user_inputs).run(); }

}  // namespace toroid::program
