// Operators that move elements or change sizes.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/scalar.h"
#include "import/onnx/operators.h"
#include "ops/rows/view_rules.h"

namespace toroid::import::onnx {
namespace {

// Axes as an attribute (until `since`) or as input `i`; empty when there are none.
std::vector<int64_t> axes_of(OpCall& c, size_t i, int64_t since) {
  if (c.version() < since) return c.integers("axes");
  return c.has(i) ? c.numbers(i) : std::vector<int64_t>();
}

void reshape_to(OpCall& c) {
  Tensor x = c.in(0);
  Sizes sizes;
  if (c.version() < 5) {
    for (int64_t s : c.integers("shape")) sizes.push_back(s);
  } else {
    sizes = c.sizes(1);
  }
  Sizes old = sizes_of(x);
  bool allow_zero = c.integer("allowzero", 0) != 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] == Expr(0) && !allow_zero) {
      TOROID_USER_CHECK(d < old.size(), "size {} of the result is to be that of the input, which has {} dimensions", d, old.size());
      sizes[d] = old[d];
    }
  // What the -1 stands for; the product of the others may be symbolic.
  Expr others = 1;
  size_t open = sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == Expr(-1))
      open = d;
    else
      others *= sizes[d];
  }
  if (open < sizes.size() && !(others == Expr(0))) sizes[open] = sym::floor_div(numel_of(x), others);
  c.set(0, reshape(x, sizes));
}

void transpose(OpCall& c) {
  Tensor x = c.in(0);
  auto order = c.integers("perm");
  if (!c.has_attribute("perm")) {
    order = range(0, rank_of(x));
    std::reverse(order.begin(), order.end());
  }
  c.set(0, permuted(x, order));
}

void flatten(OpCall& c) {
  Tensor x = c.in(0);
  int64_t axis = c.integer("axis", 1), rank = rank_of(x);
  axis = axis == rank ? rank : normal_axis(axis, rank);
  Expr rows = 1, columns = 1;
  Sizes sizes = sizes_of(x);
  for (int64_t d = 0; d < rank; ++d) (d < axis ? rows : columns) *= sizes[static_cast<size_t>(d)];
  c.set(0, reshape(x, {rows, columns}));
}

void squeeze(OpCall& c) {
  Tensor x = c.in(0);
  auto axes = normal_axes(axes_of(c, 1, 13), rank_of(x));
  bool all = c.version() < 13 ? !c.has_attribute("axes") : !c.has(1);
  Sizes sizes, old = sizes_of(x);
  for (int64_t d = 0; d < rank_of(x); ++d) {
    const Expr& s = old[static_cast<size_t>(d)];
    bool drop = all ? s == Expr(1) : std::find(axes.begin(), axes.end(), d) != axes.end();
    if (drop) c.require_equal(s, 1, "a dimension that is left out");
    if (!drop) sizes.push_back(s);
  }
  c.set(0, reshape(x, sizes));
}

void unsqueeze(OpCall& c) {
  Tensor x = c.in(0);
  auto axes = axes_of(c, 1, 13);
  int64_t rank = rank_of(x) + static_cast<int64_t>(axes.size());
  axes = normal_axes(axes, rank);
  Sizes sizes, old = sizes_of(x);
  auto next = old.begin();
  for (int64_t d = 0; d < rank; ++d) {
    bool is_new = std::find(axes.begin(), axes.end(), d) != axes.end();
    TOROID_USER_CHECK(is_new || next != old.end(), "an axis is named twice");
    sizes.push_back(is_new ? Expr(1) : *next++);
  }
  c.set(0, reshape(x, sizes));
}

void concat(OpCall& c) {
  auto parts = c.all();
  c.set(0, op("cat", parts, normal_axis(c.integer("axis", c.version() < 4 ? 1 : 0), rank_of(c.in(0)))));
}

