#!/usr/bin/env bash
# Builds everything with clang++-19, each file by itself (warnings are errors), and runs the core tests, and whether the texts of kernels
# are those that GCC's build makes: compilers evaluate the arguments of a call in different orders.
# With "sanitize" as the argument the build carries the address and undefined-behaviour sanitizers (without the function check, see CMakeLists.txt).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
folder=build-clang19
options=(-DTOROID_UNITY=OFF)  # here each file must include what it uses
if [ "${1:-}" = "sanitize" ]; then
  folder=build-clang19-asan
  options+=(-DCMAKE_BUILD_TYPE=Debug -DTOROID_SANITIZE=address,undefined -DTOROID_BENCH=OFF -DTOROID_EXAMPLES=OFF)
fi
cmake -S . -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 "${options[@]}"
if [ "${1:-}" = "sanitize" ]; then
  cmake --build "$folder" -j 2 --target toroid_core_tests
else
  cmake --build "$folder" -j 2
fi
ctest --test-dir "$folder" -L core -j 2 --output-on-failure --no-tests=error
[ "${1:-}" = "sanitize" ] || ctest --test-dir "$folder" -R '^kernel_texts$' --output-on-failure --no-tests=error
