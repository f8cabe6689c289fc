#!/bin/sh
# Compares COUNT random graphs from seed SEED on, compiled and interpreted, with their programs after each pass from lowering to the schedule, and
# with indices that are out of range: scripts/fuzz-compiled.sh [COUNT] [SEED]
# Prints how often each operation was drawn, and each failure as the smallest graph that still fails. BUILD names another build folder.
# TOROID_FUZZ_DEGENERATE=1: empty and dimensionless tensors in all graphs, not in one of seven.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
TOROID_FUZZ_COUNT=${1:-10000}
TOROID_FUZZ_SEED=${2:-1}
TOROID_FUZZ_PROGRAMS=$TOROID_FUZZ_COUNT
TOROID_FUZZ_BAD_INDICES=$TOROID_FUZZ_COUNT
TOROID_FUZZ_COUNTS=1
export TOROID_FUZZ_PROGRAMS TOROID_FUZZ_BAD_INDICES TOROID_FUZZ_COUNT TOROID_FUZZ_SEED TOROID_FUZZ_COUNTS
exec "$build/test_fuzz_compiled" --gtest_filter=FuzzCompiled.RandomGraphsAreWhatTheInterpreterSays:RandomProgram.*:BadIndices.*
