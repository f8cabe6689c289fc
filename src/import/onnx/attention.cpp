// Attention and rotary embeddings.
#include "import/onnx/attention.h"

#include <cmath>

#include "base/check.h"
#include "import/onnx/tensors.h"

namespace toroid::import::onnx {

Tensor split_heads(const Tensor& x, int64_t heads) {
  if (rank_of(x) == 4) return x;
  TOROID_USER_CHECK(rank_of(x) == 3 && heads > 0, "a tensor of 3 dimensions needs a number of heads; it has {} dimensions, {} heads",
                    rank_of(x), heads);
  Sizes s = sizes_of(x);
  return permuted(reshape(x, {s[0], s[1], heads, sym::floor_div(s[2], heads)}), {0, 2, 1, 3});
}

Tensor join_heads(const Tensor& x) {
  Sizes s = sizes_of(x);
  return reshape(permuted(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

Tensor visible_keys(const Tensor& offset, const Expr& queries, const Expr& keys, int64_t left, int64_t right) {
  Tensor place = reshape(op("arange", queries, DType::I64), {queries, 1}), key = op("arange", keys, DType::I64), out;
  if (offset.defined()) place = op("add.Tensor", place, offset);
  if (right >= 0) out = op("le.Tensor", key, right ? op("add.Tensor", place, right) : place);
  if (left < 0) return out;
  Tensor near = op("ge.Tensor", key, op("sub.Tensor", place, left));
  return out.defined() ? op("logical_and", out, near) : near;
}

Tensor with_mask(const Tensor& mask, const Tensor& allowed, DType dtype) {
  if (!mask.defined()) return allowed;
  if (is_bool(mask.dtype())) return op("logical_and", mask, allowed);
  return op("where.ScalarOther", allowed, cast(mask, dtype), -HUGE_VAL);
}

namespace {

// What a row of scores that is masked as a whole gives: zeros.
Tensor safe_softmax(const Tensor& scores) {
  Tensor nothing = op("isneginf", op("amax", scores, std::vector<int64_t>{-1}, true));
  return op("where.ScalarSelf", nothing, 0.0, op("softmax.int", scores, -1));
}

// Each key head serves several query heads.
Tensor repeated_heads(const Tensor& x, const Expr& heads) {
  Sizes s = sizes_of(x);
  if (s[1] == heads) return x;
  Expr each = sym::floor_div(heads, s[1]);
  return reshape(op("expand", op("unsqueeze", x, 2), Sizes{s[0], s[1], each, s[2], s[3]}), {s[0], heads, s[2], s[3]});
}

Tensor scores_of(const AttentionCall& a, int mode, Tensor& shown) {
  Tensor k = repeated_heads(a.key, sizes_of(a.query)[1]);
  Tensor scores = op("mul.Tensor", op("matmul", a.query, op("transpose.int", k, -2, -1)), a.scale);
  if (mode == 0) shown = scores;
  if (a.softcap > 0) scores = op("mul.Tensor", op("tanh", op("div.Tensor", scores, a.softcap)), a.softcap);
  if (mode == 1) shown = scores;
  if (a.mask.defined())
    scores = is_bool(a.mask.dtype()) ? op("where.ScalarOther", a.mask, scores, -HUGE_VAL)
                                     : op("add.Tensor", scores, cast(a.mask, scores.dtype()));
  if (mode == 2) shown = scores;
  return scores;
}

}  // namespace

Tensor attend(const AttentionCall& a, int mode, Tensor* shown) {
  bool plain = a.softcap <= 0 && !shown && !a.softmax_dtype;
  if (plain) {
    Arg<Tensor> mask = a.mask.defined() ? Arg<Tensor>(is_bool(a.mask.dtype()) ? a.mask : cast(a.mask, a.query.dtype())) : kNone;
    bool grouped = !(sizes_of(a.query)[1] == sizes_of(a.key)[1]);
    return op("scaled_dot_product_attention", a.query, a.key, a.value, mask, 0.0, false, a.scale, grouped);
  }
  Tensor at;
  Tensor scores = scores_of(a, mode, at);
  DType dtype = scores.dtype();
  Tensor probabilities = cast(safe_softmax(a.softmax_dtype ? cast(scores, *a.softmax_dtype) : scores), dtype);
  if (mode == 3) at = probabilities;
  if (shown) *shown = at;
  return op("matmul", probabilities, repeated_heads(a.value, sizes_of(a.query)[1]));
}

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, const Expr& width, bool interleaved) {
  Expr half = sym::floor_div(width, 2), size = sizes_of(x).back();
  Tensor turned = op("slice.Tensor", x, -1, 0, width);
  auto part = [&](int64_t i) {
    return interleaved ? op("slice.Tensor", turned, -1, i, width, 2) : op("slice.Tensor", turned, -1, half * i, half * (i + 1));
  };
  Tensor a = part(0), b = part(1);
  Tensor real = op("sub.Tensor", op("mul.Tensor", a, cos), op("mul.Tensor", b, sin));
  Tensor imaginary = op("add.Tensor", op("mul.Tensor", a, sin), op("mul.Tensor", b, cos));
  Tensor out;
  if (interleaved)
    out = reshape(op("stack", std::vector<Tensor>{real, imaginary}, -1), sizes_of(turned));
  else
    out = op("cat", std::vector<Tensor>{real, imaginary}, -1);
  return width == size ? out : op("cat", std::vector<Tensor>{out, op("slice.Tensor", x, -1, width, size)}, -1);
}

namespace {

void rotary_embedding(OpCall& c) {
  Tensor x = c.in(0), cos = c.in(1), sin = c.in(2);
  bool flat = rank_of(x) == 3;
  Tensor heads = split_heads(x, c.integer("num_heads", 0));
  if (c.has(3)) {
    Tensor places = cast(c.in(3), DType::I64);
    cos = op("index.Tensor", cos, std::vector<Tensor>{places});
    sin = op("index.Tensor", sin, std::vector<Tensor>{places});
  }
  int64_t given = c.integer("rotary_embedding_dim", 0);
  Expr width = given ? Expr(given) : sizes_of(heads).back();
  Tensor out = rotated(heads, op("unsqueeze", cos, 1), op("unsqueeze", sin, 1), width, c.integer("interleaved", 0) != 0);
  c.set(0, flat ? join_heads(out) : out);
}

void attention(OpCall& c) {
  bool flat = rank_of(c.in(0)) == 3;
  AttentionCall a;
  a.query = split_heads(c.in(0), c.integer("q_num_heads", 0));
  a.key = split_heads(c.in(1), c.integer("kv_num_heads", 0));
  a.value = split_heads(c.in(2), c.integer("kv_num_heads", 0));
  Expr queries = sizes_of(a.query)[2];
  Tensor offset;  // how many keys precede the first query
  if (c.has(4)) {
    offset = integer_tensor({sizes_of(c.in(4))[2]});
    a.key = op("cat", std::vector<Tensor>{c.in(4), a.key}, 2);
    a.value = op("cat", std::vector<Tensor>{c.in(5), a.value}, 2);
  }
  c.set(1, a.key);
  c.set(2, a.value);
  Expr keys = sizes_of(a.key)[2];
  if (c.has(3)) {
    a.mask = c.in(3);
    // Keys that the mask does not reach are not seen.
    Expr missing = keys - sizes_of(a.mask).back();
    if (!(missing == Expr(0)))
      a.mask = op("constant_pad_nd", a.mask, Sizes{0, missing}, is_bool(a.mask.dtype()) ? Arg<Tensor>(false) : Arg<Tensor>(-HUGE_VAL));
  }
  if (c.has(6)) {
    Expr batch = sizes_of(a.query)[0];
    Tensor filled = reshape(cast(c.in(6), DType::I64), {batch, 1, 1, 1});
    a.mask = with_mask(a.mask, op("lt.Tensor", op("arange", keys, DType::I64), filled), a.query.dtype());
    if (!c.has(4)) offset = op("sub.Tensor", filled, queries);
  }
  int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (c.integer("is_causal", 0)) right = 0;
  if (left >= 0 || right >= 0) a.mask = with_mask(a.mask, visible_keys(offset, queries, keys, left, right), a.query.dtype());
  auto width = known_size(sizes_of(a.query)[3], "the size of a head");
  a.scale = c.real("scale", 1 / std::sqrt(static_cast<double>(width)));
  a.softcap = c.real("softcap", 0);
  if (c.integer("softmax_precision", 0)) {
    DType t = need_dtype(static_cast<int32_t>(c.integer("softmax_precision")), "the softmax");
    if (t != a.query.dtype()) a.softmax_dtype = t;
  }
  auto mode = static_cast<int>(c.integer("qk_matmul_output_mode", 0));
  Tensor shown;
  Tensor out = attend(a, mode, c.wants(3) ? &shown : nullptr);
  c.set(0, flat ? join_heads(out) : out);
  if (c.wants(3)) c.set(3, shown);
}

// ---- com.microsoft ---------------------------------------------------------------------------------------------------------------

double default_scale(const Tensor& query) {
  return 1 / std::sqrt(static_cast<double>(known_size(sizes_of(query)[3], "the size of a head")));
}

// Which keys count: a number of keys for each batch, or flags for each key, for each query and key, or for each head too.
Tensor key_mask(OpCall& c, const Tensor& mask, const Expr& batch, const Expr& keys, DType dtype) {
  Sizes s = sizes_of(mask);
  Tensor counts;
  if (s.size() == 1) {
    TOROID_USER_CHECK(s[0] == batch, "the mask has {} numbers for a batch of {}; only one number of keys for each is supported",
                      sym::to_string(s[0]), sym::to_string(batch));
    counts = op("lt.Tensor", op("arange", keys, DType::I64), reshape(cast(mask, DType::I64), {batch, 1}));
  } else {
    counts = op("ne.Scalar", mask, 0);
  }
  if (rank_of(counts) == 2) counts = op("unsqueeze", counts, 1);
  if (rank_of(counts) == 3) counts = op("unsqueeze", counts, 1);
  // Hidden keys are not out of the question: where all are, they count alike.
  Tensor zeros = op("full", Sizes{}, 0.0, dtype);
  return op("where.ScalarOther", counts, zeros, c.real("mask_filter_value", -10000));
}

// The softmax's bias of masks and of scores, one of which may be undefined.
Tensor sum_of(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : op("add.Tensor", a, b); }

void fused_attention(OpCall& c) {
  Tensor x = c.in(0), weights = c.in(1);
  int64_t heads = c.integer("num_heads");
  TOROID_USER_CHECK(!c.integer("do_rotary", 0) && !c.has(6), "rotation and shared buffers of past keys are not supported");
  c.ignore({"past_present_share_buffer", "rotary_embedding_dim"});
  Tensor projected = op("matmul", x, weights);
  if (c.has(2)) projected = op("add.Tensor", projected, c.in(2));
  auto parts = c.integers("qkv_hidden_sizes");
  if (parts.empty()) parts.assign(3, known_size(sizes_of(weights).back(), "the size of the weights") / 3);
  TOROID_USER_CHECK(parts.size() == 3, "qkv_hidden_sizes has {} numbers; 3 are expected", parts.size());
  auto qkv = op_all("split_with_sizes", projected, parts, -1);
  AttentionCall a;
  a.query = split_heads(qkv[0], heads);
  a.key = split_heads(qkv[1], heads);
  a.value = split_heads(qkv[2], heads);
  Tensor offset;
  if (c.has(4)) {
    Tensor keys = op("select.int", c.in(4), 0, 0), values = op("select.int", c.in(4), 0, 1);
    offset = integer_tensor({sizes_of(keys)[2]});
    a.key = op("cat", std::vector<Tensor>{keys, a.key}, 2);
    a.value = op("cat", std::vector<Tensor>{values, a.value}, 2);
  }
  if (c.wants(1)) c.set(1, op("stack", std::vector<Tensor>{a.key, a.value}, 0));
  Sizes q = sizes_of(a.query);
  Expr keys = sizes_of(a.key)[2];
  DType dtype = a.query.dtype();
  a.mask = sum_of(c.has(3) ? key_mask(c, c.in(3), q[0], keys, dtype) : Tensor(), c.opt(5));
  if (c.integer("unidirectional", 0)) a.mask = with_mask(a.mask, visible_keys(offset, q[2], keys), dtype);
  a.scale = c.has_attribute("scale") && c.real("scale", 0) != 0 ? c.real("scale", 0) : default_scale(a.query);
  c.ignore({"mask_filter_value"});
  c.set(0, join_heads(attend(a)));
}

void multi_head_attention(OpCall& c) {
  int64_t heads = c.integer("num_heads");
  TOROID_USER_CHECK(c.has(1) && c.has(2) && rank_of(c.in(0)) == 3, "queries, keys and values in one tensor are not supported");
  TOROID_USER_CHECK(!c.has(8) && !c.has(9), "shared buffers of past keys are not supported");
  std::vector<Tensor> in = {c.in(0), c.in(1), c.in(2)};
  if (c.has(3)) {
    Sizes widths;
    for (size_t i = 0; i < 3; ++i)
      widths.push_back(i < 2 || rank_of(in[2]) == 3 ? sizes_of(in[i == 2 ? 2 : 0]).back() : sizes_of(in[0]).back());
    auto biases = op_all("split_with_sizes", c.in(3), widths, 0);
    for (size_t i = 0; i < 3; ++i)
      if (rank_of(in[i]) == 3) in[i] = op("add.Tensor", in[i], biases[i]);
  }
  AttentionCall a;
  a.query = split_heads(in[0], heads);
  a.key = split_heads(in[1], heads);
  a.value = split_heads(in[2], heads);
  Tensor offset;
  if (c.has(6)) {
    offset = integer_tensor({sizes_of(c.in(6))[2]});
    a.key = op("cat", std::vector<Tensor>{c.in(6), a.key}, 2);
    a.value = op("cat", std::vector<Tensor>{c.in(7), a.value}, 2);
  }
  c.set(1, a.key);
  c.set(2, a.value);
  Sizes q = sizes_of(a.query);
  Expr keys = sizes_of(a.key)[2];
  DType dtype = a.query.dtype();
  a.mask = sum_of(c.has(4) ? key_mask(c, c.in(4), q[0], keys, dtype) : Tensor(), c.opt(5));
  if (c.integer("unidirectional", 0)) a.mask = with_mask(a.mask, visible_keys(offset, q[2], keys), dtype);
  a.scale = c.has_attribute("scale") && c.real("scale", 0) != 0 ? c.real("scale", 0) : default_scale(a.query);
  c.ignore({"mask_filter_value"});
  c.set(0, join_heads(attend(a)));
}

// The angles of places in the text: rows of the tables.
Tensor angles(const Tensor& table, const Tensor& places) {
  return op("unsqueeze", op("index.Tensor", table, std::vector<Tensor>{places}), 1);
}

// Past keys are followed by the new ones; seqlens_k is the place of each batch's last key.
void group_query_attention(OpCall& c) {
  int64_t heads = c.integer("num_heads"), key_heads = c.integer("kv_num_heads");
  TOROID_USER_CHECK(c.has(1) && c.has(2), "queries, keys and values in one tensor are not supported");
  TOROID_USER_CHECK(!c.has(11) && c.integer("smooth_softmax", 0) <= 0, "sinks of the softmax are not supported");
  AttentionCall a;
  a.query = split_heads(c.in(0), heads);
  a.key = split_heads(c.in(1), key_heads);
  a.value = split_heads(c.in(2), key_heads);
  Sizes q = sizes_of(a.query);
  Tensor past = reshape(op("sub.Tensor", op("add.Tensor", cast(c.in(5), DType::I64), 1), q[2]), {q[0], 1, 1, 1});
  bool interleaved = c.integer("rotary_interleaved", 0) != 0;
  if (c.integer("do_rotary", 0)) {
    Tensor steps = op("add.Tensor", reshape(past, {q[0], 1}), op("arange", q[2], DType::I64));
    Tensor places = c.has(9) ? cast(c.in(9), DType::I64) : steps;
    Tensor cos = angles(c.in(7), places), sin = angles(c.in(8), places);
    Expr width = sizes_of(c.in(7)).back() * 2;
    a.query = rotated(a.query, cos, sin, width, interleaved);
    a.key = rotated(a.key, cos, sin, width, interleaved);
  }
  if (c.has(3)) {
    a.key = op("cat", std::vector<Tensor>{c.in(3), a.key}, 2);
    a.value = op("cat", std::vector<Tensor>{c.in(4), a.value}, 2);
  }
  c.set(1, a.key);
  c.set(2, a.value);
  int64_t window = c.integer("local_window_size", -1);
  a.mask = with_mask(c.opt(10), visible_keys(past, q[2], sizes_of(a.key)[2], window > 0 ? window - 1 : -1, 0), a.query.dtype());
  a.softcap = c.real("softcap", 0);
  a.scale = c.has_attribute("scale") && c.real("scale", 0) != 0 ? c.real("scale", 0) : default_scale(a.query);
  c.set(0, join_heads(attend(a)));
}

void fused_rotary_embedding(OpCall& c) {
  Tensor x = c.in(0), places = cast(c.in(1), DType::I64);
  TOROID_USER_CHECK(!c.integer("is_packed_batching", 0) && c.real("scale", 1) == 1, "packed batches and scales are not supported");
  bool flat = rank_of(x) == 3;
  Expr width = sizes_of(c.in(2)).back() * 2;
  int64_t heads = c.integer("num_heads", 0);
  c.ignore({"rotary_embedding_dim"});  // the tables have it
  if (flat && heads == 0) heads = known_size(sym::floor_div(sizes_of(x)[2], width), "the number of heads");
  Tensor split = split_heads(x, heads);
  Sizes s = sizes_of(split);
  // One number: where the text begins.
  if (rank_of(places) == 1) places = op("expand", op("add.Tensor", op("arange", s[2], DType::I64), places), Sizes{s[0], s[2]});
  Tensor out = rotated(split, angles(c.in(2), places), angles(c.in(3), places), width, c.integer("interleaved", 0) != 0);
  c.set(0, flat ? join_heads(out) : out);
}

}  // namespace

void add_attention_operators(Operators& t) {
  constexpr std::string_view kMicrosoft = "com.microsoft";
  t.add(kMicrosoft, "Attention", 1, fused_attention);
  t.add(kMicrosoft, "MultiHeadAttention", 1, multi_head_attention);
  t.add(kMicrosoft, "GroupQueryAttention", 1, group_query_attention);
  t.add(kMicrosoft, "RotaryEmbedding", 1, fused_rotary_embedding);
  t.add("Attention", 23, attention);
  t.add("RotaryEmbedding", 23, rotary_embedding);
}

}  // namespace toroid::import::onnx