void split(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", 0), rank_of(x));
  Sizes parts;
  if (c.version() < 13 && c.has_attribute("split")) {
    for (int64_t s : c.integers("split")) parts.push_back(s);
  } else if (c.version() >= 13 && c.has(1)) {
    parts = c.sizes(1);
  } else {
    // Equal parts; the last is smaller where they do not come out even.
    int64_t size = known_size(sizes_of(x)[static_cast<size_t>(axis)], "the size that is split");
    auto count = c.integer("num_outputs", static_cast<int64_t>(c.results()));
    TOROID_USER_CHECK(count > 0 && count <= 1 << 16, "{} parts to split into", count);
    const int64_t part = size / count + (size % count != 0);
    for (int64_t i = 0, left = size; i < count; ++i) {
      parts.push_back(std::min(part, left));
      left -= std::min(part, left);
    }
  }
  auto out = op_all("split_with_sizes", x, parts, axis);
  for (size_t i = 0; i < out.size(); ++i) c.set(i, out[i]);
}

// Where a position lies in an axis of size n that has been turned around: between 0 and n, which is before the axis's first element.
Expr turned_position(const Expr& position, const Expr& n) {
  const Expr from_end = n - 1 - ops::wrap_position(position, n);
  return sym::max(sym::min(from_end, n), 0);
}

// One axis of a slice, with the meaning of numpy: ends beyond the tensor are its ends, and a negative step goes backwards.
Tensor slice_axis(Tensor x, int64_t axis, const Expr& start, const Expr& end, int64_t step) {
  // Exporters write the ends of axes of any size as the ends of one of these types.
  constexpr int64_t kLast = std::numeric_limits<int32_t>::max(), kFirst = std::numeric_limits<int32_t>::min();
  TOROID_USER_CHECK(step != 0 && step > std::numeric_limits<int64_t>::min(), "the step of a slice is {}", step);
  const Expr size = sizes_of(x)[static_cast<size_t>(axis)];
  if (step > 0) {
    constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
    auto e = end.maybe_constant();
    bool to_end = e && *e >= kLast;
    return op("slice.Tensor", x, axis, start, to_end ? Expr(kEnd) : end, step);
  }
  const auto place = [&](const Expr& e) {
    const auto known = e.maybe_constant();
    if (known && (*known >= kLast || *known <= kFirst)) return *known > 0 ? Expr(0) : size;
    return turned_position(e, size);
  };
  return op("slice.Tensor", op("flip", x, std::vector<int64_t>{axis}), axis, place(start), place(end), -step);
}

