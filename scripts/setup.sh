#!/usr/bin/env bash
# Installs what Toroid is built and tested with on Debian 12. Does nothing, quickly, when all is there.
set -euo pipefail

# Not among them: libdnnl-dev, oneDNN as a further backend of products and convolutions, and redis-server, to try the cache that machines
# share. Tests that need them are skipped where they are missing.
packages=(
  g++ cmake ninja-build ccache mold git python3 zstd
  libfmt-dev libcli11-dev libtomlplusplus-dev libxxhash-dev libsqlite3-0 libzstd-dev
  clang-19 llvm-19-dev libclang-19-dev libclang-cpp19-dev libclang-rt-19-dev
  libopenblas0-openmp
  libopenmpi-dev openmpi-bin
  python3-dev python3-numpy pybind11-dev
  libgtest-dev clang-format-14 libonnx-testdata
)

stop() {
  printf 'EnvironmentError: %s\n' "$*" >&2
  exit 1
}

command -v dpkg-query >/dev/null || stop "this script knows Debian only (no dpkg-query here); install by hand: ${packages[*]}"

installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null | awk '$1 == "ii" {print $2}' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || stop "these packages are missing and neither root nor sudo is at hand: ${missing[*]}"
  as_root=(sudo)
fi
command -v apt-get >/dev/null || stop "apt-get is not here; install by hand: ${missing[*]}"
"${as_root[@]}" apt-get update -qq || stop "apt-get update failed; check the network and /etc/apt/sources.list"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
  stop "apt-get could not install: ${missing[*]} (Debian 12 with its updates holds them all)"
