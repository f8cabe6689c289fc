// Choosing boxes, and counting words.
#include <algorithm>

#include "base/check.h"
#include "graph/control_flow.h"
#include "import/onnx/builder.h"

namespace toroid::import::onnx {
namespace {

Tensor corner(const Tensor& boxes, int64_t i) { return op("select.int", boxes, -1, i); }

struct Box {
  Tensor low_y, low_x, high_y, high_x, area;
};

Box box_of(const Tensor& boxes, bool by_center) {
  Tensor a = corner(boxes, 0), b = corner(boxes, 1), d = corner(boxes, 2), e = corner(boxes, 3);
  Box r;
  if (by_center) {  // x, y, width, height
    Tensor w = op("div.Tensor", d, 2.0), h = op("div.Tensor", e, 2.0);
    r = {op("sub.Tensor", b, h), op("sub.Tensor", a, w), op("add.Tensor", b, h), op("add.Tensor", a, w), {}};
  } else {
    r = {op("minimum", a, d), op("minimum", b, e), op("maximum", a, d), op("maximum", b, e), {}};
  }
  r.area = op("mul.Tensor", op("sub.Tensor", r.high_y, r.low_y), op("sub.Tensor", r.high_x, r.low_x));
  return r;
}

// The part that two boxes have in common of what they cover together, for all pairs: [..., n, n].
Tensor overlaps(const Box& r) {
  auto rows = [](const Tensor& t) { return op("unsqueeze", t, -1); };
  auto columns = [](const Tensor& t) { return op("unsqueeze", t, -2); };
  auto side = [&](const Tensor& low, const Tensor& high) {
    return op("clamp_min", op("sub.Tensor", op("minimum", rows(high), columns(high)), op("maximum", rows(low), columns(low))), 0.0);
  };
  Tensor common = op("mul.Tensor", side(r.low_y, r.high_y), side(r.low_x, r.high_x));
  Tensor together = op("sub.Tensor", op("add.Tensor", rows(r.area), columns(r.area)), common);
  return op("where.ScalarOther", op("gt.Scalar", common, 0.0), op("div.Tensor", common, together), 0.0);
}

// Box by box in the order of the scores: each is kept unless one that was kept before overlaps it too much. Inputs of the scan: which are
// kept so far [batch, classes, n]; the box's overlaps with all, whether its score counts [batch, classes], its place; the limits.
std::shared_ptr<graph::Graph> keep_one(const std::vector<graph::Value*>& operands) {
  auto g = std::make_shared<graph::Graph>();
  g->name = "combine";
  graph::Recorder recorder(*g);
  std::vector<Tensor> in;
  for (size_t i = 0; i < operands.size(); ++i) {
    TensorType type = operands[i]->type;
    type.strides.clear();
    if (i >= 1 && i <= 3) type.sizes.erase(type.sizes.begin());
    in.push_back(recorder.proxy(g->add_input(std::move(type), graph::InputKind::User, "x")));
  }
  DispatchScope dispatch(recorder);
  const Tensor &kept = in[0], &overlap = in[1], &counts = in[2], &place = in[3], &most_overlap = in[4], &most_boxes = in[5];
  Tensor beaten = op("any.dim", op("logical_and", kept, op("gt.Tensor", overlap, most_overlap)), -1);
  Tensor room = op("lt.Tensor", op("sum.dim_IntList", cast(kept, DType::I64), std::vector<int64_t>{-1}, false), most_boxes);
  Tensor keep = op("logical_and", op("logical_and", counts, room), op("logical_not", beaten));
  Tensor here = op("eq.Tensor", op("arange", sizes_of(kept).back(), DType::I64), place);
  Tensor next = op("logical_or", kept, op("logical_and", op("unsqueeze", keep, -1), here));
  for (auto& t : {next, keep}) g->outputs.push_back({recorder.value_of(t), {}, -1});
  return g;
}

void non_max_suppression(OpCall& c) {
  Tensor boxes = c.in(0), scores = c.in(1);  // [batch, n, 4], [batch, classes, n]
  Sizes s = sizes_of(scores);
  TOROID_USER_CHECK(s.size() == 3, "scores of 3 dimensions are expected, these have {}", s.size());
  auto first = [](const Tensor& t) { return reshape(t, {}); };
  Tensor most_boxes = c.has(2) ? first(cast(c.in(2), DType::I64)) : op("scalar_tensor", 0, DType::I64);
  Tensor most_overlap = c.has(3) ? first(c.in(3)) : op("scalar_tensor", 0.0, DType::F32);
  auto sorted = op_all("sort.stable", scores, true, -1, true);
  Tensor order = sorted[1];
  Tensor all = op("expand", op("unsqueeze", boxes, 1), Sizes{s[0], s[1], s[2], 4});
  Tensor ordered = op("gather", all, 2, op("expand", op("unsqueeze", order, -1), Sizes{s[0], s[1], s[2], 4}));
  Tensor overlap = overlaps(box_of(ordered, c.integer("center_point_box", 0) != 0));
  Tensor counts = c.has(4) ? op("gt.Tensor", sorted[0], first(c.in(4))) : op("full", s, true, DType::Bool);
  auto value = [&](const Tensor& t) { return c.builder().recorder().value_of(t); };
  std::vector<graph::Value*> init = {value(op("full", s, false, DType::Bool))};
  std::vector<graph::Value*> xs = {value(op("contiguous", permuted(overlap, {2, 0, 1, 3}))),
                                   value(op("contiguous", permuted(counts, {2, 0, 1}))), value(op("arange", s[2], DType::I64))};
  std::vector<graph::Value*> extra = {value(most_overlap), value(most_boxes)}, operands = init;
  operands.insert(operands.end(), xs.begin(), xs.end());
  operands.insert(operands.end(), extra.begin(), extra.end());
  auto* n = graph::add_region_node(c.builder().graph(), graph::scan_op(), {{}, init, xs, extra}, {keep_one(operands)}, c.node().op_type);
  // Rows [batch, class, place among the sorted], in this order; then the box of that place.
  Tensor rows = op("nonzero", c.builder().recorder().proxy(n->results[0]));
  Tensor batch = op("select.int", rows, 1, 0), kind = op("select.int", rows, 1, 1), place = op("select.int", rows, 1, 2);
  Tensor box = op("index.Tensor", order, std::vector<Tensor>{batch, kind, place});
  c.set(0, op("stack", std::vector<Tensor>{batch, kind, box}, 1));
}

// How often each n-gram of the pool is in a row of numbers, with up to so many others between its parts.
void tf_idf(OpCall& c) {
  Tensor x = c.in(0);
  auto pool = c.integers("pool_int64s"), starts = c.integers("ngram_counts"), places = c.integers("ngram_indexes");
  TOROID_USER_CHECK(!c.has_attribute("pool_strings"), "the pool holds texts; Toroid has numbers");
  int64_t shortest = c.integer("min_gram_length"), longest = c.integer("max_gram_length"), skips = c.integer("max_skip_count");
  auto weights = c.reals("weights");
  std::string mode = c.text("mode", "TF");
  TOROID_USER_CHECK(
      !places.empty() && shortest >= 1 && longest <= static_cast<int64_t>(starts.size()) && longest <= 64 && skips >= 0 && skips <= 1024,
      "the attributes do not fit each other");
  auto length = sizes_of(x).back();
  std::vector<Tensor> counts;
  size_t first = 0;  // n-gram of the pool
  for (int64_t n = 1; n <= static_cast<int64_t>(starts.size()); ++n) {
    auto begin = starts[static_cast<size_t>(n - 1)];
    auto end = n < static_cast<int64_t>(starts.size()) ? starts[static_cast<size_t>(n)] : static_cast<int64_t>(pool.size());
    TOROID_USER_CHECK(begin >= 0 && begin <= end && end <= static_cast<int64_t>(pool.size()) && (end - begin) % n == 0,
                      "the pool's numbers {} to {} are no {}-grams", begin, end, n);
    int64_t grams = (end - begin) / n;
    first += static_cast<size_t>(grams);
    if (grams == 0) continue;
    Tensor sum = op("full", Sizes{1}, 0, DType::I64);
    for (int64_t skip = 0; n >= shortest && n <= longest && skip <= (n == 1 ? 0 : skips); ++skip) {
      // parts[k]: the k-th word of the n-gram that begins at each place
      Expr windows = length - (n - 1) * (skip + 1);
      if (auto known = windows.maybe_constant(); known && *known <= 0) break;
      Tensor match;
      for (int64_t k = 0; k < n; ++k) {
        Sizes words;
        for (int64_t i = 0; i < grams; ++i) words.push_back(pool[static_cast<size_t>(begin + i * n + k)]);
        Tensor word = op("unsqueeze", cast(op("slice.Tensor", x, -1, k * (skip + 1), windows + k * (skip + 1)), DType::I64), -1);
        Tensor same = op("eq.Tensor", word, integer_tensor(words));
        match = match.defined() ? op("logical_and", match, same) : same;
      }
      sum = op("add.Tensor", sum, op("sum.dim_IntList", cast(match, DType::I64), std::vector<int64_t>{-2}, false));
    }
    Sizes sizes = sizes_of(x);
    sizes.back() = grams;
    counts.push_back(op("expand", sum, sizes));
  }
  TOROID_USER_CHECK(first == places.size() && !counts.empty(), "{} n-grams in the pool, {} places", first, places.size());
  Tensor all = cast(op("cat", counts, -1), DType::F32);
  if (mode == "IDF") all = op("clamp_max", all, 1.0);
  if (mode != "TF" && !weights.empty())
    all = op("mul.Tensor", all, Tensor::of(weights, std::vector<int64_t>{static_cast<int64_t>(weights.size())}));
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  constexpr int64_t kColumns = int64_t{1} << 31;
  TOROID_USER_CHECK(*least >= 0 && *most < kColumns, "ngram_indexes must be columns of the result, from 0 to {}; they are {} to {}",
                    kColumns - 1, *least, *most);
  Sizes out = sizes_of(x);
  out.back() = *most + 1;
  Tensor zeros = op("full", out, 0.0, DType::F32);
  c.set(0, op("index_copy", zeros, rank_of(x) - 1, integer_tensor(Sizes(places.begin(), places.end())), all));
}

}  // namespace

void add_selection_operators(Operators& t) {
  t.add("NonMaxSuppression", 10, non_max_suppression);
  t.add("TfIdfVectorizer", 9, tf_idf);
}

}  // namespace toroid::import::onnx
