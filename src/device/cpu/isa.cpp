#include "device/cpu/isa.h"

#include <cpuid.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace toroid::device {

namespace {

// The register states that the operating system saves (XCR0).
uint64_t saved_states() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

bool bit(uint32_t word, int at) { return (word >> at) & 1; }

void detect_isa(HostInfo& info) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return;
  bool osxsave = bit(c, 27), avx = bit(c, 28), fma = bit(c, 12), f16c = bit(c, 29);
  uint64_t states = osxsave ? saved_states() : 0;
  bool ymm = (states & 0x6) == 0x6, zmm = (states & 0xe6) == 0xe6;
  if (!avx || !ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  bool avx2 = bit(b, 5), bmi1 = bit(b, 3), bmi2 = bit(b, 8);
  bool f = bit(b, 16), dq = bit(b, 17), cd = bit(b, 28), bw = bit(b, 30), vl = bit(b, 31);
  bool vnni = bit(c, 11);
  uint32_t a1 = 0, b1 = 0, c1 = 0, d1 = 0;
  if (a >= 1) __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
  uint32_t ea = 0, eb = 0, ec = 0, ed = 0;
  __get_cpuid(0x80000001, &ea, &eb, &ec, &ed);
  bool lzcnt = bit(ec, 5);
  info.f16c = f16c;
  if (!(avx2 && fma && f16c && bmi1 && bmi2 && lzcnt)) return;
  info.isa = Isa::Avx2;
  if (!(zmm && f && dq && cd && bw && vl)) return;
  info.isa = Isa::Avx512;
  info.avx512_vnni = vnni;
  info.avx512_bf16 = bit(a1, 5);
}

std::string brand() {
  std::array<uint32_t, 12> words{};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t* w = &words[4 * i];
    if (!__get_cpuid(0x80000002 + i, w, w + 1, w + 2, w + 3)) return "unknown x86-64 processor";
  }
  char text[49] = {};
  std::memcpy(text, words.data(), 48);
  std::string_view view = text;
  while (!view.empty() && view.front() == ' ') view.remove_prefix(1);
  while (!view.empty() && view.back() == ' ') view.remove_suffix(1);
  return view.empty() ? "unknown x86-64 processor" : std::string(view);
}

size_t cache_size(int name, size_t otherwise) {
  long v = ::sysconf(name);
  return v > 0 ? size_t(v) : otherwise;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  long n = ::sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? int(n) : 1;
}

HostInfo detect() {
  HostInfo info;
  detect_isa(info);
  info.model = brand();
  info.l1d_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  info.l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
  info.l3_bytes = cache_size(_SC_LEVEL3_CACHE_SIZE, 8 << 20);
  info.line_bytes = cache_size(_SC_LEVEL1_DCACHE_LINESIZE, 64);
  info.cores = usable_cores();
  return info;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::Scalar:
      return "scalar";
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
  }
  return "unknown";
}

Isa isa_from_name(std::string_view name) {
  if (name.empty() || name == "native" || name == "auto") return host().isa;
  for (Isa isa : {Isa::Scalar, Isa::Avx2, Isa::Avx512}) {
    if (name_of(isa) == name) return isa;
  }
  fail<UserError>("unknown instruction set \"{}\": expected \"auto\", \"native\", \"avx512\", \"avx2\" or \"scalar\"", name);
}

const HostInfo& host() {
  static const HostInfo& info = *new HostInfo(detect());
  return info;
}

Isa usable_isa(std::string_view name) {
  Isa isa = isa_from_name(name);
  TOROID_USER_CHECK(isa <= host().isa, "option isa asks for \"{}\", but this processor ({}) has only \"{}\"; set it to that or to \"auto\"",
                    name, host().model, name_of(host().isa));
  return isa;
}

}  // namespace toroid::device
