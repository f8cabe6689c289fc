// Collectives become problems. Reductions over all ranks become calls with several implementations where their group is known: programs
// that gather and fold, which what follows is fused into.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "dist/group.h"
#include "dist/p2p/peer_memory.h"
#include "graph/pass.h"
#include "graph/recorder.h"
#include "lower/lowering.h"
#include "ops/table.h"
#include "program/inline.h"

namespace toroid::lower {
namespace {

using distributed::Kind;
using distributed::ReduceOp;
using ops::call1;

constexpr int64_t kMostFolded = 16;  // ranks whose elements one kernel folds
constexpr int64_t kSplitBytes[] = {int64_t{8} << 10, int64_t{128} << 10, int64_t{2} << 20};
constexpr int64_t kTopBytes = int64_t{16} << 20;

// What an all_reduce is made of.
struct AllReduced {
  DType dtype;
  ReduceOp op;
  std::string group;
  int64_t ranks;
  Expr numel;
  std::vector<Expr> sizes;
};

Tensor cast(const Tensor& x, DType t) { return x.dtype() == t ? x : call1("_to_copy", {x, t}); }
Tensor reshape(const Tensor& x, std::vector<Expr> sizes) { return call1("reshape", {x, std::move(sizes)}); }

const char* step_of(ReduceOp op, bool bools) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return bools ? "logical_or" : "add.Tensor";
    case ReduceOp::Product:
      return bools ? "logical_and" : "mul.Tensor";
    case ReduceOp::Min:
      return bools ? "logical_and" : "minimum";
    case ReduceOp::Max:
      return bools ? "logical_or" : "maximum";
  }
  return "";
}

// In which the elements of the ranks are folded. Ways of one order give the same bits.
enum class Order : uint8_t { Ranks, Pairs };

// [ranks, n] -> [n], as distributed::reduce does it.
Tensor folded(const AllReduced& r, const Tensor& rows, Order order) {
  const DType wide = ops::compute_type(r.dtype);
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < r.ranks; ++rank) parts.push_back(cast(call1("select.int", {rows, Expr(0), Expr(rank)}), wide));
  const char* step = step_of(r.op, is_bool(r.dtype));
  if (order == Order::Pairs)
    for (; parts.size() > 2; parts.resize((parts.size() + 1) / 2))
      for (size_t i = 0; i < parts.size(); i += 2) parts[i / 2] = i + 1 < parts.size() ? call1(step, {parts[i], parts[i + 1]}) : parts[i];
  Tensor all = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) all = call1(step, {all, parts[i]});
  if (r.op == ReduceOp::Avg) all = call1("div.Tensor", {all, static_cast<double>(r.ranks)});
  return cast(all, r.dtype);
}

Tensor gathered(const AllReduced& r, const Tensor& x) {
  return call1("_c10d_functional.all_gather_into_tensor", {x, Expr(r.ranks), r.group});
}

// As the group does it by itself, which nothing is fused into.
Tensor by_group(const AllReduced& r, const Tensor& x, Order) {
  static constexpr std::string_view kName = "_c10d_functional.all_reduce";
  return call1(kName, {x, std::string(name_of(r.op)), r.group});
}

// Each rank takes all inputs whole, and folds them.
Tensor one_shot(const AllReduced& r, const Tensor& x, Order order) {
  const Tensor all = gathered(r, reshape(x, {r.numel}));
  return reshape(folded(r, reshape(all, {Expr(r.ranks), r.numel}), order), r.sizes);
}

// Each rank folds a part of the elements, which all gather then. The last part is filled up with zeros.
Tensor two_shot(const AllReduced& r, const Tensor& x, Order order) {
  const Expr ranks = r.ranks, part = sym::floor_div(r.numel + Expr(r.ranks - 1), ranks);
  Tensor all = reshape(x, {r.numel});
  if (!(part * ranks == r.numel)) all = call1("constant_pad_nd", {all, std::vector<Expr>{0, part * ranks - r.numel}, Expr(0)});
  const std::vector<Expr> splits(static_cast<size_t>(r.ranks), part);
  all = call1("_c10d_functional.all_to_all_single", {all, splits, splits, r.group});
  all = gathered(r, folded(r, reshape(all, {ranks, part}), order));
  return reshape(call1("slice.Tensor", {all, Expr(0), Expr(0), r.numel, Expr(1)}), r.sizes);
}

// A way to compute an all_reduce. The one that is taken without tuning is the first.
struct Way {
  const char* name;
  Order order;
  Tensor (*make)(const AllReduced& r, const Tensor& x, Order order);
};
constexpr Way kWays[] = {
    {"group", Order::Ranks, by_group},          {"one_shot", Order::Ranks, one_shot},       {"two_shot", Order::Ranks, two_shot},
    {"one_shot_pairs", Order::Pairs, one_shot}, {"two_shot_pairs", Order::Pairs, two_shot},
};

