#include "codegen/cpu/templates/attention_template.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>

#include "template_harness.h"

namespace toroid::codegen {
namespace {

using testing::AlignedFloats;
using testing::values;

struct Problem {
  int64_t batch, heads, kv_heads, queries, keys, depth, value_depth;
  bool causal = false;
  AttentionMask mask = AttentionMask::None;
  bool half = false;
  bool constant = false;  // sizes known when the text is made
};

AttentionOperand operand(int buffer, int64_t heads, int64_t rows, int64_t columns) {
  AttentionOperand o;
  o.buffer = buffer;
  o.batch_stride = std::to_string(heads * rows * columns);
  o.head_stride = std::to_string(columns);  // [batch, row, head, column]: heads interleaved, as a projection leaves them
  o.row_stride = std::to_string(heads * columns);
  return o;
}

void expect_right(const Problem& p, int lanes = 16) {
  AttentionConfig c;
  c.name = "attention";
  c.lanes = lanes;
  c.batch = p.batch, c.heads = p.heads, c.kv_heads = p.kv_heads;
  c.queries = p.constant ? Extent(p.queries) : Extent::at(0), c.keys = Extent::at(1);
  c.depth = p.depth, c.value_depth = p.value_depth, c.causal = p.causal;
  c.scale = "0.25f";
  c.q = operand(0, p.heads, p.queries, p.depth);
  c.k = operand(1, p.kv_heads, p.keys, p.depth);
  c.v = operand(2, p.kv_heads, p.keys, p.value_depth);
  c.tile.vecs = choose_attention_vecs(p.queries * p.heads / p.kv_heads, lanes);
  c.tile.block_keys = 16;
  c.few = has_few_queries(c);
  c.scratch_buffer = 5;
  c.mask_kind = p.mask;
  c.mask.buffer = 4;
  c.mask.batch_stride = std::to_string(p.queries * p.keys);
  c.mask.row_stride = std::to_string(p.keys);
  const std::string at = fmt::format("out + ((batch * {} + head) * {} + m) * {} + d", p.heads, p.queries, p.value_depth);
  c.epilogue.declarations = "float* restrict out = bufs[3];";
  c.epilogue.vector = "t_store(" + at + ", acc);";
  c.epilogue.scalar = "*(" + at + ") = acc;";

  AlignedFloats q = values(p.batch * p.heads * p.queries * p.depth, 1), k = values(p.batch * p.kv_heads * p.keys * p.depth, 2);
  AlignedFloats v = values(p.batch * p.kv_heads * p.keys * p.value_depth, 3), out(p.batch * p.heads * p.queries * p.value_depth);
  AlignedFloats mask = values(p.batch * p.queries * p.keys, 4), scratch(2 * attention_scratch_bytes(c) / 4);
  std::vector<uint8_t> allowed(mask.size);
  for (int64_t i = 0; i < mask.size; ++i) allowed[i] = i >= p.keys && mask[i] > -0.5f;  // the very first query sees nothing
  std::vector<uint16_t> k_half(k.size), v_half(v.size);
  const auto halve = [](AlignedFloats& from, std::vector<uint16_t>& to) {
    for (int64_t i = 0; i < from.size; ++i) {
      to[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(from[i]) >> 16);
      from[i] = std::bit_cast<float>(uint32_t(to[i]) << 16);
    }
  };
  if (p.half) {
    c.k.type = c.v.type = DType::BF16;
    halve(k, k_half);
    halve(v, v_half);
  }
  const bool boolean = p.mask == AttentionMask::Boolean;
  const int64_t params[] = {p.queries, p.keys};
  testing::run_template(attention_text(c), c.name, lanes,
                        {q.get(), p.half ? k_half.data() : k.get(), p.half ? v_half.data() : v.get(), out.get(),
                         boolean ? allowed.data() : mask.get(), scratch.get()},
                        params, attention_task_count(c, params));

  const auto row = [](AlignedFloats& x, int64_t b, int64_t h, int64_t r, int64_t heads, int64_t rows, int64_t columns) {
    return &x[((b * rows + r) * heads + h) * columns];
  };
  for (int64_t i = 0; i < p.batch * p.heads * p.queries; ++i) {
    const int64_t b = i / p.queries / p.heads, h = i / p.queries % p.heads, m = i % p.queries, kv = h / (p.heads / p.kv_heads);
    std::vector<double> weight(p.keys);
    double total = 0;
    for (int64_t n = 0; n < p.keys; ++n) {
      const int64_t at = (b * p.queries + m) * p.keys + n;
      double score = 0;
      for (int64_t d = 0; d < p.depth; ++d) {
        score += double(row(q, b, h, m, p.heads, p.queries, p.depth)[d]) * row(k, b, kv, n, p.kv_heads, p.keys, p.depth)[d] * 0.25;
      }
      if (p.mask == AttentionMask::Additive) score += mask[at];
      const bool hidden = (p.causal && n > m + p.keys - p.queries) || (boolean && !allowed[at]);
      weight[n] = hidden ? 0 : std::exp(score);
      total += weight[n];
    }
    for (int64_t d = 0; d < p.value_depth; ++d) {
      double sum = 0;
      for (int64_t n = 0; n < p.keys; ++n) sum += weight[n] * row(v, b, kv, n, p.kv_heads, p.keys, p.value_depth)[d];
      ASSERT_NEAR(out[i * p.value_depth + d], total > 0 ? sum / total : 0.0, 1e-5) << "head " << h << " query " << m << " column " << d;
    }
  }
}

TEST(AttentionTemplate, OddShapes) {
  expect_right({2, 3, 3, 5, 7, 8, 8});
  expect_right({1, 2, 2, 70, 37, 16, 19});
  expect_right({1, 2, 2, 21, 37, 16, 19}, 8);
}

TEST(AttentionTemplate, GroupedHeads) { expect_right({2, 6, 2, 9, 33, 12, 16, true}); }

TEST(AttentionTemplate, OneQueryOfManyKeys) { expect_right({1, 4, 1, 1, 100, 16, 16, true}); }

TEST(AttentionTemplate, FewQueriesOfEachMaskAndStorage) {
  for (const auto mask : {AttentionMask::None, AttentionMask::Additive, AttentionMask::Boolean}) {
    for (const bool half : {false, true}) {
      expect_right({2, 4, 2, 2, 37, 32, 48, true, mask, half, true});
      expect_right({1, 3, 3, 1, 64, 16, 80, false, mask, half, true}, 8);
    }
  }
  expect_right({1, 1, 1, 4, 2, 16, 16, true, AttentionMask::None, false, true});  // the first queries see nothing
}

TEST(AttentionTemplate, Masks) {
  expect_right({2, 2, 1, 18, 40, 8, 16, false, AttentionMask::Additive});
  expect_right({2, 2, 1, 18, 40, 8, 16, true, AttentionMask::Boolean});
}

TEST(AttentionTemplate, MoreQueriesThanKeysHidesTheFirst) { expect_right({1, 1, 1, 40, 20, 8, 16, true}); }

TEST(AttentionTemplate, HalfKeysAndValues) { expect_right({1, 4, 2, 17, 50, 24, 17, true, AttentionMask::None, true}); }

}  // namespace
}  // namespace toroid::codegen
