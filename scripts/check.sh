#!/usr/bin/env bash
# House rules (scripts/check.py) and format (clang-format 14) of the whole tree.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
python3 scripts/check.py || status=1

formatter=$(command -v clang-format-14 || true)
if [ -z "$formatter" ]; then
  echo "EnvironmentError: clang-format-14 is missing; run scripts/setup.sh" >&2
  exit 1
fi
folders=()
for folder in src include python tests bench examples; do
  [ -d "$folder" ] && folders+=("$folder")
done
mapfile -d '' files < <(find "${folders[@]}" \( -name '*.cpp' -o -name '*.h' \) -print0 | sort -z)
if [ "${1:-}" = "--fix" ]; then
  "$formatter" -i "${files[@]}"
else
  "$formatter" --dry-run -Werror "${files[@]}" || status=1
fi
[ $status -eq 0 ] && echo "check: format of ${#files[@]} files is right"
exit $status