// Pairs are another order from four ranks on, of what rounds.
std::vector<const Way*> ways_for(const AllReduced& r, const LowerOptions& options) {
  const bool any = options.options.get(options::kCollectiveOrder) == "any" && r.ranks > 3;
  std::vector<const Way*> out;
  for (auto& w : kWays)
    if (w.order == Order::Ranks || any) out.push_back(&w);
  return out;
}

program::Alternative alternative(const graph::Graph& around, const graph::Node& n, const AllReduced& r, const Way& way,
                                 const TensorType& type, LowerOptions options) {
  // What is called within has no ways of its own, here and where it becomes a block that is compiled by itself.
  const program::OptionValues untuned = {{"mode", std::string(name_of(Mode::Default))}};
  options.options = options.options.with(untuned);
  auto g = std::make_unique<graph::Graph>();
  g->name = way.name;
  g->symbols = around.symbols;
  g->guards = around.guards;
  graph::Recorder recorder(*g);
  recorder.set_where(n.where);
  {
    DispatchScope scope(recorder);
    const Tensor x = recorder.proxy(g->add_input(type, graph::InputKind::User, "x"));
    g->outputs.push_back({recorder.value_of(way.make(r, x, way.order)), {}, -1});
  }
  g = graph::run_passes(std::move(g), graph::pipeline({.templates = options.templates()}), nullptr, options.options);
  program::Alternative out;
  out.name = way.name;
  out.program = std::make_shared<const program::Program>(lower(*g, options));
  out.graph = std::move(g);
  out.options = untuned;
  out.key = program::content_key(*out.program, out.options);
  return out;
}

// Ranks of the group where this thread has a world with it; 0: that is not known when compiling.
int64_t ranks_of(const std::string& group) {
  if (!distributed::has_world()) return 0;
  try {
    return distributed::current_world().group(group).size();
  } catch (const UserError&) {
    return 0;  // the run says so
  }
}

// Arguments of a call by their names.
struct Arguments {
  const graph::Node& n;
  const graph::NodeArg& at(std::string_view name) const { return n.args[static_cast<size_t>(n.op->schema.find(name))]; }
  const std::string& text(std::string_view name) const { return std::get<std::string>(at(name)); }
  int64_t integer(std::string_view name) const { return std::get<Expr>(at(name)).constant(); }
  const std::vector<Expr>& exprs(std::string_view name) const { return std::get<std::vector<Expr>>(at(name)); }
  graph::Value* input() const { return std::get<graph::Value*>(n.args[0]); }
};

bool is_empty(const TensorType& type) {
  const Expr numel = type.numel();
  return numel.is_const() && numel.constant() == 0;
}

Kind kind_of(const graph::Node& n) {
  for (size_t k = 0; k < std::size(distributed::kKindNames); ++k)
    if (ops::plain_name(*n.op) == distributed::kKindNames[k]) return static_cast<Kind>(k);
  fail<UserError>("{} ({}): this operation is not supported by the compiler", n.op->name, n.where);
}

}  // namespace

bool Lowering::lower_reduction_ways(const graph::Node& n) {
  const Arguments args{n};
  const TensorType& type = args.input()->type;
  const AllReduced r{type.dtype,
                     distributed::reduce_op_from_name(args.text("reduce_op")),
                     args.text("group_name"),
                     ranks_of(args.text("group_name")),
                     type.numel(),
                     type.sizes};
  const bool tuned = tunes(options_.options.mode()) && options_.composes() && !facts().device.is_cuda();
  if (!tuned || is_complex(r.dtype) || r.ranks < 2 || r.ranks > kMostFolded || is_empty(type)) return false;
  program::Open open;
  open.name = n.op->name;
  open.op = n.op;
  open.inputs.push_back(custom_operand(args.input()));
  TensorType held{r.dtype, r.sizes, open.inputs[0].memory.strides};
  if (is_dense({open.inputs[0].memory.buffer, 0, held.strides}, held.sizes)) held.strides.clear();
  for (const Way* way : ways_for(r, options_)) open.alternatives.push_back(alternative(graph_, n, r, *way, held, options_));
  if (!r.numel.is_const()) {
    const auto bytes = static_cast<int64_t>(size_of(r.dtype));
    open.size = r.numel;
    for (int64_t split : kSplitBytes) open.split_points.push_back(split / bytes);
    open.top = kTopBytes / bytes;
  }
  const graph::Value* result = n.results[0];
  const Place p = allocate(result->name, result->type);
  open.outputs.push_back({{p.buffer, r.dtype, 0, p.strides}, r.sizes});
  values_[result] = at_place(result->type, p);
  values_[result].over_open = open.alternatives.size() > 1;
  program::Node node;
  node.problem = std::move(open);
  node.where = n.where;
  node.origins.push_back(result->name);
  append(std::move(node), nullptr);
  return true;
}

