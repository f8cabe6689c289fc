// Rows of convolutions: one primitive, and the forms that are written with it.
#include <array>

#include "base/check.h"
#include "ops/rows/dense_compose.h"
#include "ops/rows/dense_values.h"

namespace toroid::ops {
namespace {

using namespace compose;

// Sizes of one convolution with its spatial dimensions filled up to three by ones in front.
struct Geometry {
  using Three = std::array<int64_t, 3>;
  int64_t batch, in_channels, out_channels, groups;
  Three in, out, kernel, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
};

template <class Reader>
void check_lists(const Reader& c, size_t spatial) {
  for (const char* name : {"stride", "padding", "dilation"}) {
    auto v = c.integers(name);
    bool step = std::string_view(name) == "stride" || std::string_view(name) == "dilation";
    TOROID_USER_CHECK(v.size() == spatial, "convolution: argument \"{}\" must have {} numbers, one a spatial dimension; it has {}", name,
                      spatial, v.size());
    for (int64_t x : v)
      TOROID_USER_CHECK(x >= (step ? 1 : 0) && x < (1 << 30), "convolution: argument \"{}\" holds {}, which is out of range", name, x);
  }
}

// What a gradient adds to the sizes of a transposed convolution follows from an image's, which may be open: less than a step then.
std::vector<Expr> output_padding(MetaCall& c, const Ints& stride, const Ints& dilation) {
  std::vector<Expr> out = c.exprs("output_padding");
  TOROID_USER_CHECK(out.size() == stride.size(),
                    "convolution: argument \"output_padding\" must have {} numbers, one a spatial dimension; it has {}", stride.size(),
                    out.size());
  for (size_t d = 0; d < out.size(); ++d) {
    const std::string held = sym::to_string(out[d]);
    const Expr most(out[d].is_const() ? (1 << 30) - 1 : std::max(stride[d], dilation[d]) - 1);
    for (const sym::Relation& r : {sym::Relation{sym::Rel::Ge, out[d], 0}, sym::Relation{sym::Rel::Le, out[d], most}})
      c.require(r, "convolution: argument \"output_padding\" holds {}, which is out of range", held);
  }
  return out;
}

void convolution_meta(MetaCall& c) {
  const TensorType &x = *c.tensor("input"), &w = *c.tensor("weight");
  TOROID_USER_CHECK(x.dim() == w.dim() && x.dim() >= 3 && x.dim() <= 5,
                    "convolution: input and weight must have equally many dimensions, 3 to 5; got {} and {}", to_string(x), to_string(w));
  TOROID_USER_CHECK(x.dtype == w.dtype, "convolution: input and weight must have one dtype, got {} and {}", to_string(x), to_string(w));
  TOROID_USER_CHECK(!is_bool(x.dtype), "convolution: Bool is not supported");
  size_t spatial = x.sizes.size() - 2;
  check_lists(c, spatial);
  auto stride = c.integers("stride"), padding = c.integers("padding"), dilation = c.integers("dilation");
  const std::vector<Expr> extra = output_padding(c, stride, dilation);
  int64_t groups = c.integer("groups");
  bool transposed = c.flag("transposed");
  TOROID_USER_CHECK(groups >= 1, "convolution: groups must be positive, got {}", groups);
  Expr per_group = w.sizes[1] * Expr(groups);
  c.require_same(transposed ? w.sizes[0] : per_group, x.sizes[1],
                 "convolution: weight {} with {} groups does not fit the channels of input {}", to_string(w), groups, to_string(x));
  c.require_same(sym::mod(w.sizes[0], groups), 0, "convolution: {} channels of the weight are not a multiple of {} groups",
                 sym::to_string(w.sizes[0]), groups);
  std::vector<Expr> out{x.sizes[0], transposed ? per_group : w.sizes[0]};
  if (const TensorType* b = c.opt_tensor("bias"))
    c.require_vector(*b, out[1], "convolution: bias {} must have one number for each of {} channels", to_string(*b),
                     sym::to_string(out[1]));
  for (size_t d = 0; d < spatial; ++d) {
    Expr in = x.sizes[d + 2], reach = Expr(dilation[d]) * (w.sizes[d + 2] - 1), room, n;
    if (transposed)
      room = n = (in - 1) * Expr(stride[d]) - Expr(2 * padding[d]) + reach + extra[d] + 1;
    else
      n = sym::floor_div(room = in + Expr(2 * padding[d]) - reach - 1, stride[d]) + 1;
    c.require({sym::Rel::Ge, room, 0},
              "convolution: spatial dimension {} of input {} is too small for weight {}, padding {} and dilation {}", d, to_string(x),
              to_string(w), padding[d], dilation[d]);
    out.push_back(n);
  }
  c.result(x.dtype, std::move(out));
}

Geometry geometry(const KernelCall& c) {
  auto &x = c.tensor("input").sizes(), &w = c.tensor("weight").sizes(), &y = c.outputs[0].sizes();
  Geometry g{x[0], x[1], y[1], c.integer("groups"), {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  auto stride = c.integers("stride"), padding = c.integers("padding"), dilation = c.integers("dilation");
  for (size_t d = 0; d < stride.size(); ++d) {
    size_t at = 3 - stride.size() + d;
    g.in[at] = x[d + 2];
    g.out[at] = y[d + 2];
    g.kernel[at] = w[d + 2];
    g.stride[at] = stride[d];
    g.padding[at] = padding[d];
    g.dilation[at] = dilation[d];
  }
  return g;
}

// Adds weight * source to target for one kernel position. The strided side is indexed i * stride + offset, the other one i.
// `gather`: the source is the strided side (convolution); otherwise the target is (transposed convolution).
template <class T>
void add_position(T* target, const T* source, T weight, const Geometry& g, const Geometry::Three& offset, bool gather) {
  const auto& strided = g.in;
  const auto& dense = g.out;
  auto range = [&](size_t d) {
    int64_t s = g.stride[d], lo = offset[d] >= 0 ? 0 : (-offset[d] + s - 1) / s;
    int64_t last = strided[d] - 1 - offset[d];
    int64_t hi = last < 0 ? 0 : std::min(dense[d], last / s + 1);
    return std::pair(lo, hi);
  };
  auto [z0, z1] = range(0);
  auto [y0, y1] = range(1);
  auto [x0, x1] = range(2);
  for (int64_t z = z0; z < z1; ++z) {
    for (int64_t y = y0; y < y1; ++y) {
      int64_t far = ((z * g.stride[0] + offset[0]) * strided[1] + y * g.stride[1] + offset[1]) * strided[2] + offset[2];
      int64_t near = (z * dense[1] + y) * dense[2];
      if (gather)
        for (int64_t x = x0; x < x1; ++x) target[near + x] += weight * source[far + x * g.stride[2]];
      else
        for (int64_t x = x0; x < x1; ++x) target[far + x * g.stride[2]] += weight * source[near + x];
    }
  }
}

template <class T>
void convolve(KernelCall& c) {
  Geometry g = geometry(c);
  bool transposed = c.flag("transposed");
  std::vector<T> x = load_values<T>(c.tensor("input")), w = load_values<T>(c.tensor("weight")), bias;
  if (c.has("bias")) bias = load_values<T>(c.tensor("bias"));
  std::vector<T> y(static_cast<size_t>(g.batch * g.out_channels * g.out_plane()));
  int64_t in_per_group = g.in_channels / g.groups, out_per_group = g.out_channels / g.groups;
  int64_t kernel_plane = g.kernel[0] * g.kernel[1] * g.kernel[2];
  Geometry loops = g;  // seen from the dense side
  if (transposed) std::swap(loops.in, loops.out);
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t co = 0; co < g.out_channels; ++co) {
      T* target = y.data() + (n * g.out_channels + co) * g.out_plane();
      if (!bias.empty()) std::fill(target, target + g.out_plane(), bias[static_cast<size_t>(co)]);
      int64_t group = co / out_per_group;
      for (int64_t i = 0; i < in_per_group; ++i) {
        int64_t ci = group * in_per_group + i;
        const T* source = x.data() + (n * g.in_channels + ci) * g.in_plane();
        int64_t filter = transposed ? ci * out_per_group + co % out_per_group : co * in_per_group + i;
        for (int64_t p = 0; p < kernel_plane; ++p) {
          int64_t kz = p / (g.kernel[1] * g.kernel[2]), ky = p / g.kernel[2] % g.kernel[1], kx = p % g.kernel[2];
          Geometry::Three offset{kz * g.dilation[0] - g.padding[0], ky * g.dilation[1] - g.padding[1], kx * g.dilation[2] - g.padding[2]};
          add_position(target, source, w[static_cast<size_t>(filter * kernel_plane + p)], loops, offset, !transposed);
        }
      }
    }
  }
  store_values<T>(c.outputs[0], y);
}

void convolution_kernel(KernelCall& c) {
  with_accumulator(c.outputs[0].dtype(), [&]<class T>(T) { convolve<T>(c); });
}

struct ConvLists {
  Ints stride, padding, dilation, output_padding;
};

// The primitive, for inputs with or without a batch dimension.
Tensor convolve_call(const CallReader& c, Tensor x, const Tensor& w, const ConvLists& l, bool transposed) {
  int64_t spatial = w.dim() - 2;
  TOROID_USER_CHECK(x.dim() == spatial + 2 || x.dim() == spatial + 1,
                    "{}: the input must have {} dimensions (or {} without a batch), it has {}", c.op().name, spatial + 2, spatial + 1,
                    x.dim());
  bool alone = x.dim() == spatial + 1;
  if (alone) x = unsqueeze(x, 0);
  Tensor y = call1("convolution", {x, w, c.at("bias"), to_sizes(l.stride), to_sizes(l.padding), to_sizes(l.dilation), transposed,
                                   to_sizes(l.output_padding), c.at("groups")});
  return alone ? squeeze(y, 0) : y;
}

size_t spatial_rank(const CallReader& c) {
  int64_t rank = c.tensor("weight").dim();
  TOROID_USER_CHECK(rank >= 3 && rank <= 5, "{}: the weight must have 3 to 5 dimensions, it has {}", c.op().name, rank);
  return static_cast<size_t>(rank - 2);
}

std::vector<Tensor> plain(const CallReader& c) {
  size_t n = spatial_rank(c);
  ConvLists l{spread(c, "stride", n), spread(c, "padding", n), spread(c, "dilation", n), Ints(n, 0)};
  return {convolve_call(c, c.tensor("input"), c.tensor("weight"), l, false)};
}

std::vector<Tensor> transposed(const CallReader& c) {
  size_t n = spatial_rank(c);
  ConvLists l{spread(c, "stride", n), spread(c, "padding", n), spread(c, "dilation", n), spread(c, "output_padding", n)};
  const Tensor x = c.tensor("input"), w = c.tensor("weight");
  for (size_t d = 0; d < n; ++d) {
    TOROID_USER_CHECK(l.output_padding[d] < l.stride[d] || l.output_padding[d] < l.dilation[d],
                      "{}: output_padding {} must be less than the stride {} or the dilation {} (spatial dimension {})", c.op().name,
                      l.output_padding[d], l.stride[d], l.dilation[d], d);
    const int64_t last = static_cast<int64_t>(d) - static_cast<int64_t>(n);
    const Expr size = (extent(x, last) - 1) * Expr(l.stride[d]) + Expr(l.dilation[d]) * (extent(w, last) - 1) +
                      Expr(l.output_padding[d] - 2 * l.padding[d]);
    require({sym::Rel::Ge, size, 0}, "{}: the result has no elements in spatial dimension {}: the padding {} takes them all", c.op().name,
            d, l.padding[d]);
  }
  return {convolve_call(c, x, w, l, true)};
}

// padding = "valid" or "same"; an odd "same" padding puts its extra column at the end.
std::vector<Tensor> named_padding(const CallReader& c) {
  size_t n = spatial_rank(c);
  Tensor x = c.tensor("input"), w = c.tensor("weight");
  ConvLists l{spread(c, "stride", n), Ints(n, 0), spread(c, "dilation", n), Ints(n, 0)};
  std::string mode = c.text("padding");
  TOROID_USER_CHECK(mode == "same" || mode == "valid", "{}: padding must be \"same\" or \"valid\", got \"{}\"", c.op().name, mode);
  if (mode == "same") {
    Sizes pad;
    bool uneven = false;
    for (size_t d = 0; d < n; ++d) {
      TOROID_USER_CHECK(l.stride[d] == 1, "{}: padding \"same\" needs stride 1, got {}", c.op().name, l.stride[d]);
      int64_t total = l.dilation[d] * (fixed_extent(w, static_cast<int64_t>(d) + 2) - 1);
      l.padding[d] = total / 2;
      uneven |= total % 2 != 0;
      pad.insert(pad.begin(), {Expr(0), Expr(total % 2)});
    }
    if (uneven) x = call1("constant_pad_nd", {x, pad, Expr(0)});
  }
  return {convolve_call(c, x, w, l, false)};
}

// ---- patches ----

struct Patches {
  Ints kernel, dilation, padding, stride;
  // Positions [kernel, blocks] of one dimension in the padded image.
  Tensor positions(size_t d, const Expr& blocks) const {
    const Tensor starts = mul(arange(blocks), Expr(stride[d]));
    return add(unsqueeze(mul(arange(kernel[d]), Expr(dilation[d])), 1), starts);
  }
};

Patches patches(const CallReader& c) {
  Patches p{spread(c, "kernel_size", 2), spread(c, "dilation", 2), spread(c, "padding", 2), spread(c, "stride", 2)};
  for (size_t d = 0; d < 2; ++d)
    TOROID_USER_CHECK(p.kernel[d] > 0 && p.dilation[d] > 0 && p.stride[d] > 0 && p.padding[d] >= 0,
                      "{}: kernel_size, dilation and stride must be positive", c.op().name);
  return p;
}

Expr block_count(const CallReader& c, const Patches& p, size_t d, const Expr& size) {
  Expr room = size + (2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1);
  require({sym::Rel::Ge, room, 0}, "{}: spatial dimension {} of size {} is smaller than the kernel", c.op().name, d, sym::to_string(size));
  return sym::floor_div(room, p.stride[d]) + 1;
}

std::vector<Tensor> im2col(const CallReader& c) {
  Patches p = patches(c);
  Tensor x = c.tensor("self");
  TOROID_USER_CHECK(x.dim() == 3 || x.dim() == 4, "im2col: the input must have 3 or 4 dimensions, it has {}", x.dim());
  bool alone = x.dim() == 3;
  if (alone) x = unsqueeze(x, 0);
  Expr rows = block_count(c, p, 0, extent(x, 2)), cols = block_count(c, p, 1, extent(x, 3));
  Tensor padded = call1("constant_pad_nd", {x, to_sizes({p.padding[1], p.padding[1], p.padding[0], p.padding[0]}), Expr(0)});
  Tensor h = unsqueeze(unsqueeze(p.positions(0, rows), 2), 3), w = p.positions(1, cols);
  Tensor y = permute(index(padded, {Tensor(), Tensor(), h, w}), {0, 1, 2, 4, 3, 5});
  y = reshape(y, {extent(x, 0), extent(x, 1) * Expr(p.kernel[0] * p.kernel[1]), rows * cols});
  return {alone ? squeeze(y, 0) : y};
}

std::vector<Tensor> col2im(const CallReader& c) {
  Patches p = patches(c);
  Sizes size = c.exprs("output_size");
  if (size.size() == 1) size.push_back(size[0]);
  TOROID_USER_CHECK(size.size() == 2, "{}: output_size must have two numbers, it has {}", c.op().name, size.size());
  Tensor x = c.tensor("self");
  TOROID_USER_CHECK(x.dim() == 2 || x.dim() == 3, "col2im: the input must have 2 or 3 dimensions, it has {}", x.dim());
  bool alone = x.dim() == 2;
  if (alone) x = unsqueeze(x, 0);
  Expr rows = block_count(c, p, 0, size[0]), cols = block_count(c, p, 1, size[1]);
  Expr channels = sym::floor_div(extent(x, 1), p.kernel[0] * p.kernel[1]);
  Tensor blocks = reshape(x, {extent(x, 0), channels, Expr(p.kernel[0]), Expr(p.kernel[1]), rows, cols});
  Tensor image = full({extent(x, 0), channels, size[0] + 2 * p.padding[0], size[1] + 2 * p.padding[1]}, 0, x.dtype());
  Tensor h = unsqueeze(unsqueeze(p.positions(0, rows), 2), 3), w = p.positions(1, cols);
  image = call1("index_put", {image, std::vector<Tensor>{Tensor(), Tensor(), h, w}, permute(blocks, {0, 1, 2, 4, 3, 5}), true});
  image = slice(slice(image, 2, p.padding[0], p.padding[0] + size[0]), 3, p.padding[1], p.padding[1] + size[1]);
  return {alone ? squeeze(image, 0) : image};
}

// Whole numbers of 8 bits, the input's less a zero point; padding adds nothing. Sums of 32 bits.
std::vector<Tensor> int_convolution(const CallReader& c) {
  const Tensor &x = c.tensor("input"), &w = c.tensor("weight");
  TOROID_USER_CHECK((x.dtype() == DType::I8 || x.dtype() == DType::U8) && w.dtype() == DType::I8,
                    "_int_convolution: operands must be int8 (the first may be uint8), got {} and {}", name_of(x.dtype()),
                    name_of(w.dtype()));
  const int64_t zero = c.integer("zero_point");
  Tensor whole = cast(x, DType::I32);
  if (zero) whole = call1("sub.Tensor", {whole, Expr(zero)});
  const Sizes none(static_cast<size_t>(x.dim() - 2), 0);
  return {call1("convolution", {whole, cast(w, DType::I32), Arg<Tensor>(), c.at("stride"), c.at("padding"), c.at("dilation"), false, none,
                                c.at("groups")})};
}

}  // namespace

void add_convolution_rows(Table& t) {
  t.composite(
       "_int_convolution(Tensor input, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, int zero_point) "
       "-> Tensor",
       int_convolution)
      .has_template = true;
  t.primitive(
      "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
      "SymInt[] output_padding, SymInt groups) -> Tensor",
      convolution_meta, convolution_kernel);
  t.composite(
      "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
      "SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> {
        size_t n = spatial_rank(c);
        ConvLists l{spread(c, "stride", n), spread(c, "padding", n), spread(c, "dilation", n), spread(c, "output_padding", n)};
        return {convolve_call(c, c.tensor("input"), c.tensor("weight"), l, c.flag("transposed"))};
      });
  for (std::string n : {"1", "2", "3"}) {
    std::string head = "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" + n + "] stride=1, ",
                tail = "SymInt[" + n + "] dilation=1, SymInt groups=1) -> Tensor";
    t.composite("conv" + n + "d" + head + "SymInt[" + n + "] padding=0, " + tail, plain);
    t.composite("conv" + n + "d.padding" + head + "str padding=\"valid\", " + tail, named_padding);
    t.composite("conv_transpose" + n + "d" + (n == "1" ? "" : ".input") + head + "SymInt[" + n + "] padding=0, SymInt[" + n +
                    "] output_padding=0, SymInt groups=1, SymInt[" + n + "] dilation=1) -> Tensor",
                transposed);
  }
  t.composite("im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", im2col);
  t.composite("col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
              col2im);
}

}  // namespace toroid::ops
