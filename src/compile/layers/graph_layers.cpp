#include "compile/layers/graph_layers.h"

#include <bit>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "compile/layers/interner.h"
#include "graph/effects.h"

namespace toroid::compiler {
namespace {

// Content as bytes, which are equal where all that was put there is.
class Key {
 public:
  void put(int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void put(std::string_view text) {
    put(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }
  void put(const Expr& e) {
    if (const auto n = e.maybe_constant())
      put(int64_t{0}), put(*n);
    else
      put(sym::to_string(e));
  }
  void put(const std::vector<Expr>& items) {
    put(static_cast<int64_t>(items.size()));
    for (auto& e : items) put(e);
  }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

// The things of a graph are its values, and behind them the checkpoints that nodes are in.
class Reader {
 public:
  explicit Reader(const graph::Graph& g) : g_(g) {}

  Sequence read() {
    for (auto& v : g_.values) kinds_.push_back(kind_of(*v));
    for (auto& in : g_.inputs)
      if (in.kind == graph::InputKind::Constant && in.data.defined()) add_data(in.data, kinds_[static_cast<size_t>(in.value->id)]);
    for (auto& n : g_.nodes) add(*n);
    for (auto& o : g_.outputs) add(o);
    out_.kinds = std::move(kinds_);
    return std::move(out_);
  }

 private:
  enum Tag : int64_t { kNone, kValue, kValues, kSize, kReal, kFlag, kType, kSizes, kOther, kCheckpoint, kOutput, kConstant };

  int number() { return contents_(key_.take()); }

  int kind_of(const graph::Value& v) {
    key_.put(static_cast<int64_t>(v.type.dtype));
    key_.put(v.type.sizes);
    key_.put(v.type.strides);
    return number();
  }

  // Passes may look at what constants hold.
  void add_data(const Tensor& constant, int& kind) {
    constexpr int64_t kHashed = 1 << 16;  // elements: larger ones are the same where they are one tensor
    key_.put(kConstant);
    key_.put(kind);
    if (constant.numel() <= kHashed && !constant.device().is_cuda()) {
      const Tensor elements = constant.contiguous();
      key_.put(hash_bytes(elements.raw_data(), static_cast<size_t>(elements.numel()) * size_of(elements.dtype())).hex());
    } else {
      key_.put(static_cast<int64_t>(reinterpret_cast<intptr_t>(constant.raw_data())));
    }
    kind = number();
  }

  void name(const graph::Value& v, Sequence::Item& item) {
    item.things.push_back(v.id);
    key_.put(kValue);
    key_.put(kinds_[static_cast<size_t>(v.id)]);
  }
  void name(const graph::Value* v, Sequence::Item& item) { v ? name(*v, item) : key_.put(kNone); }

  void put(Tag tag, int64_t n) { key_.put(tag), key_.put(n); }

  void add(const graph::NodeArg& a, Sequence::Item& item) {
    if (std::holds_alternative<std::monostate>(a)) return key_.put(kNone);
    if (auto* v = std::get_if<graph::Value*>(&a)) return name(*v, item);
    if (auto* list = std::get_if<std::vector<graph::Value*>>(&a)) {
      put(kValues, static_cast<int64_t>(list->size()));
      for (auto* in : *list) name(in, item);
    } else if (auto* e = std::get_if<Expr>(&a)) {
      key_.put(kSize), key_.put(*e);
    } else if (auto* d = std::get_if<double>(&a)) {
      put(kReal, std::bit_cast<int64_t>(*d));
    } else if (auto* b = std::get_if<bool>(&a)) {
      put(kFlag, *b);
    } else if (auto* t = std::get_if<DType>(&a)) {
      put(kType, static_cast<int64_t>(*t));
    } else if (auto* sizes = std::get_if<std::vector<Expr>>(&a)) {
      key_.put(kSizes), key_.put(*sizes);
    } else {
      key_.put(kOther), key_.put(graph::to_string(a));
    }
  }

  void add(const graph::Node& n) {
    Sequence::Item item;
    item.things.reserve(n.args.size() + n.results.size());
    key_.put(static_cast<int64_t>(reinterpret_cast<intptr_t>(n.op)));
    for (auto& a : n.args) add(a, item);
    for (auto* r : n.results) name(*r, item);
    key_.put(static_cast<int64_t>(n.pass));
    if (n.checkpoint) {
      const auto [at, is_new] = checkpoints_.try_emplace(n.checkpoint, static_cast<int>(kinds_.size()));
      if (is_new) kinds_.push_back(-1);
      item.things.push_back(at->second);
      key_.put(kCheckpoint);
    }
    item.content = number();
    out_.items.push_back(std::move(item));
  }

  void add(const graph::Output& o) {
    Sequence::Item item;
    key_.put(kOutput);
    o.value ? name(*o.value, item) : add(o.literal, item);
    if (o.mutates >= 0) name(*g_.inputs[static_cast<size_t>(o.mutates)].value, item);
    item.content = number();
    out_.items.push_back(std::move(item));
  }

  const graph::Graph& g_;
  Key key_;
  Interner contents_;
  std::vector<int> kinds_;
  std::map<int, int> checkpoints_;
  Sequence out_;
};

}  // namespace

std::optional<GraphLayers> GraphLayers::find(const graph::Graph& g, int64_t least, std::string& why) {
  for (auto& n : g.nodes) {
    if (!n->regions.empty() || graph::effects_of(*n).has(graph::Effect::Draws)) {
      why = n->op->name + (n->regions.empty() ? " draws random numbers, whose positions are counted" : " is control flow");
      return std::nullopt;
    }
  }
  GraphLayers out;
  out.graph_ = &g;
  out.repetition_ = Repetition::find(Reader(g).read(), least, why);
  if (!out.repetition_) return std::nullopt;
  out.input_of_.assign(g.values.size(), g.inputs.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) out.input_of_[static_cast<size_t>(g.inputs[i].value->id)] = i;
  return out;
}

size_t GraphLayers::input_at(const Place& p) const {
  const auto value = repetition_->thing_at(p);
  TOROID_CHECK(value && static_cast<size_t>(*value) < input_of_.size(), "there is no input at run {}, layer {}, slot {}", p.run, p.layer,
               p.slot);
  return input_of_[static_cast<size_t>(*value)];
}

GraphLayers::Fewer GraphLayers::with(int64_t layers) const {
  const int64_t more = layers - this->layers();
  const std::vector<Repetition::Item> items = repetition_->resized(more);

  Fewer out;
  out.graph = std::make_unique<graph::Graph>();
  graph::Graph& to = *out.graph;
  to.name = graph_->name, to.symbols = graph_->symbols, to.guards = graph_->guards;

  // Inputs in their order: all that are outside of layers, named or not, and those of the layers that stay.
  std::map<Place, graph::Value*> made;
  std::map<size_t, Place> kept;  // by the input of this graph
  for (auto& in : graph_->inputs)
    if (const Place& p = repetition_->place_of(in.value->id); p.run < 0) kept[input_of_[static_cast<size_t>(in.value->id)]] = p;
  for (auto& item : items)
    for (auto& p : item.things) {
      const int like = repetition_->like(p, more);
      if (static_cast<size_t>(like) < input_of_.size() && input_of_[static_cast<size_t>(like)] < graph_->inputs.size())
        kept[input_of_[static_cast<size_t>(like)]] = p;
    }
  for (auto& [i, place] : kept) {
    const graph::Input& in = graph_->inputs[i];
    graph::Value* v = to.new_value(in.value->type, in.value->name);
    to.inputs.push_back({v, in.kind, in.name, in.data, in.draws});
    made[place] = v;
    out.inputs.push_back(place), out.of.push_back(i);
  }

  std::map<Place, int> checkpoints;
  for (auto& item : items) {
    size_t next = 0;
    const auto value = [&]() -> graph::Value* { return made.at(item.things[next++]); };
    const auto arg = [&](const graph::NodeArg& a) {
      return map_arg<graph::Value*>(a, [&](graph::Value* v) { return v ? value() : nullptr; });
    };
    if (item.like >= graph_->nodes.size()) {
      const graph::Output& o = graph_->outputs[item.like - graph_->nodes.size()];
      graph::Output& copy = to.outputs.emplace_back(graph::Output{nullptr, o.literal, -1});
      if (o.value) copy.value = value();
      if (o.mutates >= 0) {
        const graph::Value* target = value();
        while (to.inputs[static_cast<size_t>(++copy.mutates)].value != target) continue;
      }
      continue;
    }
    const graph::Node& n = *graph_->nodes[item.like];
    std::vector<graph::NodeArg> args;
    args.reserve(n.args.size());
    for (auto& a : n.args) args.push_back(arg(a));
    graph::Node* copy = to.add_copy(n, std::move(args));
    for (auto* r : copy->results) made[item.things[next++]] = r;
    if (n.checkpoint) copy->checkpoint = checkpoints.try_emplace(item.things[next], static_cast<int>(checkpoints.size()) + 1).first->second;
  }
  return out;
}

}  // namespace toroid::compiler
