/* Runs a package on inputs of ones and prints the largest element of each output: classify PACKAGE [ENTRY]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toroid_runtime.h"

static void check(toroid_status status) {
  if (status == TOROID_OK) return;
  fprintf(stderr, "%s\n", toroid_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  toroid_package* package;
  toroid_session* session;
  toroid_tensor in[16] = {{0}}, out[16] = {{0}};
  if (argc < 2) return fprintf(stderr, "usage: classify PACKAGE [ENTRY]\n"), 1;
  check(toroid_package_open(argv[1], &package));
  check(toroid_session_open(package, argc > 2 ? argv[2] : NULL, &session));
  size_t inputs = toroid_session_input_count(session), outputs = toroid_session_output_count(session);
  if (inputs > 16 || outputs > 16) return fprintf(stderr, "more than 16 inputs or outputs\n"), 1;
  for (size_t i = 0; i < inputs; ++i) {
    toroid_value v;
    check(toroid_session_input(session, i, &v));
    size_t n = 1;
    for (int d = 0; d < v.rank; ++d) n *= (size_t)(in[i].sizes[d] = v.least[d]);
    in[i].dtype = v.dtype, in[i].rank = v.rank, in[i].bytes = 16 * n, in[i].data = calloc(n, 16);
    for (size_t k = 0; v.dtype == TOROID_F32 && k < n; ++k) ((float*)in[i].data)[k] = 1;
    for (size_t k = 0; v.dtype == TOROID_I64 && k < n; ++k) ((int64_t*)in[i].data)[k] = 1;
  }
  check(toroid_session_run(session, in, inputs, out, outputs));
  for (size_t i = 0; i < outputs; ++i) {
    size_t best = 0, n = out[i].dtype == TOROID_F32 ? out[i].bytes / sizeof(float) : 0;
    for (size_t k = 1; k < n; ++k)
      if (((float*)out[i].data)[k] > ((float*)out[i].data)[best]) best = k;
    if (n > 0) printf("output %zu: element %zu of %zu is the largest: %g\n", i, best, n, ((float*)out[i].data)[best]);
    toroid_tensor_release(&out[i]);
  }
  for (size_t i = 0; i < inputs; ++i) free(in[i].data);
  return toroid_session_close(session), toroid_package_close(package), 0;
}