void slice(OpCall& c) {
  Tensor x = c.in(0);
  Sizes starts, ends;
  std::vector<int64_t> axes, steps;
  if (c.version() < 10) {
    for (int64_t s : c.integers("starts")) starts.push_back(s);
    for (int64_t s : c.integers("ends")) ends.push_back(s);
    axes = c.integers("axes");
  } else {
    starts = c.sizes(1);
    ends = c.sizes(2);
    if (c.has(3)) axes = c.numbers(3);
    if (c.has(4)) steps = c.numbers(4);
  }
  if (axes.empty()) axes = range(0, static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  TOROID_USER_CHECK(ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
                    "{} starts, {} ends, {} axes and {} steps; expected as many of each", starts.size(), ends.size(), axes.size(),
                    steps.size());
  axes = normal_axes(axes, rank_of(x));
  for (size_t i = 0; i < axes.size(); ++i) x = slice_axis(x, axes[i], starts[i], ends[i], steps[i]);
  c.set(0, x);
}

void expand(OpCall& c) {
  Tensor x = c.in(0);
  Sizes target = c.sizes(1), old = sizes_of(x);
  // Sizes of 1 in the target keep those of the tensor.
  size_t rank = std::max(target.size(), old.size());
  target.insert(target.begin(), rank - target.size(), 1);
  for (size_t d = 0; d < old.size(); ++d) {
    Expr& t = target[rank - old.size() + d];
    if (t == Expr(1)) t = old[d];
  }
  c.set(0, op("expand", x, target));
}

void tile(OpCall& c) {
  if (c.version() >= 6) return c.set(0, op("repeat", c.in(0), c.sizes(1)));
  Sizes repeats(static_cast<size_t>(rank_of(c.in(0))), 1);
  auto axis = normal_axis(c.number(2), rank_of(c.in(0)));
  repeats[static_cast<size_t>(axis)] = c.size(1);
  c.set(0, op("repeat", c.in(0), repeats));
}

void pad(OpCall& c) {
  Tensor x = c.in(0);
  Sizes pads;
  Arg<Tensor> value = 0.0;
  if (c.version() < 11) {
    for (int64_t p : c.integers(c.version() < 2 ? "paddings" : "pads")) pads.push_back(p);
    value = c.real("value", 0);
  } else {
    pads = c.sizes(1);
    if (c.has(2)) {
      Tensor v = c.contents(2);
      if (is_float(v.dtype()))
        value = v.item();
      else
        value = Expr(load_number(v.raw_data(), v.dtype()).as_int());
    }
  }
  auto axes = c.has(3) ? normal_axes(c.numbers(3), rank_of(x)) : range(0, rank_of(x));
  TOROID_USER_CHECK(pads.size() == 2 * axes.size(), "{} widths for {} axes; expected two for each", pads.size(), axes.size());
  auto rank = static_cast<size_t>(rank_of(x));
  Sizes widths(2 * rank, 0);  // from the last dimension on: before, after
  size_t widest = 0;          // dimensions that are padded, counted from the last
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t from_last = rank - 1 - static_cast<size_t>(axes[i]);
    widths[2 * from_last] = pads[i];
    widths[2 * from_last + 1] = pads[axes.size() + i];
    if (!(pads[i] == Expr(0)) || !(pads[axes.size() + i] == Expr(0))) widest = std::max(widest, from_last + 1);
  }
  widths.resize(2 * widest);
  std::string mode = c.text("mode", "constant");
  if (widest == 0) return c.set(0, x);
  if (mode == "constant") return c.set(0, op("constant_pad_nd", x, widths, value));
  const char* torch_mode = mode == "edge" ? "replicate" : mode == "wrap" ? "circular" : mode == "reflect" ? "reflect" : nullptr;
  TOROID_USER_CHECK(torch_mode, "the mode \"{}\" is unknown", mode);
  // PyTorch's other modes want a batch and channels before what is padded.
  Sizes sizes = sizes_of(x);
  size_t lead = rank - widest;
  Sizes shaped(sizes.begin() + static_cast<int64_t>(lead), sizes.end());
  Expr batch = 1;
  for (size_t d = 0; d < lead; ++d) batch *= sizes[d];
  shaped.insert(shaped.begin(), {1, batch});
  Tensor out = op("pad", reshape(x, shaped), widths, torch_mode);
  Sizes result = sizes_of(out);
  result.erase(result.begin(), result.begin() + 2);
  result.insert(result.begin(), sizes.begin(), sizes.begin() + static_cast<int64_t>(lead));
  c.set(0, reshape(out, result));
}

