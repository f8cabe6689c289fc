#!/usr/bin/env bash
# PyTorch's samples of its operations through torch.compile(backend="toroid") on the CPU: scripts/python-suite.sh [OPTIONS OF opinfo.py]
# Without options: tests/python/torch_test.py, then results in f32, gradients, half, complex and whole numbers, a line of counts each. Needs
# a Python with PyTorch 2.10 or newer and expecttest, of the version that the module was built for: PYTHON names it. Exit code 77: skipped,
# since it has none.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export PYTHONPATH=${TOROID_BUILD:-build}/python${PYTHONPATH:+:$PYTHONPATH}
if ! "$python" -c 'import torch, expecttest' 2>/dev/null; then
  echo "skipped: $python has no PyTorch, or no expecttest (PYTHON names another one)"
  exit 77
fi
if [ $# -gt 0 ]; then
  exec "$python" tests/python/opinfo.py "$@"
fi
failed=0
"$python" tests/python/torch_test.py || failed=1
for run in "--dtypes float32" "--dtypes float32 --grad" "--dtypes bfloat16" "--dtypes complex64" "--dtypes int64,bool"; do
  echo "== $run"
  # shellcheck disable=SC2086
  "$python" tests/python/opinfo.py $run || failed=1
done
exit $failed
