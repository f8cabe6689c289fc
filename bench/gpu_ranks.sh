#!/usr/bin/env bash
# All that several GPUs of one host do together: bench/gpu_ranks.sh [BUILD] [RANKS]. The tests of collectives between GPUs (values, worlds that
# capture and end ten times), all-reduce by the rule, tuned and by each form, the other collectives, PyTorch's beside them where torchrun is
# there, decoding with Llama-7B, ranks of which one is killed. RANKS: as many as there are GPUs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
ranks=${2:-$(nvidia-smi --list-gpus | wc -l)}
if [ "$ranks" -lt 2 ]; then
  echo "EnvironmentError: two GPUs or more are needed, there are $ranks" >&2
  exit 1
fi
launch=(mpirun --oversubscribe -n "$ranks")
[ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
export TOROID_CACHE_PROGRAMS=0

say() { printf '\n=== %s\n' "$*"; }

say "tests"
"$build/test_dist" --gtest_filter='Gpu*' --gtest_brief=1
say "all_reduce by the rule, tuned, and by each form"
"$build/bench_gpu_collectives" "$ranks"
"${launch[@]}" "$build/bench_gpu_collectives" --tuned "$ranks"
"$build/bench_gpu_collectives" --forms "$ranks"
say "the other collectives"
"${launch[@]}" "$build/bench_gpu_collectives" --kinds "$ranks"
if command -v torchrun >/dev/null; then
  say "PyTorch"
  torchrun --nproc-per-node "$ranks" "$root/bench/peers/collectives.py"
fi
say "decoding"
"${launch[@]}" "$build/bench_gpu_decode_ranks" --kernels
"${launch[@]}" "$build/bench_gpu_decode_ranks" --check --layers 4
say "a rank is killed"
GPUS=$ranks "$root/scripts/fault_runs.sh" "${FAULT_RUNS:-20}" 1 "$build"
