#!/usr/bin/env bash
# Writes what is generated from the tables of operations and options: include/toroid/ops_table.h, src/ops/functions_table.cpp, docs/ops.md
# and docs/options.md. Usage: scripts/generate.sh [build folder]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
ninja -C "$build" test_ops
TOROID_TEST_WRITE=1 "$build/test_ops" --gtest_filter=Generated.FilesSayWhatTheTablesSay
