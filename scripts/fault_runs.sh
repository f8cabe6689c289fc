#!/usr/bin/env bash
# Runs ranks of which one fails at a drawn place, in a drawn way: scripts/fault_runs.sh [RUNS] [SEED] [BUILD]. The ranks are processes that
# meet by a file and, one run in four where there is MPI, those of `toroid launch`. All must end and leave no process behind, those that
# survive must say which rank it was, and what ranks chose together must be the same; a run that takes longer than 30 s is a hang.
# GPUS=N: each rank computes on one of N GPUs, and a rank is killed at any time of each phase of its work.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
runs=${1:-20} seed=${2:-1} build=${3:-$root/build}
limit=30 gpus=${GPUS:-0}
has_mpi=0
! command -v mpirun >/dev/null || [ ! -e "$build/libtoroid_mpi.so" ] || has_mpi=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/log

bad() {
  printf 'fault_runs: seed %s, %s ranks by %s, %s, %s: %s\n' "$seed" "$ranks" "$engine" "$body" "$fault" "$1"
  cat "$log"
  exit 1
}

# run VARIABLE=VALUE...: one world of ranks. The exit code is 0 where all ranks end with 0.
run() {
  local common=(FAULT_RUN=$$ TEST_DATABASE="$folder/db")
  if [ "$gpus" -gt 0 ]; then
    common+=(TOROID_DIST_TIMEOUT_MS=2000 TEST_INIT_SECONDS=10 TEST_DEVICE=cuda TEST_REPLAYS=30000)
  else
    common+=(TOROID_DIST_TIMEOUT_MS=600 TEST_INIT_SECONDS=2)
  fi
  common+=("$@")
  code=0
  local begin=$SECONDS
  if [ "$engine" = mpi ]; then
    env "${common[@]}" timeout -k 1 $limit "$build/toroid" launch --grace 5 -n "$ranks" "$build/test_dist" --rank-body "$body" >"$log" 2>&1 || code=$?
    [ $((SECONDS - begin)) -lt $limit ] || bad "it hangs"
    return
  fi
  rm -f "$folder/port"
  : >"$log"
  local pids=() r
  for ((r = 0; r < ranks; ++r)); do
    env "${common[@]}" TOROID_RENDEZVOUS="file:$folder/port" RANK=$r WORLD_SIZE="$ranks" timeout -k 1 $limit "$build/test_dist" --rank-body "$body" >>"$log" 2>&1 &
    pids+=($!)
  done
  for r in "${pids[@]}"; do { wait "$r" || code=$?; } 2>/dev/null; done
  [ $((SECONDS - begin)) -lt $limit ] || bad "it hangs"
}

# What each rank that got so far chose, which is the same.
check_choices() {
  local different
  different=$(grep -oE 'rank [0-9]+: chose.*' "$log" | sed 's/rank [0-9]*: //' | sort -u | wc -l || true)
  [ "$different" -le 1 ] || bad "ranks chose differently"
}

# Remembered decisions that one rank does not have, as they are gone (cache) or of another model of machine (forge): nobody times where all
# know, all time where one does not.
run_cache() {
  local want forged=none
  for want in timed database timed; do
    run TEST_FORGE=$forged
    [ $code -eq 0 ] || bad "it fails"
    check_choices
    [ "$(grep -c "by $want;" "$log")" -eq "$ranks" ] || bad "not all decisions are $want"
    [ "$want" != database ] || ! grep -q "by timed;" "$log" || bad "some rank times what all know"
    case $want:$kind in
      database:cache) rm "$folder/db/$culprit.sqlite" ;;
      database:forge) forged=$culprit ;;
    esac
  done
}

# The kernels are compiled once, and kept, on CPUs those of a rank of another model of machine, too.
warm_up() {
  mkdir -p "$folder/db"
  run "$@"
  [ $code -eq 0 ] || bad "it fails"
}
engine=tcp body=tunes fault=none
if [ "$gpus" -gt 0 ]; then
  ranks=$gpus
  warm_up
else
  ranks=2
  warm_up TOROID_DIST_TIMEOUT_MS=20000
  warm_up TOROID_DIST_TIMEOUT_MS=20000 TEST_FORGE=1
fi

