#!/usr/bin/env bash
# Situations of bench/thread_situations.cpp, several builds of it in turns: thread_situations.sh SUBJECT ROUNDS SITUATION,... NAME=BINARY...
# Situations: alone, busy (a busy process beside), quota (a control group with the time of one processor; needs root), callers (two), and
# threads-N. After a + come options: "busy+--threads 1". PREFIX: a command to run each with. GROUPS_OF_CPU: the folder for the control group.
# Lines: round, situation, name, result.
set -euo pipefail
subject=$1 rounds=$2
IFS=, read -r -a situations <<<"$3"
shift 3
group=
make_group() {  # of one processor: version 1, or 2
  if [ -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
    group=${GROUPS_OF_CPU:-/sys/fs/cgroup/cpu}/toroid-situations
    mkdir -p "$group"
    echo 100000 >"$group/cpu.cfs_period_us"
    echo 100000 >"$group/cpu.cfs_quota_us"
  else
    group=${GROUPS_OF_CPU:-/sys/fs/cgroup}/toroid-situations
    mkdir -p "$group"
    echo "100000 100000" >"$group/cpu.max"
  fi
}
leave_group() { [ -z "$group" ] || rmdir "$group"; }
trap leave_group EXIT
for ((round = 1; round <= rounds; ++round)); do
  for situation in "${situations[@]}"; do
    for build in "$@"; do
      options=()
      case "${situation%%+*}" in
        alone) ;;
        busy) options=(--busy 1) ;;
        callers) options=(--callers 2) ;;
        quota) [ -n "$group" ] || make_group ;;
        threads-*) options=(--threads "$(sed 's/+.*//; s/threads-//' <<<"$situation")") ;;
        *) echo "unknown situation $situation" >&2; exit 2 ;;
      esac
      [[ $situation == *+* ]] && read -r -a more <<<"${situation#*+}" && options+=("${more[@]}")
      result=$(
        [[ $situation == quota* ]] && echo $BASHPID >"$group/cgroup.procs"
        # shellcheck disable=SC2086  # PREFIX is a command with arguments
        ${PREFIX:-} "${build#*=}" "$subject" --seconds "${SECONDS_EACH:-1.5}" "${options[@]}" 2>&1
      )
      printf '%s\t%s\t%s\t%s\n' "$round" "$situation" "${build%%=*}" "$result"
    done
  done
done
