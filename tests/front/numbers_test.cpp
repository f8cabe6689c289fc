// What C++ has of numbers goes into tensors and comes out of them: vectors, sizes, indices, elements.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <sstream>

#include "errors.h"
#include "toroid/toroid.h"

namespace toroid {
namespace {

using test::contains;
using test::error_of;

template <class T>
void round_trip(DType dtype, const std::vector<T>& values) {
  const Tensor t = Tensor::from_vector(values);
  EXPECT_EQ(t.dtype(), dtype);
  EXPECT_EQ(t.sizes(), (std::vector<int64_t>{static_cast<int64_t>(values.size())}));
  EXPECT_EQ(t.template to_vector<T>(), values);
  EXPECT_EQ(t[-1].template item<T>(), static_cast<T>(values.back()));
}

TEST(Numbers, VectorsKeepTheirTypes) {
  round_trip<float>(DType::F32, {1.5f, -0.0f, std::numeric_limits<float>::infinity()});
  round_trip<double>(DType::F64, {0.1, 1e300});
  round_trip<bool>(DType::Bool, {true, false, true});
  round_trip<int8_t>(DType::I8, {-128, 127});
  round_trip<int16_t>(DType::I16, {-32768, 5});
  round_trip<int>(DType::I32, {INT32_MIN, 5});
  round_trip<long long>(DType::I64, {INT64_MIN, INT64_MAX, (int64_t{1} << 53) + 1});
  round_trip<uint8_t>(DType::U8, {0, 255});
  round_trip<uint16_t>(DType::U16, {65535});
  round_trip<unsigned>(DType::U32, {4294967295u});
  round_trip<size_t>(DType::U64, {UINT64_MAX, 7});
  round_trip<std::complex<float>>(DType::C64, {{1, 2}, {3, -4}});
  round_trip<std::complex<double>>(DType::C128, {{1, 2}});
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(Tensor::from_vector(six, {six.size() / 3, size_t{3}}).sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(contains(error_of<UserError>([&] { Tensor::from_vector(six, {2, 2}); }), "6 numbers were given for a tensor of 4 elements"));
}

TEST(Numbers, ThatATypeHasNotAreRefused) {
  const Tensor x = Tensor::of({1, 1.5, 300, -1}, {4}, DType::F64);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1.5, 300, -1}));
  EXPECT_TRUE(contains(error_of<UserError>([&] { x.to_vector<int>(); }), "element 1 is 1.5, which that type has not"));
  EXPECT_EQ(x[2].item<int16_t>(), 300);
  EXPECT_TRUE(contains(error_of<UserError>([&] { x[2].item<uint8_t>(); }), "item<uint8_t>(): element 0 is 300"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { x[3].item<unsigned>(); }), "which that type has not"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { x.item<int>(); }), "item<int32_t>() of a tensor of 4 elements"));
  EXPECT_EQ(x[0].item<bool>(), true);
  const Tensor wide = Tensor::from_vector(std::vector<uint64_t>{UINT64_MAX});
  EXPECT_TRUE(contains(error_of<UserError>([&] { wide.item<int64_t>(); }), "which that type has not"));
  EXPECT_TRUE(
      contains(error_of<UserError>([&] { Tensor::from_vector(std::vector<int64_t>{-1}).item<uint64_t>(); }), "which that type has not"));
  EXPECT_EQ(wide.to_vector(), (std::vector<double>{0x1p64}));
  EXPECT_EQ(wide.item<float>(), 0x1p64f);
  EXPECT_EQ(Tensor::of({0x1p63}, {1}, DType::U64).item<uint64_t>(), uint64_t{1} << 63);
  EXPECT_TRUE(contains(error_of<UserError>([&] { Tensor::of({-1}, {1}, DType::U64); }), "u64 has no room for -1"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { Tensor::of({1.7}, {1}, DType::I64); }), "i64 has no room for 1.7"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { Tensor::of({300}, {1}, DType::U8); }), "u8 has no room for 300"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { Tensor::of({NAN}, {1}, DType::I32); }), "i32 has no room for nan"));
  EXPECT_TRUE(contains(error_of<UserError>([&] { zeros({UINT64_MAX, 2}); }), "18446744073709551615 is no size and no index"));
}

TEST(Numbers, OfAnyIntegerTypeAreSizesAndOperands) {
  const std::vector<float> v = {1, 2, 3};
  const size_t n = v.size();
  const long long two = 2;
  const unsigned one = 1;
  const uint8_t byte = 4;
  EXPECT_EQ(zeros({n, two, one}).sizes(), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(zeros(n).sizes(), (std::vector<int64_t>{3}));
  EXPECT_EQ(Tensor::empty({n, byte}, DType::F32).sizes(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(Tensor::full({n}, 2.5).to_vector<float>(), (std::vector<float>{2.5, 2.5, 2.5}));
  const Tensor x = Tensor::from_vector(v);
  EXPECT_EQ((x + n).to_vector<float>(), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ((two * x - one).to_vector<float>(), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(select(x, 0, n - 1).item<float>(), 3);
  EXPECT_EQ(reshape(x, std::vector<size_t>{1, n}).sizes(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(x.size(0) + n, SymInt(6));
  EXPECT_EQ(sum(zeros({2, n}), n - 2).sizes(), (std::vector<int64_t>{2}));
}

TEST(Numbers, IndicesAndConversionsAreTraced) {
  const auto fn = [](const Tensor& x) { return x[1][-1].to(DType::F64) + x[0].to(DType::I64); };
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(fn(x).to_vector(), (std::vector<double>{7, 8, 9}));
  auto fast = compile(fn);
  EXPECT_EQ(fast(x).to_vector(), (std::vector<double>{7, 8, 9}));
  EXPECT_EQ(fast.report().compiles, 1);
  EXPECT_TRUE(contains(error_of<UserError>([&] { x[2]; }), "numbers_test.cpp"));
}

TEST(Numbers, AreShown) {
  std::ostringstream text;
  text << Tensor::of({1, 2}, {2}, DType::I32);
  EXPECT_EQ(text.str(), to_string(Tensor::of({1, 2}, {2}, DType::I32)));
  EXPECT_TRUE(contains(text.str(), "i32"));
}

}  // namespace
}  // namespace toroid
