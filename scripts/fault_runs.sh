#!/usr/bin/env bash
# Runs ranks of which one fails at a drawn place, in a drawn way: scripts/fault_runs.sh [RUNS] [SEED] [BUILD]. All must end, say which rank
# it was, and leave no process behind; a run that takes longer than 30 s is a hang. Exit code 77 where there is no MPI.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
runs=${1:-20} seed=${2:-1} build=${3:-$root/build}
limit=30
if ! command -v mpirun >/dev/null || [ ! -e "$build/libtoroid_mpi.so" ]; then
  echo "fault_runs: needs mpirun and $build/libtoroid_mpi.so (packages libopenmpi-dev openmpi-bin)"
  exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad() {
  printf 'fault_runs: seed %s, %s ranks, TOROID_FAULT=%s: %s\n' "$seed" "$ranks" "$fault" "$1"
  cat "$log"
  exit 1
}

for ((i = 0; i < runs; ++i, ++seed)); do
  RANDOM=$seed
  ranks=$((2 + RANDOM % 3))
  kinds=(die break exit throw mismatch sleep)
  kind=${kinds[RANDOM % 6]}
  # 0 is that of init, 1 to 12 sums, 13 that of finalize.
  culprit=$((RANDOM % ranks)) number=$((RANDOM % 14))
  fault=$kind:$culprit:$number
  [ "$kind" != sleep ] || fault+=:$((RANDOM % 2 * 1500 + 50))
  code=0 begin=$SECONDS
  FAULT_RUN=$$ TOROID_FAULT=$fault TOROID_DIST_TIMEOUT_MS=600 timeout -k 1 $limit "$build/toroid" launch --grace 5 -n $ranks \
    "$build/test_dist" --rank-body sums >"$log" 2>&1 || code=$?
  [ $((SECONDS - begin)) -lt $limit ] || bad "it hangs"
  sleep 0.05  # the last ones end
  left=$(grep -lszx "FAULT_RUN=$$" /proc/[0-9]*/environ || true)
  [ -z "$left" ] || bad "processes are left: $left"
  case $fault in
    sleep:*:50) [ $code -eq 0 ] || bad "a rank that is a little late is an error" ;;
    *) [ $code -ne 0 ] || bad "nobody says that something failed" ;;
  esac
  # Each that survives speaks of a rank.
  told=$(grep -cE 'rank [0-9]+: (told|failed).*(rank [0-9]+|a fault that TOROID_FAULT asks for)|rank [0-9]+: done' "$log" || true)
  survivors=$ranks
  case $kind in die | break | exit) survivors=$((ranks - 1)) ;; esac
  [ "$told" -ge "$survivors" ] || bad "$told of $survivors ranks that survive say what happened"
done
echo "fault_runs: $runs runs ended as they should"
