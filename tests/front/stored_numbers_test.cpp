// Numbers that operations take: integers arrive as they are, and what a dtype has no room for is refused; eagerly and compiled.
#include <cmath>
#include <limits>

#include "errors.h"
#include "front/harness.h"

namespace toroid {
namespace {

using test::by_reference;
using test::contains;
using test::user_error;

constexpr int64_t kBeyondDouble = (int64_t{1} << 53) + 1;
constexpr int64_t kNumbers[] = {INT64_MAX, INT64_MIN + 1, kBeyondDouble, -kBeyondDouble};

Tensor ids() { return Tensor::of({1, 5, 9}, {3}, DType::I64); }
Tensor at_0() { return Tensor::of({0}, {1}, DType::I64); }

struct Use {
  const char* name;
  // The first element of its result is the number.
  Tensor (*call)(const Tensor& x, int64_t n);
};
#define USE(...) \
  { \
#__VA_ARGS__, [](const Tensor& x, int64_t n) -> Tensor { (void)x; return __VA_ARGS__; } \
  }
const Use kUses[] = {
    USE(full({2}, n, DType::I64)),
    USE(full_like(x, n)),
    USE(new_full(x, {2}, n)),
    USE(scalar_tensor(n, DType::I64)),
    USE(fill_(clone(x), n)),
    USE(fill(x, n)),
    USE(masked_fill(x, x < 5, n)),
    USE(masked_fill_(clone(x), x < 5, n)),
    USE(where(x < 5, n, x)),
    USE(where(x > 5, x, n)),
    USE(clamp(x, n, n)),
    USE(clamp_(clone(x), n, n)),
    USE(clip(x, n, n)),
    USE(hardtanh(x, n, n)),
    USE(clamp_min(clamp_max(x, n), n)),
    USE(threshold(x, 6, n)),
    USE(index_fill(x, 0, at_0(), n)),
    USE(scatter(x, 0, at_0(), n)),
    USE(constant_pad_nd(x, {1, 0}, n)),
    USE(index_put(x, {at_0()}, n)),
    USE(index_put_(clone(x), {at_0()}, n)),
    USE(add(zeros_like(x), ones_like(x), n)),
    USE(add_(zeros_like(x), ones_like(x), n)),
    USE(-sub(zeros_like(x), ones_like(x), n)),
    USE(-sub_(zeros_like(x), ones_like(x), n)),
    USE(-rsub(ones_like(x), zeros_like(x), n)),
    USE(addcmul(zeros_like(x), ones_like(x), ones_like(x), n)),
    USE(addcmul_(zeros_like(x), ones_like(x), ones_like(x), n)),
    USE(addmm(zeros({1, 1}, DType::I64), ones({1, 1}, DType::I64), ones({1, 1}, DType::I64), 1, n)),
    USE(addmm(ones({1, 1}, DType::I64), zeros({1, 1}, DType::I64), ones({1, 1}, DType::I64), n)),
    USE(baddbmm(zeros({1, 1, 1}, DType::I64), ones({1, 1, 1}, DType::I64), ones({1, 1, 1}, DType::I64), 1, n)),
    USE(addmv(zeros({1}, DType::I64), ones({1, 1}, DType::I64), ones({1}, DType::I64), 1, n)),
    USE(addr(zeros({1, 1}, DType::I64), ones({1}, DType::I64), ones({1}, DType::I64), 1, n)),
    USE(index_add(zeros_like(x), 0, at_0(), Tensor::full({1}, n, DType::I64))),
    USE(zeros_like(x) + n),
    USE(n + zeros_like(x)),
    USE(ones_like(x) * n),
    USE(n - zeros_like(x)),
    USE(bitwise_or(zeros_like(x), n)),
    USE(full_like(x, n) % (n == INT64_MAX ? n - 1 : n + 1) + (n == INT64_MAX ? n - 1
                                                              : n < 0        ? n - n
                                                                             : 0)),
    USE(arange(n, n + (n == INT64_MAX ? 0 : 1)).numel() ? arange(n, n + 1) : full({1}, n, DType::I64)),
};
#undef USE

TEST(StoredNumbers, IntegersAreExact) {
  for (const Use& use : kUses)
    for (int64_t n : kNumbers) {
      if (contains(use.name, "% (") && n < 0) continue;
      const Tensor eager = use.call(ids(), n);
      ASSERT_EQ(eager.dtype(), DType::I64) << use.name;
      EXPECT_EQ(eager.to_vector<int64_t>().at(0), n) << use.name << " of " << n;
      const auto compiled = compile([&](const Tensor& x) { return use.call(x, n); });
      EXPECT_EQ(compiled(ids()).to_vector<int64_t>(), eager.to_vector<int64_t>()) << "compiled: " << use.name << " of " << n;
    }
  EXPECT_EQ(Tensor::full({1}, INT64_MAX, DType::I64).item<int64_t>(), INT64_MAX);
  EXPECT_EQ(min(masked_fill(ids(), ids() < 5, INT64_MAX)).item<int64_t>(), 5);
}

struct Refusal {
  DType dtype;
  std::variant<int64_t, double> number;
  const char* text;
};
const Refusal kRefusals[] = {
    {DType::U8, int64_t{300}, "u8 has no room for 300"},
    {DType::U8, int64_t{-256}, "u8 has no room for -256"},
    {DType::U8, -1.0, "u8 has no room for -1"},
    {DType::I8, int64_t{-129}, "i8 has no room for -129"},
    {DType::I32, 3e9, "i32 has no room for 3000000000"},
    {DType::I32, int64_t{1} << 31, "i32 has no room for 2147483648"},
    {DType::I64, 1e19, "i64 has no room for 1e+19"},
    {DType::I64, std::numeric_limits<double>::quiet_NaN(), "i64 has no room for nan"},
    {DType::I64, std::numeric_limits<double>::infinity(), "i64 has no room for inf"},
    {DType::I16, -std::numeric_limits<double>::infinity(), "i16 has no room for -inf"},
};

TEST(StoredNumbers, WhatTheDtypeHasNoRoomForIsRefused) {
  const std::pair<const char*, Tensor (*)(const Tensor&, const Operand&)> uses[] = {
      {"full", [](const Tensor& x, const Operand& n) { return full({2}, n, x.dtype()); }},
      {"full_like", [](const Tensor& x, const Operand& n) { return full_like(x, n); }},
      {"new_full", [](const Tensor& x, const Operand& n) { return new_full(x, {2}, n); }},
      {"scalar_tensor", [](const Tensor& x, const Operand& n) { return scalar_tensor(n, x.dtype()); }},
      {"fill_", [](const Tensor& x, const Operand& n) { return fill_(clone(x), n); }},
      {"masked_fill", [](const Tensor& x, const Operand& n) { return masked_fill(x, x < 5, n); }},
      {"masked_fill_", [](const Tensor& x, const Operand& n) { return masked_fill_(clone(x), x < 5, n); }},
      {"threshold", [](const Tensor& x, const Operand& n) { return threshold(x, 6, n); }},
      {"index_fill", [](const Tensor& x, const Operand& n) { return index_fill(x, 0, at_0(), n); }},
      {"scatter", [](const Tensor& x, const Operand& n) { return scatter(x, 0, at_0(), n); }},
      {"constant_pad_nd",
       [](const Tensor& x, const Operand& n) {
         return constant_pad_nd(x, {1, 0}, n);
       }},
      {"index_put_", [](const Tensor& x, const Operand& n) { return index_put_(clone(x), {at_0()}, n); }},
  };
  for (const Refusal& r : kRefusals) {
    const Operand n = r.number.index() == 0 ? Operand(std::get<0>(r.number)) : Operand(std::get<1>(r.number));
    const Tensor x = ids().to(r.dtype);
    for (const auto& [name, call] : uses) {
      const std::string eager = user_error([&] { call(x, n); });
      EXPECT_TRUE(contains(eager, r.text)) << name << ": " << eager;
      const auto compiled = compile([&, call = call](const Tensor& t) { return call(t, n); }, by_reference());
      const std::string traced = user_error([&] { compiled(x); });
      EXPECT_TRUE(contains(traced, r.text)) << "compiled " << name << ": " << traced;
    }
    if (r.number.index() == 0) {
      const auto whole = std::get<0>(r.number);
      EXPECT_TRUE(contains(user_error([&] { where(x < 5, x, n); }), r.text));
      EXPECT_TRUE(contains(user_error([&] { add(x, x, n); }), r.text));
      EXPECT_TRUE(contains(user_error([&] { addcmul(x, x, x, n); }), r.text));
      EXPECT_TRUE(contains(user_error([&] { Tensor::full({2}, whole, r.dtype); }), r.text));
    } else {
      EXPECT_TRUE(contains(user_error([&] { Tensor::full({2}, std::get<1>(r.number), r.dtype); }), r.text));
    }
  }
  // As PyTorch: the negatives of unsigned numbers, what is behind the point, and all floats and truths.
  EXPECT_EQ(full({1}, -1, DType::U8).item(), 255);
  EXPECT_EQ(full({1}, 2.7, DType::I64).item(), 2);
  EXPECT_EQ(full({1}, 300, DType::Bool).item(), 1);
  EXPECT_TRUE(std::isinf(full({1}, 1e6, DType::F16).item()));
  EXPECT_EQ(where(ids() < 5, ids().to(DType::I8), 300.5).dtype(), DType::F32);
  EXPECT_TRUE(contains(user_error([] { add(ids(), ids(), 1.5); }), "\"alpha\" is 1.5"));
}

TEST(StoredNumbers, LimitsBeyondTheDtypeLimitNothing) {
  const Tensor x = Tensor::of({100, -100, 1}, {3}, DType::I8), u = Tensor::of({255, 0, 7}, {3}, DType::U8);
  const std::pair<Tensor, Tensor (*)(const Tensor&)> same[] = {
      {x, [](const Tensor& t) { return clamp(t, -300, 300); }},       {x, [](const Tensor& t) { return clamp(t, std::nullopt, 300); }},
      {x, [](const Tensor& t) { return hardtanh(t, -129, 128); }},    {u, [](const Tensor& t) { return clamp(t, -1, 300); }},
      {u, [](const Tensor& t) { return clamp_(clone(t), -5, 256); }},
  };
  for (const auto& [t, limited] : same) {
    EXPECT_EQ(limited(t).to_vector(), t.to_vector());
    EXPECT_EQ(compile([&, f = limited](const Tensor& a) { return f(a); }, by_reference())(t).to_vector(), t.to_vector());
  }
  EXPECT_TRUE(contains(user_error([&] { clamp(x, 300, 400); }), "\"min\" is 300, beyond all numbers of i8"));
  EXPECT_TRUE(contains(user_error([&] { clamp(u, std::nullopt, -1); }), "\"max\" is -1, beyond all numbers of u8"));
}

TEST(StoredNumbers, DtypesFollowTheNumbers) {
  const Tensor i = ids(), b = i > 4;
  EXPECT_EQ(clamp(i, 0, INT64_MAX).dtype(), DType::I64);
  EXPECT_EQ(clamp(i, 0, 2.5).dtype(), DType::F32);
  EXPECT_EQ(clamp(b, 2, 5).dtype(), DType::I64);
  EXPECT_EQ(clamp(b, 2, 5).to_vector(), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(addcmul(i, i, i).dtype(), DType::I64);
  EXPECT_EQ(addcmul(i, i, i, 1.5).to_vector(), (std::vector<double>{2, 30, 90}));  // as PyTorch: the factor loses its half
  EXPECT_EQ(full({2}, 7).dtype(), DType::F32);
  EXPECT_EQ(masked_fill(i.to(DType::F16), b, 3).dtype(), DType::F16);
  EXPECT_EQ(add(i.to(DType::F32), i.to(DType::F32), 2).to_vector(), (std::vector<double>{3, 15, 27}));
}

// A size that is open is a number, too.
TEST(StoredNumbers, OpenSizesAreTaken) {
  const auto f = compile([](const Tensor& x) {
    const SymInt n = x.size(0);
    return std::vector<Tensor>{full({2}, n, DType::I64), masked_fill(x, x < 1, n),  clamp(x, std::nullopt, n),
                               fill_(clone(x), n),       index_put(x, {at_0()}, n), full({1}, n)};
  });
  for (int64_t n : {3, 4, 5, 6}) {
    const auto got = f(arange(n) * 3);
    EXPECT_EQ(got[0].to_vector()[0], static_cast<double>(n));
    EXPECT_EQ(got[1].to_vector()[0], static_cast<double>(n));
    EXPECT_EQ(max(got[2]).item(), static_cast<double>(n));
    for (int k : {3, 4, 5}) EXPECT_EQ(got[static_cast<size_t>(k)].to_vector()[0], static_cast<double>(n)) << k;
  }
}

}  // namespace
}  // namespace toroid
