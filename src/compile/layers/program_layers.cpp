#include "compile/layers/program_layers.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "compile/layers/interner.h"
#include "lower/lowering.h"
#include "program/region.h"

namespace toroid::compiler {
namespace {

using program::Program;

// The things of a program are its buffers.
Sequence sequence_of(const Program& p, Interner& contents) {
  Sequence out;
  const std::vector<int> faults = program::records_of_faults(p);
  for (auto& b : p.buffers)
    out.kinds.push_back(contents(fmt::format("{} {} {} {}", name_of(b.dtype), sym::to_string(b.numel), static_cast<int>(b.kind),
                                             loop::is_of_runs(b.kind) ? b.name : "")));
  for (auto& n : p.nodes) {
    program::NodeContent content = program::content_of(p, n, faults);
    out.items.push_back({contents(fmt::format("{} {}", static_cast<int>(n.pass), content.text)), std::move(content.buffers)});
  }
  for (auto& o : p.outputs) {
    Sequence::Item item;
    item.content =
        contents(fmt::format("out {} {} {}", to_string(o.type), o.buffer < 0 ? graph::to_string(o.literal) : "", o.mutates >= 0));
    if (o.buffer >= 0) item.things.push_back(o.buffer);
    if (o.mutates >= 0) item.things.push_back(p.inputs[static_cast<size_t>(o.mutates)].buffer);
    out.items.push_back(std::move(item));
  }
  return out;
}

bool equal_data(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.impl() == b.impl()) return true;
  if (a.dtype() != b.dtype() || a.device() != b.device() || !std::ranges::equal(a.sizes(), b.sizes()) || a.device().is_cuda() ||
      !a.is_contiguous() || !b.is_contiguous())
    return false;
  return std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

bool same_guard(const sym::Guard& a, const sym::Guard& b) { return a.rel == b.rel && a.a == b.a && a.b == b.b; }

// Which inputs of a graph the buffers are at the places of a run, layer by layer.
struct InputRule {
  Place first;  // of the graph, of the run's layer 0
  int64_t step = 1;
  std::map<int64_t, Place> otherwise;  // by layer: the first or the last one
  Place at(int64_t layer) const { return {first.run, first.layer + step * layer, first.slot}; }
};

class Repeated {
 public:
  Repeated(const OfFewer& few, Repetition repetition, const GraphLayers& layers)
      : few_(few), repetition_(std::move(repetition)), layers_(layers) {}

  const Repetition& repetition() const { return repetition_; }

  // Of each place that is an input's, which one it is in graphs of any number of layers.
  bool find_inputs(std::string& why) {
    const Program& p = few_.program;
    std::map<std::pair<int, int>, std::map<int64_t, Place>> runs;  // by run and slot, by layer
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      const Place& here = repetition_.place_of(p.inputs[i].buffer);
      const bool is_own = i >= few_.graph.inputs.size();  // which passes have made
      if (is_own && here.run >= 0) return why = "each layer has constants of its own", false;
      if (here.run >= 0) runs[{here.run, here.slot}][here.layer] = few_.graph.inputs[i];
    }
    for (auto& [slot, places] : runs) {
      const int64_t all = repetition_.layers_of(slot.first), middle = all / 2;
      const auto before = places.find(middle - 1), here = places.find(middle);
      if (before == places.end() || here == places.end()) return why = "not all layers have an input", false;
      InputRule rule{here->second, here->second.layer - before->second.layer, {}};
      rule.first.layer -= rule.step * middle;
      if (here->second.run < 0 || (rule.step != 1 && rule.step != -1)) return why = "inputs of layers have no order", false;
      for (int64_t layer = 0; layer < all; ++layer) {
        const auto place = places.find(layer);
        const bool is_end = layer == 0 || layer == all - 1, is_there = place != places.end();
        if (is_there && place->second == rule.at(layer)) continue;
        if (!is_end) return why = "inputs of layers have no order", false;
        if (is_there) rule.otherwise[layer] = place->second;  // else it is named before
      }
      rules_[slot] = rule;
    }
    return true;
  }

  // The place, in a graph with `more` layers, of the input at a place of the program with as many more; run -2 where it is none of the
  // graph's.
  Place input_at(const Place& p, int64_t more) const {
    if (p.run < 0) {
      const program::ProgramInput* in = input_of(p.slot);
      const auto i = in ? static_cast<size_t>(in - few_.program.inputs.data()) : few_.graph.inputs.size();
      if (i >= few_.graph.inputs.size()) return {-2, 0, p.slot};
      return moved(few_.graph.inputs[i], few_.layers, more);
    }
    const auto rule = rules_.find({p.run, p.slot});
    if (rule == rules_.end()) return {-2, 0, p.slot};
    const InputRule& r = rule->second;
    const int64_t all = repetition_.layers_of(p.run);
    const auto other = r.otherwise.find(p.layer < all / 2 ? p.layer : p.layer - more);
    if (other != r.otherwise.end() && (other->first == 0 || p.layer == all + more - 1)) return moved(other->second, few_.layers, more);
    Place out = r.at(p.layer);
    if (r.step < 0) out.layer += more;
    return out;
  }