// By one kernel, where the GPUs of the ranks reach each other's memory.
bool Lowering::lower_meeting(const graph::Node& n) {
  const Arguments args{n};
  const TensorType &in = args.input()->type, &type = n.results[0]->type;
  program::Meeting m;
  m.kind = kind_of(n);
  if (m.kind == Kind::Broadcast || m.kind == Kind::AllToAll) return false;
  if (program::reduces(m)) m.op = distributed::reduce_op_from_name(args.text("reduce_op"));
  m.group = args.text("group_name");
  m.ranks = ranks_of(m.group);
  m.sizes = type.sizes.empty() ? std::vector<Expr>{1} : type.sizes;
  m.input.dtype = type.dtype;
  if (!facts().device.is_cuda() || m.ranks < 2 || !takes(m) || is_empty(in) || is_empty(type)) return false;
  if (m.kind != Kind::AllReduce && args.integer("group_size") != m.ranks) return false;  // the run says so
  const auto memory = distributed::p2p::peer_memory(distributed::current_world().group(m.group), facts().device);
  const std::string name(name_of(m.kind));
  if (!memory->refusal().empty()) {
    log(Artifact::Perf, fmt::format("{}{} has no kernel of its own: the GPUs of the group \"{}\" share no memory: {}", name,
                                    n.where.empty() ? "" : " (" + n.where + ")", m.group, memory->refusal()));
    return false;
  }
  const Place from = realize(args.input(), true);
  m.input = {from.buffer, type.dtype, from.offset, dense_strides(in.sizes.empty() ? m.sizes : in.sizes)};
  m.peers = {program_.peers(m.group), DType::I64, 0, {}};
  m.faults = {program_.faults(), DType::I64, 0, {}};
  m.site = program_.site(
      {fmt::format("{} of {} elements in the group \"{}\"", name, sym::to_string(in.numel()), m.group), n.where, IndexSite::kRank, false});
  const graph::Value* result = n.results[0];
  program::Node node;
  node.problem = m;
  const Place out = allocate(result->name, result->type);
  Index index;
  for (auto& s : m.sizes) {
    const Expr var = fresh_symbol(s, false);
    index.push_back(s == Expr(1) ? Expr(0) : var);
    node.domain.vars.push_back({var, false});
  }
  loop::BodyBuilder b(node.body);
  b.store(out.buffer, type.dtype, flat_index({out.buffer, out.offset, dense_strides(m.sizes)}, index), b.accumulator(DType::F32));
  append(std::move(node), result);
  values_[result] = at_place(result->type, out);
  values_[result].over_template = true;
  return true;
}

void Lowering::lower_collective(const graph::Node& n) {
  const Arguments args{n};
  if (is_complex(args.input()->type.dtype)) return lower_extern(n);  // no loop makes them dense
  program::Collective c;
  c.kind = kind_of(n);
  if (lower_meeting(n) || (c.kind == Kind::AllReduce && lower_reduction_ways(n))) return;
  c.group = args.text("group_name");
  if (c.kind == Kind::AllReduce || c.kind == Kind::ReduceScatter) c.op = distributed::reduce_op_from_name(args.text("reduce_op"));
  if (c.kind == Kind::AllGather || c.kind == Kind::ReduceScatter) c.ranks = args.integer("group_size");
  if (c.kind == Kind::Broadcast) c.root = args.integer("src");
  const TensorType &in = args.input()->type, &out = n.results[0]->type;
  c.count = c.kind == Kind::ReduceScatter ? out.numel() : in.numel();
  if (c.kind == Kind::AllToAll) {
    c.count = 0;
    Expr row = 1;
    for (size_t d = 1; d < in.sizes.size(); ++d) row = row * in.sizes[d];
    for (auto& s : args.exprs("input_split_sizes")) c.given.push_back(s * row);
    for (auto& s : args.exprs("output_split_sizes")) c.taken.push_back(s * row);
  }
  const Place from = realize(args.input(), true), to = allocate(n.results[0]->name, out);
  c.input = {from.buffer, in.dtype, from.offset, {1}};
  c.output = {to.buffer, out.dtype, 0, {1}};
  program::Node node;
  node.problem = std::move(c);
  node.where = n.where;
  node.origins.push_back(n.results[0]->name);
  values_[n.results[0]] = at_place(out, to);
  append(std::move(node), nullptr);
}

}  // namespace toroid::lower
