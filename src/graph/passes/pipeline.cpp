// The table of passes.
#include <algorithm>
#include <iterator>

#include "graph/pass.h"
#include "graph/passes/passes.h"

namespace toroid::graph {
namespace {

constexpr Purpose kWithTemplates = {.templates = true}, kWithConstants = {.frozen = true};
constexpr Purpose kPaddingApart = {.padding_apart = true}, kAllProbabilities = {.all_probabilities = true};
constexpr Purpose kWithGradients = {.templates = true, .gradients = true};

constexpr PassRow row(const char* name, PassFunction run, const char* doc, Purpose needs = {}) { return {name, run, true, needs, {}, doc}; }
// One that has nothing to do in the sub-graphs of control flow.
constexpr PassRow outer(const char* name, PassFunction run, const char* doc, Purpose needs = {}) {
  return {name, run, false, needs, {}, doc};
}
constexpr PassRow without(Purpose other, PassRow row) {
  row.without = other;
  return row;
}

constexpr const char* kDce = "Drops what no output needs.";

constexpr PassRow kPasses[] = {
    row("functionalize", functionalize, "Makes in-place operations functional."),
    outer("freeze", freeze, "Makes parameters constants.", kWithConstants),
    row("dce", dce, kDce, kWithConstants),
    row("store_weights", store_weights, "Makes constants of weights that are made of numbers.", kWithConstants),
    row("fold_conv_bn", fold_conv_bn, "Folds batch normalisation into constant weights.", kWithConstants),
    row("integer_products", integer_products, "Computes products of dequantized numbers in 8 bits.", kFrozenInt8),
    row("dce", dce, kDce, kFrozenInt8),
    row("find_attention", find_attention, "Finds attention that is written out.", kWithTemplates),
    without(kWithGradients,
            row("decompose_keeping_templates", decompose_keeping_templates, "Expands composites that have no template.", kWithTemplates)),
    row("decompose_keeping_gradients", decompose_keeping_gradients,
        "The same, but keeps gradients of attention and of convolutions' weights.", kWithGradients),
    without(kWithTemplates, row("decompose", decompose, "Expands composites.")),
    without(kPaddingApart, row("fold_padding", fold_padding, "Lets convolutions pad with zeros themselves.", kWithTemplates)),
    without(kWithGradients,
            row("plain_convolutions", plain_convolutions, "Writes convolutions as plain ones of two dimensions.", kWithTemplates)),
    row("plain_convolutions_apart", plain_convolutions_apart,
        "The same, with phases of transposed ones by themselves where that saves much.", kWithGradients),
    outer("explicit_random", explicit_random, "Makes random numbers a function of an input."),
    row("simplify", simplify,
        "Removes copies, casts, views, dropouts and arithmetic that change nothing; merges chains of views, permutations and casts; makes "
        "transposed products products of transposes, constant indices in a row slices, and exponentials of log-softmax softmax."),
    row("constant_fold", constant_fold, "Computes what depends on constants alone."),
    row("cse", cse, "Computes equal things once (common subexpression elimination)."),
    without(kAllProbabilities,
            row("largest_probability", largest_probability, "Computes the largest probability of a softmax from its sum alone.")),
    row("trim", trim, "Computes only what is read."),
    outer("merge_linear", merge_linear, "Joins products that share an input.", kFrozen),
    row("widen_products", widen_products, "Stores products of halves that are read as f32 as f32."),
    row("dce", dce, kDce),
};

// What a purpose has of another, in order.
constexpr bool Purpose::*kTraits[] = {&Purpose::frozen,    &Purpose::templates,     &Purpose::int8,
                                      &Purpose::gradients, &Purpose::padding_apart, &Purpose::all_probabilities};
constexpr const char* kTraitNames[] = {"frozen", "templates", "int8", "gradients", "padding apart", "all probabilities"};

bool has_all(const Purpose& p, const Purpose& of) {
  return std::all_of(std::begin(kTraits), std::end(kTraits), [&](auto trait) { return p.*trait || !(of.*trait); });
}

bool is_part(const PassRow& row, const Purpose& p) {
  return has_all(p, row.needs) && (row.without == Purpose{} || !has_all(p, row.without));
}

}  // namespace

std::span<const PassRow> all_passes() { return kPasses; }

std::vector<PassRow> pipeline(const Purpose& purpose) {
  std::vector<PassRow> rows;
  for (auto& row : kPasses)
    if (is_part(row, purpose)) rows.push_back(row);
  return rows;
}

std::string conditions_of(const PassRow& row) {
  std::string out;
  const auto add = [&](bool needed, const std::string& name) {
    if (needed) out += (out.empty() ? "" : ", ") + name;
  };
  for (size_t i = 0; i < std::size(kTraits); ++i) add(row.needs.*kTraits[i], kTraitNames[i]);
  for (size_t i = 0; i < std::size(kTraits); ++i)
    add(row.without.*kTraits[i] && !(row.needs.*kTraits[i]), std::string("no ") + kTraitNames[i]);
  return out.empty() ? "always" : out;
}

}  // namespace toroid::graph
