// Few of the elements of long rows on Hopper: the blocks of a cluster share a row, and count and choose through each other's memory.
#include <bit>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/parts.h"
#include "codegen/cuda/templates/select_cluster.cu.h"
#include "codegen/cuda/templates/sort.cu.h"
#include "codegen/cuda/templates/sort.h"

namespace toroid::codegen {
namespace {

constexpr int kSelectThreads = 1024;
constexpr int64_t kMostKept = 4096;
constexpr int64_t kLongRow = 2048;

struct SelectTile {
  int blocks = 8;  // of a cluster
};
template <class Visit>
void fields(SelectTile& t, const Visit& visit) {
  visit("blocks", t.blocks, kDoubles);
}

int64_t rows_of(const program::Sort& s) {
  int64_t out = 1;
  for (auto& r : s.rows) out *= typical_size(r);
  return out;
}

std::string select_refusal(const program::Sort& s, const device::cuda::GpuInfo& gpu) {
  if (is_complex(s.keys.dtype)) return "complex numbers have no order";
  if (!gpu.is_hopper()) return "clusters need Hopper";
  if (!s.count.is_const() || s.count.constant() < 1 || s.count.constant() > kMostKept) return "the count is not from 1 to 4096";
  return "";
}

KernelText generate_select(const program::Sort& s, const SelectTile& tile) {
  CudaArguments arguments;
  const SortPieces pieces = sort_pieces(arguments, s, kSelectThreads);
  const auto room = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(s.count.constant())));
  arguments.define(expand(select_cluster_cu::kCluster, {{"BLOCKS", std::to_string(tile.blocks)}}));
  arguments.define(std::string(pieces.pair_bytes == 16 ? select_cluster_cu::kStoreLongPair : select_cluster_cu::kStoreShortPair));
  const std::string body = expand(select_cluster_cu::kText, {{"LENGTH", cuda_size(arguments, s.length)},
                                                             {"COUNT", std::to_string(s.count.constant())},
                                                             {"ROOM", std::to_string(room)},
                                                             {"STEP", cuda_size(arguments, s.keys.strides.back())},
                                                             {"X", pieces.keys},
                                                             {"STORES", pieces.stores}});
  KernelText k = arguments.kernel("topk", body, kSelectThreads, true);
  run_in_clusters(k, tile.blocks);
  k.tasks = pieces.rows * Expr(tile.blocks);
  k.shared_bytes = static_cast<int>(room * pieces.pair_bytes);
  k.plan = fmt::format("topk of rows of {}, {} blocks a row, by selection", sym::to_string(s.length), tile.blocks);
  return k;
}

}  // namespace

Form cuda_select_cluster_form(const CudaSite& site) {
  const auto& s = site.problem<program::Sort>();
  const int64_t rows = rows_of(s), processors = site.gpu.multiprocessors;
  Tiling<SelectTile> how;
  how.rule = [=] {
    SelectTile t;
    while (t.blocks > 2 && rows * t.blocks > processors) t.blocks /= 2;
    return t;
  };
  how.others = [] { return std::vector<SelectTile>{{2}, {4}, {8}}; };
  how.refusal = [](const SelectTile& t) { return t.blocks == 2 || t.blocks == 4 || t.blocks == 8 ? "" : "a cluster has 2, 4 or 8 blocks"; };
  how.generate = [&s](const SelectTile& t) { return generate_select(s, t); };
  Form form = make_form("select_cluster", select_refusal(s, site.gpu), how);
  if (const int64_t length = typical_size(s.length); length < kLongRow || 4 * typical_size(s.count) > length)
    form.reluctance = "a block sorts the row faster";
  return form;
}

}  // namespace toroid::codegen
