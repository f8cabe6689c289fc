// Sequences and optional values: lists of tensors, and absent ones, while a model is imported; nothing of them is left in the program.
#include "base/check.h"
#include "import/onnx/control_flow.h"

namespace toroid::import::onnx {
namespace {

constexpr int64_t kMostParts = 1 << 16;

// The place in the list that input i names, up to `last`, which it is without that input.
std::vector<Tensor>::iterator place(OpCall& c, size_t i, std::vector<Tensor>& list, std::vector<Tensor>::iterator last) {
  if (!c.has(i)) return last;
  auto at = c.numbers(i);
  auto size = static_cast<int64_t>(list.size());
  TOROID_USER_CHECK(at.size() == 1 && at[0] >= -size && at[0] <= last - list.begin(),
                    "the place in a sequence of {} tensors is out of range", size);
  return (at[0] < 0 ? list.end() : list.begin()) + at[0];
}

void construct(OpCall& c) { c.set(0, c.all()); }

void empty(OpCall& c) {
  c.ignore({"dtype"});
  c.set(0, std::vector<Tensor>());
}

void insert(OpCall& c) {
  auto list = c.sequence(0);
  list.insert(place(c, 2, list, list.end()), c.in(1));
  c.set(0, list);
}

void erase(OpCall& c) {
  auto list = c.sequence(0);
  TOROID_USER_CHECK(!list.empty(), "the sequence is empty");
  list.erase(place(c, 1, list, list.end() - 1));
  c.set(0, list);
}

void at(OpCall& c) {
  auto list = c.sequence(0);
  TOROID_USER_CHECK(!list.empty() && c.has(1), "the sequence is empty, or the place is missing");
  c.set(0, *place(c, 1, list, list.end() - 1));
}

void length(OpCall& c) { c.set(0, Tensor::full(std::vector<int64_t>{}, static_cast<int64_t>(c.sequence(0).size()), DType::I64)); }

// Without sizes: slices of one element, which lose the dimension unless it is to stay. One size: of all parts but the last.
void split_to_sequence(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", 0), rank_of(x));
  bool keep = c.integer("keepdims", 1) != 0;
  auto size = [&] { return known_size(sizes_of(x)[static_cast<size_t>(axis)], "the size that is split"); };
  std::vector<int64_t> parts;
  if (c.has(1) && rank_of(c.in(1)) == 1) {
    parts = c.numbers(1);
  } else {
    int64_t part = c.has(1) ? c.number(1) : 1, rest = size();
    TOROID_USER_CHECK(part > 0 && rest / part < kMostParts, "{} elements in parts of {}", rest, part);
    for (; rest > 0; rest -= part) parts.push_back(std::min(part, rest));
  }
  auto out = op_all("split_with_sizes", x, parts, axis);
  if (!c.has(1) && !keep)
    for (auto& t : out) t = op("squeeze.dims", t, std::vector<int64_t>{axis});
  c.set(0, out);
}

void concat_from_sequence(OpCall& c) {
  auto list = c.sequence(0);
  bool stacks = c.integer("new_axis", 0) != 0;
  TOROID_USER_CHECK(!list.empty(), "the sequence is empty");
  auto axis = normal_axis(c.integer("axis"), rank_of(list[0]) + stacks);
  c.set(0, op(stacks ? "stack" : "cat", list, axis));
}

// The body once for each tensor of the first sequence; other inputs are sequences as long, or the same for all.
void sequence_map(OpCall& c) {
  const GraphProto& body = c.graph("body");
  size_t count = c.sequence(0).size();
  std::vector<std::vector<Tensor>> out(body.outputs.size());
  for (size_t k = 0; k < count; ++k) {
    std::vector<Item> inputs;
    for (size_t i = 0; i < c.count(); ++i) {
      Item item = c.item(i);
      auto* list = std::get_if<std::vector<Tensor>>(&item);
      TOROID_USER_CHECK(!list || list->size() == count, "sequences of {} and of {} tensors", count, list->size());
      inputs.push_back(list ? Item((*list)[k]) : item);
    }
    auto results = inlined(c, body, inputs);
    for (size_t i = 0; i < out.size(); ++i) out[i].push_back(tensor_of(results[i], body.outputs[i].name));
  }
  for (size_t i = 0; i < out.size(); ++i) c.set(i, out[i]);
}

void has_element(OpCall& c) { c.set(0, Tensor::full(std::vector<int64_t>{}, c.has(0), DType::Bool)); }

void get_element(OpCall& c) {
  TOROID_USER_CHECK(c.has(0), "the optional value is absent");
  c.set(0, c.item(0));
}

void optional(OpCall& c) {
  c.ignore({"type"});
  c.set(0, c.item(0));
}

}  // namespace

void add_sequence_operators(Operators& t) {
  t.add("SequenceConstruct", 11, construct);
  t.add("SequenceEmpty", 11, empty);
  t.add("SequenceInsert", 11, insert);
  t.add("SequenceErase", 11, erase);
  t.add("SequenceAt", 11, at);
  t.add("SequenceLength", 11, length);
  t.add("SplitToSequence", 11, split_to_sequence);
  t.add("ConcatFromSequence", 11, concat_from_sequence);
  t.add("SequenceMap", 17, sequence_map);
  t.add("Optional", 15, optional);
  t.add("OptionalGetElement", 15, get_element);
  t.add("OptionalHasElement", 15, has_element);
}

}  // namespace toroid::import::onnx
