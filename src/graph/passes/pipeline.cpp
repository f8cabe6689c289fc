// The table of passes.
#include "graph/pass.h"
#include "graph/passes/passes.h"

namespace toroid::graph {
namespace {

constexpr PassRow kPasses[] = {
    {"functionalize", functionalize, true, "Makes in-place operations functional."},
    {"freeze", freeze, false, "Makes parameters constants."},
    {"store_weights", store_weights, true, "Makes constants of weights that are made of numbers."},
    {"fold_conv_bn", fold_conv_bn, true, "Folds batch normalisation into constant weights."},
    {"integer_products", integer_products, true, "Computes products of dequantized numbers in 8 bits."},
    {"find_attention", find_attention, true, "Finds attention that is written out."},
    {"decompose_keeping_templates", decompose_keeping_templates, true, "Expands composites that have no template."},
    {"decompose", decompose, true, "Expands composites."},
    {"plain_convolutions", plain_convolutions, true, "Writes convolutions as plain ones of two dimensions."},
    {"explicit_random", explicit_random, false, "Makes random numbers a function of an input."},
    {"simplify", simplify, true, "Removes what changes nothing; merges views and casts."},
    {"constant_fold", constant_fold, true, "Computes what depends on constants alone."},
    {"cse", cse, true, "Computes equal things once."},
    {"trim", trim, true, "Computes only what is read."},
    {"merge_linear", merge_linear, false, "Joins products that share an input."},
    {"dce", dce, true, "Drops what no output needs."},
};

}  // namespace

std::span<const PassRow> all_passes() { return kPasses; }

std::vector<PassRow> default_passes(bool freeze, bool keep_templates, bool whole_products) {
  std::vector<const char*> names = {"functionalize"};
  if (freeze) names.insert(names.end(), {"freeze", "dce", "store_weights", "fold_conv_bn"});
  if (freeze && keep_templates && whole_products) names.insert(names.end(), {"integer_products", "dce"});
  if (keep_templates) names.push_back("find_attention");
  names.push_back(keep_templates ? "decompose_keeping_templates" : "decompose");
  if (keep_templates) names.push_back("plain_convolutions");
  names.insert(names.end(), {"explicit_random", "simplify", "constant_fold", "cse", "trim"});
  if (freeze && keep_templates) names.push_back("merge_linear");
  names.push_back("dce");
  std::vector<PassRow> rows;
  for (auto* name : names) rows.push_back(find_pass(name));
  return rows;
}

}  // namespace toroid::graph