  // Whether the program with one layer less is `other`.
  bool gives(const OfFewer& other, const Sequence& sequence, std::string& why) const {
    const int64_t more = other.layers - few_.layers;
    const Program &p = few_.program, &q = other.program;
    if (p.inputs.size() - few_.graph.inputs.size() != q.inputs.size() - other.graph.inputs.size() ||
        !std::ranges::equal(p.symbols, q.symbols, {}, &graph::Symbol::expr, &graph::Symbol::expr) ||
        !std::ranges::equal(p.guards, q.guards, same_guard) || !std::ranges::equal(p.sites, q.sites))
      return why = "programs of different numbers of layers have different inputs, sizes or checks", false;
    for (size_t i = few_.graph.inputs.size(), k = other.graph.inputs.size(); i < p.inputs.size(); ++i, ++k)
      if (p.inputs[i].kind != q.inputs[k].kind || !(p.inputs[i].type == q.inputs[k].type) ||
          !equal_data(p.inputs[i].data, q.inputs[k].data))
        return why = "constants depend on the number of layers", false;
    const std::vector<Repetition::Item> items = repetition_.resized(more);
    if (items.size() != sequence.items.size())
      return why = fmt::format("{} layers make {} nodes, {} were expected", other.layers, sequence.items.size(), items.size()), false;
    std::map<Place, int> theirs;
    std::map<int, Place> ours;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto& expected = repetition_.sequence().items[items[i].like];
      if (expected.content != sequence.items[i].content || items[i].things.size() != sequence.items[i].things.size())
        return why = fmt::format("{} layers make another node number {} than expected", other.layers, i), false;
      for (size_t t = 0; t < items[i].things.size(); ++t) {
        const Place& place = items[i].things[t];
        const int thing = sequence.items[i].things[t];
        const bool is_same =
            theirs.try_emplace(place, thing).first->second == thing && ours.try_emplace(thing, place).first->second == place;
        if (!is_same ||
            repetition_.sequence().kinds[static_cast<size_t>(repetition_.like(place, more))] != sequence.kinds[static_cast<size_t>(thing)])
          return why = fmt::format("{} layers make node number {} of other memory than expected", other.layers, i), false;
      }
    }
    for (size_t i = 0; i < other.graph.inputs.size(); ++i) {
      const auto place = ours.find(q.inputs[i].buffer);
      if (place != ours.end() && input_at(place->second, more) != other.graph.inputs[i])
        return why = fmt::format("{} layers read input {} elsewhere than expected", other.layers, i), false;
    }
    return true;
  }

  Program of(const graph::Graph& whole) const {
    const int64_t more = layers_.layers() - few_.layers;
    const Program& p = few_.program;
    Program out;
    out.name = p.name, out.symbols = p.symbols, out.guards = p.guards, out.sites = p.sites;
    std::map<Place, int> buffers;
    Inputs inputs{std::vector<int>(whole.inputs.size(), -1), std::vector<int>(whole.inputs.size(), -1), {}};
    const auto buffer_at = [&](const Place& place) {
      const auto [at, is_new] = buffers.try_emplace(place, 0);
      if (is_new) at->second = add_buffer(place, more, inputs, out);
      return at->second;
    };
    std::vector<std::pair<size_t, int>> mutated;  // outputs, and the buffer of the input
    for (auto& item : repetition_.resized(more)) {
      std::vector<int> things;
      for (auto& place : item.things) things.push_back(buffer_at(place));
      if (item.like < p.nodes.size()) {
        const auto& named = repetition_.sequence().items[item.like].things;
        program::Node n = p.nodes[item.like];
        program::renumber_buffers(n, [&](int b) {
          if (b < 0) return b;
          return things[static_cast<size_t>(std::find(named.begin(), named.end(), b) - named.begin())];
        });
        program::rename_variables(n);  // a loop variable belongs to one node
        out.nodes.push_back(std::move(n));
      } else {
        program::ProgramOutput o = p.outputs[item.like - p.nodes.size()];
        if (o.buffer >= 0) o.buffer = things[0];
        if (o.mutates >= 0) mutated.emplace_back(out.outputs.size(), things.back());
        out.outputs.push_back(std::move(o));
      }
    }
    add_inputs(whole, inputs, out);
    std::map<int, int> number_of;  // of inputs, by their buffers
    for (size_t i = 0; i < out.inputs.size(); ++i) number_of[out.inputs[i].buffer] = static_cast<int>(i);
    for (auto& [output, buffer] : mutated) out.outputs[output].mutates = number_of.at(buffer);
    return out;
  }