void depth_to_space(OpCall& c) {
  Tensor x = c.in(0);
  Sizes s = sizes_of(x);
  TOROID_USER_CHECK(s.size() == 4, "a tensor of 4 dimensions is expected, this one has {}", s.size());
  int64_t b = c.integer("blocksize");
  TOROID_USER_CHECK(b > 0 && b <= 1 << 15, "the block size is {}", b);
  Expr depth = sym::floor_div(s[1], b * b);
  bool channels_first = c.text("mode", "DCR") == "CRD";
  Tensor blocks = channels_first ? reshape(x, {s[0], depth, b, b, s[2], s[3]}) : reshape(x, {s[0], b, b, depth, s[2], s[3]});
  Tensor moved = permuted(blocks, channels_first ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  c.set(0, reshape(moved, {s[0], depth, s[2] * b, s[3] * b}));
}

void space_to_depth(OpCall& c) {
  Tensor x = c.in(0);
  Sizes s = sizes_of(x);
  TOROID_USER_CHECK(s.size() == 4, "a tensor of 4 dimensions is expected, this one has {}", s.size());
  int64_t b = c.integer("blocksize");
  TOROID_USER_CHECK(b > 0 && b <= 1 << 15, "the block size is {}", b);
  Expr height = sym::floor_div(s[2], b), width = sym::floor_div(s[3], b);
  bool channels_first = c.text("mode", "DCR") == "CRD";
  Tensor blocks = permuted(reshape(x, {s[0], s[1], height, b, width, b}),
                           channels_first ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  c.set(0, reshape(blocks, {s[0], s[1] * b * b, height, width}));
}

void center_crop_pad(OpCall& c) {
  Tensor x = c.in(0);
  auto axes = c.has_attribute("axes") ? normal_axes(c.integers("axes"), rank_of(x)) : range(0, rank_of(x));
  auto target = c.numbers(1);
  TOROID_USER_CHECK(target.size() == axes.size(), "{} sizes for {} axes", target.size(), axes.size());
  Sizes widths(2 * static_cast<size_t>(rank_of(x)), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t have = known_size(sizes_of(x)[static_cast<size_t>(axes[i])], "a size that is cropped"), more = target[i] - have;
    size_t at = 2 * static_cast<size_t>(rank_of(x) - 1 - axes[i]);
    int64_t before = more >= 0 ? more / 2 : -(-more / 2);
    widths[at] = before;
    widths[at + 1] = more - before;
  }
  c.set(0, op("constant_pad_nd", x, widths, 0));
}

void shape(OpCall& c) {
  Sizes sizes = sizes_of(c.in(0));
  auto rank = static_cast<int64_t>(sizes.size());
  auto place = [&](const char* name, int64_t otherwise) {
    int64_t at = c.integer(name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  int64_t start = place("start", 0), end = place("end", rank);
  c.set(0, integer_tensor(start < end ? Sizes(sizes.begin() + start, sizes.begin() + end) : Sizes()));
}

void size(OpCall& c) { c.set(0, reshape(integer_tensor({numel_of(c.in(0))}), {})); }

void trilu(OpCall& c) {
  int64_t k = c.has(1) ? c.number(1) : 0;
  c.set(0, op(c.integer("upper", 1) ? "triu" : "tril", c.in(0), k));
}

}  // namespace

void add_layout_operators(Operators& t) {
  // A tensor is an optional value that is there.
  t.add("OptionalGetElement", 18, [](OpCall& c) { c.set(0, c.in(0)); });
  t.add("OptionalHasElement", 18, [](OpCall& c) { c.set(0, Tensor::full(std::vector<int64_t>{}, c.has(0), DType::Bool)); });
  t.add("Identity", 1, [](OpCall& c) { c.set(0, c.item(0)); });
  t.add("Reshape", 1, reshape_to);
  t.add("Transpose", 1, transpose);
  t.add("Flatten", 1, flatten);
  t.add("Squeeze", 1, squeeze);
  t.add("Unsqueeze", 1, unsqueeze);
  t.add("Concat", 1, concat);
  t.add("Split", 2, split);
  t.add("Slice", 1, slice);
  t.add("Expand", 8, expand);
  t.add("Tile", 1, tile);
  t.add("Pad", 1, pad);
  t.add("DepthToSpace", 1, depth_to_space);
  t.add("SpaceToDepth", 1, space_to_depth);
  t.add("CenterCropPad", 18, center_crop_pad);
  t.add("Shape", 1, shape);
  t.add("Size", 1, size);
  t.add("Trilu", 14, trilu);
}

}  // namespace toroid::import::onnx
