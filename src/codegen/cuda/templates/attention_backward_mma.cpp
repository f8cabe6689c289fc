// The gradient of attention on the tensor cores of any GPU that has bf16.
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/attention_backward.h"
#include "codegen/cuda/templates/attention_backward_mma.cu.h"
#include "codegen/cuda/templates/attention_mma.cu.h"

namespace toroid::codegen {
namespace {

using program::AttentionBackward;

constexpr int64_t kMmaRows = 64;  // keys of a block, and queries of a step
constexpr int64_t kMmaColumns = 128;
constexpr int kMmaThreads = 128;

int64_t mma_shared_bytes(const AttentionBackward& a) {
  const int64_t rows = a.head_dim + 8 + a.value_dim + 8;
  return 2 * (kMmaRows * rows + 2 * kMmaRows * rows + kMmaRows * (kMmaRows + 8)) + 2 * kMmaRows * 4;
}

std::string mma_refusal(const AttentionBackward& a, const CudaAttentionTarget& target) {
  if (std::string why = attention_backward_refusal(a); !why.empty()) return why;
  if (std::max(a.head_dim, a.value_dim) > kMmaColumns) return fmt::format("heads of {} columns", std::max(a.head_dim, a.value_dim));
  if (a.ordered) return "sums are in the order in which blocks come";
  return mma_shared_bytes(a) > target.shared_bytes ? "keys, values and queries do not fit shared memory" : "";
}

KernelText generate_mma(const AttentionBackward& a, const CudaAttentionTarget& target) {
  CudaArguments arguments;
  arguments.define(
      attention_definitions(attention_of(a)) +
      expand(attention_backward_mma_cu::kDefinitions, {{"D", std::to_string(a.head_dim)},
                                                       {"DV", std::to_string(a.value_dim)},
                                                       {"HEAD_GROUP", std::to_string(attention_backward_heads(a, kMmaRows, target))},
                                                       {"SCALE", fmt::format("{:.9e}f", a.scale)},
                                                       {"READS", std::string(attention_mma_cu::kReads)}}));
  for (const program::Operand* o : {&a.grad_query, &a.grad_key, &a.grad_value}) arguments.mark_written(o->buffer);
  const auto rows = [&](const program::Operand& o, const char* head, const char* row) {
    return attention_pointer(arguments, o, "batch", head, row);
  };
  const std::string body = expand(attention_backward_mma_cu::kKernel, {{"SIZES", attention_sizes(arguments, attention_of(a))},
                                                                       {"TASKS", attention_backward_tasks(a)},
                                                                       {"SOME_HIDDEN", some_hidden_text(a)},
                                                                       {"HIDDEN", hidden_text(a)},
                                                                       {"LOGSUMEXP", row_value_text(arguments, a.logsumexp)},
                                                                       {"ROW_SUMS", row_value_text(arguments, a.row_sums)},
                                                                       {"Q", rows(a.q, "head", "0")},
                                                                       {"G", rows(a.grad_out, "head", "0")},
                                                                       {"K", rows(a.k, "kv_head", "0")},
                                                                       {"V", rows(a.v, "kv_head", "0")},
                                                                       {"Q_ROW", cuda_size(arguments, a.q.strides[2])},
                                                                       {"G_ROW", cuda_size(arguments, a.grad_out.strides[2])},
                                                                       {"K_ROW", cuda_size(arguments, a.k.strides[2])},
                                                                       {"V_ROW", cuda_size(arguments, a.v.strides[2])},
                                                                       {"DQ", rows(a.grad_query, "head", "query")},
                                                                       {"DK", rows(a.grad_key, "kv_head", "key")},
                                                                       {"DV_ROWS", rows(a.grad_value, "kv_head", "key")}});
  KernelText k = arguments.kernel("attention_backward_mma", body, kMmaThreads, true, 1, target.tensor_copies);
  k.tasks = a.batch * a.kv_heads * sym::ceil_div(a.keys, kMmaRows);
  k.shared_bytes = static_cast<int>(mma_shared_bytes(a));
  k.plan = fmt::format("attention backward of {0} keys a block, {0} queries a step, mma", kMmaRows);
  return k;
}

}  // namespace

Form cuda_attention_backward_mma_form(const CudaSite& site) {
  const auto& a = site.problem<AttentionBackward>();
  const CudaAttentionTarget target = cuda_attention_target(site.gpu);
  return make_form("attention_backward_mma", mma_refusal(a, target), [&a, target] { return generate_mma(a, target); });
}

}  // namespace toroid::codegen
