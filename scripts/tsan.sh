#!/usr/bin/env bash
# The tests in which threads meet, under ThreadSanitizer (build-tsan): scripts/tsan.sh [GTEST_FILTER]
# A report of a race, a deadlock or a leaked thread fails the test program. Kernels and the compiler library are not instrumented: what
# they do is not seen.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset tsan -DTOROID_BENCH=OFF -DTOROID_EXAMPLES=OFF --log-level=WARNING >/dev/null
tests=(test_base test_jit test_exec test_compile test_dist test_front test_package)
cmake --build build-tsan -j "$(nproc)" --target "${tests[@]}"
# Sixteen threads meet on small machines, too: four kernel threads, whatever the number of processors. As under ctest no run remembers
# which sizes differed in one before.
export TOROID_THREADS=4 TOROID_CACHE_PROGRAMS=0 TSAN_OPTIONS="second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
status=0
for test in "${tests[@]}"; do
  echo "== $test"
  all="*"
  [ "$test" != test_dist ] || all="-Mpi.*:Tcp.*" # those are processes, with a thread each
  build-tsan/"$test" --gtest_brief=1 --gtest_filter="${1:-$all}" || status=1
done
exit $status