# Milliseconds within which a rank is killed after a phase of its work begins.
declare -A phases=([starts]=1500 [tunes]=1500 [captures]=150 [replays]=500)
began=$SECONDS
for ((i = 0; i < runs; ++i, ++seed)); do
  RANDOM=$seed
  ranks=$((2 + RANDOM % 3)) culprit=$((RANDOM % ranks)) engine=tcp
  [ $((RANDOM % 4)) -ne 0 ] || [ $has_mpi -eq 0 ] || engine=mpi
  kinds=(die break exit throw mismatch sleep die exit start start shape cache forge)
  kind=${kinds[RANDOM % ${#kinds[@]}]}
  if [ "$gpus" -gt 0 ]; then # each kind in its turn, as few runs are made
    ranks=$((2 + RANDOM % (gpus - 1))) culprit=$((RANDOM % ranks)) engine=tcp
    kinds=(kill:captures shape forge kill:replays cache kill:tunes sleep kill:starts throw die)
    kind=${kinds[i % ${#kinds[@]}]} phase=${kind#*:} kind=${kind%%:*}
  fi
  bodies=(sums tunes) body=${bodies[RANDOM % 2]}
  # Of sums: 0 and 1 are those of init, 2 to 13 the sums, 14 that of finalize. The other body has some hundreds, fewer where the machine is busy, most of them while it tunes.
  number=$((RANDOM % 15))
  [ "$body" = sums ] || [ "$gpus" -gt 0 ] || number=$((RANDOM % 140))
  [ "$gpus" -eq 0 ] || body=tunes
  fault=$kind:$culprit:$number survivors=$((ranks - 1))
  if [ "$kind" = start ]; then
    engine=tcp
    kinds=(die:hello die:connect exit:hello exit:connect throw:hello throw:connect version:hello sleep:hello:50 sleep:connect:50 sleep:hello:4000)
    kind=${kinds[RANDOM % ${#kinds[@]}]}
    # Rank 0 is where versions are compared.
    [ "$kind" != version:hello ] || culprit=$((1 + RANDOM % (ranks - 1)))
    fault=${kind%%:*}:$culprit:${kind#*:}
  fi
  case $fault in
    shape:* | cache:* | forge:* | kill:*) body=tunes ;;
    sleep:*:[0-9]*:*) ;;
    sleep:*:*:*) ;;
    sleep:*) fault+=:$((RANDOM % 2 * (gpus > 0 ? 6000 : 1500) + 50)) ;;
  esac
  rm -rf "$folder/db" && mkdir "$folder/db"
  run_began=$SECONDS
  case $fault in
    cache:* | forge:*) run_cache ;;
    shape:*) run TEST_ODD=$culprit ;;
    kill:*) fault=kill:$culprit:$phase:$((RANDOM % phases[$phase])) && run TEST_KILL="${fault#*:}" ;;
    *) run TOROID_FAULT="$fault" ;;
  esac
  for ((look = 0; look < 20; ++look)); do # the last ones end
    left=$(grep -lszx "FAULT_RUN=$$" /proc/[0-9]*/environ || true)
    [ -n "$left" ] || break
    sleep 0.05
  done
  [ -z "$left" ] || bad "processes are left: $left"
  check_choices
  case $fault in
    sleep:*:50 | cache:* | forge:*) [ $code -eq 0 ] || bad "a rank that is a little late is an error" ;;
    # What one choice fails with on all ranks is no more than that choice's end.
    mismatch:* | throw:*) [ $code -ne 0 ] || [ $body = tunes ] || bad "nobody says that something failed" ;;
    kill:*) [ $code -ne 0 ] || grep -q "rank $culprit: done" "$log" || bad "nobody says that something failed" ;;
    *) [ $code -ne 0 ] || bad "nobody says that something failed" ;;
  esac
  # Each that survives speaks of a rank.
  told=$(grep -cE 'rank [0-9]+: (told|failed).*(rank [0-9]+|a fault that TOROID_FAULT asks for)|rank [0-9]+: done' "$log" || true)
  case $fault in die:* | break:* | exit:* | kill:*) ;; *) survivors=$ranks ;; esac
  [ "$told" -ge "$survivors" ] || bad "$told of $survivors ranks that survive say what happened"
  [ "$gpus" -eq 0 ] || echo "$ranks ranks, $fault: $(grep -oE 'rank '"$culprit"': (tunes|captures|replays|chose|done)' "$log" | tail -n 1), $((SECONDS - run_began)) s"
done
echo "fault_runs: $runs runs ended as they should, in $((SECONDS - began)) s"
