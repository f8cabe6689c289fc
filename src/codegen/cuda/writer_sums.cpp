// The part of CudaWriter that takes rows one after another and sums their columns (codegen/cuda/row_sums.h).
#include <utility>

#include "codegen/cuda/row_sums.cu.h"
#include "codegen/cuda/row_sums.h"
#include "codegen/cuda/writer.h"

namespace toroid::codegen {

void CudaWriter::row_sums() {
  arguments_.define(std::string(row_sums_cu::kRowSums));
  const std::string rows = e_.index(p_.rows);
  const int groups = p_.groups();
  e_.line(groups == 1 ? "const int part = threadIdx.x, group = 0;"
                      : fmt::format("const int part = threadIdx.x % {0}, group = threadIdx.x / {0};", p_.row_threads));
  for (int k : p_.sums) e_.line(fmt::format("f32 c{}[{}][{}] = {{}};", k, p_.repeats, p_.vector));
  if (p_.shared_bytes > 0) e_.line("extern __shared__ uint4 shared_rows[];");
  begin_passes();
  e_.line(fmt::format("const idx first = (idx)blockIdx.x{}, hop = {}, rows = {};",
                      groups > 1 ? fmt::format(" + group * {}", p_.row_blocks) : "", p_.row_blocks * groups, rows));
  bring_rows();
  e_.line("int turn = 0;");
  e_.line(kCudaOneByOne);
  e_.open("for (idx row = first; row < rows; row += hop)");
  decode(p_.space, "row");
  await_rows();
  each_pass();
  store_rows();
  guard_.clear();
  e_.line("turn ^= 1;");
  if (p_.stages > 0) e_.line(fmt::format("if (++stage == {}) stage = 0, phase ^= 1;", p_.stages));
  e_.close();
  for (int k : p_.sums) store_sums(k);
}

// Each group's first rows are under way before the first one is used.
void CudaWriter::bring_rows() {
  if (p_.stages == 0) return;
  arguments_.define(std::string(row_sums_cu::kRowsAhead));
  const int64_t bytes = stage_bytes(p_);
  e_.line(fmt::format("__shared__ u64 arrived_rows[{}];", p_.groups() * p_.stages));
  e_.line(fmt::format("u64* const arrived = arrived_rows + group * {};", p_.stages));
  e_.line(fmt::format("u8* const stages = (u8*)shared_rows + group * {};", p_.stages * bytes));
  if (!p_.numbers.empty()) {
    e_.line(fmt::format("__shared__ u64 all_numbers[{}];", static_cast<size_t>(p_.groups() * p_.stages) * p_.numbers.size()));
    e_.line(fmt::format("u64* const numbers = all_numbers + group * {};", static_cast<size_t>(p_.stages) * p_.numbers.size()));
  }
  e_.open("const auto bring = [&](idx row, int to)");
  e_.line(fmt::format("expect_bytes(arrived + to, {});", bytes));
  const StepEmitter::Values before = e_.values();
  decode(p_.space, "row");
  int64_t offset = 0;
  const Expr& column = p_.domain.vars[static_cast<size_t>(p_.vector_var)].symbol;
  for (int k : p_.streamed) {
    const loop::Statement& s = p_.step(k);
    e_.line(fmt::format("bring_row(stages + to * {} + {}, {} + {}, {}, arrived + to);", bytes, offset, pointer(s.buffer, s.dtype),
                        e_.index(s.index - column), streamed_bytes(p_, k)));
    offset += streamed_bytes(p_, k);
  }
  for (size_t i = 0; i < p_.numbers.size(); ++i) {
    const loop::Statement& s = p_.step(p_.numbers[i]);
    e_.line(
        fmt::format("bring_number(numbers + to * {} + {}, {} + {});", p_.numbers.size(), i, pointer(s.buffer, s.dtype), e_.index(s.index)));
  }
  if (!p_.numbers.empty()) e_.line("arrive_with_numbers(arrived + to);");
  e_.restore(before);
  e_.close();
  e_.line(";");
  e_.open("if (part == 0)");
  e_.line(fmt::format("for (int s = 0; s < {}; ++s) begin_barrier(arrived + s, {});", p_.stages, p_.numbers.empty() ? 1 : 2));
  e_.line("show_barriers();");
  e_.line(fmt::format("for (int s = 0; s < {}; ++s) if (first + s * hop < rows) bring(first + s * hop, s);", p_.stages));
  e_.close();
  e_.line(fmt::format("sync_group<{}>();", p_.row_threads));
  e_.line("int stage = 0;");
  e_.line("u32 phase = 0;");
}

void CudaWriter::await_rows() {
  folded_groups_ = false;
  if (p_.stages == 0) return;
  e_.line("await_row(arrived + stage, phase);");
  int64_t offset = 0;
  for (int k : p_.streamed) {
    const std::string type = memory_type(p_.step(k).dtype);
    e_.line(fmt::format("const {0}* const s{1} = (const {0}*)(stages + stage * {2} + {3});", type, k, stage_bytes(p_), offset));
    offset += streamed_bytes(p_, k);
  }
  for (size_t i = 0; i < p_.numbers.size(); ++i) {
    const int k = p_.numbers[i];
    const DType t = p_.step(k).dtype;
    e_.line(fmt::format("const s{} v{} = {}((const {}*)(numbers + stage * {} + {}));", name_of(t), k, e_.function("load", t, false),
                        memory_type(t), p_.numbers.size(), i));
    e_.define(k, "v" + std::to_string(k), false);
  }
}

// All folds of a pass. Behind a row's first ones no thread reads shared memory of the row before any more, or of this one where that is
// read once. A next row takes the place.
void CudaWriter::fold_groups(const std::vector<int>& folded) {
  if (folded.empty()) return;
  std::string structs, values;
  for (int k : folded) {
    structs += (structs.empty() ? "" : ", ") + fold_struct(k);
    values += fmt::format(", a{}", k);
  }
  e_.line(fmt::format("fold_rows<{}>(Folds<{}>(), turn{});", p_.row_threads, structs, values));
  for (int k : folded) define_folded(k);
  if (p_.stages == 0 || std::exchange(folded_groups_, true)) return;
  if (reads_rows_once(p_))
    e_.line(fmt::format("if (part == 0 && row + {0} * hop < rows) bring(row + {0} * hop, stage);", p_.stages));
  else
    e_.line(fmt::format("if (part == 0 && row != first && row + {0} * hop < rows) bring(row + {0} * hop, stage == 0 ? {0} : stage - 1);",
                        p_.stages - 1));
}

// A block's sums: those of its groups of threads, in their order.
void CudaWriter::store_sums(int k) {
  const loop::Statement& s = p_.step(k);
  const int64_t columns = loop::reduction_size(p_.domain).constant(), vectors = columns / p_.vector;
  const int groups = p_.groups();
  const std::string to = pointer(s.buffer, s.dtype), place = groups > 1 ? fmt::format("sums{} + group * {}", k, columns)
                                                                        : fmt::format("{} + (i64)blockIdx.x * {}", to, columns);
  if (groups > 1) {
    e_.line(fmt::format("f32* const sums{} = (f32*)shared_rows;", k));
    e_.line("__syncthreads();");
  }
  e_.line(kCudaUnroll);
  e_.open(fmt::format("for (int j = 0; j < {}; ++j)", p_.repeats));
  e_.line(fmt::format("const idx r = part + j * {};", p_.row_threads));
  e_.line(fmt::format("{}store_all({} + r * {}, c{}[j]);",
                      vectors == p_.repeats * p_.row_threads ? "" : fmt::format("if (r < {}) ", vectors), place, p_.vector, k));
  e_.close();
  if (groups == 1) return;
  e_.line("__syncthreads();");
  e_.line(fmt::format("for (int i = threadIdx.x; i < {0}; i += {1}) {2}[(i64)blockIdx.x * {0} + i] = sum_of_groups<{3}>(sums{4} + i, {0});",
                      columns, p_.block, to, groups, k));
}

}  // namespace toroid::codegen