 private:
  // Where the inputs of the whole graph are.
  struct Inputs {
    std::vector<int> buffers, like;  // -1: nothing names it yet; like: the buffer of few's program that it is like
    std::map<int, int> own;          // of those that passes have made, by their buffers in few's program
  };

  // Of the input that has a buffer; null: it is none's.
  const program::ProgramInput* input_of(int buffer) const {
    const auto& inputs = few_.program.inputs;
    const auto at = std::find_if(inputs.begin(), inputs.end(), [&](auto& in) { return in.buffer == buffer; });
    return at == inputs.end() ? nullptr : &*at;
  }

  int add_buffer(const Place& place, int64_t more, Inputs& inputs, Program& out) const {
    const int like = repetition_.like(place, more);
    const loop::Buffer& b = few_.program.buffers[static_cast<size_t>(like)];
    const int made = out.new_buffer(b.name, b.dtype, b.numel, b.kind);
    if (!input_of(like)) return made;
    const Place input = input_at(place, more);
    if (input.run < -1) return inputs.own[like] = made;
    const size_t i = layers_.input_at(input);
    TOROID_CHECK(inputs.buffers[i] < 0, "input {} of equal layers is at two places", i);
    inputs.like[i] = like;
    return inputs.buffers[i] = made;
  }

  // Those of the whole graph in their order, also the ones that nothing names, and those that passes have made.
  void add_inputs(const graph::Graph& whole, const Inputs& inputs, Program& out) const {
    const Program& p = few_.program;
    for (size_t i = 0; i < whole.inputs.size(); ++i) {
      const graph::Input& in = whole.inputs[i];
      program::ProgramInput made{inputs.buffers[i], in.value->type, in.kind, in.data, in.name};
      if (made.buffer < 0) {
        const TensorType& t = in.value->type;
        const bool is_constant = in.data.defined() && in.kind == graph::InputKind::Constant;
        made.buffer =
            out.new_buffer(in.name, t.dtype, lower::extent_of(t), is_constant ? loop::BufferKind::Constant : loop::BufferKind::Input);
      } else {
        made.type = input_of(inputs.like[i])->type;
        out.buffers[static_cast<size_t>(made.buffer)].name = in.name;
      }
      out.inputs.push_back(std::move(made));
    }
    for (size_t i = few_.graph.inputs.size(); i < p.inputs.size(); ++i) {
      program::ProgramInput made = p.inputs[i];
      const auto at = inputs.own.find(made.buffer);
      const loop::Buffer& b = p.buffers[static_cast<size_t>(made.buffer)];
      made.buffer = at != inputs.own.end() ? at->second : out.new_buffer(b.name, b.dtype, b.numel, b.kind);
      out.inputs.push_back(std::move(made));
    }
  }

  const OfFewer& few_;
  const Repetition repetition_;
  const GraphLayers& layers_;
  std::map<std::pair<int, int>, InputRule> rules_;  // by run and slot of the program
};

// What passes have made of the graph's inputs is what they are.
bool keeps_inputs(const OfFewer& made, const graph::Graph& whole) {
  const Program& p = made.program;
  if (p.inputs.size() < made.graph.inputs.size()) return false;
  for (size_t i = 0; i < made.graph.inputs.size(); ++i) {
    const graph::Input& in = whole.inputs[made.graph.of[i]];
    if (p.inputs[i].kind != in.kind || p.inputs[i].data.impl() != in.data.impl() || p.inputs[i].draws) return false;
  }
  return p.rearranged.empty() && p.apart.empty();
}

}  // namespace

std::optional<Program> program_of_layers(const OfFewer& few, const OfFewer& fewer, const graph::Graph& whole, const GraphLayers& layers,
                                         std::string& why) {
  if (!keeps_inputs(few, whole) || !keeps_inputs(fewer, whole)) {
    why = "passes have changed inputs";
    return std::nullopt;
  }
  Interner contents;
  const Sequence shorter = sequence_of(fewer.program, contents);
  auto repetition = Repetition::find(sequence_of(few.program, contents), shorter, why);
  if (!repetition) return std::nullopt;
  Repeated made(few, std::move(*repetition), layers);
  if (!made.find_inputs(why) || !made.gives(fewer, shorter, why)) return std::nullopt;
  return made.of(whole);
}

}  // namespace toroid::compiler
