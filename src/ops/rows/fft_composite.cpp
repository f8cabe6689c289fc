// torch.fft, stft and istft, in terms of the transforms of real and complex numbers.
#include "ops/rows/fft_composite.h"

#include "base/check.h"
#include "ops/rows/forms.h"

namespace toroid::ops {

using namespace forms;

namespace {

using Results = std::vector<Tensor>;
using Ints = std::vector<int64_t>;

constexpr int64_t kPlain = 0, kByRoot = 1, kByLength = 2;  // modes of normalization

// `inverse` transforms divide by the length unless told otherwise.
int64_t mode_of(const CallReader& c, bool inverse) {
  std::string norm = c.has("norm") ? c.text("norm") : "backward";
  if (norm == "ortho") return kByRoot;
  TOROID_USER_CHECK(norm == "backward" || norm == "forward", "{}: norm is \"{}\"; expected backward, ortho or forward", c.op().name, norm);
  return (norm == "forward") == inverse ? kPlain : kByLength;
}

Tensor as_float(const Tensor& x) { return is_float(x.dtype()) || is_complex(x.dtype()) ? x : cast_to(x, DType::F32); }
Tensor as_complex(const Tensor& x) {
  if (is_complex(x.dtype())) return x;
  Tensor real = as_float(x);
  return call1("complex", {real, call1("zeros_like", {real})});
}
Tensor conjugate(const Tensor& x) { return is_complex(x.dtype()) ? call1("conj_physical", {x}) : x; }

// Cut or filled with zeros to `length` along `dim`.
Tensor resized(const Tensor& x, int64_t dim, const Expr& length) {
  return length == size_at(x, dim) ? x : pad_dim(x, dim, 0, length - size_at(x, dim));
}

struct Transform {
  Tensor x;
  Ints dims;
  std::vector<Expr> lengths;  // of each dimension
};

// Parameters n and dim.
Transform one_dimension(const CallReader& c) {
  Tensor x = as_float(c.tensor("self"));
  int64_t dim = dim_of(c, "dim", x);
  return {x, {dim}, {c.has("n") ? c.expr("n") : size_at(x, dim)}};
}

// Parameters s and dim: the dimensions named, or the last ones that s has lengths for, or all.
Transform dimensions(const CallReader& c) {
  Transform t{as_float(c.tensor("self")), {}, {}};
  auto lengths = c.exprs("s");
  if (c.has("dim"))
    t.dims = dims_of(c, "dim", t.x);
  else
    for (int64_t d = c.has("s") ? t.x.dim() - static_cast<int64_t>(lengths.size()) : 0; d < t.x.dim(); ++d) t.dims.push_back(d);
  TOROID_USER_CHECK(!c.has("s") || lengths.size() == t.dims.size(), "{}: {} lengths for {} dimensions", c.op().name, lengths.size(),
                    t.dims.size());
  for (size_t i = 0; i < t.dims.size(); ++i)
    t.lengths.push_back(c.has("s") && !(lengths[i] == Expr(-1)) ? lengths[i] : size_at(t.x, t.dims[i]));
  return t;
}

Tensor complex_transform(const CallReader& c, Transform t, bool inverse) {
  for (size_t i = 0; i < t.dims.size(); ++i) t.x = resized(t.x, t.dims[i], t.lengths[i]);
  return call1("_fft_c2c", {as_complex(t.x), nums(t.dims), num(mode_of(c, inverse)), !inverse});
}

Tensor from_real(const CallReader& c, Transform t, bool inverse) {
  TOROID_USER_CHECK(!is_complex(t.x.dtype()), "{}: expected real numbers, got {}", c.op().name, name_of(t.x.dtype()));
  for (size_t i = 0; i < t.dims.size(); ++i) t.x = resized(t.x, t.dims[i], t.lengths[i]);
  Tensor out = call1("_fft_r2c", {t.x, nums(t.dims), num(mode_of(c, inverse)), true});
  return inverse ? conjugate(out) : out;
}

// The last dimension has half of the numbers; `given`: its length was named.
Tensor to_real(const CallReader& c, Transform t, bool given, bool inverse) {
  TOROID_USER_CHECK(!t.dims.empty(), "{}: expected at least one dimension to transform, got none", c.op().name);
  Tensor x = as_complex(inverse ? t.x : conjugate(t.x));
  Expr& last = t.lengths.back();
  if (!given) last = 2 * (last - 1);
  for (size_t i = 0; i + 1 < t.dims.size(); ++i) x = resized(x, t.dims[i], t.lengths[i]);
  x = resized(x, t.dims.back(), sym::floor_div(last, 2) + 1);
  return call1("_fft_c2r", {x, nums(t.dims), num(mode_of(c, inverse)), last});
}
bool names_last(const CallReader& c) {
  const auto lengths = c.exprs("s");
  return !lengths.empty() && !(lengths.back() == Expr(-1));
}

// Moves the middle to the front, or back.
Results shifted(const CallReader& c, bool back) {
  Tensor x = c.tensor("self");
  Ints dims = dims_of(c, "dim", x);
  if (dims.empty())
    for (int64_t d = 0; d < x.dim(); ++d) dims.push_back(d);
  for (int64_t d : dims) {
    Expr half = sym::floor_div(size_at(x, d) + (back ? 1 : 0), 2);
    x = call1("cat", {Results{slice(x, d, size_at(x, d) - half, size_at(x, d)), slice(x, d, 0, size_at(x, d) - half)}, num(d)});
  }
  return {x};
}

int64_t hop_of(const CallReader& c, int64_t n_fft) { return c.has("hop_length") ? c.integer("hop_length") : n_fft / 4; }

// A window of n_fft elements: zeros around the given one.
Tensor window_of(const CallReader& c, int64_t n_fft, DType dtype) {
  int64_t length = c.has("win_length") ? c.integer("win_length") : n_fft;
  TOROID_USER_CHECK(length > 0 && length <= n_fft, "{}: win_length is {}; expected 1 to n_fft = {}", c.op().name, length, n_fft);
  Tensor window = c.has("window") ? c.tensor("window") : full({Expr(length)}, 1, dtype);
  int64_t before = (n_fft - length) / 2;
  return pad_dim(window, 0, before, n_fft - length - before);
}

Results stft(const CallReader& c) {
  Tensor x = as_float(c.tensor("self"));
  const bool batched = x.dim() == 2;
  TOROID_USER_CHECK(batched || x.dim() == 1, "stft: expected one or two dimensions, got {}", x.dim());
  if (!batched) x = unsqueeze(x, 0);
  int64_t n_fft = c.integer("n_fft");
  if (c.op().schema.find("center") >= 0 && c.flag("center")) {
    Tensor padded = call1("pad", {unsqueeze(x, 0), nums({n_fft / 2, n_fft / 2}), c.text("pad_mode")});
    x = call1("squeeze.dim", {padded, num(0)});
  }
  const bool real = !is_complex(x.dtype()), onesided = c.has("onesided") ? c.flag("onesided") : real;
  Tensor frames = call1("unfold", {x, num(-1), num(n_fft), num(hop_of(c, n_fft))});
  frames = mul(frames, window_of(c, n_fft, real ? x.dtype() : DType::F32));
  Arg<Tensor> mode = num(c.flag("normalized") ? kByRoot : kPlain);
  Tensor out = is_complex(frames.dtype()) ? call1("_fft_c2c", {frames, nums({2}), mode, true})
                                          : call1("_fft_r2c", {frames, nums({2}), mode, onesided});
  out = call1("transpose.int", {out, num(1), num(2)});
  if (!batched) out = call1("squeeze.dim", {out, num(0)});
  return {c.flag("return_complex") ? out : call1("view_as_real", {call1("contiguous", {out})})};
}

// Frames [batch, n_fft, count], each added `hop` after the one before.
Tensor overlapped(const Tensor& frames, int64_t n_fft, int64_t hop) {
  Expr length = (size_at(frames, 2) - 1) * Expr(hop) + Expr(n_fft);
  Tensor out = call1("col2im", {frames, Sizes{Expr(1), length}, nums({1, n_fft}), nums({1, 1}), nums({0, 0}), nums({1, hop})});
  return view(out, {size_at(frames, 0), length});
}

Results istft(const CallReader& c) {
  TOROID_USER_CHECK(!c.flag("return_complex"), "istft: complex results are not supported");
  Tensor x = c.tensor("self");
  const bool batched = x.dim() == 3;
  TOROID_USER_CHECK(is_complex(x.dtype()) && (batched || x.dim() == 2), "istft: expected complex numbers of two or three dimensions");
  if (!batched) x = unsqueeze(x, 0);
  int64_t n_fft = c.integer("n_fft"), hop = hop_of(c, n_fft);
  TOROID_USER_CHECK(!c.has("onesided") || c.flag("onesided"), "istft: two-sided spectra are not supported; pass the first half");
  x = call1("transpose.int", {x, num(1), num(2)});
  Tensor frames = call1("_fft_c2r", {x, nums({2}), num(c.flag("normalized") ? kByRoot : kByLength), Expr(n_fft)});
  Tensor window = window_of(c, n_fft, frames.dtype());
  Tensor sum = overlapped(call1("transpose.int", {mul(frames, window), num(1), num(2)}), n_fft, hop);
  Tensor squares = expand(view(mul(window, window), {1, n_fft, 1}), {1, n_fft, size_at(frames, 1)});
  Tensor weight = overlapped(squares, n_fft, hop);
  Expr start = c.flag("center") ? n_fft / 2 : 0, end = size_at(sum, 1);
  if (c.has("length"))
    end = sym::min(start + c.expr("length"), end);
  else if (c.flag("center"))
    end = end - n_fft / 2;
  const Tensor divisor = slice(weight, 1, start, end);
  Tensor out = div(slice(sum, 1, start, end), divisor);
  if (c.has("length")) out = resized(out, 1, c.expr("length"));
  return {batched ? out : call1("squeeze.dim", {out, num(0)})};
}

}  // namespace

void add_fft_composite_rows(Table& t) {
  const std::string one = "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor";
  t.composite("fft_fft" + one, [](const CallReader& c) -> Results { return {complex_transform(c, one_dimension(c), false)}; });
  t.composite("fft_ifft" + one, [](const CallReader& c) -> Results { return {complex_transform(c, one_dimension(c), true)}; });
  t.composite("fft_rfft" + one, [](const CallReader& c) -> Results { return {from_real(c, one_dimension(c), false)}; });
  t.composite("fft_ihfft" + one, [](const CallReader& c) -> Results { return {from_real(c, one_dimension(c), true)}; });
  t.composite("fft_irfft" + one, [](const CallReader& c) -> Results { return {to_real(c, one_dimension(c), c.has("n"), true)}; });
  t.composite("fft_hfft" + one, [](const CallReader& c) -> Results { return {to_real(c, one_dimension(c), c.has("n"), false)}; });
  for (std::string suffix : {"2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor",
                             "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"}) {
    t.composite("fft_fft" + suffix, [](const CallReader& c) -> Results { return {complex_transform(c, dimensions(c), false)}; });
    t.composite("fft_ifft" + suffix, [](const CallReader& c) -> Results { return {complex_transform(c, dimensions(c), true)}; });
    t.composite("fft_rfft" + suffix, [](const CallReader& c) -> Results { return {from_real(c, dimensions(c), false)}; });
    t.composite("fft_ihfft" + suffix, [](const CallReader& c) -> Results { return {from_real(c, dimensions(c), true)}; });
    t.composite("fft_irfft" + suffix, [](const CallReader& c) -> Results { return {to_real(c, dimensions(c), names_last(c), true)}; });
    t.composite("fft_hfft" + suffix, [](const CallReader& c) -> Results { return {to_real(c, dimensions(c), names_last(c), false)}; });
  }
  t.composite("fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", [](const CallReader& c) { return shifted(c, false); });
  t.composite("fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", [](const CallReader& c) { return shifted(c, true); });
  t.composite(
      "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? "
      "onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
      stft);
  t.composite(
      "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str "
      "pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
      stft);
  t.composite(
      "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool "
      "normalized=False, bool? onesided=None, SymInt? length=None, bool return_complex=False) -> Tensor",
      istft);
}

}  // namespace toroid::ops
