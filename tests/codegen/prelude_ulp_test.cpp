#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "base/special_math.h"
#include "codegen/prelude/prelude.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/isa.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/jit.h"
#include "toroid/error.h"

namespace toroid::codegen {
namespace {

struct Machine {
  const char* isa;
  int lanes;
};

// The widest vectors that this processor has.
Machine machine() { return device::isa_from_name("avx512") <= device::host().isa ? Machine{"avx512", 16} : Machine{"avx2", 8}; }

std::shared_ptr<const device::LoadedCode> build(const std::string& source, const char* isa) {
  jit::Artefact artefact = jit::KernelCompiler(nullptr).compile({source, isa, 1, false});
  return device::LoadedCode::load(artefact.object, device::runtime_symbols());
}

std::string prelude(const std::vector<std::string>& names, int lanes) {
  std::vector<std::string_view> views(names.begin(), names.end());
  return prelude_for(views, lanes);
}

// void v(const t*, const t*, t*, i64) over whole vectors and void s(...) over single elements.
template <class T>
std::string loops(const std::string& function, int lanes, int arity) {
  std::string t = sizeof(T) == 4 ? "f32" : "f64", text = prelude({"v_" + function + "_" + t, "s_" + function + "_" + t, "v_load_" + t,
                                                                  "s_load_" + t, "v_store_" + t, "s_store_" + t},
                                                                 lanes);
  for (char m : {'v', 's'}) {
    std::string p(1, m), second = arity == 2 ? ", " + p + "_load_" + t + "(b + i)" : "";
    text += "void " + p + "(const " + t + "* a, const " + t + "* b, " + t +
            "* y, i64 n) { for (i64 i = 0; i < n; i += " + std::to_string(m == 'v' ? lanes : 1) + ") " + p + "_store_" + t + "(y + i, " +
            p + "_" + function + "_" + t + "(" + p + "_load_" + t + "(a + i)" + second + ")); }\n";
  }
  return text;
}

// Distance in units of the last place of the exact result; an infinity counts as the next power of two.
template <class T>
double ulps(T got, long double want) {
  constexpr int kDigits = std::numeric_limits<T>::digits, kLow = std::numeric_limits<T>::min_exponent - kDigits;
  T rounded = static_cast<T>(want);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0;
  if (std::isnan(got) || std::isnan(rounded) || std::isinf(want)) return 1e30;
  long double value =
      std::isinf(got) ? std::copysign(std::ldexp(1.0L, std::numeric_limits<T>::max_exponent), static_cast<long double>(got)) : got;
  int exponent = 0;
  std::frexp(want, &exponent);
  return static_cast<double>(std::fabs(value - want) / std::ldexp(1.0L, std::max(exponent - kDigits, kLow)));
}

// All exponents and both signs with random mantissas, then values near one and special values.
template <class T>
std::vector<T> samples(size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> x;
  std::uniform_real_distribution<double> near(-20, 20);
  while (x.size() < count / 2) {
    T v;
    if constexpr (sizeof(T) == 4) {
      uint32_t bits = static_cast<uint32_t>(random());
      std::memcpy(&v, &bits, 4);
    } else {
      uint64_t bits = random();
      std::memcpy(&v, &bits, 8);
    }
    x.push_back(v);
  }
  while (x.size() < count - 16) x.push_back(static_cast<T>(near(random) * (x.size() % 2 ? 1 : 0.05)));
  constexpr T kInf = std::numeric_limits<T>::infinity();
  for (T v : {T(0), T(-0.0), kInf, -kInf, std::numeric_limits<T>::quiet_NaN(), T(1), T(-1), T(2), T(-2), T(0.5), T(-0.5), T(88.73), T(-104),
              std::numeric_limits<T>::max(), std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min()})
    x.push_back(v);
  return x;
}

using Exact = long double (*)(long double, long double);
struct Row {
  const char* name;
  int arity;
  double bound;
  Exact exact;
};

#define UNARY(name, bound) \
  { \
#name, 1, bound, [](long double x, long double) { return ::name##l(x); } \
  }
#define BINARY(name, bound) \
  { \
#name, 2, bound, [](long double x, long double y) { return ::name##l(x, y); } \
  }
const Row kF32[] = {
    UNARY(exp, 1),
    UNARY(exp2, 1),
    UNARY(expm1, 1.7),
    UNARY(log, 1),
    UNARY(log2, 1.1),
    UNARY(log10, 1.1),
    UNARY(log1p, 1.5),
    UNARY(sin, 1.7),
    UNARY(cos, 1.7),
    UNARY(tan, 0.51),
    UNARY(asin, 2),
    UNARY(acos, 1.2),
    UNARY(atan, 1.5),
    UNARY(sinh, 1.7),
    UNARY(cosh, 1.5),
    UNARY(tanh, 1.5),
    UNARY(asinh, 0.51),
    UNARY(acosh, 0.51),
    UNARY(atanh, 0.51),
    UNARY(erf, 1.2),
    UNARY(erfc, 0.51),
    UNARY(cbrt, 0.51),
    BINARY(pow, 0.51),
    BINARY(atan2, 1.7),
    BINARY(hypot, 0.51),
    BINARY(fmod, 0),
    {"erfinv", 1, 0.7, [](long double x, long double) -> long double { return find_special_unary("erfinv")(static_cast<double>(x)); }},
    {"sigmoid", 1, 2, [](long double x, long double) -> long double { return 1 / (1 + expl(-x)); }},
    {"rsqrt", 1, 1.5, [](long double x, long double) -> long double { return 1 / sqrtl(x); }},
    {"nextafter", 2, 0,
     [](long double x, long double y) -> long double { return nextafterf(static_cast<float>(x), static_cast<float>(y)); }}};
const Row kF64[] = {UNARY(exp, 1.2),  UNARY(expm1, 2.2),
                    UNARY(log, 1),    UNARY(log1p, 1.6),
                    UNARY(sin, 2.6),  UNARY(cos, 2.2),
                    UNARY(tanh, 2.8), {"sigmoid", 1, 2, [](long double x, long double) -> long double { return 1 / (1 + expl(-x)); }}};
#undef UNARY
#undef BINARY

// TOROID_ULP_SAMPLES: how many arguments, 100,000 unless said otherwise. The worst errors are properties in the report of the run
// (--gtest_output=xml); docs/math.md has those of 20 million.
template <class T>
void check(const Row& row) {
  Machine m = machine();
  auto code = build(loops<T>(row.name, m.lanes, row.arity), m.isa);
  const char* wanted = std::getenv("TOROID_ULP_SAMPLES");
  const size_t count = wanted ? std::strtoul(wanted, nullptr, 10) / 32 * 32 : 100000;
  auto a = samples<T>(count, 1), b = samples<T>(count, 2);
  std::vector<T> v(a.size()), s(a.size());
  using Loop = void(const T*, const T*, T*, long);
  code->template function<Loop>("v")(a.data(), b.data(), v.data(), long(a.size()));
  code->template function<Loop>("s")(a.data(), b.data(), s.data(), long(a.size()));
  double worst = 0;
  size_t at = 0, differ = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double u = ulps(v[i], row.exact(a[i], b[i]));
    if (u > worst) worst = u, at = i;
    differ += !(v[i] == s[i] || (std::isnan(v[i]) && std::isnan(s[i])));
  }
  testing::Test::RecordProperty(row.name, fmt::format("{:.2f}", worst));
  EXPECT_LE(worst, row.bound) << row.name << "(" << a[at] << ", " << b[at] << ") = " << v[at];
  EXPECT_EQ(differ, 0u) << row.name << ": vector and scalar form disagree";
}

TEST(PreludeUlp, F32) {
  for (const Row& row : kF32) check<float>(row);
}

TEST(PreludeUlp, F64) {
  for (const Row& row : kF64) check<double>(row);
}

// Rows over one value: one division a row.
TEST(PreludeUlp, QuotientsOfARow) {
  Machine m = machine();
  std::string text = prelude({"s_quotient_power_f32", "v_quotient_f32", "s_quotient_f32", "v_load_f32", "v_store_f32"}, m.lanes);
  for (std::string form : {"v", "s"})
    text += "void " + form + "(const f32* x, f32 d, f32* y, i64 n) { f32 power = s_quotient_power_f32(d), inverse = 1.0f / (d * power); " +
            "for (i64 i = 0; i < n; i += " + std::to_string(form == "v" ? m.lanes : 1) + ") " +
            (form == "v" ? "v_store_f32(y + i, v_quotient_f32(v_load_f32(x + i), inverse, power));"
                         : "y[i] = s_quotient_f32(x[i], inverse, power);") +
            " }\n";
  auto code = build(text, m.isa);
  using Loop = void(const float*, float, float*, long);
  const auto x = samples<float>(8192, 4);
  std::vector<float> v(x.size()), s(x.size());
  for (float d : samples<float>(400, 5)) {
    code->function<Loop>("v")(x.data(), d, v.data(), long(x.size()));
    code->function<Loop>("s")(x.data(), d, s.data(), long(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(ulps(v[i], static_cast<long double>(x[i]) / d), 1.5) << x[i] << " / " << d << " = " << v[i];
      ASSERT_TRUE(v[i] == s[i] || (std::isnan(v[i]) && std::isnan(s[i]))) << x[i] << " / " << d;
    }
  }
}

TEST(Prelude, EveryFunctionCompilesForEveryWidth) {
  for (int lanes : {8, 16}) {
    std::string text = prelude(prelude_functions(), lanes);
    const char* isa = lanes == 16 ? "avx512" : "avx2";
    if (device::isa_from_name(isa) > device::host().isa) continue;
    // Static functions that nobody uses produce no code: give them all external linkage.
    for (std::string_view word : {"static inline ", "static "})
      for (size_t at; (at = text.find(word)) != std::string::npos;) text.erase(at, word.size());
    EXPECT_NO_THROW(build(text, isa));
  }
}

TEST(Prelude, HoldsOnlyWhatIsUsed) {
  std::string text = prelude({"v_exp_f32"}, 16);
  EXPECT_NE(text.find("v_expk_f32"), std::string::npos);
  EXPECT_EQ(text.find("s_exp"), std::string::npos);
  EXPECT_EQ(text.find("v_log"), std::string::npos);
  EXPECT_THROW(prelude({"v_exp_f33"}, 16), InternalError);
}

// Every op of the scalar vocabulary has its function for the dtypes it is made for.
TEST(Prelude, CoversTheScalarVocabulary) {
  for (int i = 0; i < kScalarOpCount; ++i) {
    auto op = static_cast<ScalarOp>(i);
    std::string stem(prelude_stem(op));
    if (op == ScalarOp::Const || op == ScalarOp::Input || op == ScalarOp::Cast) continue;
    const char* dtype =
        stem == "and" || stem == "or" || stem == "xor" || stem == "not" || stem == "shl" || stem == "shr" || stem == "gcd" || stem == "lcm"
            ? "i64"
            : "f32";
    for (char mode : {'v', 's'}) EXPECT_TRUE(prelude_has(mode + ("_" + stem + "_" + dtype))) << name_of(op);
  }
}

TEST(Prelude, IntegerDivisionFollowsPythonAndNeverTraps) {
  Machine m = machine();
  for (std::string t : {"i32", "i64"}) {
    std::string text = prelude({"v_floordiv_" + t, "v_mod_" + t, "v_load_" + t, "v_store_" + t, "s_floordiv_" + t}, m.lanes);
    text += "void k(const " + t + "* a, const " + t + "* b, " + t + "* q, " + t + "* r) { v_store_" + t + "(q, v_floordiv_" + t +
            "(v_load_" + t + "(a), v_load_" + t + "(b))); v_store_" + t + "(r, v_mod_" + t + "(v_load_" + t + "(a), v_load_" + t +
            "(b))); }\n";
    auto code = build(text, m.isa);
    auto run = [&]<class T>(T low) {
      std::vector<T> a = {7, -7, 7, -7, 6, -6, 5, low}, b = {2, 2, -2, -2, 3, 3, 0, -1}, q(m.lanes), r(m.lanes);
      a.resize(m.lanes, 1), b.resize(m.lanes, 1);
      code->template function<void(const T*, const T*, T*, T*)>("k")(a.data(), b.data(), q.data(), r.data());
      EXPECT_EQ(std::vector<T>(q.begin(), q.begin() + 8), (std::vector<T>{3, -4, -4, 3, 2, -2, 0, low}));
      EXPECT_EQ(std::vector<T>(r.begin(), r.begin() + 8), (std::vector<T>{1, 1, -1, -1, 0, 0, 0, 0}));
    };
    t == "i32" ? run(std::numeric_limits<int32_t>::min()) : run(std::numeric_limits<int64_t>::min());
  }
}

TEST(Prelude, MaximumLetsNanWinAndReductionsUseEveryLane) {
  Machine m = machine();
  auto code = build(prelude({"v_hmax_f32", "v_hsum_f32", "v_hargmax_f32", "v_iota_i64", "v_load_f32"}, m.lanes) +
                        "f32 top(const f32* a) { return v_hmax_f32(v_load_f32(a)); }\n"
                        "f32 sum(const f32* a) { return v_hsum_f32(v_load_f32(a)); }\n"
                        "i64 arg(const f32* a) { f32 best; return v_hargmax_f32(v_load_f32(a), v_iota_i64(), &best); }\n",
                    m.isa);
  auto top = code->function<float(const float*)>("top"), sum = code->function<float(const float*)>("sum");
  auto arg = code->function<long(const float*)>("arg");
  for (int lane = 0; lane < m.lanes; ++lane) {
    std::vector<float> a(m.lanes, 1);
    a[lane] = 5;
    EXPECT_EQ(top(a.data()), 5);
    EXPECT_EQ(sum(a.data()), 4 + m.lanes);
    EXPECT_EQ(arg(a.data()), lane);
    a[(lane + 1) % m.lanes] = std::nanf("");
    EXPECT_TRUE(std::isnan(top(a.data())));
    EXPECT_EQ(arg(a.data()), (lane + 1) % m.lanes);
  }
}

TEST(Prelude, HalfConversionsMatchTheHost) {
  Machine m = machine();
  auto code = build(prelude({"v_cvt_f32_bf16", "v_cvt_f32_f16", "v_load_f32", "v_store_bf16", "v_store_f16"}, m.lanes) +
                        "void b(const f32* a, bf16* y) { v_store_bf16(y, v_cvt_f32_bf16(v_load_f32(a))); }\n"
                        "void h(const f32* a, f16* y) { v_store_f16(y, v_cvt_f32_f16(v_load_f32(a))); }\n",
                    m.isa);
  auto x = samples<float>(4096, 3);
  for (size_t i = 0; i + m.lanes <= x.size(); i += m.lanes) {
    std::vector<uint16_t> b(m.lanes), h(m.lanes);
    code->function<void(const float*, uint16_t*)>("b")(&x[i], b.data());
    code->function<void(const float*, uint16_t*)>("h")(&x[i], h.data());
    for (int l = 0; l < m.lanes; ++l) {
      float v = x[i + l];
      if (std::isnan(v)) {
        EXPECT_TRUE(std::isnan(bf16_to_f32(b[l])) && std::isnan(f16_to_f32(h[l])));
        continue;
      }
      EXPECT_EQ(b[l], f32_to_bf16(v)) << v;
      EXPECT_EQ(h[l], f32_to_f16(v)) << v;
    }
  }
}

// The random numbers and the special functions are the interpreter's.
TEST(Prelude, AgreesWithTheHost) {
  Machine m = machine();
  auto code = build(prelude({"v_randuniform_f32", "v_randnormal_f32", "v_digamma_f64", "v_iota_i64", "v_splat_i64", "v_store_f32",
                             "v_load_f64", "v_store_f64"},
                            m.lanes) +
                        "void u(f32* y) { v_store_f32(y, v_randuniform_f32(v_splat_i64(7), v_iota_i64())); }\n"
                        "void n(f32* y) { v_store_f32(y, v_randnormal_f32(v_splat_i64(7), v_iota_i64())); }\n"
                        "void d(f64* y) { v_store_f64(y, v_digamma_f64(v_load_f64(y))); }\n",
                    m.isa);
  std::vector<float> u(m.lanes), n(m.lanes);
  std::vector<double> d(m.lanes);
  for (int l = 0; l < m.lanes; ++l) d[l] = l - 3.25;
  code->function<void(float*)>("u")(u.data());
  code->function<void(float*)>("n")(n.data());
  code->function<void(double*)>("d")(d.data());
  for (int l = 0; l < m.lanes; ++l) {
    EXPECT_EQ(u[l], static_cast<float>(random_uniform(7, l)));
    EXPECT_NEAR(n[l], random_normal(7, l), 2e-6);
    EXPECT_NEAR(d[l], find_special_unary("digamma")(l - 3.25), 1e-13);
  }
}

}  // namespace
}  // namespace toroid::codegen
