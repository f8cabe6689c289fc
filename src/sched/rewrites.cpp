#include "sched/rewrites.h"

#include "base/check.h"
#include "sched/call_nccl.h"
#include "sched/channels_last.h"
#include "sched/decompose_k.h"
#include "sched/decompose_mm.h"
#include "sched/layout.h"
#include "sched/mm_plus_mm.h"

namespace toroid::sched {
namespace {

using program::Config;
using program::Program;

std::string layout_refused(const Program& p, size_t node, const Config& way) { return layout_refusal(p.nodes[node], way); }

// Those of the layouts for a device that have this form.
std::vector<Config> layouts(const Program& p, size_t node, const target::Facts& facts, std::string_view form) {
  auto out = facts.copies_pieces ? gpu_layouts(p.nodes[node], p) : cpu_layouts(p.nodes[node], p);
  std::erase_if(out, [&](auto& way) { return way.form != form; });
  return out;
}

std::vector<Config> paddings(const Program& p, size_t node, const target::Facts& facts, const CompileOptions&) {
  return layouts(p, node, facts, kPadMm);
}

std::vector<Config> transpositions(const Program& p, size_t node, const target::Facts& facts, const CompileOptions&) {
  return layouts(p, node, facts, kTranspose);
}

std::string channels_last_refused(const Program& p, size_t node, const Config& way) { return channels_last_refusal(p.nodes[node], p, way); }

std::vector<Config> images(const Program& p, size_t node, const target::Facts& facts, const CompileOptions&) {
  return facts.copies_pieces ? gpu_channels_last(p.nodes[node], p) : std::vector<Config>{};
}

constexpr const char* kSplits = "splits";

std::string cut_refused(const Program& p, size_t node, const Config& way) {
  if (way.fields.size() != 1 || way.fields[0].first != kSplits) return "it has one number, splits";
  return decompose_k_refusal(p.nodes[node], way.at(kSplits));
}

void cut(Program& p, size_t node, const Config& way) { decompose_k(p, node, way.at(kSplits)); }

std::vector<Config> cuts(const Program& p, size_t node, const target::Facts& facts, const CompileOptions& options) {
  const auto most = static_cast<size_t>(options.get(options::kNumDecomposeKSplits));
  std::vector<Config> out;
  for (int64_t splits : decompose_k_splits(p.nodes[node], facts.workers, options.get(options::kDecomposeKThreshold), most))
    out.push_back({"decompose_k", {{kSplits, splits}}});
  return out;
}

std::string loop_refused(const Program& p, size_t node, const Config& way) {
  return way.fields.empty() ? decompose_mm_refusal(p.nodes[node]) : "it has no numbers";
}

void make_loop(Program& p, size_t node, const Config&) { decompose_mm(p.nodes[node]); }

std::vector<Config> small_products(const Program& p, size_t node, const target::Facts&, const CompileOptions&) {
  return decompose_mm_pays(p.nodes[node]) ? std::vector<Config>{{"decompose_mm", {}}} : std::vector<Config>{};
}

std::string sum_refused(const Program& p, size_t node, const Config& way) {
  if (!way.fields.empty()) return "it has no numbers";
  return sum_of_products(p, node) ? "" : "it is not the second of two products whose results are added";
}

void add_products(Program& p, size_t node, const Config&) { mm_plus_mm(p, node); }

std::string nccl_refused(const Program& p, size_t node, const Config& way) {
  return way.fields.empty() ? call_nccl_refusal(p.nodes[node]) : "it has no numbers";
}

void by_nccl(Program& p, size_t node, const Config&) { call_nccl(p, node); }

std::vector<Config> nccl(const Program& p, size_t node, const target::Facts&, const CompileOptions& options) {
  const auto* m = std::get_if<program::Meeting>(&p.nodes[node].problem);
  if (!m || m->product) return {};
  const bool may = nccl_has_the_same_bits(*m) || options.get(options::kCollectiveOrder) == "any";
  return may ? std::vector<Config>{{kNccl, {}}} : std::vector<Config>{};
}

constexpr Rewrite kRewrites[] = {
    {kPadMm, "pad_mm(a=8,b=0): rows of operands that begin at multiples of so many elements, by a copy.", layout_refused, lay_out, paddings,
     true},
    {kTranspose, "transpose(a=0,b=1): operands contiguous along their other dimension, by a copy.", layout_refused, lay_out, transpositions,
     true},
    {kChannelsLast, "channels_last(multiple=8): a copy of a convolution's input, with channels of zeros besides.", channels_last_refused,
     channels_last, images, true},
    {"decompose_k", "decompose_k(splits=s): a product as s products of parts of k, whose sums a loop adds up.", cut_refused, cut, cuts},
    {"decompose_mm", "decompose_mm(): a product as a loop, for sums of a few terms and small matrices times a vector.", loop_refused,
     make_loop, small_products},
    {kMmPlusMm, "mm_plus_mm(): one product in place of this and the one whose results are added to its own.", sum_refused, add_products,
     nullptr},
    {kNccl, "nccl(): a collective between GPUs by NCCL, in place of a kernel of its own.", nccl_refused, by_nccl, nccl},
};

}  // namespace

std::span<const Rewrite> rewrites() { return kRewrites; }

const Rewrite* rewrite_of(const Config& way) {
  for (auto& r : kRewrites)
    if (way.form == r.name) return &r;
  return nullptr;
}

void rewrite(Program& p, size_t node, const Config& way) {
  const Rewrite* row = rewrite_of(way);
  TOROID_CHECK(row, "{} names no rewriting", program::to_string(way));
  const std::string why = row->refusal(p, node, way);
  TOROID_USER_CHECK(why.empty(), "{} of {}: {}", program::to_string(way), program::label(p.nodes[node]), why);
  row->apply(p, node, way);
}

std::vector<Config> proposed_rewrites(const Program& p, size_t node, const target::Facts& facts, const CompileOptions& options) {
  std::vector<Config> out;
  for (auto& r : kRewrites) {
    if (!r.proposals) continue;
    for (auto& way : r.proposals(p, node, facts, options)) out.push_back(std::move(way));
  }
  return out;
}

}  // namespace toroid::sched
