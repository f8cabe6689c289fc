// C kernels as the emitter writes them (vector extensions, own math, scalar tails), shared by the tests of the JIT.
#pragma once

#include <string>

namespace toroid::samples {

// Types and exp for vectors of `lanes` floats.
inline std::string prelude(int lanes) {
  std::string n = std::to_string(lanes), bytes = std::to_string(4 * lanes);
  std::string splat = "{";
  for (int i = 0; i < lanes; ++i) splat += i ? ",x" : "x";
  splat += "}";
  return "typedef float vf __attribute__((vector_size(" + bytes +
         ")));\n"
         "typedef float vfu __attribute__((vector_size(" +
         bytes +
         "), aligned(4)));\n"
         "typedef int vi __attribute__((vector_size(" +
         bytes +
         ")));\n"
         "typedef long i64;\n"
         "#define LANES " +
         n +
         "\n"
         "static inline vf splat(float x) { return (vf)" +
         splat +
         "; }\n"
         "static inline vf load(const float* p) { return *(const vfu*)p; }\n"
         "static inline void store(float* p, vf v) { *(vfu*)p = v; }\n"
         "static inline vf vmax(vf a, vf b) { return __builtin_elementwise_max(a, b); }\n"
         "static inline vf vexp(vf x) {\n"
         "  x = __builtin_elementwise_min(vmax(x, splat(-87.3f)), splat(88.7f));\n"
         "  vf k = __builtin_elementwise_roundeven(x * splat(1.44269504f));\n"
         "  vf r = x - k * splat(0.693359375f) + k * splat(2.12194440e-4f);\n"
         "  vf p = splat(1.9875691500e-4f);\n"
         "  p = p * r + splat(1.3981999507e-3f);\n"
         "  p = p * r + splat(8.3334519073e-3f);\n"
         "  p = p * r + splat(4.1665795894e-2f);\n"
         "  p = p * r + splat(1.6666665459e-1f);\n"
         "  p = p * r + splat(5.0000001201e-1f);\n"
         "  p = p * r * r + r + splat(1.0f);\n"
         "  vi e = __builtin_convertvector(k, vi) + 127 << 23;\n"
         "  return p * (vf)e;\n"
         "}\n"
         "static inline float sexp(float x) { return vexp(splat(x))[0]; }\n"
         "#define TAIL _Pragma(\"clang loop vectorize(disable) unroll(disable)\")\n";
}

// y[i] = max(a[i] * b[i] + shift, 0).
inline std::string pointwise(int lanes, float shift = 0.5f) {
  return prelude(lanes) +
         "void kernel(const float* a, const float* b, float* y, i64 n) {\n"
         "  i64 i = 0;\n"
         "  for (; i + LANES <= n; i += LANES) store(y + i, vmax(load(a + i) * load(b + i) + splat(" +
         std::to_string(shift) +
         "f), splat(0)));\n"
         "  TAIL for (; i < n; ++i) { float t = a[i] * b[i] + " +
         std::to_string(shift) +
         "f; y[i] = t > 0 ? t : 0; }\n"
         "}\n";
}

// Softmax of each of `rows` rows of n floats.
inline std::string softmax(int lanes, float scale = 1.0f) {
  std::string s = std::to_string(scale) + "f";
  return prelude(lanes) +
         "void kernel(const float* x, float* y, i64 rows, i64 n) {\n"
         "  for (i64 r = 0; r < rows; ++r, x += n, y += n) {\n"
         "    vf vm = splat(-3.4e38f); i64 i = 0;\n"
         "    for (; i + LANES <= n; i += LANES) vm = vmax(vm, load(x + i));\n"
         "    float m = __builtin_reduce_max(vm);\n"
         "    TAIL for (; i < n; ++i) m = x[i] > m ? x[i] : m;\n"
         "    vf vs = splat(0); float s = 0;\n"
         "    for (i = 0; i + LANES <= n; i += LANES) { vf e = vexp((load(x + i) - splat(m)) * splat(" +
         s +
         ")); vs += e; store(y + i, e); }\n"
         "    TAIL for (; i < n; ++i) { float e = sexp((x[i] - m) * " +
         s +
         "); s += e; y[i] = e; }\n"
         "    for (int l = 0; l < LANES; ++l) s += vs[l];\n"
         "    float q = 1.0f / s;\n"
         "    for (i = 0; i + LANES <= n; i += LANES) store(y + i, load(y + i) * splat(q));\n"
         "    TAIL for (; i < n; ++i) y[i] *= q;\n"
         "  }\n"
         "}\n";
}

// c[rows][vectors * lanes] = a[k][rows]^T * b[k][vectors * lanes]: a block of a matrix product kept in registers.
inline std::string gemm_block(int lanes, int rows, int vectors) {
  return prelude(lanes) + "#define R " + std::to_string(rows) + "\n#define V " + std::to_string(vectors) +
         "\n"
         "void kernel(const float* a, const float* b, float* c, i64 k, i64 stride) {\n"
         "  vf acc[R][V];\n"
         "  for (int i = 0; i < R; ++i) for (int j = 0; j < V; ++j) acc[i][j] = splat(0);\n"
         "  for (i64 p = 0; p < k; ++p)\n"
         "    for (int i = 0; i < R; ++i) {\n"
         "      vf x = splat(a[p * R + i]);\n"
         "      for (int j = 0; j < V; ++j) acc[i][j] += x * load(b + (p * V + j) * LANES);\n"
         "    }\n"
         "  for (int i = 0; i < R; ++i) for (int j = 0; j < V; ++j) store(c + i * stride + j * LANES, acc[i][j]);\n"
         "}\n";
}

}  // namespace toroid::samples
