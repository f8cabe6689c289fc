#!/bin/sh
# Builds the library with planted bugs (src/base/mutants.h) and says which of them the tests catch: scripts/mutants.sh [GRAPHS]
# Each bug is switched on alone; a test that fails, crashes or hangs has caught it. Random graphs come first (GRAPHS of them, 500 unless
# said otherwise), then the unit tests. Fails when fewer than 28 of 30 are caught.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build-mutants}
graphs=${1:-500}
tests="test_loop test_graph test_sched test_codegen test_exec"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTOROID_MUTANTS=ON >/dev/null
# shellcheck disable=SC2086
ninja -C "$build" toroid_jit test_fuzz_compiled $tests >/dev/null
cd "$root"
names=$(sed -n '/^enum class Mutant/,/^}/s/^  \([A-Za-z]*\),.*/\1/p' src/base/mutants.h | grep -v '^None$')
number=0
caught=0
export TOROID_FUZZ_STOP=1 TOROID_FUZZ_COUNT="$graphs" TOROID_MUTANT=0
for name in None $names; do
  by=
  TOROID_MUTANT=$number
  if ! timeout 300 "$build/test_fuzz_compiled" >"$build/mutant.log" 2>&1; then
    by="random graphs"
  else
    for t in $tests; do
      [ "$name" = None ] || timeout 300 "$build/$t" >"$build/mutant.log" 2>&1 || { by=$t; break; }
    done
  fi
  if [ "$name" = None ]; then
    [ -z "$by" ] || { echo "the tests fail without any bug; see $build/mutant.log"; exit 1; }
  else
    printf '%-20s %s\n' "$name" "${by:-NOT CAUGHT}"
    [ -z "$by" ] || caught=$((caught + 1))
  fi
  number=$((number + 1))
done
total=$((number - 1))
echo "$caught of $total caught"
[ $((caught * 30)) -ge $((total * 28)) ]
