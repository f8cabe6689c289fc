#include "codegen/cpu/packings.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cpu/templates/gemm_int8.h"
#include "codegen/cpu/templates/gemm_pack.h"

namespace toroid::codegen {
namespace {

template <class V>
void numbers(V& v, GemmPacking& p) {
  v(p.k), v(p.n), v(p.row), v(p.column), v(p.offset), v(p.panel), v(p.type), v(p.packed_type);
}

template <class V>
void numbers(V& v, Int8Packing& p) {
  v(p.k), v(p.n), v(p.row), v(p.column), v(p.offset), v(p.panel), v(p.more);
}

template <class V>
void numbers(V& v, ConvShape& s) {
  v(s.channels), v(s.height), v(s.width), v(s.out_channels), v(s.kernel_h), v(s.kernel_w), v(s.stride_h), v(s.stride_w);
  v(s.dilation_h), v(s.dilation_w), v(s.pad_top), v(s.pad_left), v(s.pad_bottom), v(s.pad_right), v(s.groups);
}

template <class V, class Tile>
void tile_numbers(V& v, Tile& t) {
  v(t.lanes);
  fields(t, [&](const char*, auto& x, auto&&) { v(x); });
}

template <class V>
void numbers(V& v, ConvPacking& p) {
  v(p.kind), numbers(v, p.shape), v(p.input), v(p.input_type), v(p.zero), v(p.offset);
  for (int64_t& s : p.strides) v(s);
  if (p.kind == ConvPacking::Winograd)
    tile_numbers(v, p.winograd);
  else if (p.kind == ConvPacking::Int8)
    tile_numbers(v, p.int8);
  else
    tile_numbers(v, p.tile);
}

template <class P>
std::vector<int64_t> numbers_of(P p) {
  std::vector<int64_t> out;
  const auto write = [&](auto& x) { out.push_back(static_cast<int64_t>(x)); };
  numbers(write, p);
  return out;
}

template <class P>
P of_numbers(const Packing& how) {
  P p;
  size_t next = 0;
  const auto read = [&]<class T>(T& x) {
    TOROID_USER_CHECK(next < how.numbers.size(), "the packing \"{}\" lacks numbers after {}", how.name, next);
    x = static_cast<T>(how.numbers[next++]);
  };
  numbers(read, p);
  TOROID_USER_CHECK(next == how.numbers.size(), "the packing \"{}\" has {} numbers, expected {}", how.name, how.numbers.size(), next);
  return p;
}

constexpr const char* kConvNames[] = {"conv", "conv_depthwise_int8", "conv_int8", "winograd"};

const Tensor& only(const std::vector<Tensor>& from) {
  TOROID_USER_CHECK(from.size() == 1, "a constant is packed from one tensor, there are {}", from.size());
  return from[0];
}

// Parts of about so many numbers are packed by a thread at a time, so that one large weight is packed by all of them.
constexpr int64_t kColumnsPerJob = 1024, kWeightsPerJob = 1 << 18;

// The columns of a job: whole panels.
int64_t columns_of_job(int panel) { return std::max<int64_t>(kColumnsPerJob / panel, 1) * panel; }

ConvConfig config_of(const ConvPacking& p) {
  ConvConfig c;
  c.shape = p.shape, c.input = p.input, c.input_type = p.input_type, c.zero = p.zero, c.tile = p.tile;
  return c;
}

// The weights with their dimensions in this order, one after the other.
Tensor ordered(const ConvPacking& p, const Tensor& from, const std::array<size_t, 4>& order) {
  const ConvShape& s = p.shape;
  const int64_t oihw[] = {s.out_channels, s.channels / s.groups, s.kernel_h, s.kernel_w};
  std::vector<int64_t> sizes, strides;
  for (size_t d : order) sizes.push_back(oihw[d]), strides.push_back(p.strides[d]);
  return from.as_strided(sizes, strides, p.offset).contiguous();
}

// Fills `elements` by `parts` parts, `fill` a range of them.
Packed packed_in_parts(DType type, int64_t elements, int64_t parts, const std::function<void(std::byte*, int64_t, int64_t)>& fill) {
  Packed out{Tensor::empty({elements}, type), {}};
  const int64_t step = std::max<int64_t>(parts * kWeightsPerJob / std::max<int64_t>(elements, 1), 1);
  for (int64_t first = 0; first < parts; first += step)
    out.jobs.push_back([fill, to = out.tensor, first, last = std::min(first + step, parts)] { fill(to.raw_data(), first, last); });
  return out;
}

constexpr std::array<size_t, 4> kOihw = {0, 1, 2, 3}, kOhwi = {0, 2, 3, 1};

Packed pack_direct(const ConvPacking& p, const Tensor& from) {
  const ConvConfig c = config_of(p);
  return packed_in_parts(DType::F32, conv_packed_elements(c), conv_pack_jobs(c),
                         [c, w = ordered(p, from, kOihw)](std::byte* to, int64_t first, int64_t last) {
                           pack_conv_weights(c, w.data<float>(), reinterpret_cast<float*>(to), first, last);
                         });
}

Packed pack_depthwise_int8(const ConvPacking& p, const Tensor& from) {
  const ConvConfig c = config_of(p);
  return packed_in_parts(DType::I32, conv_packed_elements(c), 1, [c, w = ordered(p, from, kOihw)](std::byte* to, int64_t, int64_t) {
    pack_depthwise_weights(c, w.data<int8_t>(), reinterpret_cast<int32_t*>(to));
  });
}

Packed pack_int8_convolution(const ConvPacking& p, const Tensor& from) {
  return packed_in_parts(DType::I8, conv_int8_packed_bytes(p.shape, p.int8), p.shape.groups,
                         [c = config_of(p), tile = p.int8, w = ordered(p, from, kOhwi)](std::byte* to, int64_t first, int64_t last) {
                           for (int64_t group = first; group < last; ++group) pack_conv_int8_weights(c, tile, w.data<int8_t>(), group, to);
                         });
}

Packed pack_winograd(const ConvPacking& p, const Tensor& from) {
  return packed_in_parts(DType::F32, winograd_packed_elements(p.shape, p.winograd), winograd_pack_jobs(p.shape, p.winograd),
                         [shape = p.shape, tile = p.winograd, w = ordered(p, from, kOihw)](std::byte* to, int64_t first, int64_t last) {
                           pack_winograd_weights(shape, tile, w.data<float>(), reinterpret_cast<float*>(to), first, last);
                         });
}

}  // namespace

Packing packing_of(const GemmPacking& how) { return {"gemm", numbers_of(how)}; }
Packing packing_of(const Int8Packing& how) { return {"gemm_int8", numbers_of(how)}; }
Packing packing_of(const ConvPacking& how) { return {kConvNames[how.kind], numbers_of(how)}; }

bool is_conv_packing(const Packing& how) { return std::ranges::count(kConvNames, how.name) > 0; }

Packed pack_gemm(const Packing& how, const std::vector<Tensor>& from) {
  const auto p = of_numbers<GemmPacking>(how);
  Packed out{Tensor::empty({packed_b_elements(p.k, p.n, p.panel)}, p.packed_type), {}};
  const int64_t step = columns_of_job(p.panel), element = static_cast<int64_t>(size_of(p.type));
  int64_t begin = 0;
  for (const Tensor& source : from) {
    const int64_t end = from.size() == 1 ? p.n : begin + source.sizes()[0];
    for (int64_t first = begin; first < end; first += step)
      out.jobs.push_back([=, to = out.tensor] {
        pack_b(source.raw_data() + (p.offset + (first - begin) * p.column) * element, p.type, p.k, std::min(step, end - first), p.row,
               p.column, p.panel, to.raw_data() + packed_b_elements(p.k, first, p.panel) * static_cast<int64_t>(size_of(p.packed_type)),
               p.packed_type);
      });
    begin = end;
  }
  return out;
}

Packed pack_gemm_int8(const Packing& how, const std::vector<Tensor>& from) {
  const auto p = of_numbers<Int8Packing>(how);
  Packed out{Tensor::empty({packed_int8_bytes(p.k, p.n, p.panel)}, DType::I8), {}};
  const int64_t step = columns_of_job(p.panel);
  for (int64_t first = 0; first < p.n; first += step)
    out.jobs.push_back([=, source = only(from), to = out.tensor] {
      pack_int8(reinterpret_cast<const int8_t*>(source.raw_data()) + p.offset + first * p.column, p.k, std::min(step, p.n - first), p.row,
                p.column, p.panel, p.more, to.raw_data() + packed_int8_bytes(p.k, first, p.panel));
    });
  return out;
}

Packed pack_conv(const Packing& how, const std::vector<Tensor>& from) {
  const auto p = of_numbers<ConvPacking>(how);
  switch (p.kind) {
    case ConvPacking::Direct:
      return pack_direct(p, only(from));
    case ConvPacking::DepthwiseInt8:
      return pack_depthwise_int8(p, only(from));
    case ConvPacking::Int8:
      return pack_int8_convolution(p, only(from));
    case ConvPacking::Winograd:
      return pack_winograd(p, only(from));
  }
  fail<UserError>("{} is no kind of packing of convolutions", static_cast<int>(p.kind));
}

}  // namespace toroid::codegen
