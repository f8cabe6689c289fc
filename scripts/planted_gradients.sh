#!/bin/sh
# Switches on each planted bug of gradients (src/base/gradient_bugs.h) alone and says which checks catch it: differences of single calls,
# corners, random graphs: scripts/planted_gradients.sh [GRAPHS] [NAME]
# GRAPHS: random graphs that are tried for each, 120 unless said otherwise. NAME: of one bug, else all. Fails when one is not caught. BUILD names another build folder.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
cmake --build "$build" --target test_planted >/dev/null
TOROID_PLANTED=${2:-all} TOROID_FUZZ_COUNT=${1:-120}
export TOROID_PLANTED TOROID_FUZZ_COUNT
exec "$build/test_planted" --gtest_brief=1
