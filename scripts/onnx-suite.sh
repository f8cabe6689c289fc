#!/usr/bin/env bash
# ONNX's own test suite, compiled and run by `toroid verify`: scripts/onnx-suite.sh [PROGRAM] [OPTIONS OF toroid verify]
# The cases come with Debian's package libonnx-testdata, or lie in the folder that TOROID_ONNX_TESTDATA names. Those that are known not
# to pass stand in tests/data/onnx/known.txt. Exit code 77: skipped, since there are no cases on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${TOROID_ONNX_TESTDATA:-/usr/share/libonnx-testdata/data}
program=${1:-build/toroid}
shift || true
if [[ ! -d $data ]]; then
  echo "skipped: no folder $data here (Debian's package libonnx-testdata brings it, or set TOROID_ONNX_TESTDATA)"
  exit 77
fi
exec "$program" verify --known tests/data/onnx/known.txt "$@" "$data"
