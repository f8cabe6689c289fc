#include "device/cpu/runtime_symbols.h"

#include <cmath>
#include <cstring>

// Conversions that the compiler calls where the processor has no F16C; GCC's runtime holds them without a header.
extern "C" {
_Float16 __truncsfhf2(float);
_Float16 __truncdfhf2(double);
float __extendhfsf2(_Float16);
}

namespace toroid::device {

namespace {

// Both functions of a pair, f32 and f64.
#define TOROID_MATH1(name) \
  {#name "f", address<float(float)>(::name##f)}, { #name, address < double(double)>(::name) }
#define TOROID_MATH2(name) \
  {#name "f", address<float(float, float)>(::name##f)}, { #name, address < double(double, double)>(::name) }

template <class Signature>
const void* address(Signature* function) {
  return reinterpret_cast<const void*>(function);
}

const ExternalSymbol kSymbols[] = {
    {"memcpy", address<void*(void*, const void*, size_t)>(::memcpy)},
    {"memmove", address<void*(void*, const void*, size_t)>(::memmove)},
    {"memset", address<void*(void*, int, size_t)>(::memset)},
    {"memcmp", address<int(const void*, const void*, size_t)>(::memcmp)},
    TOROID_MATH1(exp),
    TOROID_MATH1(exp2),
    TOROID_MATH1(expm1),
    TOROID_MATH1(log),
    TOROID_MATH1(log2),
    TOROID_MATH1(log10),
    TOROID_MATH1(log1p),
    TOROID_MATH1(sin),
    TOROID_MATH1(cos),
    TOROID_MATH1(tan),
    TOROID_MATH1(asin),
    TOROID_MATH1(acos),
    TOROID_MATH1(atan),
    TOROID_MATH1(sinh),
    TOROID_MATH1(cosh),
    TOROID_MATH1(tanh),
    TOROID_MATH1(asinh),
    TOROID_MATH1(acosh),
    TOROID_MATH1(atanh),
    TOROID_MATH1(cbrt),
    TOROID_MATH1(sqrt),
    TOROID_MATH1(erf),
    TOROID_MATH1(erfc),
    TOROID_MATH1(tgamma),
    TOROID_MATH1(lgamma),
    TOROID_MATH1(floor),
    TOROID_MATH1(ceil),
    TOROID_MATH1(trunc),
    TOROID_MATH1(round),
    TOROID_MATH1(roundeven),
    TOROID_MATH1(rint),
    TOROID_MATH1(nearbyint),
    TOROID_MATH1(fabs),
    TOROID_MATH2(pow),
    TOROID_MATH2(atan2),
    TOROID_MATH2(hypot),
    TOROID_MATH2(fmod),
    TOROID_MATH2(remainder),
    TOROID_MATH2(fmin),
    TOROID_MATH2(fmax),
    TOROID_MATH2(copysign),
    TOROID_MATH2(nextafter),
    {"fmaf", address<float(float, float, float)>(::fmaf)},
    {"fma", address<double(double, double, double)>(::fma)},
    {"ldexpf", address<float(float, int)>(::ldexpf)},
    {"ldexp", address<double(double, int)>(::ldexp)},
    {"__truncsfhf2", address(&__truncsfhf2)},
    {"__truncdfhf2", address(&__truncdfhf2)},
    {"__extendhfsf2", address(&__extendhfsf2)},
};

#undef TOROID_MATH1
#undef TOROID_MATH2

}  // namespace

std::span<const ExternalSymbol> runtime_symbols() { return kSymbols; }

}  // namespace toroid::device
