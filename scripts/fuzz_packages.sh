#!/usr/bin/env bash
# Damages, cuts, mixes up and forges packages, and uses them: scripts/fuzz_packages.sh [SECONDS] [SEED]
# Each trial must end with an error or the right results. One that ends the process (a crash, or 60 seconds) is told by its number, and the run
# goes on behind it; 1 where there was one. BUILD names another build folder, such as one with sanitizers; memory is limited to 8 GB without.
# One trial again: TOROID_FUZZ_FIRST=N TOROID_FUZZ_LAST=N scripts/fuzz_packages.sh 60 SEED
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
until=$(($(date +%s) + ${1:-60}))
export TOROID_FUZZ_SEED=${2:-1} TOROID_CACHE_PROGRAMS=0
TOROID_FUZZ_TRIAL_FILE=$(mktemp)
export TOROID_FUZZ_TRIAL_FILE TOROID_FUZZ_FIRST=${TOROID_FUZZ_FIRST:-0}
trap 'rm -f "$TOROID_FUZZ_TRIAL_FILE"' EXIT
[ -n "${BUILD:-}" ] || ulimit -v 8000000
bad=0
while left=$((until - $(date +%s))) && [ "$left" -gt 0 ]; do
  TOROID_FUZZ_SECONDS=$left "$build/test_package" --gtest_filter='PackageFuzz.*' --gtest_brief=1
  status=$?
  [ $status -eq 0 ] && break
  trial=$(cat "$TOROID_FUZZ_TRIAL_FILE")
  echo "fuzz_packages: seed $TOROID_FUZZ_SEED, trial $trial ended with status $status"
  bad=1
  TOROID_FUZZ_FIRST=$((trial + 1))
  [ "$TOROID_FUZZ_FIRST" -gt "${TOROID_FUZZ_LAST:-$TOROID_FUZZ_FIRST}" ] && break
done
exit $bad
